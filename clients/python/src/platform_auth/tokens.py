"""
Verifies access tokens as far as that is possible without the service. It refuses only what is proven to be forged.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import Any, cast

import jwt

from platform_auth.answers import parse_object
from platform_auth.clock_check import CLOCK_TOLERANCE_SECONDS
from platform_auth.delegation import DELEGATED_TYPE, read_chain
from platform_auth.principals import DelegationLink

_ALGORITHMS = ("HS256", "ES256")
_JWS = jwt.PyJWS(algorithms=_ALGORITHMS)
# JWS Compact Serialization: base64url without padding (RFC 7515 §2).
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
# Members of the header that change what is signed, which tokens of the service do not have.
_EXTENSIONS = ("crit", "b64")

Key = bytes | jwt.PyJWK


@dataclass(frozen=True, slots=True)
class ParsedToken:
    """The unverified claims of a token."""

    text: str = field(repr=False)
    algorithm: str
    kid: object
    user_id: str
    session_id: str
    claims: Mapping[str, Any] = field(repr=False)
    # Of a delegated token.
    chain: tuple[DelegationLink, ...] | None = None


def parse_token(text: str) -> ParsedToken | None:
    """Returns None when this is not a token of the service."""
    if not _COMPACT.fullmatch(text):
        return None
    try:
        parts = _JWS.decode_complete(text, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        return None
    header: Mapping[str, Any] = parts["header"]
    claims = parse_object(parts["payload"]) or {}
    algorithm, user_id, session_id = header.get("alg"), claims.get("sub"), claims.get("sid")
    if algorithm not in _ALGORITHMS or any(name in header for name in _EXTENSIONS):
        return None
    if not isinstance(user_id, str) or not isinstance(session_id, str):
        return None
    chain = read_chain(claims.get("act")) if header.get("typ") == DELEGATED_TYPE else None
    # Under HS256 every holder of the secret could sign any chain.
    if header.get("typ") == DELEGATED_TYPE and (chain is None or algorithm != "ES256"):
        return None
    return ParsedToken(text, algorithm, header.get("kid"), user_id.lower(), session_id.lower(), claims, chain)


def has_valid_signature(token: ParsedToken, key: Key) -> bool | None:
    """Returns None when the key cannot verify it."""
    try:
        _JWS.decode_complete(token.text, key, algorithms=[token.algorithm])
    except jwt.InvalidTokenError:
        return False
    except jwt.PyJWTError:
        return None
    return True


def has_readable_times(token: ParsedToken) -> bool:
    claims = token.claims
    return "exp" in claims and all(_is_number(claims[name]) for name in ("exp", "nbf", "iat") if name in claims)


def is_for(token: ParsedToken, audience: str | None) -> bool:
    if audience is None:
        return "aud" not in token.claims
    audiences = token.claims.get("aud")
    return audience in (audiences if isinstance(audiences, list) else [audiences])


def is_within_its_times(token: ParsedToken, now: float) -> bool:
    claims, seconds = token.claims, floor(now)
    is_expired = claims["exp"] <= seconds - CLOCK_TOLERANCE_SECONDS
    return not is_expired and claims.get("nbf", seconds) <= seconds + CLOCK_TOLERANCE_SECONDS


def read_published_keys(jwks: Mapping[str, Any]) -> list[jwt.PyJWK] | None:
    """Returns the keys of a JWKS (RFC 7517) that verify ES256, and None when this is not a JWKS."""
    listed = jwks.get("keys")
    entries = cast("list[object]", listed) if isinstance(listed, list) else [None]
    if not all(isinstance(entry, dict) for entry in entries):
        return None
    keys: list[jwt.PyJWK] = []
    for entry in cast("list[dict[str, Any]]", entries):
        if entry.get("kty") != "EC" or entry.get("crv") != "P-256":
            continue
        if entry.get("use", "sig") != "sig" or entry.get("alg", "ES256") != "ES256":
            continue
        try:
            keys.append(jwt.PyJWK(entry, algorithm="ES256"))
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
    return keys


def find_key(keys: Sequence[jwt.PyJWK], kid: object) -> jwt.PyJWK | None:
    """Returns None also when several keys match."""
    found = [key for key in keys if kid is None or key.key_id == kid]
    return found[0] if len(found) == 1 else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
