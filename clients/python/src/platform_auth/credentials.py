"""Reads credentials from the headers of a request. What is malformed is refused without asking the service."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from platform_auth.errors import DUPLICATE_HEADER, MISSING_TOKEN, REFUSALS, RefusedError, UnavailableError
from platform_auth.principals import Door

Text = str | bytes
# A mapping, or the pairs of ASGI and most frameworks, which show a header that arrived twice.
Headers = Mapping[str, str] | Iterable[tuple[Text, Text]]


@dataclass(frozen=True, slots=True)
class Credential:
    """A well-formed credential, which may be sent to the authentication service."""

    door: Door
    # The id in lower case; empty for a token, which its digest identifies.
    id: str
    digest: bytes = field(repr=False)
    # The headers to forward.
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class PresentedToken(Credential):
    token: str = field(repr=False)


# Visible ASCII, up to a length far above that of any credential of the service.
_WELL_FORMED = re.compile(r"[\x21-\x7e]{1,4096}")
_BEARER = re.compile(r"bearer(?: (.*))?", re.IGNORECASE | re.DOTALL)
_SAFE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
# A caller may put a secret into the wrong header, so such an id is not echoed. The service has the same rule.
_LOOKS_SECRET = re.compile(r"pa_[a-z]+_|[A-Za-z0-9_]{40}")
# What a caller that is not type-checked may cause.
UNREADABLE = (TypeError, ValueError, AttributeError)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def _names(*names: str) -> Mapping[Text, str]:
    return {spelling: name for name in names for spelling in (name, name.encode())}


_APP = _names("x-platform-app-id", "x-platform-app-key")
_APP_ID = frozenset(_names("x-platform-app-id"))
_APP_ID_LENGTH = len("x-platform-app-id")
_APP_KEY = frozenset(_names("x-platform-app-key"))
_APP_KEY_LENGTH = len("x-platform-app-key")
_NODE = _names("x-api-key")
_USER = _names("authorization")
_DOORS: Mapping[Door, Mapping[Text, str]] = {"app": _APP, "node": _NODE, "user": _USER}
_TRACING = _names("x-request-id", "traceparent")


def read_app(headers: Headers) -> Credential:
    """Raises RefusedError when an app's key is missing or malformed."""
    found = _read_once(headers, _APP)
    app_id = found.get("x-platform-app-id", "")
    key = found.get("x-platform-app-key", "")
    if not (_is_well_formed(app_id) and _is_well_formed(key)):
        raise RefusedError(REFUSALS["app"])
    forwarded = {"X-Platform-App-Id": app_id, "X-Platform-App-Key": key}
    return Credential("app", app_id.lower(), _compute_digest(key), forwarded)


def read_node(headers: Headers) -> Credential:
    """Raises RefusedError when a node's key is missing or malformed."""
    credential = _read_once(headers, _NODE).get("x-api-key", "")
    node_id, _, key = credential.partition(":")
    if not (_is_well_formed(credential) and node_id and key):
        raise RefusedError(REFUSALS["node"])
    return Credential("node", node_id.lower(), _compute_digest(key), {"X-API-Key": credential})


def read_token(headers: Headers) -> PresentedToken:
    """Raises RefusedError when a token is missing or malformed."""
    bearer = _BEARER.fullmatch(_read_once(headers, _USER).get("authorization", ""))
    if bearer is None:
        raise RefusedError(MISSING_TOKEN)
    token = (bearer[1] or "").strip(" \t")
    if not _is_well_formed(token):
        raise RefusedError(REFUSALS["user"])
    return PresentedToken("user", "", _compute_digest(token), {"Authorization": f"Bearer {token}"}, token)


def read_tracing(headers: Headers) -> dict[str, str]:
    """These headers connect the question to the request in logs and traces."""
    found: dict[str, str] = {}
    for name, value in _find(headers, _TRACING):
        if isinstance(value, str):
            found.setdefault(name, value)
    request_id = found.get("x-request-id", "")
    trace = found.get("traceparent", "")
    tracing: dict[str, str] = {}
    if _SAFE_REQUEST_ID.fullmatch(request_id) and not _LOOKS_SECRET.search(request_id):
        tracing["X-Request-Id"] = request_id
    if _TRACEPARENT.fullmatch(trace):
        tracing["traceparent"] = trace
    return tracing


def read_request_id(headers: Headers) -> str | None:
    """Returns None when the request has no id that may be shown, or its headers cannot be read."""
    try:
        return read_tracing(headers).get("X-Request-Id")
    except UNREADABLE:
        return None


def find_doors(headers: Headers, doors: Sequence[Door]) -> list[Door]:
    """Returns those of the doors for which the request presents a credential, in the given order."""
    try:
        return [door for door in doors if any(_is_for(door, value) for _, value in _find(headers, _DOORS[door]))]
    except UNREADABLE:
        # Unreadable headers count as a credential: verifying it then tells the caller.
        return list(doors[:1])


def _is_for(door: Door, value: object) -> bool:
    """Another scheme of Authorization belongs to another program."""
    return door != "user" or (isinstance(value, str) and _BEARER.fullmatch(value) is not None)


def find_app(headers: Any) -> bytes:
    """
    Returns the fingerprint of an app's key from pairs of bytes with one id and one key; any other form gives a
    fingerprint that is empty or not remembered. Every request calls it, so lengths are compared before letters.
    """
    pairs: list[tuple[Any, Any]] = headers
    if type(pairs) is not list:
        return b""
    app_id = key = None
    try:
        for name, value in pairs:
            length = len(name)
            if length == _APP_ID_LENGTH:
                if name in _APP_ID or name.lower() in _APP_ID:
                    if app_id is not None:
                        return b""
                    app_id = value
            elif length == _APP_KEY_LENGTH and (name in _APP_KEY or name.lower() in _APP_KEY):
                if key is not None:
                    return b""
                key = value
        return compute_hash(b"\n".join((app_id, key))).digest()  # type: ignore[arg-type]
    except UNREADABLE:
        return b""


def compute_fingerprint(credential: Credential) -> bytes:
    """A line feed separates the headers, because a well-formed credential has none."""
    return compute_hash("\n".join(credential.headers.values()).encode("ascii")).digest()


class _Hash(Protocol):
    def digest(self) -> bytes: ...


def _choose_hash() -> Callable[[bytes], _Hash]:
    """
    BLAKE2b is faster than OpenSSL's SHA-256, which allocates a context. Builds of Python that are restricted to FIPS
    140 have no BLAKE2b.
    """
    try:
        hashlib.blake2b(b"")
    except ValueError:
        return hashlib.sha256
    return hashlib.blake2b


compute_hash = _choose_hash()


def _is_well_formed(text: str) -> bool:
    return _WELL_FORMED.fullmatch(text) is not None


def _compute_digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("ascii")).digest()


def _read_once(headers: Headers, names: Mapping[Text, str]) -> dict[str, str]:
    """Raises UnavailableError for unreadable headers, which are not a verdict: the credential may be valid."""
    found: dict[str, str] = {}
    try:
        for name, value in _find(headers, names):
            if name in found:
                raise RefusedError(DUPLICATE_HEADER)
            if not isinstance(value, str):
                raise TypeError
            found[name] = value
    except UNREADABLE:
        cause = TypeError("the headers of the request must be a mapping or pairs, of texts or bytes")
        raise UnavailableError from cause
    return found


def _find(headers: Headers, names: Mapping[Text, str]) -> Iterator[tuple[str, object]]:
    """Headers are bytes in ASGI. Latin-1 decodes all of them, and what is not ASCII is refused afterwards."""
    # Duck typing, because the headers of the standard library and of werkzeug do not inherit from Mapping.
    items: Any = getattr(headers, "items", lambda: headers)
    pairs: Iterable[tuple[Text, object]] = items()
    for spelling, value in pairs:
        name = names.get(spelling) or names.get(spelling.lower())
        if name is not None:
            yield name, value.decode("latin-1") if isinstance(value, bytes) else value
