"""ADK's artifact service on fake-gcs-server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from google.adk.artifacts.gcs_artifact_service import GcsArtifactService
from google.auth.credentials import AnonymousCredentials

from tests.support.servers import Bucket, gcs_bucket

_made: set[str] = set()


@contextmanager
def gcs_artifacts(server: Bucket, name: str) -> Iterator[GcsArtifactService]:
    """Yield the service on a bucket of that name, which is made where it is not there.

    Args:
        server: Any bucket on the server.
        name: Is also a legal name of a bucket.
    """
    if name not in _made:
        gcs_bucket(int(server.endpoint.rpartition(":")[2]), name)
        _made.add(name)
    service = GcsArtifactService(
        name,
        project="tests",
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call] # ships no types
        client_options={"api_endpoint": server.endpoint},
    )
    yield service
    service.storage_client.close()
