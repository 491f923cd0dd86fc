"""What landed where: the keys of a lake as a short tree with sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lakestore.shell.text import byte_size, clip, plural, width

_SHOWN = 3
"""Siblings that are named; of the rest the count is."""
_SIZE_COLUMNS = 26
"""Room to the right of the names."""


@dataclass(slots=True)
class _Folder:
    folders: dict[str, _Folder] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.files) + sum(child.count for child in self.folders.values())

    @property
    def size(self) -> int:
        return sum(self.files.values()) + sum(child.size for child in self.folders.values())


def tree(objects: Iterable[tuple[str, int]], room: int) -> Iterator[str]:
    """Yield keys and sizes as a tree: the first folder of a level is open, others are counted."""
    root = _Folder()
    for key, size in objects:
        *path, name = key.split("/")
        place = root
        for part in path:
            place = place.folders.setdefault(part, _Folder())
        place.files[name] = size
    yield from _children(root, "", room)


def _children(folder: _Folder, indent: str, room: int) -> Iterator[str]:
    entries: list[tuple[str, _Folder | int]] = [*folder.folders.items(), *folder.files.items()]
    shown = entries if len(entries) <= _SHOWN + 1 else entries[:_SHOWN]
    rest = entries[len(shown) :]
    for index, (name, entry) in enumerate(shown):
        last = index == len(shown) - 1 and not rest
        start = f"{indent}{'└─ ' if last else '├─ '}"
        if isinstance(entry, int):
            yield _line(start + name, byte_size(entry), room)
            continue
        name, place = _joined(name, entry)
        yield _line(f"{start}{name}/", _summary(place.count, place.size), room)
        if index == 0 or indent == "":
            yield from _children(place, indent + ("   " if last else "│  "), room)
    if rest:
        count = sum(1 if isinstance(entry, int) else entry.count for _, entry in rest)
        size = sum(entry if isinstance(entry, int) else entry.size for _, entry in rest)
        yield _line(f"{indent}└─ … {len(rest)} more", _summary(count, size), room)


def _joined(name: str, place: _Folder) -> tuple[str, _Folder]:
    # A folder in which only one folder stands says nothing on a line of its own.
    while len(place.folders) == 1 and not place.files:
        ((child, place),) = place.folders.items()
        name = f"{name}/{child}"
    return name, place


def _summary(count: int, size: int) -> str:
    return f"{plural(count, 'object')}, {byte_size(size)}"


def _line(name: str, size: str, room: int) -> str:
    name = clip(name, room - _SIZE_COLUMNS)
    return name + " " * (room - width(name) - width(size)) + size
