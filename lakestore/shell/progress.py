"""How far a job is, on stderr: a line that changes on a terminal, now and then one elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType

import click

from lakestore.clock import Clock
from lakestore.shell.text import terminal_width

_TERMINAL_SECONDS = 0.1
_ELSEWHERE_SECONDS = 10.0


class ProgressLine:
    """Shows what a job says of its progress; nothing is left of it on a terminal."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._terminal = sys.stderr.isatty()
        self._every = _TERMINAL_SECONDS if self._terminal else _ELSEWHERE_SECONDS
        self._shown = clock.elapsed()

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Show that so much is done; most calls show nothing, for they come too soon."""
        now = self._clock.elapsed()
        if now - self._shown < self._every:
            return
        self._shown = now
        text = f"{what}: {done:,}"
        if total:
            text += f" of {total:,} ({100 * done // total} %)"
        if self._terminal:
            room = terminal_width() - 1
            click.echo("\r" + text[:room].ljust(room), nl=False, err=True)
        else:
            click.echo(text, err=True)

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._terminal:
            click.echo("\r" + " " * (terminal_width() - 1) + "\r", nl=False, err=True)
