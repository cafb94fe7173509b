"""The settings of a verifier."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx

from platform_auth.errors import VerifierConfigurationError
from platform_auth.events import LOGGER

_SERVICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]{1,4096}")
_MIN_SECRET_BYTES = 32
_MAX_PORT = 65_535
# Nothing is remembered for longer.
_MAX_OUTAGE_GRACE_SECONDS = 60
_DEMANDS: tuple[tuple[str, Callable[["Settings"], bool], str], ...] = (
    ("url (AUTH_URL)", lambda s: _is_http_url(s.url), "must be an http or https URL without a user and a query"),
    ("app_id (AUTH_APP_ID)", lambda s: _is_header_value(s.app_id), "must be the id of this service's key for auth"),
    ("app_key (AUTH_APP_KEY)", lambda s: _is_header_value(s.app_key), "must be this service's key for auth"),
    (
        "service_name (SERVICE_NAME)",
        lambda s: isinstance(s.service_name, str) and _SERVICE_NAME.fullmatch(s.service_name) is not None,
        "must be the name of this service",
    ),
    (
        "jwks_url (AUTH_JWKS_URL)",
        lambda s: s.jwks_url is None or _is_http_url(s.jwks_url),
        "must be an http or https URL without a user and a query",
    ),
    (
        "secret_key (SECRET_KEY)",
        lambda s: s.secret_key is None or len(s.secret_key.encode()) >= _MIN_SECRET_BYTES,
        "must have at least 32 bytes",
    ),
    (
        "outage_grace_seconds",
        lambda s: 0 <= s.outage_grace_seconds <= _MAX_OUTAGE_GRACE_SECONDS,
        "must be 0 to 60: nothing is remembered for longer",
    ),
    ("max_entries", lambda s: s.max_entries > 0, "must be a positive integer"),
    ("max_questions", lambda s: s.max_questions > 0, "must be a positive integer"),
)


@dataclass(frozen=True)
class Settings:
    """Raises VerifierConfigurationError, which names every setting that is not valid."""

    url: str
    app_id: str
    app_key: str = field(repr=False)
    service_name: str
    secret_key: str | None = field(default=None, repr=False)
    jwks_url: str | None = None
    issuer: str = "platform-auth"
    audience: str | None = None
    outage_grace_seconds: float = 0
    max_entries: int = 100_000
    max_questions: int = 256
    logger: logging.Logger = LOGGER

    def __post_init__(self) -> None:
        mistakes = [f"{name} {demand}" for name, is_valid, demand in _DEMANDS if not is_valid(self)]
        if mistakes:
            raise VerifierConfigurationError("; ".join(mistakes))
        object.__setattr__(self, "url", self.url.rstrip("/"))


def read_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that `platform-auth init` writes. An empty one counts as unset."""
    given = {name: variables.get(name, "").strip() for name in (*_REQUIRED, *_OPTIONAL)}
    missing = [name for name in _REQUIRED if not given[name]]
    if missing:
        raise VerifierConfigurationError(f"Not set: {', '.join(missing)}")
    settings = {option: given[name] for name, option in (_REQUIRED | _OPTIONAL).items() if given[name]}
    if "secret_key" in settings:
        # As it is: the service signs with every byte of it.
        settings["secret_key"] = variables["SECRET_KEY"]
    return settings


_REQUIRED = {
    "AUTH_URL": "url",
    "AUTH_APP_ID": "app_id",
    "AUTH_APP_KEY": "app_key",
    "SERVICE_NAME": "service_name",
}
_OPTIONAL = {
    "SECRET_KEY": "secret_key",
    "AUTH_JWKS_URL": "jwks_url",
    "JWT_ISSUER": "issuer",
    "JWT_AUDIENCE": "audience",
}


def _is_header_value(text: str) -> bool:
    return _HEADER_VALUE.fullmatch(text) is not None


def _is_http_url(text: str) -> bool:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        return False
    is_address = url.scheme in ("http", "https") and bool(url.host) and "%" not in url.host and (url.port or 1) <= _MAX_PORT
    return is_address and not url.userinfo and not re.search("[?#]", text)
