"""URIs as ADK's service registry passes them, and the lakes that services of one URI share.

Needs nothing of ADK, so that the command line can read them quickly.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, cast, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from lakestore.checks import check_choice, check_text
from lakestore.errors import InputError
from lakestore.lake import Lake

Durability = Literal["append", "turn"]

SCHEMES = ("lakestore+file", "lakestore+memory")
"""Schemes of service URIs, one for each kind of store."""

_shared: weakref.WeakValueDictionary[str, Lake] = weakref.WeakValueDictionary()
_shared_lock = Lock()


@dataclass(frozen=True, slots=True)
class ServiceUri:
    """What a `lakestore+...` URI says."""

    url: str
    """The lake's URL, percent-decoded."""
    durability: Durability

    @classmethod
    def parse(cls, uri: str, options: Mapping[str, Any]) -> ServiceUri:
        """Return what `uri` and further `options` say. Never quotes the query, which may be secret.

        Raises:
            InputError: the scheme or an option is not known, or the path is missing.
        """
        try:
            parts = urlsplit(check_text("uri", uri))
        except InputError:
            raise
        except ValueError:  # its text may quote what is secret
            raise InputError("a service URI has brackets only around an IPv6 address") from None
        if parts.scheme not in SCHEMES:
            raise InputError(
                f"a service URI begins with one of {', '.join(f'{s}://' for s in SCHEMES)}."
                f" scheme={parts.scheme!r}"
            )
        given = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **options}
        durability = given.pop("durability", "append")
        if given:
            raise InputError(
                f"unknown options in a service URI. unknown={sorted(given)} known=['durability']"
            )
        place = unquote(parts.netloc + parts.path)
        if not place or parts.fragment:
            raise InputError("a service URI names a path, with # and ? in it percent-encoded")
        protocol = parts.scheme.removeprefix("lakestore+")
        if protocol == "file" and not place.startswith("/"):
            raise InputError(
                "a service URI of a folder has an absolute path: lakestore+file:///path/to/lake"
            )
        return cls(f"{protocol}://{place}", check_durability(durability))


def shared_lake(named: ServiceUri) -> Lake:
    """Return the lake that all services of that URL in this process share.

    Raises:
        LakeError: it cannot be opened.
    """
    with _shared_lock:
        lake = _shared.get(named.url)
        if lake is None or lake.closed:
            lake = _shared[named.url] = Lake.open(named.url)
        return lake


def check_durability(value: object) -> Durability:
    """Return `value` if it is a durability.

    Raises:
        InputError: it is none.
    """
    return cast(Durability, check_choice("durability", value, get_args(Durability)))
