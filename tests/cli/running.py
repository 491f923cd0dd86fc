"""Running a command as a shell would."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from lakestore.cli import main


def run(*arguments: str | Path, answer: str | None = None) -> Result:
    """Run a command as the shell would, 100 columns wide."""
    runner = CliRunner(env={"COLUMNS": "100"})
    return runner.invoke(main, [str(argument) for argument in arguments], input=answer)
