"""System calls of a process, traced: what was synced in which order, and what if one fails.

Owns how `strace` is called and read. A test that needs it skips where it is absent, but never in
CI, where its absence is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

_TRACED = "openat,write,fsync,fdatasync,link,linkat,rename,renameat,renameat2,unlink,mkdir"
_CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+)")
_PATH = re.compile(r"<([^<>]*)>|\"((?:[^\"\\]|\\.)*)\"")
_UNFINISHED = re.compile(r"^(\d+) +(\w+\(.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")
_LINE = re.compile(r"^(\d+) +(.*)$")


@dataclass(frozen=True, slots=True)
class SystemCall:
    """One system call that succeeded."""

    name: str
    paths: tuple[str, ...]
    """The files it names, by path or by descriptor."""
    text: str
    """All of it."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A script that ran to its end, or to where it was stopped."""

    calls: list[SystemCall]
    output: str
    status: int
    """0, or what the script ended with; below 0 the signal."""


def run_traced(
    folder: Path, script: str, *arguments: str | Path, inject: str | None = None
) -> Traced:
    """Run Python code and trace it.

    Args:
        folder: Where the trace may be put.
        script: The code.
        arguments: What it finds in `sys.argv`.
        inject: What shall go wrong, in the words of `strace --inject`.
    """
    strace = shutil.which("strace")
    if strace is None:
        assert not os.environ.get("CI"), "CI must have strace, to prove what is synced"
        pytest.skip("strace is not installed")
    trace = folder / "trace.txt"
    done = subprocess.run(
        [
            *[strace, "-f", "-y", "-s", "4096", "-o", str(trace), "-e", f"trace={_TRACED}"],
            # Letting the kernel pick the calls is faster, and knows no injected signals.
            *(["-e", f"inject={inject}"] if inject else ["--seccomp-bpf"]),
            *[sys.executable, "-c", script, *map(str, arguments)],
        ],
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    if not trace.exists():  # a container may forbid to trace
        assert not os.environ.get("CI"), "CI must let strace trace"
        pytest.skip("strace may not trace here")
    calls = _parse(trace.read_text(encoding="utf-8", errors="replace").splitlines())
    return Traced(calls, done.stdout, done.returncode)


def _parse(lines: Sequence[str]) -> list[SystemCall]:
    calls = []
    begun: dict[str, str] = {}
    for line in lines:
        if match := _UNFINISHED.match(line):
            begun[match[1]] = match[2]
            continue
        if match := _RESUMED.match(line):
            line = f"{match[1]} {begun.pop(match[1], '')}{match[2]}"
        match = _LINE.match(line)
        call = _CALL.search(match[2]) if match else None
        if call is not None and int(call[3]) >= 0:
            paths = tuple(a or b for a, b in _PATH.findall(call[2]))
            calls.append(SystemCall(call[1], paths, call[0]))
    return calls
