"""The artifact services under the contract: ADK's own, and ours over each kind of store.

Owns what each needs, and where ADK's services differ from the contract, and why. Imports of
lakestore are inside, so that the contract can be run on ADK's services alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.artifacts.file_artifact_service import FileArtifactService
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService

from tests.contracts.cases import FAILED_CHECK, Case, Difference
from tests.support.buckets_of_adk import gcs_artifacts
from tests.support.servers import RUNNING

Opener = Callable[[Path, ExitStack], BaseArtifactService]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactCase(Case):
    """An artifact service under the contract."""

    open: Opener
    """Opens a service on the storage in a folder, until the stack is closed."""
    reopens: bool = True
    """Whether a second one sees what the first has stored; else the storage is the object."""
    guards_races: bool = True
    """Whether parallel saves of one name all get a version, every time."""


def _differs(
    reason: str, *tests: str, raises: tuple[type[BaseException], ...] = FAILED_CHECK
) -> dict[str, Difference]:
    return dict.fromkeys(tests, Difference(reason, raises))


_PATHS = (
    *("empty", "blank", "nothing after user", "blank after user"),
    *("rooted", "rooted by the other separator", "rooted after a blank"),
    *("drive", "drive with a root", "above", "above by the other separator"),
    *("above from within", "above within", "two dots alone", "above after user", "NUL"),
)


def _variants(test: str, *variants: str) -> tuple[str, ...]:
    return tuple(f"{test}[{variant}]" for variant in variants)


IN_MEMORY = {
    **_differs(
        "looks at no file name",
        *_variants("test_names_that_are_refused", *_PATHS, "half a character"),
    ),
    **_differs(
        "joins ids and names by `/`, and keeps what is the user's below `user`",
        "test_artifacts_stay_apart[a folder or a session]",
        "test_other_users_are_out_of_reach",
    ),
    **_differs(
        "refuses sessions that are called so",
        "test_artifacts_stay_apart[a session called user]",
        raises=(ValueError,),
    ),
    **_differs(
        "refuses to save without a session, but for names with `user:`",
        "test_no_session_means_the_user",
        raises=(ValueError,),
    ),
    **_differs(
        "keeps any part that has the field",
        *_variants("test_parts_that_are_refused", "no data", "pointer at nothing"),
        "test_half_a_character_is_refused",
    ),
    **_differs(
        "fails on what is no part",
        *_variants("test_parts_that_are_refused", "text", "number"),
        raises=(AttributeError,),
    ),
    **_differs("keeps metadata as Python's objects", "test_metadata_that_is_refused"),
    **_differs("compares them", "test_a_version_is_a_number", raises=(TypeError,)),
}
IN_FILES = {
    **_differs(
        "calls it `artifact`",
        *_variants("test_names_that_are_refused", *_PATHS[:4]),
    ),
    **_differs(
        "has files of that name of its own",
        *_variants("test_names_are_kept", "metadata.json", "plan/versions/0", "versions"),
        "test_artifacts_stay_apart[a file among versions]",
        raises=(ValueError,),
    ),
    **_differs(
        "takes names for paths: blanks around, dots and separators are no difference",
        *_variants(
            "test_artifacts_stay_apart",
            *("with and without dots", "with and without blanks", "two separators"),
        ),
    ),
    **_differs("lists it without `user:`", "test_no_session_means_the_user"),
    **_differs(
        "keeps bytes with type and display name, and text, and no more of a part",
        *_variants("test_what_goes_in_comes_out", "bytes without a type", "thought"),
        *_variants("test_what_goes_in_comes_out", "part of a video", "all that goes with a text"),
    ),
    **_differs("reads line ends as those of Unix", "test_what_goes_in_comes_out[text]"),
    **_differs("a text has no type, and bytes have one", "test_types_of_versions"),
    **_differs(
        "refuses what points at something",
        *_variants("test_what_goes_in_comes_out", "pointer", "pointer without a type"),
        "test_what_goes_in_comes_out[pointer that is named]",
        "test_types_of_versions[pointer]",
        "test_reference_loads_what_it_refers_to",
        "test_reference_may_be_to_its_own_artifact",
        "test_shared_reference_into_a_session_is_for_that_session",
        "test_chains_end",
        "test_reference_to_what_is_gone_is_none",
        raises=(ValueError,),
    ),
    **_differs(
        "leaves a name behind when it refuses what was to be saved",
        "test_reference_out_of_scope_is_refused",
        "test_malformed_reference_is_refused",
        "test_metadata_that_is_refused",
        "test_half_a_character_is_refused",
    ),
    **_differs(
        "fails on what is no part",
        *_variants("test_parts_that_are_refused", "text", "number"),
        raises=(AttributeError,),
    ),
    **_differs("looks for it", "test_a_version_is_a_number"),
}
ON_GCS = {
    **_differs(
        "looks at no file name",
        *_variants("test_names_that_are_refused", *_PATHS),
    ),
    **_differs(
        "joins ids and names by `/`, and keeps what is the user's below `user`",
        "test_artifacts_stay_apart[a folder or a session]",
        "test_other_users_are_out_of_reach",
    ),
    **_differs(
        "refuses sessions that are called so",
        "test_artifacts_stay_apart[a session called user]",
        raises=(ValueError,),
    ),
    **_differs(
        "refuses to save without a session, but for names with `user:`",
        "test_no_session_means_the_user",
        raises=(ValueError,),
    ),
    **_differs(
        "keeps bytes, text and pointers with their types, and no more of a part",
        *_variants("test_what_goes_in_comes_out", "pointer that is named", "thought"),
        *_variants("test_what_goes_in_comes_out", "part of a video", "all that goes with a text"),
    ),
    **_differs(
        "has application/octet-stream for no type",
        *_variants("test_what_goes_in_comes_out", "bytes without a type"),
        "test_what_goes_in_comes_out[pointer without a type]",
        "test_types_of_versions[none]",
        "test_reference_may_be_to_its_own_artifact",
    ),
    **_differs("makes texts of metadata", "test_a_version_says_what_it_is"),
    **_differs("makes texts of metadata", "test_metadata_that_is_refused"),
    **_differs(
        "fails on what is no part",
        *_variants("test_parts_that_are_refused", "text", "number"),
        raises=(AttributeError,),
    ),
    **_differs("looks for it", "test_a_version_is_a_number"),
}


def _in_memory(_folder: Path, _stack: ExitStack) -> BaseArtifactService:
    return InMemoryArtifactService()


def _in_files(folder: Path, _stack: ExitStack) -> BaseArtifactService:
    return FileArtifactService(folder / "artifacts")


def _on_gcs(folder: Path, stack: ExitStack) -> BaseArtifactService:
    # A folder of pytest's is its test's alone, and named after it.
    name = "artifacts-" + "".join(c if c.isalnum() else "-" for c in folder.name.lower())
    return stack.enter_context(gcs_artifacts(RUNNING["fake_gcs"], name))


def _lake(url: str, stack: ExitStack, **options: Any) -> BaseArtifactService:
    from lakestore import Lake, LakeArtifactService

    return LakeArtifactService(stack.enter_context(Lake.open(url, **options)))


def _folder(folder: Path, stack: ExitStack) -> BaseArtifactService:
    return _lake(str(folder / "lake"), stack)


def _memory(folder: Path, stack: ExitStack) -> BaseArtifactService:
    return _lake(f"memory://{folder.name}", stack)


def _in_bucket(server: str) -> Opener:
    def opener(folder: Path, stack: ExitStack) -> BaseArtifactService:
        bucket = RUNNING[server]
        # A folder of pytest's is its test's alone, and named after it.
        url = bucket.at_key(folder.name)
        return _lake(url, stack, storage_options=bucket.storage_options)

    return opener


def _input_error() -> type[Exception]:
    from lakestore.errors import InputError

    return InputError


def _case(name: str, opener: Opener, **more: Any) -> ArtifactCase:
    return ArtifactCase(
        name=name, open=opener, refusal=_input_error, extras=True, blocking=True, **more
    )


STORED = ("own",)
"""On buckets, in `make test`, what a store decides; the rest is slow."""

ARTIFACT_CASES = [
    ArtifactCase(name="adk-memory", open=_in_memory, reopens=False, differs=IN_MEMORY),
    ArtifactCase(name="adk-file", open=_in_files, differs=IN_FILES),
    ArtifactCase(
        name="adk-gcs", open=_on_gcs, guards_races=False, server="fake_gcs", differs=ON_GCS
    ),
    _case("lake-memory", _memory),
    _case("lake-folder", _folder, parts=("save", "names", "own")),
    _case("lake-s3", _in_bucket("moto"), server="moto", parts=STORED),
    _case("lake-seaweedfs", _in_bucket("seaweedfs"), server="seaweedfs", parts=STORED),
    _case("lake-gs", _in_bucket("fake_gcs"), server="fake_gcs", parts=STORED),
    _case("lake-ceph", _in_bucket("ceph"), server="ceph", parts=STORED, marker="ceph"),
]
