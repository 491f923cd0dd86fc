"""The notebooks run as they are in a folder with nothing else, and are kept without outputs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning:zmq", "ignore::DeprecationWarning:jupyter_client"
)


def read(path: Path) -> Any:
    """Return a notebook."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # it has no types


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notebooks alone; beside it the first of them makes the demo's lake."""
    copy = tmp_path_factory.mktemp("clean") / "notebooks"
    copy.mkdir()
    for path in NOTEBOOKS:
        shutil.copy(path, copy)
    return copy


@pytest.mark.timeout(240)  # a kernel each, and the first writes the demo's lake: 10 s, if alone
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell runs without an error or a warning, and each chart has become a picture."""
    monkeypatch.delenv("LAKESTORE_URL", raising=False)
    notebook = read(folder / path.name)
    client = NotebookClient(notebook, timeout=220, resources={"metadata": {"path": str(folder)}})
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    drawn = [cell for cell in cells if cell.source.splitlines()[-1].startswith("charts.")]
    pictures = [output for output in outputs if "image/svg+xml" in output.get("data", {})]
    assert len(pictures) >= len([cell for cell in drawn if "use_svg" not in cell.source])


def test_they_are_five() -> None:
    """Quickstart, history, one conversation, archive, memory; each named in the README."""
    told = (ROOT / "notebooks" / "README.md").read_text("utf-8")
    assert len(NOTEBOOKS) == 5
    assert [path.name for path in NOTEBOOKS if path.name not in told] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs(path: Path) -> None:
    """No output, no count of executions, and no trace of whose machine it ran on."""
    notebook = read(path)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert cell.metadata == {}
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_any_lake_by_one_line(path: Path) -> None:
    """One line says which lake, the environment comes before the demo's, and none is written to."""
    code = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "code")
    (line,) = (line for line in code.splitlines() if line.startswith("URL = "))
    assert 'os.environ.get("LAKESTORE_URL") or sample_lake("../demo-lake")' in line
    opened = [line for line in code.splitlines() if "(URL" in line]
    assert opened
    assert [line for line in opened if "read_only=True" not in line] == []
