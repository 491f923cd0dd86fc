"""Servers of a test run that is ended by a signal end with it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STARTING = """
import subprocess
from tests.support.children import mortal

# It says so itself: from then on the system knows that it is to die.
subprocess.run(mortal(["sh", "-c", "echo started; exec sleep 600"]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of a death")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_dies_with_the_tests(number: signal.Signals) -> None:
    """A signal that leaves pytest no time to end its servers ends them too."""
    command = [sys.executable, "-c", STARTING]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as tests:
        assert tests.stdout is not None
        assert tests.stdout.readline() == b"started\n"
        tests.send_signal(number)
        # The pipe is at its end only when the server, which holds it too, is gone.
        assert tests.communicate(timeout=20)[0] == b""
