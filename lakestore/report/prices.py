"""Prices from a file that people write: TOML or JSON."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from lakestore.errors import InputError


def read_prices(path: Path) -> Any:
    """Return what a file says, as `Lake.set_prices` takes it.

    `*.toml` is TOML with a table for each model, as `["gemini-2.5-*"]`, or tables `[[price]]` that
    name their model; all else is JSON with an object for each model, or a list of objects.

    Raises:
        InputError: it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
        told = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the prices in {path}: {error}") from None
    listed = isinstance(told, dict) and list(told) == ["price"] and isinstance(told["price"], list)
    return told["price"] if listed else told
