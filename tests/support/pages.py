"""Pages as a browser has them, without one: what they refer to, what runs, what they say."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_REFERS = {"src", "srcset", "href", "action", "data", "poster"}


@dataclass
class Page(HTMLParser):
    """What is in a page."""

    text: list[str] = field(default_factory=list)
    """What it says, piece by piece."""
    tags: list[str] = field(default_factory=list)
    """Its elements, in order."""
    refers: list[str] = field(default_factory=list)
    """Where its attributes lead."""
    ids: list[str] = field(default_factory=list)
    """Sections that links lead to."""
    headings: list[str] = field(default_factory=list)
    """Headings of sections."""
    handlers: list[str] = field(default_factory=list)
    """Attributes that would run something."""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append(tag)
        self.refers.extend(value or "" for name, value in attrs if name in _REFERS)
        self.ids.extend(value or "" for name, value in attrs if name == "id" and tag == "section")
        self.handlers.extend(name for name, _ in attrs if name.startswith("on"))

    def handle_data(self, data: str) -> None:
        """Note a piece of text."""
        if data.strip():
            self.text.append(data.strip())
            self.headings.extend([data.strip()] if self.tags[-1] == "h2" else [])


def read_page(html: str) -> Page:
    """Read a page as a browser does."""
    page = Page()
    page.feed(html)
    page.close()
    return page
