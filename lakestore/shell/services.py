"""The services.yaml by which ADK finds lakestore: where ADK looks for it, and what stands in it.

`adk web DIR` and `adk api_server DIR` read it from the folder they are given; `adk run` reads it
from the agent's own folder. So it is written into both. ADK itself is never imported here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import yaml

from lakestore.adk.uris import SCHEMES, ServiceUri
from lakestore.errors import InputError
from lakestore.lake import Lake
from lakestore.storage.places import PROTOCOLS, Place

ENTRIES = [
    {"scheme": scheme, "type": kind, "class": f"lakestore.{service}"}
    for kind, service in (
        ("session", "LakeSessionService"),
        ("memory", "LakeMemoryService"),
        ("artifact", "LakeArtifactService"),
    )
    for scheme in SCHEMES
]

_SECRET = {"key", "secret", "token"}
_FILE_NAME = "services.yaml"
# ADK reads both names, in this order.
_READ_BY_ADK = (_FILE_NAME, "services.yml")
_COMMENT = "# Tells adk web, adk api_server and adk run where lakestore's services are.\n"
_AGENT_FILES = ("agent.py", "root_agent.yaml")
# ADK's own walk over nested agents stops there too.
_DEEPEST = 5


@dataclass(frozen=True, slots=True)
class Placement:
    """What is to happen in one folder."""

    folder: Path
    existing: Path | None
    """A file of that name which stands there already, and which is never changed."""
    missing: tuple[dict[str, str], ...]
    """Entries that it lacks."""

    @property
    def target(self) -> Path:
        """The file that holds the entries, or will."""
        return self.existing or self.folder / _FILE_NAME


def plan_services(folder: Path) -> list[Placement]:
    """Return what each folder needs that ADK may look into: `folder` and its agents' folders.

    Raises:
        InputError: an existing file is not YAML as ADK reads it.
    """
    return [_placement(place) for place in dict.fromkeys((folder, *agent_folders(folder)))]


def write_services(placement: Placement) -> None:
    """Create the file where none stands.

    Raises:
        InputError: one was written meanwhile, or the folder does not let us.
    """
    try:
        with placement.target.open("x", encoding="utf-8") as file:
            file.write(_COMMENT + services_yaml())
    except OSError as error:
        raise InputError(f"cannot write {placement.target}: {error.strerror}") from None


def services_yaml(entries: tuple[dict[str, str], ...] = tuple(ENTRIES)) -> str:
    """Return the lines that ADK needs."""
    return str(yaml.safe_dump({"services": list(entries)}, sort_keys=False))


def agent_folders(folder: Path) -> Iterator[Path]:
    """Yield `folder` if it is an agent's, else those below it that are, in order of their names."""
    if _is_agent_folder(folder):
        yield folder
        return
    for root, names, files in os.walk(folder):
        depth = len(Path(root).relative_to(folder).parts)
        names[:] = sorted(
            name
            for name in names
            if depth < _DEEPEST and not name.startswith(".") and name not in ("__pycache__", "tmp")
        )
        direct_package = depth == 1 and "__init__.py" in files
        if depth and (direct_package or set(_AGENT_FILES) & set(files)):
            yield Path(root)


def service_uri(url: str) -> str:
    """Return a lake's URL as ADK's `--session_service_uri` takes it.

    Raises:
        InputError: lakestore registers no service for that protocol, or an option is not known.
    """
    if url.startswith("lakestore+"):
        url = url.removeprefix("lakestore+")
        protocol, _, rest = url.partition("://")
        secret = sorted(_SECRET.intersection(dict(parse_qsl(urlsplit(url).query))))
        if secret:
            raise InputError(
                "credentials do not belong into what is written down and shown: leave them to the"
                f" environment or a profile. options={secret}"
            )
    else:
        protocol, separator, rest = url.partition("://")
        if not separator:
            protocol, rest = "file", url
        if protocol == "file":
            # ADK may be started from anywhere, so the path must not depend on where.
            rest = Path(os.path.expanduser(rest)).absolute().as_posix()
        if protocol in PROTOCOLS:
            protocol = Place.parse(protocol, rest).protocol
        rest = quote(rest)
    if f"lakestore+{protocol}" not in SCHEMES:
        raise InputError(f"no service for {protocol}:// yet; known are {', '.join(SCHEMES)}")
    uri = f"lakestore+{protocol}://{rest}"
    ServiceUri.parse(uri, {})
    return uri


def lake_url(uri: str) -> str:
    """Return the URL, or the path, of the lake that a service URI names, as commands take it."""
    parts = urlsplit(uri)
    place = unquote(parts.netloc + parts.path)
    protocol = parts.scheme.removeprefix("lakestore+")
    return place if protocol == "file" else f"{protocol}://{place}"


def open_named(url: str, *, read_only: bool, rollups: bool = True) -> Lake:
    """Open the lake at a URL, or the one that a service URI names.

    Raises:
        LakeError: it cannot be opened.
    """
    if not url.startswith("lakestore+"):
        if "://" in url and "?" in url:
            raise InputError(f"options are taken in a URL of this form: lakestore+{url}")
        return Lake.open(url, read_only=read_only, rollups=rollups)
    named = ServiceUri.parse(url, {})
    return Lake.open(
        named.url,
        storage_options=named.storage_options,
        client=named.client,
        read_only=read_only,
        rollups=rollups,
    )


def _is_agent_folder(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _AGENT_FILES)


def _placement(folder: Path) -> Placement:
    for name in _READ_BY_ADK:
        path = folder / name
        if path.exists():
            return Placement(folder, path, _missing_entries(path))
    return Placement(folder, None, tuple(ENTRIES))


def _missing_entries(path: Path) -> tuple[dict[str, str], ...]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"cannot read {path}: {type(error).__name__}") from None
    services = found.get("services") if isinstance(found, dict) else None
    if services is not None and not isinstance(services, list):
        raise InputError(f"{path} holds no list of services")
    return tuple(
        entry
        for entry in ENTRIES
        if not any(
            isinstance(service, dict) and entry.items() <= service.items()
            for service in services or []
        )
    )
