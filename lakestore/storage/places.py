"""Where in which bucket a lake is. Owns how `s3://` and `gs://` URLs are read and refused.

Nothing in them is percent-decoded, as in fsspec, and no part of a refused URL that may be a secret
is quoted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakestore.errors import InputError, UnsupportedStoreError

PROTOCOLS = {"s3": "s3", "gs": "gs", "gcs": "gs"}
"""How a URL may begin, and how such a URL is written."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")
# Directory buckets list in no order and start no listing after a key.
_DIRECTORY_BUCKET = "--x-s3"


@dataclass(frozen=True, slots=True)
class Place:
    """A prefix in a bucket."""

    protocol: str
    bucket: str
    root: str
    """What every key begins with: empty, or a prefix that ends with a slash."""

    @property
    def url(self) -> str:
        """The place as people write it."""
        return f"{self.protocol}://{self.bucket}/{self.root}".rstrip("/")

    @classmethod
    def parse(cls, protocol: str, rest: str) -> Place:
        """Return the place that `<protocol>://<rest>` names.

        Raises:
            InputError: there is no bucket, or the URL holds what no URL of a lake may.
            UnsupportedStoreError: the bucket is of a kind that cannot hold a lake.
        """
        written = PROTOCOLS[protocol]
        bucket, _, path = rest.partition("/")
        if "@" in bucket or ":" in bucket:
            raise InputError(
                f"credentials and ports do not belong into a {written}:// URL; give key, secret,"
                " token or endpoint_url in storage_options"
            )
        if "?" in rest or "#" in rest:
            raise InputError(
                f"a {written}:// URL has no ? and no #; options go into storage_options"
            )
        if not bucket:
            raise InputError(f"the URL names no bucket after {protocol}://")
        if _BUCKET.fullmatch(bucket) is None:
            raise InputError(f"this cannot be the name of a bucket. {bucket=}")
        if bucket.endswith(_DIRECTORY_BUCKET):
            raise UnsupportedStoreError(
                f"a directory bucket lists its objects in no order; use a general one. {bucket=}"
            )
        parts = path.rstrip("/").split("/") if path.strip("/") else []
        if any(part in ("", ".", "..") for part in parts) or _UNPRINTABLE.search(path):
            raise InputError(
                f"a prefix has no empty parts, no . or .., and no control characters. {path=}"
            )
        return cls(written, bucket, "".join(f"{part}/" for part in parts))
