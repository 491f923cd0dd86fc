"""How names become parts of keys that people recognise."""

from __future__ import annotations

import re
from unicodedata import normalize

_LONGEST = 120
_LONGEST_SUFFIX = 20


def readable_name(filename: str, extension: str = "") -> str:
    """Return the end of a file name as a part of a key that people recognise, in at most 120 bytes.

    Word characters of any script, `-` and `.` stay; each run of others becomes `_`. Names are not
    told apart by it.

    Args:
        filename: The name, perhaps with folders.
        extension: What follows where the name has none, such as `.png`.
    """
    last = re.split(r"[/\\]", normalize("NFC", filename))[-1]
    stem, dot, ending = re.sub(r"[^\w.\-]+", "_", last).strip(".").rpartition(".")
    if not dot or not stem:
        stem, suffix = stem or ending, extension
    else:
        suffix = dot + _cut(ending, _LONGEST_SUFFIX)
    stem = _cut(stem.lstrip("-."), _LONGEST - len(suffix.encode())).rstrip(".")
    return f"{stem or 'artifact'}{suffix}"


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text that has at most so many bytes in UTF-8."""
    return text.encode()[:most].decode(errors="ignore")
