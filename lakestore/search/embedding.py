"""Vectors of texts by somebody else's model. Owns the check of what it gives."""

from __future__ import annotations

import inspect
import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lakestore.errors import InputError

Embedder = Callable[[Sequence[str]], Iterable[Iterable[float]]]
"""Turns a batch of texts into as many vectors, of one length. Any library fits: a
`SentenceTransformer`'s `encode`, or `lambda texts: [one.embedding for one in
client.embeddings.create(model=..., input=texts).data]`."""


def check_embedder(value: object) -> None:
    """Refuse what is neither None nor a function that can be called as an embedder.

    Raises:
        InputError: it is none, or an async one.
    """
    if value is not None and not callable(value):
        raise InputError(
            f"an embedder is a function from texts to vectors. type={type(value).__name__}"
        )
    if inspect.iscoroutinefunction(value):
        raise InputError("an embedder is no async function; it may block, in a thread of its own")


def embed(embedder: Embedder, texts: Sequence[str]) -> list[Sequence[float]]:
    """Return the vector of each text, of floats as they are stored; empty texts too.

    Raises:
        InputError: what the embedder returns are not as many vectors as texts, of one length and
            of finite numbers. What it raises itself goes through.
    """
    if not texts:
        return []
    vectors = [_vector(one) for one in _listed(embedder(list(texts)))]
    if len(vectors) != len(texts):
        raise InputError(
            f"the embedder returns one vector a text. texts={len(texts)} vectors={len(vectors)}"
        )
    lengths = {len(vector) for vector in vectors}
    if len(lengths) > 1 or 0 in lengths:
        raise InputError(f"the embedder returns vectors of one length. lengths={sorted(lengths)}")
    return vectors


def _vector(value: object) -> Sequence[float]:
    try:
        vector = array("d", _listed(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the embedder returns lists of numbers. reason={error}") from error
    if not (np.abs(np.frombuffer(vector)) <= _MOST).all():
        raise InputError("the embedder returns finite numbers that fit 32 bits")
    return vector


_MOST = math.ldexp(2 - 2**-23, 127)
"""The largest number in 32 bits."""


def _listed(value: Any) -> list[Any]:
    """Return the items of what libraries return: lists, generators, arrays of any kind."""
    whole = getattr(value, "tolist", None)  # of numpy and torch, which is quicker
    try:
        return list(whole() if whole is not None else value)
    except TypeError as error:
        raise InputError(f"the embedder returns a list. type={type(value).__name__}") from error
