"""MIME types and what file names end in. Owns one table, which is the same on every machine.

Python's own lacks much of what agents make and see, differs between its versions, and as
`mimetypes.guess_type` it also reads files of the system.
"""

from __future__ import annotations

import os.path
from mimetypes import MimeTypes

_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPEN = "application/vnd.oasis.opendocument."
_APACHE = "application/vnd.apache."
_NAMES = {
    "wav": "audio/wav audio/x-wav audio/wave audio/vnd.wave",
    "mp3": "audio/mpeg audio/mp3",
    "flac": "audio/flac audio/x-flac",
    "ogg": "audio/ogg",
    "opus": "audio/opus",
    "aac": "audio/aac",
    "m4a": "audio/mp4 audio/m4a audio/x-m4a",
    "aiff": "audio/aiff audio/x-aiff",
    "weba": "audio/webm",
    "pcm": "audio/pcm audio/l16",
    "webm": "video/webm",
    "mp4": "video/mp4",
    "mov": "video/quicktime",
    "mkv": "video/x-matroska",
    "3gp": "video/3gpp",
    "jpg": "image/jpeg image/jpg",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "avif": "image/avif",
    "tiff": "image/tiff",
    "ico": "image/vnd.microsoft.icon image/x-icon",
    "txt": "text/plain",
    "md": "text/markdown text/x-markdown",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "html": "text/html",
    "js": "text/javascript application/javascript",
    "py": "text/x-python",
    "sql": "application/sql",
    "json": "application/json",
    "jsonl": "application/jsonl application/x-jsonlines application/x-ndjson",
    "geojson": "application/geo+json",
    "ipynb": "application/x-ipynb+json",
    "yaml": "application/yaml application/x-yaml text/yaml",
    "toml": "application/toml",
    "xml": "application/xml text/xml",
    "rtf": "application/rtf text/rtf",
    "pdf": "application/pdf",
    "epub": "application/epub+zip",
    "docx": f"{_OFFICE}wordprocessingml.document",
    "xlsx": f"{_OFFICE}spreadsheetml.sheet",
    "pptx": f"{_OFFICE}presentationml.presentation",
    "odt": f"{_OPEN}text",
    "ods": f"{_OPEN}spreadsheet",
    "odp": f"{_OPEN}presentation",
    "parquet": f"{_APACHE}parquet application/x-parquet",
    "arrow": f"{_APACHE}arrow.file",
    "sqlite3": "application/vnd.sqlite3 application/x-sqlite3",
    "zip": "application/zip application/x-zip-compressed",
    "gz": "application/gzip application/x-gzip",
    "bz2": "application/x-bzip2",
    "xz": "application/x-xz",
    "zst": "application/zstd",
    "7z": "application/x-7z-compressed",
    "bin": "application/octet-stream",
}
"""By what names end in the type, and others that mean it."""
_ALIKE = {"jpeg": "jpg", "tif": "tiff", "htm": "html", "yml": "yaml", "ndjson": "jsonl"}
_TYPES = {f".{ending}": names.split()[0] for ending, names in _NAMES.items()}
_TYPES |= {f".{alike}": _TYPES[f".{ending}"] for alike, ending in _ALIKE.items()}
_EXTENSIONS = {name: f".{ending}" for ending, names in _NAMES.items() for name in names.split()}
_OTHERS = MimeTypes()


def extension_of(mime_type: str) -> str:
    """Return what names of files of a type end in, such as `.png`; "" where that is not known."""
    plain = mime_type.partition(";")[0].strip().lower()
    return _EXTENSIONS.get(plain) or _OTHERS.guess_extension(plain) or ""


def type_of(filename: str) -> str | None:
    """Return the type that the end of a file name tells of, None where it tells of none."""
    extension = os.path.splitext(filename)[1].lower()
    return _TYPES.get(extension) or _OTHERS.guess_type(f"name{extension}")[0]
