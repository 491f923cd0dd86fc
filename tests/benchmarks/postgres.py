"""A PostgreSQL of one benchmark run, for ADK's DatabaseSessionService to work on.

Owns where the server is found and how it is started: on loopback, in a folder of its own, durable
as it comes. Where none is installed there is none to compare with, and the table says so.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.support.servers import free_ports

_USER = "postgres"


def find_postgres() -> Path | None:
    """Return the folder with the server's programs, None when it or asyncpg is not installed."""
    if find_spec("asyncpg") is None:
        return None
    on_path = shutil.which("pg_ctl")
    if on_path:
        return Path(on_path).parent
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return debian[-1] if debian else None


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Run a server whose data are in `folder`; yield the URL for SQLAlchemy's asyncpg.

    PostgreSQL does not run as root, so then it runs as its own user.
    """
    programs = find_postgres()
    assert programs is not None
    owner = _USER if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    folder.mkdir(mode=0o700)
    if os.getuid() == 0:
        shutil.chown(folder, owner)
    (port,) = free_ports(1)
    data = folder / "data"
    options = f"-h 127.0.0.1 -p {port} -k {folder} -c max_connections=300"

    def run(*command: str) -> None:
        user = owner if os.getuid() == 0 else None
        subprocess.run(
            [str(programs / command[0]), *command[1:]],
            check=True,
            user=user,
            cwd="/",
            stdout=subprocess.DEVNULL,
        )

    run("initdb", "-D", str(data), "-U", "adk", "--auth=trust", "--encoding=UTF8")
    run("pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql+asyncpg://adk@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
