"""How benchmarks are run: as quick tests by default, in full when asked to, and then as a table.

`--bench-full`, or `LAKESTORE_BENCH=full` in the environment, measures; `make bench` does.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.benchmarks.contenders import facts, opened
from tests.benchmarks.histories import record
from tests.benchmarks.measuring import FULL, SMALL, Figures, Scale
from tests.benchmarks.report import to_markdown

HERE = Path(__file__).parent
FIGURES = pytest.StashKey[Figures]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; they are known when this folder is named on the command line."""
    group = parser.getgroup("benchmarks")
    group.addoption("--bench-full", action="store_true", help="measure, in the full sizes")
    group.addoption("--bench-json", metavar="FILE", help="write the figures to this file")
    group.addoption(
        "--bench-folder", metavar="DIR", help="where to measure (default: ./.benchmarks in full)"
    )


def _is_full(config: pytest.Config) -> bool:
    asked = bool(config.getoption("bench_full", default=False))
    return asked or os.environ.get("LAKESTORE_BENCH") == "full"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the benchmarks, and let them take their time in full."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.benchmark)
            if _is_full(config):
                item.add_marker(pytest.mark.timeout(0))


@pytest.fixture(scope="session")
def scale(request: pytest.FixtureRequest) -> Scale:
    """How much to measure."""
    return FULL if _is_full(request.config) else SMALL


@pytest.fixture(scope="session")
def arena(
    request: pytest.FixtureRequest, scale: Scale, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Return a folder for all contenders; in full on a disk, as a temporary one may be memory."""
    asked = request.config.getoption("bench_folder", default=None)
    if not asked and scale is SMALL:
        yield tmp_path_factory.mktemp("arena")
        return
    parent = Path(asked) if asked else request.config.rootpath / ".benchmarks"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="arena-", dir=parent) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def figures(request: pytest.FixtureRequest, scale: Scale, arena: Path) -> Figures:
    """Where every benchmark adds what it measured."""
    found = Figures(scale.name, facts(arena))
    request.config.stash[FIGURES] = found
    return found


@pytest.fixture(scope="session")
def many_sessions(arena: Path, scale: Scale) -> Path:
    """Return a folder in which every contender holds many sessions of one user."""
    names = {f"session-{n:04}": scale.events_a_session for n in range(scale.sessions)}
    return _filled(arena / "many", names)


@pytest.fixture(scope="session")
def long_sessions(arena: Path, scale: Scale) -> Path:
    """Return a folder in which every contender holds the sessions `warm` and `cold`."""
    return _filled(arena / "long", {"warm": scale.warm_events, "cold": scale.cold_events})


def _filled(folder: Path, sessions: Mapping[str, int]) -> Path:
    async def fill() -> None:
        async with opened(folder) as services:
            for session_id, count in sessions.items():
                for service in services.values():
                    await record(service, session_id, count)

    folder.mkdir()
    asyncio.run(fill())
    return folder


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table when it was measured in full or the figures were asked for."""
    found = config.stash.get(FIGURES, None)
    path = config.getoption("bench_json", default=None)
    if found is None or not (found.rows or found.tables or found.notes):
        return
    if path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(found.to_json(), indent=2) + "\n", encoding="utf-8")
    if path or _is_full(config):
        terminalreporter.write_line("")
        terminalreporter.write_line(to_markdown(found))
