"""How many examples hypothesis tries, the servers of a session, and when garbage is looked for.

`HYPOTHESIS_PROFILE` is default, ci or nightly.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support import ceph as cephs
from tests.support import servers
from tests.support.servers import RUNNING, Bucket

# Rules of contracts stand outside test modules, and say what differed all the same.
pytest.register_assert_rewrite("tests.contracts")

# A shell's background job ignores Ctrl-C, and so would the commands that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A commit waits for the disk, so neither an example's time nor a slow start says anything.
_COMMON = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])

# The same examples every time: a red run is then the change's doing. The others explore.
settings.register_profile(
    "default", _COMMON, derandomize=True, max_examples=20, stateful_step_count=25
)
settings.register_profile("ci", _COMMON, max_examples=300, stateful_step_count=50)
settings.register_profile("nightly", _COMMON, max_examples=5000, stateful_step_count=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave what is imported and collected to itself: it stays, and is much to look through."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A bucket on moto."""
    with servers.moto(tmp_path_factory.mktemp("moto")) as bucket:
        RUNNING["moto"] = bucket
        yield bucket


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A bucket on SeaweedFS."""
    with servers.seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as bucket:
        RUNNING["seaweedfs"] = bucket
        yield bucket


@pytest.fixture(scope="session")
def fake_gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A bucket on fake-gcs-server."""
    with servers.fake_gcs(tmp_path_factory.mktemp("fake-gcs")) as bucket:
        RUNNING["fake_gcs"] = bucket
        yield bucket


@pytest.fixture(scope="session")
def ceph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """A bucket on Ceph; who asks for it is marked so, as it must be installed."""
    with cephs.ceph(tmp_path_factory.mktemp("ceph")) as bucket:
        RUNNING["ceph"] = bucket
        yield bucket
