"""URIs as ADK's service registry passes them, and the lakes that services of one URI share.

Needs nothing of ADK, so that the command line can read them quickly.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Literal, cast, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from lakestore.checks import check_choice, check_text
from lakestore.errors import InputError
from lakestore.lake import Lake
from lakestore.storage import OPTIONS, ClientName, known_options

Durability = Literal["append", "turn"]

SETTINGS = (
    *("durability", "payload_threshold"),
    *("ranking", "max_results", "language", "thoughts", "tools"),
)
"""Names of what is for services themselves: the first two for sessions, the others for memory."""

SCHEMES = ("lakestore+file", "lakestore+memory", "lakestore+s3", "lakestore+gs")
"""Schemes of service URIs, one for each kind of store."""

_shared: weakref.WeakValueDictionary[object, Lake] = weakref.WeakValueDictionary()
_shared_lock = Lock()


@dataclass(frozen=True, slots=True)
class ServiceUri:
    """What a `lakestore+...` URI says."""

    url: str
    """The lake's URL, percent-decoded."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What is for the service itself, such as `durability`; nobody has checked the values."""
    client: ClientName = "fsspec"
    """Who talks to a bucket."""
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The other options in the query, percent-decoded."""

    def count(self, name: str) -> int | None:
        """Return a setting that is a whole number, 0 or more; None where it is not given.

        Raises:
            InputError: it is none.
        """
        given = self.settings.get(name)
        if given is None:
            return None
        if not (given.isascii() and given.isdigit()):
            raise InputError(f"{name} is a whole number, 0 or more. given={given!r}")
        return int(given)

    @classmethod
    def parse(cls, uri: str, options: Mapping[str, Any]) -> ServiceUri:
        """Return what `uri` and further `options` say. Never quotes the query, which may be secret.

        Settings of all services may stand in it, so that one URI does for each of them.

        Args:
            uri: As ADK's service registry passes it.
            options: More of what its query may hold.

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
        protocol = parts.scheme.removeprefix("lakestore+")
        known = [*SETTINGS]
        if protocol in OPTIONS:
            known += ["client", *sorted(OPTIONS[protocol])]
        unknown = sorted(str(name) for name in given if name not in known)
        if unknown:
            raise InputError(f"unknown options in a service URI. {unknown=} {known=}")
        own = {name: given.pop(name) for name in SETTINGS if name in given}
        client = given.pop("client", "fsspec")
        given = known_options(protocol, given)
        place = unquote(parts.netloc + parts.path)
        if not place or parts.fragment:
            raise InputError("a service URI names a path, with # and ? in it percent-encoded")
        if protocol == "file" and not place.startswith("/"):
            raise InputError(
                "a service URI of a folder has an absolute path: lakestore+file:///path/to/lake"
            )
        url = f"{protocol}://{place}"
        return cls(url, own, cast(ClientName, client), given)


def shared_lake(named: ServiceUri) -> Lake:
    """Return the lake that all services of that URL and options in this process share.

    Raises:
        LakeError: it cannot be opened.
    """
    options = tuple(sorted((name, repr(value)) for name, value in named.storage_options.items()))
    shared = (named.url, named.client, options)
    with _shared_lock:
        lake = _shared.get(shared)
        if lake is None or lake.closed:
            lake = _shared[shared] = Lake.open(
                named.url, storage_options=named.storage_options, client=named.client
            )
        return lake


def check_durability(value: object) -> Durability:
    """Return `value` if it is a durability.

    Raises:
        InputError: it is none.
    """
    return cast(Durability, check_choice("durability", value, get_args(Durability)))
