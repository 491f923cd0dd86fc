"""Words on a terminal: how wide they are, what of them is safe to show. No lake, no layout."""

from __future__ import annotations

import shutil
import unicodedata
from urllib.parse import urlsplit, urlunsplit

DEFAULT_WIDTH = 100
"""Columns where nothing says how wide the terminal is, as in a pipe."""


def terminal_width() -> int:
    """Return the columns to write for."""
    return shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns


def visible(text: str) -> str:
    """Return `text` on one line, with control characters made harmless.

    What users typed and models answered may hold escape sequences; a terminal would obey them.
    """
    return "".join(_visible(letter) for letter in text)


def visible_lines(text: str) -> str:
    """Return `text` with its lines kept, and all else as `visible` does."""
    return "\n".join(visible(line) for line in text.split("\n"))


def width(text: str) -> int:
    """Return how many columns `text` takes: wide letters take two, combining marks none."""
    return sum(_columns(letter) for letter in text)


def clip(text: str, columns: int) -> str:
    """Return `text` in at most `columns`, its end marked where some is left out."""
    if width(text) <= columns:
        return text
    kept, used = [], 1
    for letter in text:
        used += _columns(letter)
        if used > columns:
            break
        kept.append(letter)
    return "".join(kept).rstrip() + "…"


def wrap(text: str, columns: int) -> list[str]:
    """Return `text` as lines of at most `columns`, broken at blanks where there are some."""
    lines: list[str] = []
    for paragraph in text.splitlines() or [""]:
        line = ""
        for word in visible(paragraph).split(" "):
            joined = f"{line} {word}" if line else word
            if width(joined) > columns and line:
                lines.append(line)
                joined = word
            *whole, line = _pieces(joined, columns)
            lines.extend(whole)
        lines.append(line)
    return lines


def byte_size(size: int) -> str:
    """Return a size as people write it."""
    if size < 1_000:
        return f"{size} B"
    for unit, limit in (("kB", 1_000_000), ("MB", 1_000_000_000)):
        if size < limit:
            return f"{size * 1_000 / limit:.1f} {unit}"
    return f"{size / 1_000_000_000:.1f} GB"


def duration(seconds: float) -> str:
    """Return a time as people say it, in minutes where it is several."""
    if seconds < 120:
        return f"{seconds:g} s"
    return f"{seconds / 60:.0f} minutes"


def plural(count: int, thing: str, things: str = "") -> str:
    """Return the count with its noun; `things` where more of them do not just end in an s."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def shown_url(url: str) -> str:
    """Return a URL without what may be secret in it: user names, passwords and option values."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    options = [option.partition("=") for option in parts.query.split("&") if option]
    query = "&".join(f"{name}=…" if equals else "…" for name, equals, _ in options)
    return urlunsplit((parts.scheme, place, parts.path, query, parts.fragment))


def _pieces(word: str, columns: int) -> list[str]:
    """Return a word in pieces of at most `columns`; all but URLs and the like are one piece."""
    pieces = [""]
    for letter in word if width(word) > columns else ():
        if width(pieces[-1]) + _columns(letter) > columns:
            pieces.append("")
        pieces[-1] += letter
    return pieces if pieces != [""] else [word]


def _visible(letter: str) -> str:
    if letter in "\n\r\t":
        return " "
    # Cc are the escapes, Cf could turn the line's direction, Cs cannot be written at all.
    return (
        "�" if unicodedata.category(letter) in ("Cc", "Cf", "Cs") and letter != "\u200d" else letter
    )


def _columns(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
