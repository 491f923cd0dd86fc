"""Which storage options there are for each protocol, by the names that fsspec gives them.

Owns their names, and that a text, as it stands in a URI, becomes what the option takes. An unknown
name is refused before anything is asked of a store; values are never shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from lakestore.errors import InputError

Takes = Literal["text", "address", "flag", "seconds", "options", "token", "anything"]

OPTIONS: Mapping[str, Mapping[str, Takes]] = {
    "s3": {
        "key": "text",
        "secret": "text",
        "token": "text",
        "profile": "text",
        "anon": "flag",
        "endpoint_url": "address",
        "region": "text",
        "use_ssl": "flag",
        "requester_pays": "flag",
        "client_kwargs": "options",
        "config_kwargs": "options",
        "s3_additional_kwargs": "options",
    },
    "gs": {
        "token": "token",
        "project": "text",
        "access": "text",
        "endpoint_url": "address",
        "requester_pays": "anything",
        "requests_timeout": "seconds",
        "session_kwargs": "options",
    },
}
"""`region` is ours: short for `client_kwargs={"region_name": ...}`, and possible in a URI."""

_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def known_options(protocol: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options, each as what it takes; those that are None are left out.

    Raises:
        InputError: an option is not known, or its value is not what it takes.
    """
    given = dict(given or {})
    known = OPTIONS.get(protocol, {})
    unknown = sorted(str(name) for name in given if name not in known)
    if unknown:
        if not known:
            raise InputError(f"{protocol}:// takes no storage options. {unknown=}")
        raise InputError(f"unknown storage options. {unknown=} known={sorted(known)}")
    return {
        name: _read(name, known[name], value) for name, value in given.items() if value is not None
    }


def _read(name: str, takes: Takes, value: Any) -> Any:
    read: Any = value
    if takes == "flag" and isinstance(value, str):
        read = _FLAGS.get(value.lower())
    elif takes == "seconds" and isinstance(value, str):
        read = float(value) if value.replace(".", "", 1).isdigit() else None
    if not isinstance(read, _TYPES[takes]) or not _MAY_BE.get(takes, _any)(read):
        raise InputError(f"the storage option {name!r} takes {_NAMED[takes]}")
    return read


def _any(_: object) -> bool:
    return True


def _is_word(text: str) -> bool:
    return bool(text) and text.isprintable() and " " not in text


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    web = parts.scheme in ("http", "https") and bool(parts.hostname)
    return web and _is_word(text) and not (parts.username or parts.query or parts.fragment)


def _is_token(value: object) -> bool:
    return not isinstance(value, str) or value in _GCS_TOKENS or Path(value).is_file()


_GCS_TOKENS = ("google_default", "cache", "anon", "browser", "cloud")
_MAY_BE: Mapping[Takes, Callable[[Any], bool]] = {
    "text": _is_word,
    "address": _is_address,
    "token": _is_token,
}
_TYPES: Mapping[Takes, Any] = {
    "text": str,
    "address": str,
    "token": object,
    "flag": bool,
    "seconds": (int, float),
    "options": Mapping,
    "anything": object,
}
_NAMED: Mapping[Takes, str] = {
    "text": "a text that is not empty, without blanks",
    "address": "an address such as https://host:port, without credentials",
    "token": f"the path of a file with credentials, which is there, or one of {_GCS_TOKENS}, or"
    " credentials as gcsfs takes them",
    "flag": "true or false",
    "seconds": "a number of seconds",
    "options": "a dictionary, which a URI cannot hold",
    "anything": "anything",
}
