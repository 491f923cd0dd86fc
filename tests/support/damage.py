"""What happens to stored objects behind everyone's back."""

from __future__ import annotations

from collections.abc import Callable

from lakestore.storage import ObjectStore

Harm = Callable[[bytes], bytes]


def cut(body: bytes) -> bytes:
    """Without its end."""
    return body[: len(body) // 2]


def flipped(body: bytes) -> bytes:
    """With other bytes near its beginning: in the first rows."""
    return body[:150] + bytes(byte ^ 0xFF for byte in body[150:200]) + body[200:]


def replaced(body: bytes) -> bytes:
    """Something else."""
    return b"x" * len(body)


def change(store: ObjectStore, key: str, harm: Harm | None) -> bytes:
    """Harm an object, or remove it; return what it was."""
    body = store.get(key)
    store.delete(key)
    if harm is not None:
        store.put_if_absent(key, harm(body))
    return body


def mend(store: ObjectStore, key: str, body: bytes) -> None:
    """Put back what an object was."""
    store.delete(key)
    store.put_if_absent(key, body)
