"""Between ADK's objects and what is stored. Owns coercion and what happens to unreadable events."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from google.adk.events.event import Event
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from lakestore.errors import InputError
from lakestore.history.drafts import Draft
from lakestore.log.keys import SessionKey, commit_key
from lakestore.tables.events import EventRow, event_of
from lakestore.tables.state import TEMP_PREFIX, finite, refuse_halves
from lakestore.tables.thin import field

logger = logging.getLogger(__name__)

UNREADABLE = "lakestore_unreadable"
"""Key in `custom_metadata` of an event that stands for one this version of ADK cannot parse."""

_REPAIRS = 16

M = TypeVar("M", bound=BaseModel)


def json_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state or state delta as JSON types, without `temp:` keys.

    As ADK's `_session_util.make_json_safe_state` does it: rich types become their JSON forms, and
    what has none becomes its `repr`, with a warning. NaN and infinities, which JSON lacks, become
    the strings "NaN", "Infinity" and "-Infinity", as in proto3's JSON.

    Raises:
        InputError: it is no mapping, a key is no text, or a value cannot be written at all.
    """
    return _json_object("state", state, TEMP_PREFIX)


def json_metadata(metadata: Mapping[str, object]) -> dict[str, Any]:
    """Return custom metadata as JSON types, see `json_state`; every key is kept.

    Raises:
        InputError: as `json_state`.
    """
    return _json_object("metadata", metadata)


def _json_object(what: str, given: Mapping[str, Any], besides: str | None = None) -> dict[str, Any]:
    """Return a mapping as JSON types, without keys that begin with `besides`."""
    if not isinstance(given, Mapping):
        raise InputError(f"a {what} is a dict. type={type(given).__name__}")
    kept: dict[str, Any] = {}
    for key, value in given.items():
        if not isinstance(key, str):
            raise InputError(f"{what} keys are texts. key={key!r} type={type(key).__name__}")
        if besides is None or not key.startswith(besides):
            kept[key] = _json_value(what, key, value)
    return kept


def _json_value(what: str, key: str, value: object) -> Any:
    try:
        try:
            plain = to_jsonable_python(value)
        except PydanticSerializationError:
            plain = to_jsonable_python(value, serialize_unknown=True)
            logger.warning(
                "a %s value has no JSON form and is stored as its repr. type=%s",
                what,
                type(value).__qualname__,
            )
        plain = finite(plain)
        refuse_halves({key: plain})
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"a {what} value cannot be stored. {key=} type={type(value).__name__} reason={error}"
        ) from error
    return plain


def to_draft(event: Event) -> Draft:
    """Return what is to be stored of `event`: everything but `temp:` keys.

    Raises:
        InputError: the event cannot be written as JSON, or its time is not finite.
    """
    given = _checked_delta(event)
    stored = json_state(given)
    if given:
        # Always, rather than when they differ: given values may compare in any way.
        actions = event.actions.model_copy(update={"state_delta": stored})
        event = event.model_copy(update={"actions": actions})
    try:
        # By alias: some of ADK's models, such as its auth schemes, can only be read back so.
        text = event.model_dump_json(exclude_none=True, by_alias=True, warnings="error")
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"an event cannot be written as JSON. event_id={event.id!r} {reason_of(error)}"
        ) from None
    return Draft(event.id, text, stored, given)


def _checked_delta(event: Event) -> dict[str, Any]:
    """Return a copy of the event's state delta, sure that its fields have the types they name.

    Pydantic does not check what is assigned to a field.
    """
    event_id = event.id
    timestamp: object = event.timestamp
    delta: object = getattr(event.actions, "state_delta", None)
    if not isinstance(timestamp, int | float) or not _is_finite(timestamp):
        raise InputError(f"an event needs a finite timestamp. {event_id=}")
    if not isinstance(delta, dict):
        raise InputError(f"an event needs a state delta that is a dict. {event_id=}")
    return dict(delta)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer that no float can hold
        return False


def reason_of(error: Exception) -> str:
    """Return why pydantic refused, without the values that its warnings quote."""
    text = str(error)
    return "" if "input_value" in text else f"reason={text}"


def to_event(row: EventRow) -> Event:
    """Return the event in `row`, which must be of kind `event`.

    Fields that this ADK does not know are dropped with a warning; they stay stored. An event that
    still cannot be parsed comes back as an empty one with its id, author, invocation and time, and
    `custom_metadata[UNREADABLE]` set, so that it does not take its session along.
    """
    text = row.event_json or "{}"
    try:
        return Event.model_validate_json(text)
    except ValidationError as error:
        data = event_of(row)
        if data and error.errors()[0]["type"] == "json_invalid":
            # Pydantic's parser nests less deep than Python's.
            try:
                return Event.model_validate(data)
            except ValidationError as again:
                error = again
        return _without_unknown(data, error, row)


def _without_unknown(data: dict[str, Any], error: ValidationError, row: EventRow) -> Event:
    key = commit_key(SessionKey(row.app_name, row.user_id, row.session_id).log, row.version)
    known = without_unknown(Event, data, error)
    if known is not None:
        event, dropped = known
        logger.warning(
            "an event has fields that this ADK does not know. fields=%r key=%r", dropped, key
        )
        return event
    logger.warning("an event cannot be parsed by this ADK and is returned empty. key=%r", key)
    kept = {name: field(data, name) for name in ("id", "author", "invocation_id", "branch")}
    when = data.get("timestamp")
    return Event.model_validate(
        {
            **{name: value for name, value in kept.items() if isinstance(value, str)},
            "timestamp": float(when) if isinstance(when, int | float) else 0.0,
            "custom_metadata": {UNREADABLE: True},
        }
    )


def without_unknown(
    model: type[M], data: dict[str, Any], error: ValidationError
) -> tuple[M, list[str]] | None:
    """Return what `data` is without fields that this ADK does not know, and the names of these.

    Args:
        model: What it is to be.
        data: Is changed.
        error: What is wrong with it.

    Returns:
        None where more is wrong than that.
    """
    dropped: set[str] = set()
    for _ in range(_REPAIRS):
        unknown = [e["loc"] for e in error.errors() if e["type"] == "extra_forbidden"]
        if not sum(_drop(data, loc) for loc in unknown):
            break
        # Not where they are: the path may lead through what people named.
        dropped |= {str(loc[-1]) for loc in unknown}
        try:
            return model.model_validate(data), sorted(dropped)
        except ValidationError as again:
            error = again
    return None


def _drop(data: Any, loc: tuple[int | str, ...]) -> bool:
    """Remove what is at `loc`, where fields stand by name or alias; tell whether it was there."""
    *path, last = loc
    for step in path:
        found = _step(data, step)
        # Tags of unions stand in a location without standing in the data.
        data = data if found is None else found
    if isinstance(data, dict):
        for name in (last, _snake(last)):
            if name in data:
                del data[name]
                return True
    return False


def _step(data: Any, step: int | str) -> Any:
    if isinstance(data, list) and isinstance(step, int) and step < len(data):
        return data[step]
    if isinstance(data, dict):
        return data.get(step, data.get(_snake(step)))
    return None


def _snake(name: int | str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", str(name)).lower()
