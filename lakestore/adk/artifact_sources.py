"""Where the bytes of a file to save come from. Owns how they are read, piece by piece."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeAlias

from lakestore.adk.artifact_names import ArtifactInputError

Source: TypeAlias = str | os.PathLike[str] | BinaryIO | Iterable[bytes]
"""A path, a file that is open for reading bytes, or pieces of bytes."""

_PIECE = 2**20


@contextmanager
def opened(source: Any) -> Iterator[Iterable[bytes]]:
    """Open a source, and return its pieces, of which the first is known to be bytes.

    Raises:
        ArtifactInputError: it is none.
        OSError: there is no such file, or it cannot be read.
    """
    if isinstance(source, str | os.PathLike):
        if "\0" in os.fsdecode(source):
            raise ArtifactInputError("no path holds a NUL")
        with open(source, "rb") as file:
            yield _pieces(file)
    elif isinstance(source, bytes | bytearray | memoryview):
        yield [bytes(source)]
    elif getattr(source, "closed", False) is True:
        raise ArtifactInputError("the file to save is closed")
    elif hasattr(source, "read"):
        yield _pieces(source)
    elif isinstance(source, Iterable):
        yield map(_checked, source)
    else:
        raise ArtifactInputError(
            "a source is a path, a file that is open for reading bytes, or pieces of bytes."
            f" type={type(source).__name__}"
        )


def _pieces(file: Any) -> Iterator[bytes]:
    # What is no bytes is no end either: a text, or None of a file that does not block.
    while piece := _checked(file.read(_PIECE)):
        yield piece


def _checked(piece: Any) -> Any:
    if isinstance(piece, memoryview) and not (piece.c_contiguous and piece.nbytes):
        return piece.tobytes()  # others cannot be seen as bytes
    if isinstance(piece, bytes | bytearray | memoryview):
        return piece
    raise ArtifactInputError(f"a source gives bytes. type={type(piece).__name__}")
