"""`lakestore init`: where services.yaml is written, what in it, and what is left alone."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from google.adk.cli.service_registry import get_service_registry, load_services_module

from lakestore import LakeSessionService
from lakestore.adk.uris import SCHEMES as SERVICE_SCHEMES
from lakestore.cli import main
from lakestore.shell.services import ENTRIES

WRITTEN = """\
# Tells adk web, adk api_server and adk run where lakestore's services are.
services:
- scheme: lakestore+file
  type: session
  class: lakestore.LakeSessionService
- scheme: lakestore+memory
  type: session
  class: lakestore.LakeSessionService
- scheme: lakestore+s3
  type: session
  class: lakestore.LakeSessionService
- scheme: lakestore+gs
  type: session
  class: lakestore.LakeSessionService
- scheme: lakestore+file
  type: memory
  class: lakestore.LakeMemoryService
- scheme: lakestore+memory
  type: memory
  class: lakestore.LakeMemoryService
- scheme: lakestore+s3
  type: memory
  class: lakestore.LakeMemoryService
- scheme: lakestore+gs
  type: memory
  class: lakestore.LakeMemoryService
- scheme: lakestore+file
  type: artifact
  class: lakestore.LakeArtifactService
- scheme: lakestore+memory
  type: artifact
  class: lakestore.LakeArtifactService
- scheme: lakestore+s3
  type: artifact
  class: lakestore.LakeArtifactService
- scheme: lakestore+gs
  type: artifact
  class: lakestore.LakeArtifactService
"""


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    """A folder with an agent of each kind that ADK knows, and what is none."""
    folder = tmp_path / "my agents"
    for file in ("shop/agent.py", "desk/root_agent.yaml", "pack/__init__.py", "team/a/agent.py"):
        (folder / file).parent.mkdir(parents=True)
        (folder / file).write_text("")
    for other in (".hidden", "__pycache__", "tmp", "docs"):
        (folder / other).mkdir()
    for other in (".hidden", "__pycache__", "tmp"):
        (folder / other / "agent.py").write_text("")
    return folder


def init(folder: Path, *more: str) -> Result:
    """Run `lakestore init`."""
    return CliRunner().invoke(main, ["init", str(folder), *more])


def services(folder: Path) -> list[str]:
    """The services.yaml below `folder`."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("services.y*ml"))


def test_it_is_written_where_adk_looks(agents: Path) -> None:
    """The folder and every agent's folder get the file, others do not."""
    done = init(agents)
    assert done.exit_code == 0
    assert services(agents) == [
        "desk/services.yaml",
        "pack/services.yaml",
        "services.yaml",
        "shop/services.yaml",
        "team/a/services.yaml",
    ]
    assert (agents / "shop" / "services.yaml").read_text() == WRITTEN


def test_it_prints_what_it_did_and_what_to_do_next(agents: Path) -> None:
    """Each file is named, then the exact commands of ADK, quoted for the shell."""
    printed = init(agents).output
    uri = f"lakestore+file://{agents}/.lake".replace(" ", "%20")
    kinds = ("session", "memory", "artifact")
    option = " ".join(f"--{kind}_service_uri={uri}" for kind in kinds)
    folder = shlex.quote(str(agents))
    assert printed == (
        f"wrote  {agents}/services.yaml\n"
        f"wrote  {agents}/desk/services.yaml\n"
        f"wrote  {agents}/pack/services.yaml\n"
        f"wrote  {agents}/shop/services.yaml\n"
        f"wrote  {agents}/team/a/services.yaml\n"
        "\n"
        "Start ADK on the lake:\n"
        f"  adk web {option} {folder}\n"
        f"  adk api_server {option} {folder}\n"
        f"  adk run {option} {shlex.quote(f'{agents}/desk')}\n"
        f"  adk run {option} {shlex.quote(f'{agents}/pack')}\n"
        f"  adk run {option} {shlex.quote(f'{agents}/shop')}\n"
        f"  adk run {option} {shlex.quote(f'{agents}/team/a')}\n"
        "\n"
        "Then ask it:\n"
        f'  lakestore sql {shlex.quote(f"{agents}/.lake")} "select * from sessions"\n'
    )


def test_a_second_run_says_that_all_is_there(agents: Path) -> None:
    """Nothing is written twice; an agent that came since gets its file."""
    init(agents)
    (agents / "new").mkdir()
    (agents / "new" / "agent.py").write_text("")
    again = init(agents)
    assert again.exit_code == 0
    assert f"kept   {agents}/services.yaml  (has the entries)\n" in again.output
    assert f"wrote  {agents}/new/services.yaml\n" in again.output
    assert again.output.count("wrote") == 1


@pytest.mark.parametrize("name", ["services.yaml", "services.yml"])
def test_a_file_of_the_user_is_left_alone(agents: Path, name: str) -> None:
    """A services.yaml without our entries stops everything and prints the lines to add."""
    theirs = "services:\n- scheme: mine\n  type: session\n  class: my.Service\n"
    (agents / "shop" / name).write_text(theirs)
    stopped = init(agents)
    assert stopped.exit_code == 1
    assert stopped.stderr == (
        f"Error: {agents}/shop/{name} is yours and stays as it is; add under `services:`\n"
        + WRITTEN.partition("services:\n")[2]
    )
    assert services(agents) == [f"shop/{name}"]
    assert (agents / "shop" / name).read_text() == theirs

    (agents / "shop" / name).write_text(theirs + WRITTEN.partition("services:\n")[2])
    assert init(agents).exit_code == 0


@pytest.mark.parametrize("text", ["services: [", "services: 5", "\x00"])
def test_a_broken_file_is_reported(agents: Path, text: str) -> None:
    """A services.yaml that ADK could not read is named, and nothing is written."""
    (agents / "services.yaml").write_text(text)
    stopped = init(agents)
    assert stopped.exit_code == 1
    assert f"{agents}/services.yaml" in stopped.stderr
    assert services(agents) == ["services.yaml"]


def test_the_folder_of_one_agent(agents: Path) -> None:
    """Given an agent's own folder, that is what web, api_server and run are started on."""
    shop = agents / "shop"
    (shop / "helper").mkdir()
    (shop / "helper" / "agent.py").write_text("")
    printed = init(shop).output
    assert services(shop) == ["services.yaml"]
    commands = [shlex.split(line) for line in printed.splitlines() if line.startswith("  adk ")]
    assert [(words[1], words[-1]) for words in commands] == [
        ("web", str(shop)),
        ("api_server", str(shop)),
        ("run", str(shop)),
    ]


@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("memory://mine", "lakestore+memory://mine"),
        ("lakestore+file:///a%20b", "lakestore+file:///a%20b"),
        ("file:///a b/#1?", "lakestore+file:///a%20b/%231%3F"),
    ],
)
def test_the_lake_may_be_elsewhere(agents: Path, url: str, uri: str) -> None:
    """`--url` says where the lake is; its path is percent-encoded as ADK's option wants it."""
    words = shlex.split(init(agents, "--url", url).output.split("adk web ")[1])
    assert words[0] == f"--session_service_uri={uri}"


@pytest.mark.parametrize(
    ("url", "lake"),
    [
        ("s3://lakes/my agents", "s3://lakes/my agents"),
        ("gcs://lakes/a/", "gs://lakes/a/"),
        ("lakestore+s3://lakes/a%20b?region=eu-west-1", "s3://lakes/a b"),
    ],
)
def test_the_next_command_is_about_that_lake(agents: Path, url: str, lake: str) -> None:
    """What is printed last reads the lake that was named, bucket and all."""
    words = shlex.split(init(agents, "--url", url).output.split("lakestore sql ")[1])
    assert words[0] == lake


@pytest.mark.parametrize("url", ["lakestore+s3://lakes/a?key=k&secret=hush", "s3://k:hush@lakes/a"])
def test_secrets_are_neither_written_down_nor_shown(agents: Path, url: str) -> None:
    """A service URI ends up in files, histories and process lists."""
    stopped = init(agents, "--url", url)
    assert stopped.exit_code == 1
    assert "hush" not in stopped.output
    assert services(agents) == []


def test_a_relative_lake_is_found_from_anywhere(agents: Path, tmp_path: Path) -> None:
    """A relative URL is taken from the folder of the command, and printed absolute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        words = shlex.split(init(agents, "--url", "lake").output.split("adk web ")[1])
    assert words[0] == f"--session_service_uri=lakestore+file://{tmp_path}/lake"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no such folder"),
        (("--url", "ftp://host/lake"), "no service for ftp://"),
        (("--url", "s3://lakes/a?region=x"), "a s3:// URL has no ?"),
    ],
)
def test_what_cannot_be_done_is_said(agents: Path, arguments: tuple[str, ...], said: str) -> None:
    """A folder that is not there, or a store without a service, is an error of one line."""
    stopped = init(agents if arguments else agents / "nowhere", *arguments)
    assert stopped.exit_code == 1
    assert stopped.stderr.startswith(f"Error: {said}")
    assert services(agents) == []


def test_all_schemes_are_registered() -> None:
    """What is written names, for each service, every scheme that it understands."""
    for kind in ("session", "memory"):
        schemes = [entry["scheme"] for entry in ENTRIES if entry["type"] == kind]
        assert tuple(schemes) == SERVICE_SCHEMES


def test_adk_registers_what_was_written(agents: Path, tmp_path: Path) -> None:
    """ADK's own registry reads the file and makes our service from a URI."""
    init(agents)
    load_services_module(str(agents))
    service = get_service_registry().create_session_service(
        f"lakestore+file://{tmp_path}/lake", agents_dir=str(agents)
    )
    assert isinstance(service, LakeSessionService)
    service.lake.close()
