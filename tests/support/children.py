"""Programs that tests start, none of which outlives the tests.

A test ends what it started; what remains is a test run that is itself ended by a signal.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LOG = "server.log"


def mortal(command: Sequence[str]) -> list[str]:
    """Return the command as one that the system kills when the thread that starts it is gone.

    Only Linux does so; elsewhere it is the command as it was.
    """
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    return [setpriv, "--pdeathsig", "KILL", "--", *command] if setpriv else list(command)


def start(command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a server in `folder`, where its output goes to the end of a log."""
    with (folder / LOG).open("ab") as output:
        return subprocess.Popen(
            mortal(command), cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )


def end(process: subprocess.Popen[bytes], patience: float = 2) -> None:
    """End a server, at once if it takes longer than `patience` seconds about it."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_words(folder: Path) -> str:
    """Return the end of the log of what was started in `folder`."""
    return (folder / LOG).read_text(errors="replace")[-3000:]
