"""Ceph on this machine: a monitor, one OSD that stores in memory, and the gateway that speaks S3.

Owns how they are set up and started, on free loopback ports, without keys and without a manager.
The programs are Debian's: `make ceph` installs them. It is no part of `tests.support.servers`, as
it takes several programs and seconds to start.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from tests.support.children import LOG, end, last_words, start
from tests.support.servers import KEY, SECRET, Bucket, free_ports, made, s3_bucket

_PATIENCE = 60.0
_SETTINGS = """\
[global]
fsid = {cluster}
mon host = {monitor}
public addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
# The gateway asks for a secure one unless it is told, and without keys there is none.
ms mon client mode = crc
admin socket =
pid file =
log file =
log to stderr = true
err to stderr = true
debug rocksdb = 0/0
mon data = {folder}/mon
osd data = {folder}/osd
rgw data = {folder}/rgw
osd objectstore = memstore
memstore device bytes = 4294967296
osd crush chooseleaf type = 0
osd pool default size = 1
osd pool default pg num = 8
osd pool default pg autoscale mode = off
mon allow pool size one = true
# Each pool is made when it is first used; by default the monitor then waits for a second or two.
paxos propose interval = 0.05
rgw frontends = beast endpoint=127.0.0.1:{port}
"""


def _setting_up(folder: Path, *command: str) -> None:
    """Run to its end a command of Ceph's on the cluster in `folder`."""
    with (folder / LOG).open("ab") as log:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "CEPH_CONF": str(folder / "ceph.conf")},
            stdout=log,
            stderr=log,
            timeout=_PATIENCE,
            check=False,
        )
    assert done.returncode == 0, f"{command[0]} failed:\n{last_words(folder)}"


@contextmanager
def ceph(folder: Path) -> Iterator[Bucket]:
    """Run Ceph in `folder` and yield its bucket; end it, and only it, afterwards."""
    for program in ("ceph-mon", "ceph-osd", "radosgw"):
        assert shutil.which(program), f"{program} is missing: `make ceph` says how to install it"
    first, second, port = free_ports(3)
    monitor = f"[v2:127.0.0.1:{first},v1:127.0.0.1:{second}]"
    cluster, disk = str(uuid4()), str(uuid4())
    settings = _SETTINGS.format(cluster=cluster, monitor=monitor, folder=folder, port=port)
    (folder / "ceph.conf").write_text(settings)
    for part in ("mon", "osd", "rgw"):
        (folder / part).mkdir()

    with ExitStack() as running:

        def daemon(program: str, *options: str) -> subprocess.Popen[bytes]:
            process = start([program, "-c", "ceph.conf", "-f", *options], folder)
            running.callback(end, process)
            return process

        create = ("monmaptool", "--create", "--fsid", cluster, "--addv", "a", monitor, "monmap")
        _setting_up(folder, *create)
        _setting_up(folder, "ceph-mon", "--mkfs", "-i", "a", "--monmap", "monmap")
        daemon("ceph-mon", "-i", "a")
        _setting_up(folder, "ceph", "osd", "new", disk)
        _setting_up(folder, "ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", disk)
        daemon("ceph-osd", "-i", "0")
        user = ("--uid", KEY, "--display-name", KEY, "--access-key", KEY, "--secret", SECRET)
        _setting_up(folder, "radosgw-admin", "user", "create", *user)
        gateway = daemon("radosgw", "-n", "client.rgw")
        bucket = made(gateway, port, s3_bucket)
        assert bucket is not None, f"radosgw does not run:\n{last_words(folder)}"
        yield bucket
