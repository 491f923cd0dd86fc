"""How an id becomes part of a key, by one rule, and what can be an id.

Its result is a legal file name everywhere, also where case is ignored, and reads as itself for the
ids people choose.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from unicodedata import normalize
from urllib.parse import unquote_to_bytes

from lakestore.errors import InputError

_LITERAL = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")
_NEVER_FIRST = frozenset(b"-_.")
_LONGEST = 120
_PREFIX = 80
_LONGEST_SUFFIX = 20


def check_id(what: str, value: object) -> str:
    """Return `value` if it can be an id: a non-empty text without NUL that UTF-8 can hold.

    Args:
        what: Names the id in the error, such as `user_id`.
        value: The id.

    Raises:
        InputError: it cannot.
    """
    if not isinstance(value, str):
        raise InputError(f"{what} must be a text. type={type(value).__name__}")
    if not value:
        raise InputError(f"{what} must not be empty")
    if "\x00" in value:
        raise InputError(f"{what} must not contain NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} must be valid Unicode, without lone surrogates") from None
    return value


@lru_cache(maxsize=4096)
def encode_id(value: str) -> str:
    """Return the key part for an id: lower-case ASCII letters, digits, `-`, `_`, `.`, `%`, `~`.

    Every other byte of its UTF-8 form, upper-case letters among them, is written `%xx` in
    lower-case hexadecimal, and so are a leading `-`, `_` or `.` and a trailing `.`. When that is
    longer than 120 characters, its beginning is kept and `~` and a digest follow.
    """
    raw = value.encode()
    last = len(raw) - 1
    parts = [
        chr(byte)
        if byte in _LITERAL
        and not (i == 0 and byte in _NEVER_FIRST)
        and not (i == last and byte == 0x2E)
        else f"%{byte:02x}"
        for i, byte in enumerate(raw)
    ]
    encoded = "".join(parts)
    if len(encoded) <= _LONGEST:
        return encoded
    kept = re.sub(r"%[0-9a-f]?$", "", encoded[:_PREFIX])
    return f"{kept}~{sha256(raw).hexdigest()[:32]}"


def decode_id(part: str) -> str | None:
    """Return the id that `encode_id` wrote, or None when only a digest of it is left."""
    return None if "~" in part else unquote_to_bytes(part).decode()


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
