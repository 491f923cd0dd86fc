"""What a server says of its objects by its own API, past the package."""

from __future__ import annotations

import json
import urllib.request
from typing import Any
from urllib.parse import quote

import boto3

from tests.support.servers import KEY, SECRET, Bucket


def _s3(bucket: Bucket) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=bucket.endpoint,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )


def content_type(bucket: Bucket, uri: str) -> str:
    """Return what the server says that the object is."""
    name = uri.removeprefix(bucket.at_key(""))
    if bucket.protocol == "s3":
        client = _s3(bucket)
        try:
            return str(client.head_object(Bucket=bucket.name, Key=name)["ContentType"])
        finally:
            client.close()
    address = f"{bucket.endpoint}/storage/v1/b/{bucket.name}/o/{quote(name, safe='')}"
    with urllib.request.urlopen(address, timeout=20) as reply:
        return str(json.load(reply)["contentType"])


def open_uploads(bucket: Bucket, url: str) -> list[str]:
    """Return the names below `url` of whose uploads an S3 server keeps parts."""
    below = url.removeprefix(bucket.at_key(""))
    client = _s3(bucket)
    try:
        found = client.list_multipart_uploads(Bucket=bucket.name)
        names = [each["Key"] for each in found.get("Uploads", ())]
        return [name for name in names if name.startswith(f"{below}/")]
    finally:
        client.close()
