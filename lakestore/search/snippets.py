"""The part of a text that shows why it was found. Owns no ranking."""

from __future__ import annotations

import unicodedata

from lakestore.search.analysis import Analyzer

_CUT = "…"


def snippet(text: str, query: str, analyzer: Analyzer, width: int = 160) -> str:
    """Return the part of `text` with the most terms of `query`, the first such, as one line.

    Args:
        text: Any; it is shown composed (NFC), and each run of blanks as one.
        query: What it was found by.
        analyzer: What counts as the same word.
        width: How many characters at most, without the `…` where something was cut off.
    """
    text = " ".join(unicodedata.normalize("NFC", text).split())
    if len(text) <= width:
        return text
    start = _start(text, set(analyzer.query(query)), analyzer, width)
    end = min(len(text), start + width)
    if end < len(text) and (blank := text.rfind(" ", start, end + 1)) > start:
        end = blank
    head = _CUT if start else ""
    tail = _CUT if end < len(text) else ""
    return f"{head}{text[start:end].strip()}{tail}"


def _start(text: str, wanted: set[str], analyzer: Analyzer, width: int) -> int:
    """Return where the part begins: at a word, with a little before the first that was found."""
    found = [place for place in analyzer.places(text) if place[0] in wanted]
    most, first = 0, 0
    for number, (_, begin, _end) in enumerate(found):
        inside = {
            term for term, _, end in found[number : number + width] if end <= begin + width * 3 // 4
        }
        if len(inside) > most:
            most, first = len(inside), begin
    before = max(0, min(first - width // 4, len(text) - width))
    if not before:
        return 0
    blank = text.find(" ", before, first + 1)
    return before if blank < 0 else blank + 1
