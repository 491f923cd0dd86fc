"""moto's server, with the one thing mended that a test of races cannot do without.

moto 5.2 looks whether a key is there and then writes it, in as many threads as there are requests,
so now and then a conditional PUT has two winners. Here one PUT runs after the other.
"""

from __future__ import annotations

import sys
from threading import Lock
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

_put = S3Response.put_object
_one_at_a_time = Lock()


def _put_object(self: S3Response) -> Any:
    with _one_at_a_time:
        return _put(self)


if __name__ == "__main__":
    S3Response.put_object = _put_object  # type: ignore[method-assign]  # what this file is for
    main(sys.argv[1:])
