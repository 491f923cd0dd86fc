"""How a command ends that does not end well: an error in one line, Ctrl-C with what stands."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from socket import socketpair
from threading import Event, Thread, current_thread, main_thread
from typing import Any, NoReturn

import click

from lakestore.errors import FormatError, LakeError
from lakestore.shell.text import shown_url, visible_lines

INTERRUPTED = 128 + signal.SIGINT
"""What a shell expects of what Ctrl-C has ended."""
_STANDS = "lakestore.stands"
_WAKES = getattr(signal, "SIGURG", signal.SIGINT)
"""A signal that nobody sends, and that without us would do nothing."""
_EVERY_SECONDS = 0.1
"""How often it is sent until the command has ended: it may come just before a wait, too."""
_DAMAGED = "\n`lakestore check` with the same URL tells what that costs, and how to mend it"


def reports_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn what lakestore raises on purpose into one line on stderr and exit code 1."""
    return stops_with("nothing was changed")(command)


def stops_with(stands: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Do as `reports_errors`, and let Ctrl-C end the command with 130 and a line.

    Args:
        stands: What that line says, of what was done until then and of how to go on.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def reporting(*args: Any, **kwargs: Any) -> None:
            try:
                with hearing():
                    command(*args, **kwargs)
            except LakeError as error:
                url = kwargs.get("url")
                message = str(error).replace(url, shown_url(url)) if url else str(error)
                if isinstance(error, FormatError) and command.__name__ != "check":
                    message += _DAMAGED
                raise click.ClickException(visible_lines(message)) from None
            except KeyboardInterrupt:
                changed = not kwargs.get("dry_run")
                now = click.get_current_context().meta.get(_STANDS, stands)
                stop(now if changed else "nothing was changed: it was a dry run")

        return reporting

    return decorate


@contextmanager
def hearing() -> Iterator[None]:
    """Have this, the main thread, hear Ctrl-C at once, whatever it waits for.

    A signal that comes just before it begins to wait for a thread, or comes to another thread,
    wakes nobody: Python would raise only when what is waited for has come, as a request that times
    out. So a thread of its own, which any signal wakes, interrupts the wait by another one.
    """
    if current_thread() is not main_thread() or not hasattr(signal, "pthread_kill"):
        yield
        return
    told, tell = socketpair()
    tell.setblocking(False)
    here = main_thread().ident or 0
    woken = signal.signal(_WAKES, lambda *_: None)
    before = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)

    ended = Event()

    def wake() -> None:
        while came := told.recv(1):
            while came[0] == signal.SIGINT and not ended.is_set():
                signal.pthread_kill(here, _WAKES)
                ended.wait(_EVERY_SECONDS)

    thread = Thread(target=wake, name="lakestore-ctrl-c", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        tell.close()
        thread.join()
        signal.signal(_WAKES, woken)
        told.close()


def now_stands(what: str) -> None:
    """Have Ctrl-C say from now on that this is what stands."""
    click.get_current_context().meta[_STANDS] = what


def stop(stands: str) -> NoReturn:
    """End at once: what threads still do may wait for the network, and counts for nobody."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    click.echo(f"stopped: {stands}", err=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)
