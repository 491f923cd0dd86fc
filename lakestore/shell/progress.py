"""How far a job is, on stderr: a bar that moves on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
from threading import Event, Lock, Thread
from types import TracebackType

import click

from lakestore.jobs import Progress
from lakestore.lake import Lake
from lakestore.shell.text import byte_size, clip, plural, visible, width
from lakestore.shell.text import terminal_width as room

_TERMINAL_SECONDS = 0.2
_ELSEWHERE_SECONDS = 10.0
_RARELY_SECONDS = 60.0
"""How seldom a line comes elsewhere at last, each after twice the time of the one before."""
_QUIET_SECONDS = 0.5
"""What takes no longer shows nothing."""
_BAR = 16


class ProgressLine:
    """Shows what a job says of its progress; nothing is left of it on a terminal.

    It moves while the job says nothing too, so that whoever waits sees that it lives.
    """

    def __init__(self, lake: Lake) -> None:
        self._clock = lake.clock
        self._metrics = lake.metrics
        self._terminal = sys.stderr.isatty()
        self._last: Progress | None = None
        self._shown = False
        self._ended = Event()
        self._lock = Lock()

    def __call__(self, progress: Progress) -> None:
        """Take note of it; a thread shows it."""
        self._last = progress

    def __enter__(self) -> ProgressLine:
        self._started = self._clock.elapsed()
        self._before = self._metrics.requests
        self._thread = Thread(target=self._show_all, name="lakestore-progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        with self._lock:
            if self._terminal and self._shown:
                click.echo("\r" + " " * (room() - 1) + "\r", nl=False, err=True)

    def _show_all(self) -> None:
        every = _TERMINAL_SECONDS if self._terminal else _ELSEWHERE_SECONDS
        wait = _QUIET_SECONDS if self._terminal else every
        while not self._ended.wait(wait):
            wait = every if self._terminal else min(2 * wait, _RARELY_SECONDS)
            with self._lock:
                if not self._ended.is_set():
                    self._show()

    def _show(self) -> None:
        if not self._terminal:
            click.echo(", ".join(self._parts()), err=True)
            return
        parts = self._parts(bar=True)
        while len(parts) > 1 and width("  ".join(parts)) >= room():
            parts.pop()
        text = clip("  ".join(parts), room() - 1)
        click.echo("\r" + text + " " * (room() - 1 - width(text)), nl=False, err=True)
        self._shown = True

    def _parts(self, *, bar: bool = False) -> list[str]:
        passed = int(self._clock.elapsed() - self._started)
        sent = sum(self._metrics.requests_since(self._before).values())
        parts = _progress(self._last, bar=bar) if self._last else ["beginning"]
        return [*parts, f"{passed // 60}:{passed % 60:02}", plural(sent, "request")]


def _progress(it: Progress, *, bar: bool) -> list[str]:
    parts = [visible(f"{it.app_name}: {it.doing}" if it.app_name else it.doing)]
    size = byte_size if it.unit == "byte" else lambda count: f"{count:,}"
    if it.total:
        share = it.done / it.total
        if bar:
            full = int(_BAR * share)
            parts.append("█" * full + "░" * (_BAR - full))
        parts.append(f"{int(100 * share)} %")
    if it.unit:
        of = f" of {size(it.total)}" if it.total else ""
        noun = "" if it.unit == "byte" else " " + plural(it.total or it.done, it.unit).split()[-1]
        parts.append(f"{size(it.done)}{of}{noun}")
    return parts
