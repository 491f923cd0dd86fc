"""Artifacts over ADK's REST API: what a page of `adk web` asks for."""

from __future__ import annotations

from typing import Any

import httpx

FILES = "/apps/shop/users/ana/sessions/s1/artifacts"
PICTURE = {"inlineData": {"data": "iVBORw==", "mimeType": "image/png"}}
NAME = "q3/my picture.png"


def save_artifacts(http: httpx.Client) -> list[Any]:
    """Save two versions of a picture and a note of the user's; return what the server says."""
    said = []
    for name, artifact in ((NAME, PICTURE), (NAME, {"text": "none"}), ("user:note", {"text": "n"})):
        body = {"filename": name, "artifact": artifact, "customMetadata": {"n": 1}}
        answer = http.post(FILES, json=body)
        assert answer.status_code == 200, answer.text
        said.append(answer.json())
    return said


def show_artifacts(http: httpx.Client) -> dict[str, Any]:
    """Return all that the server tells of them."""
    paths = [
        *("", f"/{NAME}", f"/{NAME}/versions", f"/{NAME}/versions/0", "/user:note"),
        *(f"/{NAME}/versions/metadata", f"/{NAME}/versions/1/metadata"),
    ]
    answers = {path: http.get(FILES + path) for path in paths}
    assert {path: each.status_code for path, each in answers.items()} == dict.fromkeys(paths, 200)
    return {path: each.json() for path, each in answers.items()}
