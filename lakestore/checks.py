"""Arguments of public calls: each is looked at where it comes in, before anything is done.

Owns the words of a refusal; what a value means is its room's. A refusal names the argument and
what it should be, and of what was given no more than the type, or a number.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

from lakestore.errors import InputError

_MOST_SECONDS = 100_000_000_000
"""In the year 5138; milliseconds are more since 1973."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def check_text(name: str, value: object) -> str:
    """Return `value` if it is a text.

    Raises:
        InputError: it is not.
    """
    if not isinstance(value, str):
        raise InputError(f"{name} is a text. {_given(value)}")
    return value


def check_texts(name: str, value: object) -> list[str]:
    """Return a list, or any other collection of texts, as a list; one text alone is none.

    Raises:
        InputError: it is no collection, or something in it is no text.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InputError(f'{name} is a list of texts, as in ["one"]. {_given(value)}')
    return [check_text(f"each of {name}", one) for one in value]


def check_number(name: str, value: object, *, least: int = 0) -> int:
    """Return `value` if it is a whole number of at least `least`; a boolean is no number.

    Raises:
        InputError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} is a whole number, {least} or more. {_given(value)}")
    return value


def check_count(name: str, value: object) -> int | None:
    """Return `value` if it is None or a whole number, 0 or more.

    Raises:
        InputError: it is not.
    """
    return None if value is None else check_number(name, value)


def check_flag(name: str, value: object) -> bool:
    """Return `value` if it is True or False: a text such as "false" would count as true.

    Raises:
        InputError: it is not.
    """
    if not isinstance(value, bool):
        raise InputError(f"{name} is True or False. {_given(value)}")
    return value


def check_choice(name: str, value: object, choices: Collection[str]) -> str:
    """Return `value` if it is one of `choices`.

    Raises:
        InputError: it is not.
    """
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(f'"{choice}"' for choice in choices)
        of_kind = "" if isinstance(value, str) else f". {_given(value)}"
        raise InputError(f"{name} is one of {known}{of_kind}")
    return value


def check_options(name: str, value: object) -> Mapping[str, object]:
    """Return `value` if it is None or a mapping with names as keys; {} for None.

    Raises:
        InputError: it is not.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InputError(
            f'{name} is a dict of options by name, as in {{"key": ...}}. {_given(value)}'
        )
    return value


def check_folder(name: str, value: object) -> Path | None:
    """Return a path to a folder, which need not be there, as one; None for None.

    Raises:
        InputError: it is no path, or something that is no folder is there.
    """
    if value is None:
        return None
    if not isinstance(value, str | PathLike) or not str(value):
        raise InputError(f"{name} is a path to a folder. {_given(value)}")
    path = Path(value).expanduser()
    if path.exists() and not path.is_dir():
        raise InputError(f"{name} is a folder, and there is a file of that name")
    return path


def check_params(value: object) -> None:
    """Refuse values for a query that are neither None, a list nor a mapping.

    Raises:
        InputError: they are not.
    """
    fits = isinstance(value, Sequence | Mapping) and not isinstance(value, str | bytes)
    if value is not None and not fits:
        raise InputError(f'params is a list or a mapping, as in ["ana"]. {_given(value)}')


def check_seconds(name: str, value: object) -> float:
    """Return `value` if it is a number; a boolean is none.

    Raises:
        InputError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name} is a number of seconds. {_given(value)}")
    return value


def check_time(name: str, value: object) -> float | None:
    """Return a datetime with a zone, or seconds since 1970 UTC, as seconds; None for None.

    Raises:
        InputError: it is neither, or NaN, or so many seconds that they are milliseconds.
    """
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise InputError(f"{name} needs a time zone, such as datetime.UTC. {name}={value!r}")
        return (value - _EPOCH).total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InputError(f"{name} is a datetime or seconds since 1970 UTC. {_given(value)}")
    if _MOST_SECONDS < abs(value) < math.inf:
        raise InputError(
            f"{name} is in seconds since 1970 UTC, these are years beyond all calendars:"
            f" milliseconds are divided by 1_000. {_given(value)}"
        )
    return float(value)


def _given(value: object) -> str:
    """Return what may be said of a value: what people wrote may be in it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        # Python writes no integer of more than 4300 digits.
        return f"given={value}" if abs(value) < 2**64 or value != value else "given=a huge number"
    return f"type={type(value).__name__}"
