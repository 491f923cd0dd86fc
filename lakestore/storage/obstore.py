"""S3 and GCS through obstore, an extra: the same URLs, options and errors, faster on small objects.

Owns how each request is made, how it failed, and how options of fsspec's names are passed on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit

from typing_extensions import override

from lakestore.errors import InputError
from lakestore.storage.bucket import BucketStore, Page, start_before
from lakestore.storage.failures import Failure
from lakestore.storage.places import Place
from lakestore.storage.store import PAGE, StoredObject

R = TypeVar("R")

_STATUS = re.compile(r"status(?: code)?:? (\d{3})|HTTP status \D{0,20}\((\d{3})|\b(\d{3}) [A-Z][a-z]+")
_CODE = re.compile(r"<Code>(\w+)</Code>|\"reason\": ?\"(\w+)\"")
_NOT_SENT = re.compile(r"error trying to connect|Connect|dns error|Connection refused")
_NO_CREDENTIALS = re.compile(r"credential|token endpoint|metadata", re.IGNORECASE)

_CLASSES = {
    "AlreadyExistsError": "PreconditionFailed",
    "PreconditionError": "PreconditionFailed",
    "PermissionDeniedError": "AccessDenied",
    "NotImplementedError": "NotImplemented",
}
"""What obstore's own errors are by S3's names."""

_S3_NAMES = {
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
    "anon": "skip_signature",
    "endpoint_url": "endpoint",
    "region": "region",
    "requester_pays": "request_payer",
}
_GCS_NAMES = {"endpoint_url": "base_url"}


class ObstoreStore(BucketStore):
    """Objects in a bucket, by way of obstore."""

    def __init__(self, place: Place, options: Mapping[str, Any]) -> None:
        super().__init__(place)
        make = _s3 if place.protocol == "s3" else _gcs
        self._store = make(place.bucket, dict(options))
