"""Verifies tokens locally, so that forged tokens do not reach the service."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from math import inf

import jwt

from platform_auth.answers import is_unavailable, parse_object
from platform_auth.clock_check import ClockCheck
from platform_auth.delegation import to_delegated_issuer
from platform_auth.events import Misconfigurations
from platform_auth.lease import Change, Lease
from platform_auth.options import Settings
from platform_auth.runtime import Runtime
from platform_auth.service_client import ServiceClient
from platform_auth.tokens import (
    Key,
    ParsedToken,
    find_key,
    has_readable_times,
    has_valid_signature,
    is_for,
    is_within_its_times,
    read_published_keys,
)
from platform_auth.transport import ServiceRequest

_DEFAULT_MAX_AGE_SECONDS = 300
_LONGEST_MAX_AGE_SECONDS = 3_600
# Limits the fetches that unknown kids cause.
_UNKNOWN_KID_PAUSE_SECONDS = 30
# The pause after a failed fetch, during which the service verifies the tokens.
_FAILED_FETCH_PAUSE_SECONDS = 5
# The name of this cause in configuration errors.
_JWKS = "AUTH_JWKS_URL"
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=([0-9]{1,9})")


class TokenVerdict(Enum):
    GOOD = "good"
    BAD = "bad"
    # Only the service can tell.
    UNKNOWN = "unknown"


class TokenSetting(Enum):
    """A setting that a token is compared with. When they do not fit, one of the two is wrong."""

    SECRET_KEY = "SECRET_KEY"
    AUTH_JWKS_URL = "AUTH_JWKS_URL"
    JWT_ISSUER = "JWT_ISSUER"
    JWT_AUDIENCE = "JWT_AUDIENCE"


@dataclass(frozen=True, slots=True)
class _PublishedKeys:
    keys: Sequence[jwt.PyJWK]
    sent_at: float
    max_age: float


class TokenCheck:
    """Runs on the loop of the questions. Only evictions come from the polls, with the lock of the lease held."""

    def __init__(
        self,
        settings: Settings,
        runtime: Runtime,
        client: ServiceClient,
        clock_check: ClockCheck,
        misconfigurations: Misconfigurations,
        lease: Lease,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._client = client
        self._clock_check = clock_check
        self._misconfigurations = misconfigurations
        secrets = (settings.secret_key, settings.secret_key_previous)
        self._secrets = [secret.encode() for secret in secrets if secret is not None]
        self._published: _PublishedKeys | None = None
        self._fetching: asyncio.Task[_PublishedKeys | None] | None = None
        self._fetched_for_kid_at = -inf
        self._fetch_failed_at = -inf
        # Counts the times when the keys were dropped, so that an older fetch is ignored.
        self._drops = 0
        self._lock = lease.lock
        lease.add_listener(self)

    def evict(self, change: Change) -> None:
        if change.kind == "signing_key":
            self.evict_all()

    def evict_all(self) -> None:
        self._drops += 1
        self._published = None
        self._fetched_for_kid_at = -inf

    async def check(self, token: ParsedToken, deadline: float) -> TokenVerdict | TokenSetting:
        """`deadline`: until which it waits for the keys."""
        if token.algorithm == "HS256":
            return self._verify_with_secrets(token)
        if self._settings.jwks_url is None:
            return TokenVerdict.UNKNOWN
        arrived_at = self._runtime.clocks.monotonic()
        published = await self._get_keys(deadline)
        if published and published.sent_at < arrived_at and find_key(published.keys, token.kid) is None:
            published = await self._fetch_for_kid(deadline)
        if published is None:
            return TokenVerdict.UNKNOWN
        key = find_key(published.keys, token.kid)
        # A kid that is still unknown is not proof of a forgery: a cache, or a replica without the database, may have
        # answered.
        return TokenVerdict.UNKNOWN if key is None else self._verify(token, key)

    async def _fetch_for_kid(self, deadline: float) -> _PublishedKeys | None:
        """Returns None when the keys may not be fetched again."""
        now = self._runtime.clocks.monotonic()
        if now < self._fetched_for_kid_at + _UNKNOWN_KID_PAUSE_SECONDS:
            return None
        self._fetched_for_kid_at = now
        return await self._fetch_once(deadline)

    def _verify_with_secrets(self, token: ParsedToken) -> TokenVerdict | TokenSetting:
        """While the secret is rotated, either one may have signed the token."""
        verdict: TokenVerdict | TokenSetting = TokenVerdict.UNKNOWN
        for secret in self._secrets:
            verdict = self._verify(token, secret)
            if verdict is not TokenSetting.SECRET_KEY:
                break
        return verdict

    def _verify(self, token: ParsedToken, key: Key) -> TokenVerdict | TokenSetting:
        is_signed = has_valid_signature(token, key)
        if is_signed is None:
            return TokenVerdict.UNKNOWN
        # No verifier accepts it, even with a valid signature.
        if not has_readable_times(token):
            return TokenVerdict.BAD
        is_in_time = is_within_its_times(token, self._runtime.clocks.wall())
        if not is_in_time and not self._clock_check.is_wrong:
            return TokenVerdict.BAD
        if is_signed and not self._has_form(token):
            return TokenVerdict.BAD
        setting = self._find_setting(token, is_signed)
        return setting or (TokenVerdict.GOOD if is_in_time else TokenVerdict.UNKNOWN)

    def _has_form(self, token: ParsedToken) -> bool:
        """
        Whether a delegated token names its issuer and this service alone, and no other token its issuer. The service judges
        them by the same texts, so they never show a wrong setting.
        """
        is_delegated = token.claims.get("iss") == to_delegated_issuer(self._settings.issuer)
        if token.chain is None:
            return not is_delegated
        return is_delegated and token.claims.get("aud") == self._settings.service_name

    def _find_setting(self, token: ParsedToken, is_signed: bool) -> TokenSetting | None:
        """Returns the setting that the token does not fit."""
        if not is_signed:
            return TokenSetting.SECRET_KEY if token.algorithm == "HS256" else TokenSetting.AUTH_JWKS_URL
        if token.chain is not None:
            return None
        if token.claims.get("iss") != self._settings.issuer:
            return TokenSetting.JWT_ISSUER
        return None if is_for(token, self._settings.audience) else TokenSetting.JWT_AUDIENCE

    async def _get_keys(self, deadline: float) -> _PublishedKeys | None:
        published = self._published
        now = self._runtime.clocks.monotonic()
        if published and now < published.sent_at + published.max_age:
            return published
        if now < self._fetch_failed_at + _FAILED_FETCH_PAUSE_SECONDS:
            return None
        return await self._fetch_once(deadline)

    async def _fetch_once(self, deadline: float) -> _PublishedKeys | None:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch(deadline))
        return await asyncio.shield(self._fetching)

    async def _fetch(self, deadline: float) -> _PublishedKeys | None:
        request = ServiceRequest("GET", self._settings.jwks_url or "", {"Accept": "application/json"})
        drops_before = self._drops
        timed = None
        with suppress(ConnectionError, TimeoutError):
            timed = await self._client.send_with_retry(request, deadline)
        body = timed.answer.body if timed is not None and timed.answer.status == 200 else b""
        keys = read_published_keys(parse_object(body) or {})
        if timed is None or keys is None:
            self._fetch_failed_at = self._runtime.clocks.monotonic()
            if timed is not None and not is_unavailable(timed.answer.status):
                self._misconfigurations.report(_JWKS, f"{timed.answer.status}: not a JWKS")
            return None
        self._misconfigurations.clear(_JWKS)
        max_age = _read_max_age(timed.answer.headers.get("cache-control", ""))
        published = _PublishedKeys(keys, timed.sent.monotonic, max_age)
        with self._lock:
            if self._drops != drops_before:
                return None
            self._published = published
        return published


def _read_max_age(cache_control: str) -> float:
    found = _MAX_AGE.search(cache_control)
    return min(_LONGEST_MAX_AGE_SECONDS, int(found[1]) if found else _DEFAULT_MAX_AGE_SECONDS)
