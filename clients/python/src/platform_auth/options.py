"""The settings of a verifier."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard
from urllib.parse import urlsplit

from platform_auth.errors import VerifierConfigurationError
from platform_auth.events import LOGGER, EventLog
from platform_auth.own_key import OwnKey, is_app_key, read_key_file

_SERVICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# A number in the text of a variable.
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_MIN_SECRET_BYTES = 32
# A name in ASCII, or an IP address.
_HOST = re.compile(r"[A-Za-z0-9._:-]+")
_PATH = re.compile(r"[\x21-\x7e]*")
# urlsplit drops tabs, line breaks and leading blanks, so the asked host would differ from the written one.
_BLANK_OR_CONTROL = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
# Nothing is remembered for longer.
_MAX_OUTAGE_GRACE_SECONDS = 60
_URL_REQUIREMENT = "must be an http or https URL without a user and a query"
# Checked at run time, because types do not bind callers that are not type-checked.
_REQUIREMENTS: tuple[tuple[str, Callable[["Settings"], bool], str], ...] = (
    ("url (AUTH_URL)", lambda s: _is_http_url(s.url), _URL_REQUIREMENT),
    ("app_id (AUTH_APP_ID)", lambda s: _is_match(_ID, s.app_id), "must be a UUID: the id of this service's key for auth"),
    (
        "app_key (AUTH_APP_KEY)",
        lambda s: s.app_key_file is not None or is_app_key(s.app_key),
        "must be this service's key for auth: pa_app_…",
    ),
    (
        "app_key_file (AUTH_APP_KEY_FILE)",
        lambda s: s.app_key_file is None or (s.app_key is None and is_app_key(s.own_key.key)),
        "must be a readable file with this service's key for auth, pa_app_…, and excludes app_key",
    ),
    ("service_name (SERVICE_NAME)", lambda s: is_service_name(s.service_name), "must be the name of this service"),
    (
        "jwks_url (AUTH_JWKS_URL)",
        lambda s: s.jwks_url is None or _is_http_url(s.jwks_url),
        _URL_REQUIREMENT,
    ),
    (
        "secret_key (SECRET_KEY)",
        lambda s: s.secret_key is None or _is_secret(s.secret_key),
        "must have at least 32 bytes, in UTF-8",
    ),
    (
        "secret_key_previous (SECRET_KEY_PREVIOUS)",
        lambda s: s.secret_key_previous is None or (s.secret_key is not None and _is_secret(s.secret_key_previous)),
        "must have at least 32 bytes, in UTF-8, and needs SECRET_KEY",
    ),
    ("issuer (JWT_ISSUER)", lambda s: _is_text(s.issuer), "must be a string that is not empty"),
    ("audience (JWT_AUDIENCE)", lambda s: s.audience is None or _is_text(s.audience), "must be a string that is not empty"),
    (
        "outage_grace_seconds (AUTH_OUTAGE_GRACE_SECONDS)",
        lambda s: _is_number(s.outage_grace_seconds) and 0 <= s.outage_grace_seconds <= _MAX_OUTAGE_GRACE_SECONDS,
        "must be 0 to 60: nothing is remembered for longer",
    ),
    ("max_entries", lambda s: _is_positive_integer(s.max_entries), "must be a positive integer"),
    ("max_questions", lambda s: _is_positive_integer(s.max_questions), "must be a positive integer"),
    ("logger", lambda s: callable(getattr(s.logger, "warning", None)), "must be a logger"),
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Raises VerifierConfigurationError, which names every invalid setting."""

    url: str
    app_id: str
    app_key: str | None = field(default=None, repr=False)
    app_key_file: str | None = None
    own_key: OwnKey = field(init=False, repr=False)
    service_name: str
    secret_key: str | None = field(default=None, repr=False)
    secret_key_previous: str | None = field(default=None, repr=False)
    jwks_url: str | None = None
    issuer: str = "platform-auth"
    audience: str | None = None
    outage_grace_seconds: float = 0
    max_entries: int = 100_000
    max_questions: int = 256
    logger: logging.Logger = LOGGER

    def __post_init__(self) -> None:
        key = self.app_key if self.app_key_file is None else read_key_file(self.app_key_file)
        object.__setattr__(self, "own_key", OwnKey(self.app_id, key or "", self.app_key_file))
        mistakes = [f"{name} {requirement}" for name, is_valid, requirement in _REQUIREMENTS if not is_valid(self)]
        if mistakes:
            raise VerifierConfigurationError("; ".join(mistakes))
        object.__setattr__(self, "url", self.url.rstrip("/"))

    @cached_property
    def log(self) -> EventLog:
        def read_secrets() -> list[str]:
            secrets = (self.own_key.key, self.secret_key, self.secret_key_previous)
            return [secret for secret in secrets if secret is not None]

        return EventLog(self.logger, self.service_name, read_secrets)

    @property
    def needs_certificates(self) -> bool:
        return any(url is not None and url.lower().startswith("https:") for url in (self.url, self.jwks_url))


def is_service_name(value: object) -> bool:
    return _is_match(_SERVICE_NAME, value)


def read_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """Reads the variables that `platform-auth init` writes. An empty one counts as unset."""
    given = {name: variables.get(name, "").strip() for name in (*_REQUIRED, *_OPTIONAL)}
    missing = [name for name in _REQUIRED if not given[name] and not (name == "AUTH_APP_KEY" and given["AUTH_APP_KEY_FILE"])]
    if missing:
        raise VerifierConfigurationError(f"Not set: {', '.join(missing)}")
    settings: dict[str, Any] = {option: given[name] for name, option in (_REQUIRED | _OPTIONAL).items() if given[name]}
    grace = settings.get("outage_grace_seconds")
    if grace is not None and _NUMBER.fullmatch(grace):
        settings["outage_grace_seconds"] = float(grace)
    for name in ("SECRET_KEY", "SECRET_KEY_PREVIOUS"):
        if _OPTIONAL[name] in settings:
            # Not trimmed, because the service signs with every byte of it.
            settings[_OPTIONAL[name]] = variables[name]
    return settings


_REQUIRED = {
    "AUTH_URL": "url",
    "AUTH_APP_ID": "app_id",
    "AUTH_APP_KEY": "app_key",
    "SERVICE_NAME": "service_name",
}
_OPTIONAL = {
    "AUTH_APP_KEY_FILE": "app_key_file",
    "SECRET_KEY": "secret_key",
    "SECRET_KEY_PREVIOUS": "secret_key_previous",
    "AUTH_JWKS_URL": "jwks_url",
    "JWT_ISSUER": "issuer",
    "JWT_AUDIENCE": "audience",
    "AUTH_OUTAGE_GRACE_SECONDS": "outage_grace_seconds",
}


def _is_match(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_secret(value: object) -> bool:
    return _is_text(value) and len(value.encode()) >= _MIN_SECRET_BYTES


def _is_text(value: object) -> TypeGuard[str]:
    """
    Whether the text can be encoded: os.environ has surrogates in place of invalid bytes, and the error of encode()
    would contain the secret.
    """
    try:
        return isinstance(value, str) and value.encode() != b""
    except UnicodeEncodeError:
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_positive_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_http_url(text: object) -> bool:
    if not isinstance(text, str) or _BLANK_OR_CONTROL.search(text):
        return False
    try:
        url = urlsplit(text)
        host = (url.hostname or "").encode("idna").decode("ascii")
        # Reading an invalid port raises an error.
        is_address = url.scheme in ("http", "https") and bool(_HOST.fullmatch(host)) and url.port != 0
    except ValueError:
        return False
    return is_address and "@" not in url.netloc and bool(_PATH.fullmatch(url.path)) and not re.search("[?#]", text)
