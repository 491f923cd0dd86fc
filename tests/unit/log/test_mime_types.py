"""Which extension a type has, and which type a file name tells of."""

from __future__ import annotations

import pytest

from lakestore.log.mime_types import extension_of, type_of

BOTH = {
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".flac": "audio/flac",
    ".ogg": "audio/ogg",
    ".webp": "image/webp",
    ".heic": "image/heic",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".mov": "video/quicktime",
    ".md": "text/markdown",
    ".txt": "text/plain",
    ".xml": "application/xml",
    ".jsonl": "application/jsonl",
    ".parquet": "application/vnd.apache.parquet",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".svg": "image/svg+xml",
}


@pytest.mark.parametrize(("extension", "mime_type"), BOTH.items())
def test_both_ways(extension: str, mime_type: str) -> None:
    """A file of a type is named so that its name tells of that type again."""
    assert extension_of(mime_type) == extension
    assert type_of(f"plans/a b{extension}") == mime_type


@pytest.mark.parametrize(
    ("mime_type", "extension"),
    [
        ("audio/mp3", ".mp3"),
        ("audio/x-wav", ".wav"),
        ("image/jpg", ".jpg"),
        (" Audio/WAV ; rate=16000", ".wav"),
        ("application/x-nobody-knows", ""),
        ("", ""),
    ],
)
def test_other_names_of_types(mime_type: str, extension: str) -> None:
    """Types have more than one name, letters of both cases, parameters, or are not known."""
    assert extension_of(mime_type) == extension


@pytest.mark.parametrize(
    ("filename", "mime_type"),
    [
        ("a.JPEG", "image/jpeg"),
        ("a.yml", "application/yaml"),
        ("all.tar.gz", "application/gzip"),
        ("user:notes.md", "text/markdown"),
        ("data:,x.wav", "audio/wav"),
        ("README", None),
        (".png", None),
        ("a.nobody", None),
    ],
)
def test_what_names_tell(filename: str, mime_type: str | None) -> None:
    """The last extension counts, whatever stands before it; a name without one tells nothing."""
    assert type_of(filename) == mime_type
