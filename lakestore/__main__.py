"""Where a process of the command line begins: Ctrl-C ends it well while modules are imported, too.

Imports nothing that takes time before that is so.
"""

from __future__ import annotations

import os
import signal
from types import FrameType


def main() -> None:
    """Run the command line."""
    hears = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # it may be ignored
    if hears:
        # An exception in the midst of an import may be swallowed, or taken for a broken module.
        signal.signal(signal.SIGINT, _stop)
    from lakestore.cli import main as command

    if hears:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command(prog_name="lakestore")


def _stop(number: int, frame: FrameType | None) -> None:
    os.write(2, b"stopped: nothing was changed\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
