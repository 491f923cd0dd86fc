"""How a history is printed: numbered steps, keys in short form. Knows nothing of the product."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

_LOG = re.compile(r"events/log/app=[^/]*/user=([^/]*)/session=([^/]*)/0*([0-9]+)(r?)\.parquet")
_LOGS = re.compile(r"events/log/(?:app=[^/]*/)?(?:user=([^/]*)/)?(?:session=([^/]*)/)?")
_ENTRY = re.compile(
    r"([a-z]+)/entries/app=[^/]*/user=([^/]*)/0*([0-9]+)-0*([0-9]+)-(.{4})[0-9a-f]{12}(f?)\.parquet"
)
_FILED = re.compile(
    r"artifacts/log/app=[^/]*/user=([^/]*)/session=([^/]*)/name=[^/]*/(?:0*([0-9]+)\.parquet)?"
)
_PAYLOADS = re.compile(
    r"artifacts/objects/app=[^/]*/user=([^/]*)/session=([^/]*)/name=[^/]*/(?:([0-9a-f]{4}).*)?"
)
_MANIFEST = re.compile(r"manifests/app=[^/]*/0*([0-9]+)\.json")
_FILE = re.compile(r"(pack|run)s/app=[^/]*/([a-z]+)/([0-9a-f]{4})[0-9a-f]{12}\.parquet")
_OBJECT = re.compile(r"events/objects/app=[^/]*/user=([^/]*)/session=([^/]*)/([0-9a-f]{4}).*")
_OBJECTS = re.compile(r"events/objects/(?:app=[^/]*/)?(?:user=([^/]*)/)?(?:session=([^/]*)/)?")
_PROOF = re.compile(r"proof-([0-9a-f]{4})[0-9a-f]{12}\.json")
_ENTRIES = re.compile(r"([a-z]+)/entries/(?:app=[^/]*/)?(?:user=([^/]*)/)?")


class Line(Protocol):
    """What is printed in one line."""

    @property
    def time(self) -> float: ...
    @property
    def who(self) -> str: ...
    @property
    def what(self) -> str: ...


def short(key: str, *, name: bool = False, stamp: bool = True) -> str:
    """Return a key as people can read it.

    Args:
        key: The key, or the beginning of some.
        name: Only what tells it from others in a listing.
        stamp: With what is drawn: the stamp of an entry, the token of a pack or run.
    """
    if match := _LOG.fullmatch(key):
        user, session, version, rollup = match.groups()
        version = f"{version}{' (rollup)' if rollup else ''}"
        return version.replace(" ", "") if name else f"{user}/{session}/{version}"
    if match := _ENTRY.fullmatch(key):
        table, user, micros, counter, token, fold = match.groups()
        when = f"{int(micros) % 10**11 / 10**6:.6f}+{counter or 0}-{token}"
        when = f"{when if stamp else 'entry'}{' (fold)' if fold else ''}"
        return when.replace(" ", "") if name else f"{table} of {_whose(user)} {when}"
    if match := _FILE.fullmatch(key):
        kind, table, token = match.groups()
        return f"{kind} of {table} {token}" if stamp else f"{kind} of {table}"
    if match := _PROOF.fullmatch(key):
        return f"proof {match[1]}" if stamp else "proof"
    if told := _named_once(key, name=name, stamp=stamp):
        return told
    return _unordered(key, stamp=stamp)


def _unordered(key: str, *, stamp: bool) -> str:
    """Return the key of what is in no listing that is printed, or the beginning of some."""
    if match := _OBJECT.fullmatch(key):
        user, session, token = match.groups()
        return f"payload of {user}/{session}{f' {token}' if stamp else ''}"
    for what, folders in (("payloads", _OBJECTS), ("log", _LOGS)):
        if match := folders.fullmatch(key):
            return f"{what} " + "/".join(part or "*" for part in match.groups())
    if match := _ENTRIES.fullmatch(key):
        return f"{match[1]} of {_whose(match[2])}"
    return key


def _named_once(key: str, *, name: bool, stamp: bool) -> str:
    """Return the key of a manifest, or of an artifact, in short form; "" for another one."""
    if match := _MANIFEST.fullmatch(key):
        return match[1] if name else f"manifest {match[1]}"
    if match := _FILED.fullmatch(key):
        return match[3] if name and match[3] else f"file {'/'.join(filter(None, match.groups()))}"
    if match := _PAYLOADS.fullmatch(key):
        token = f" {match[3]}" if stamp and match[3] else ""
        return f"payload of {match[1]}/{match[2]}{token}"
    return ""


def _whose(user: str | None) -> str:
    return "app" if user == "-" else user or "*"


def lines(steps: Iterable[Line]) -> list[str]:
    """Return numbered lines, each with the seconds since the first."""
    listed = list(steps)
    start = listed[0].time if listed else 0.0
    return [
        f"{number:4}  {step.time - start:9.2f} s  {step.who:<10} {step.what}"
        for number, step in enumerate(listed, start=1)
    ]
