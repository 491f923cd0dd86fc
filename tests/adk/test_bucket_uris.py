"""Service URIs of lakes in buckets: what stands in the query, and who shares a lake."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from lakestore import LakeSessionService
from lakestore.adk.uris import ServiceUri
from lakestore.errors import InputError
from tests.support.servers import Bucket


def uri_of(bucket: Bucket, url: str, **more: str) -> str:
    """Return a service URI with the bucket's options in its query."""
    options = {
        name: value for name, value in bucket.storage_options.items() if isinstance(value, str)
    }
    query = "&".join(
        f"{name}={quote(value, safe='')}" for name, value in {**options, **more}.items()
    )
    return f"lakestore+{url}?{query}"


@pytest.mark.parametrize("server", ["moto", "fake_gcs"])
async def test_a_service_works_in_a_bucket(request: pytest.FixtureRequest, server: str) -> None:
    """ADK's registry calls the service with a URI, in which the options are."""
    bucket: Bucket = request.getfixturevalue(server)
    more = {"region": "us-east-1"} if server == "moto" else {}
    uri = uri_of(bucket, bucket.fresh(), **more)
    service = LakeSessionService(uri=uri, agents_dir="agents")
    session = await service.create_session(app_name="app", user_id="ana", state={"a": 1})
    other = LakeSessionService(uri=uri)
    found = await other.get_session(app_name="app", user_id="ana", session_id=session.id)

    assert found is not None
    assert found.state == {"a": 1}
    assert other.lake is service.lake
    service.lake.close()


async def test_other_options_are_another_lake(moto: Bucket) -> None:
    """Two users of one bucket do not share connections."""
    url = moto.fresh()
    one = LakeSessionService(uri=uri_of(moto, url, region="us-east-1"))
    two = LakeSessionService(uri=uri_of(moto, url, region="us-east-1", key="another"))

    assert one.lake is not two.lake
    one.lake.close()
    two.lake.close()


def test_values_are_percent_decoded_and_typed() -> None:
    """A secret may hold any character, and a flag is a flag."""
    uri = "lakestore+s3://bucket/a%20b?secret=a%2Bb%2F%3D%26&anon=false&durability=turn"
    named = ServiceUri.parse(uri, {})

    assert named.url == "s3://bucket/a b"
    assert dict(named.storage_options) == {"secret": "a+b/=&", "anon": False}
    assert named.settings == {"durability": "turn"}
    assert "a+b" not in repr(named)


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("lakestore+s3://bucket?regoin=hidden", r"regoin.*known=.*region"),
        ("lakestore+gs://bucket?key=hidden", r"key.*known=.*token"),
        ("lakestore+file:///lake?key=hidden", r"key.*known=\['durability', "),
        ("lakestore+s3://bucket?client_kwargs=hidden", "a URI cannot hold"),
        ("lakestore+s3://bucket?anon=hidden", "true or false"),
    ],
)
def test_what_is_not_known_is_refused(uri: str, says: str) -> None:
    """An unknown option is refused with those that are known, and no value is shown."""
    with pytest.raises(InputError, match=says) as caught:
        ServiceUri.parse(uri, {})
    assert "hidden" not in str(caught.value)


def test_credentials_before_the_bucket_are_refused() -> None:
    """A URI is shown in logs, and its place is no place for a secret."""
    with pytest.raises(InputError, match="storage_options") as caught:
        LakeSessionService(uri="lakestore+s3://key:hidden@bucket/lake")
    assert "hidden" not in str(caught.value)
