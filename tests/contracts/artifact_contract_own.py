"""The contract of what lakestore adds: files of any size, plain payloads, addresses, `.sync`."""

from __future__ import annotations

import inspect
import io
import urllib.request
import zipfile
from array import array
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest
from google.adk.artifacts.base_artifact_service import BaseArtifactService

from tests.contracts.artifact_building import (
    S1,
    S2,
    image,
    keys,
    load,
    pointer,
    reference,
    save,
    text,
)
from tests.contracts.cases import needs

MINUTE = timedelta(minutes=1)


class NotYet(io.RawIOBase):
    """A pipe that does not block, and has nothing to read yet."""

    def read(self, size: int = -1) -> None:
        """Return what such files do: there may be more later."""


@needs("extras")
class ArtifactOwnContract:
    """What only lakestore has."""

    async def test_payload_is_a_plain_file(self, artifacts: Any, elsewhere: Any) -> None:
        """`canonical_uri` is what fsspec opens, and its end is the file's name."""
        await save(artifacts, "q3/my figures.csv", image(b"a,b\n", "text/csv"))
        await save(artifacts, "notes", "résumé")
        options = elsewhere.lake.storage_options
        for name, ending, body in (
            ("q3/my figures.csv", "/my_figures.csv", b"a,b\n"),
            ("notes", "/notes.txt", "résumé".encode()),
        ):
            found = await elsewhere.get_artifact_version(**S1, filename=name)
            assert found.canonical_uri.endswith(ending)
            if not found.canonical_uri.startswith("memory://"):
                with fsspec.open(found.canonical_uri, "rb", **options) as file:
                    assert file.read() == body
        await save(artifacts, "p", pointer("gs://b/x.png"))
        found = await elsewhere.get_artifact_version(**S1, filename="p")
        assert found.canonical_uri == "gs://b/x.png"

    async def test_equal_content_is_stored_once(self, artifacts: Any, elsewhere: Any) -> None:
        """A version with the bytes and type of another one of its artifact is the same file."""
        for part in (image(b"x"), image(b"y"), image(b"x"), image(b"x", "image/gif")):
            await save(artifacts, "a", part)

        found = await elsewhere.list_artifact_versions(**S1, filename="a")
        zero, one, two, three = (each.canonical_uri for each in found)
        assert zero == two
        assert len({zero, one, three}) == 3

    async def test_files_are_saved_piece_by_piece(
        self, artifacts: Any, elsewhere: Any, tmp_path: Path
    ) -> None:
        """A path, an open file and pieces give the same version, as bytes of the name's type."""
        body = bytes(range(256)) * 5000
        (tmp_path / "in.png").write_bytes(body)
        pieces = (body[start : start + 1000] for start in range(0, len(body), 1000))
        folded = [memoryview(array("i")), memoryview(body[::-1])[::-1], memoryview(b"")]
        sources = [tmp_path / "in.png", str(tmp_path / "in.png"), io.BytesIO(body), pieces, body]
        sources.append(folded)
        for number, source in enumerate(sources):
            saved = await artifacts.save_file(**S1, filename="a.png", source=source)
            assert saved == number

        for number in range(len(sources)):
            assert await load(elsewhere, "a.png", number) == image(body, "image/png")
        found = await elsewhere.list_artifact_versions(**S1, filename="a.png")
        assert len({each.canonical_uri for each in found}) == 1

    async def test_what_is_said_of_a_file(self, artifacts: Any, elsewhere: Any) -> None:
        """Type, name and metadata are kept; a name that tells no type has none."""
        more = {"display_name": "pic", "custom_metadata": {"n": 1}}
        await artifacts.save_file(
            **S1, filename="a", source=[b"one"], mime_type="image/gif", **more
        )
        await artifacts.save_file(**S1, filename="b", source=[])

        assert await load(elsewhere, "a") == image(b"one", "image/gif", display_name="pic")
        assert await load(elsewhere, "b") == image(b"", None)
        found = await elsewhere.get_artifact_version(**S1, filename="a")
        assert (found.custom_metadata, found.mime_type) == ({"n": 1}, "image/gif")

    async def test_file_that_cannot_be_read_is_not_saved(
        self, artifacts: Any, elsewhere: Any, refusal: type[Exception], tmp_path: Path
    ) -> None:
        """Whatever its reader raises comes out, and no version is made."""

        def unplugged() -> Iterator[bytes]:
            yield b"x" * 10
            raise OSError("unplugged")

        closed = io.BytesIO(b"x")
        closed.close()
        source: Any
        for source, error in (
            (unplugged(), OSError),
            (tmp_path / "missing", FileNotFoundError),
            (["text"], refusal),
            (io.StringIO("text"), refusal),
            (io.StringIO(""), refusal),
            (NotYet(), refusal),
            (3, refusal),
            ("a\0b", refusal),
            (closed, refusal),
        ):
            with pytest.raises(error):
                await artifacts.save_file(**S1, filename="a", source=source)
        for name in ("mime_type", "display_name"):
            with pytest.raises(refusal):
                await artifacts.save_file(**S1, filename="a", source=[b"x"], **{name: 3})
        assert await keys(elsewhere) == []

    async def test_signed_addresses_are_where_buckets_are(
        self, artifacts: Any, refusal: type[Exception]
    ) -> None:
        """A store that signs nothing says so; of what is not there, or elsewhere, there is none."""
        await save(artifacts, "p", pointer("gs://b/x.png"))
        for name in ("p", "missing"):
            assert await artifacts.get_signed_url(**S1, filename=name) is None
        await save(artifacts, "a")
        await save(artifacts, "to a", reference("a"))
        for name in ("a", "to a"):
            sign = artifacts.get_signed_url(**S1, filename=name, expiration=MINUTE)
            if artifacts.lake.url.startswith("s3://"):
                with urllib.request.urlopen(await sign, timeout=20) as answer:
                    assert answer.read() == b"one"
            else:
                with pytest.raises(refusal):
                    await sign
        expiration: Any
        for expiration in ("1h", 0, timedelta(days=30), -1):
            with pytest.raises(refusal):
                await artifacts.get_signed_url(**S1, filename="a", expiration=expiration)

    async def test_payload_is_read_by_ranges(self, artifacts: Any, elsewhere: Any) -> None:
        """An artifact opens as a file that seeks: what takes a file, such as zipfile, reads it."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("in.txt", "hello")
        await artifacts.save_file(**S1, filename="a.zip", source=[packed.getvalue()])
        await artifacts.save_file(**S1, filename="a.zip", source=[b""])
        opened = elsewhere.lake.open_artifact
        with opened(**S1, filename="a.zip", version=0) as file, zipfile.ZipFile(file) as archive:
            assert archive.read("in.txt") == b"hello"
        with opened(**S1, filename="a.zip") as file:
            assert file.read() == b""

    async def test_what_cannot_be_opened(self, artifacts: Any) -> None:
        """The error says what is not there; of a pointer, where it is that is to be opened."""
        from lakestore.errors import InputError, NotFoundError

        await save(artifacts, "p", pointer("gs://b/x.png"))
        await save(artifacts, "to a", reference("a"))
        await save(artifacts, "to p", reference("p"))
        await save(artifacts, "user:to p", reference("p"))
        opened = artifacts.lake.open_artifact
        for name, version, error, told in (
            ("a", None, NotFoundError, "no artifact 'a'"),
            ("p", 1, NotFoundError, "'p' has no version 1: it has 0 to 0"),
            ("p", None, InputError, "open it there.*gs://b/x.png"),
            ("p", "0", InputError, "version"),
            ("to a", None, NotFoundError, "'to a' refers"),
            ("to p", 0, InputError, "gs://b/x.png"),
            ("../x", None, InputError, "filename"),
        ):
            with pytest.raises(error, match=told):
                opened(**S1, filename=name, version=version)
        with pytest.raises(InputError, match="of the same session"):
            opened(**S2, filename="user:to p")

    async def test_references_are_opened(self, artifacts: Any, elsewhere: Any) -> None:
        """As when it is loaded, one opens as what it refers to."""
        await save(artifacts, "a", image(b"zero"))
        await save(artifacts, "a", reference("a", 0))
        await save(artifacts, "user:to a", reference("a", 1))
        for name in ("a", "user:to a"):
            with elsewhere.lake.open_artifact(**S1, filename=name) as file:
                assert file.read() == b"zero"

    async def test_errors_are_adks_too(self, artifacts: BaseArtifactService) -> None:
        """What is refused is an InputError of ours, and ADK's InputValidationError."""
        from google.adk.errors.input_validation_error import InputValidationError

        from lakestore.errors import InputError

        for error in (InputError, InputValidationError, ValueError):
            with pytest.raises(error):
                await save(artifacts, "../x")
            with pytest.raises(error):
                await load(artifacts, "a", None, {**S1, "user_id": ".."})
            with pytest.raises(error):
                await save(artifacts, "a", image(), custom_metadata={"x": "\ud800"})


@needs("blocking")
class ArtifactBlockingContract:
    """What `.sync` promises."""

    async def test_twin_has_every_operation(self, artifacts: Any) -> None:
        """Each operation is there without `await`, with the same arguments."""
        service, twin = type(artifacts), type(artifacts.sync)
        names = [
            name
            for name, method in inspect.getmembers(service, inspect.iscoroutinefunction)
            if not name.startswith("_")
        ]
        assert len(names) == 9
        for name in names:
            ours = inspect.signature(getattr(service, name)).parameters
            theirs = inspect.signature(getattr(twin, name)).parameters
            assert {n: p.default for n, p in ours.items()} == {
                n: p.default for n, p in theirs.items()
            }

    async def test_twin_does_the_same(self, artifacts: Any, elsewhere: Any) -> None:
        """What one face saves the other loads."""
        sync = artifacts.sync
        assert sync.save_artifact(**S1, filename="a", artifact=text("one")) == 0
        assert sync.save_artifact(**S2, filename="user:b", artifact={"text": "two"}) == 0
        assert sync.save_file(**S1, filename="a", source=[b"x"], mime_type="image/png") == 1

        assert await keys(elsewhere) == sync.list_artifact_keys(**S1) == ["a", "user:b"]
        assert await load(elsewhere, "a") == sync.load_artifact(**S1, filename="a")
        assert sync.list_versions(**S1, filename="a") == [0, 1]
        versions = sync.list_artifact_versions(**S1, filename="a")
        assert versions[1] == sync.get_artifact_version(**S1, filename="a")
        sync.delete_artifact(**S1, filename="a")
        assert await keys(elsewhere) == ["user:b"]
