"""What an answer of the service means: a verdict, no verdict, or a mistake of the configuration."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast, get_args

from platform_auth.lease import Change, ChangedKind, Renewal
from platform_auth.principals import Door
from platform_auth.transport import ServiceAnswer

_KINDS = frozenset(get_args(ChangedKind))
# The 401s that are verdicts at each door. Any other 401 is about this verifier, or comes from another program.
_VERDICTS: Mapping[Door, frozenset[str]] = {
    "app": frozenset({"invalid_app_credentials"}),
    "node": frozenset({"invalid_node_credentials"}),
    "user": frozenset({"invalid_access_token", "missing_access_token"}),
}
# These 400s are verdicts, because they are about the presented credential.
_UNREADABLE_CREDENTIAL = frozenset({"malformed_request", "duplicate_header"})
_MAX_REMEMBER_SECONDS = 60
_MAX_DURATION_MS = 1e9
_WHOLE_NUMBER = re.compile(r"[0-9]{1,9}")
# A code of the service's catalogue. Nothing else of an answer is logged, because a server may echo a credential.
_CODE = re.compile(r"(?=.{1,60}\Z)[a-z]+(?:_[a-z]+)*")
_WRONG_KEY = "AUTH_APP_ID and AUTH_APP_KEY: the key was rotated or revoked. Run platform-auth apply, and restart"
_WRONG_ADDRESS = "AUTH_URL must be the address of platform-auth, for services (INTERNAL_PORT), without a path"


class Verdict(Enum):
    NO = "no"
    # The service could not decide.
    UNKNOWN = "unknown"
    # A valid delegated token at a route that does not accept one.
    DELEGATED = "delegated"


@dataclass(frozen=True, slots=True)
class Yes:
    body: Mapping[str, Any]
    fresh_for: float
    # 0 when the yes must not be remembered.
    remember_for: float
    # Whether the credential is the key before the last rotation.
    is_previous_key: bool = False


@dataclass(frozen=True, slots=True)
class Misconfigured:
    """The service did not understand the question, or is another program."""

    detail: str


def judge(door: Door, answer: ServiceAnswer) -> Yes | Misconfigured | Verdict:
    status = answer.status
    body = parse_object(answer.body) or {}
    code = body.get("code")
    if status == 401 and isinstance(code, str) and code in _VERDICTS[door]:
        return Verdict.NO
    if status == 431 or (status == 400 and isinstance(code, str) and code in _UNREADABLE_CREDENTIAL):
        return Verdict.NO
    if is_unavailable(status):
        return Verdict.UNKNOWN
    if status != 200:
        return Misconfigured(_describe(status, to_loggable(code)))
    if body.get("valid") is not True:
        return Misconfigured(_describe(status, "not the body of a validation"))
    fresh_for_ms = to_whole_number(answer.headers.get("x-platform-fresh-for-ms"))
    # Zero is valid: the service decided, but grants no lease at the moment.
    if fresh_for_ms is None:
        return Misconfigured(_describe(status, "no X-Platform-Fresh-For-Ms"))
    is_previous_key = answer.headers.get("x-platform-key") == "previous"
    return Yes(body, fresh_for_ms / 1_000, _read_remember_for(answer.headers), is_previous_key)


def is_own_key_refused(answer: ServiceAnswer) -> bool:
    """
    Whether the service refused this verifier's own key. Not for questions about an app, whose refusal has the same
    code.
    """
    return answer.status == 401 and (parse_object(answer.body) or {}).get("code") in _VERDICTS["app"]


def is_unavailable(status: int) -> bool:
    """Whether the service could not decide, so that its answer says nothing about the credential."""
    return status == 429 or status >= 500


def _read_remember_for(headers: Mapping[str, str]) -> float:
    if headers.get("x-platform-remember") != "yes":
        return 0
    return min(_MAX_REMEMBER_SECONDS, to_whole_number(headers.get("x-platform-expires-in")) or 0)


def read_poll_answer(answer: ServiceAnswer) -> Renewal | Misconfigured | Verdict:
    """Returns Verdict.UNKNOWN when the service could not decide."""
    status = answer.status
    body = parse_object(answer.body) or {}
    if is_unavailable(status):
        return Verdict.UNKNOWN
    if status != 200:
        return Misconfigured(_describe(status, to_loggable(body.get("code"))))
    cursor, reset, changes = body.get("cursor"), body.get("reset"), body.get("changes")
    lease, fresh_for = _to_duration(body.get("lease_ms")), _to_duration(body.get("fresh_for_ms"))
    known = _read_changes(changes)
    if not isinstance(cursor, str) or not isinstance(reset, bool) or known is None or lease is None or fresh_for is None:
        return Misconfigured(_describe(status, "not an answer to a poll"))
    return Renewal(cursor, reset, lease, fresh_for, known)


def _read_changes(changes: object) -> list[Change] | None:
    """Skips kinds that this version does not know. Returns None when this is not a list of changes."""
    if not isinstance(changes, list):
        return None
    known: list[Change] = []
    for change in cast("list[object]", changes):
        if not isinstance(change, dict):
            return None
        fields = cast("dict[str, object]", change)
        kind, name = fields.get("kind"), fields.get("id")
        if not isinstance(kind, str) or not isinstance(name, str):
            return None
        if kind in _KINDS:
            known.append(Change(kind, name.lower()))  # type: ignore[arg-type]
    return known


def parse_object(text: bytes) -> dict[str, Any] | None:
    """Returns None when this is not a JSON object in UTF-8 (RFC 8259), or is nested too deeply."""
    try:
        # Decoded first, because the parser takes bytes in other encodings too; by default it also accepts NaN and
        # Infinity.
        value = json.loads(text.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def describe_answer(answer: ServiceAnswer) -> str:
    """Returns the status and the code of an answer that was not expected."""
    return _describe(answer.status, to_loggable((parse_object(answer.body) or {}).get("code")))


def _describe(status: int, detail: str) -> str:
    advice = _WRONG_ADDRESS if status == 404 else _WRONG_KEY if detail == "invalid_app_credentials" else None
    return f"{status}: {detail} ({advice})" if advice else f"{status}: {detail}"


def to_loggable(code: object) -> str:
    return code if isinstance(code, str) and _CODE.fullmatch(code) else "not a known problem"


def _to_duration(value: object) -> float | None:
    """Converts milliseconds to seconds. True, NaN and infinity are not durations."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_DURATION_MS:
        return None
    return value / 1_000


def to_whole_number(text: str | None) -> int | None:
    return int(text) if text is not None and _WHOLE_NUMBER.fullmatch(text) else None
