"""Tokens that no service issues. Each gets a verdict, and none an exception."""

import base64
import json
from typing import Any

import jwt
import pytest

from platform_auth.tokens import (
    find_key,
    has_readable_times,
    has_valid_signature,
    is_for,
    is_within_its_times,
    parse_token,
    read_published_keys,
)

SECRET = b"a-secret-key-of-more-than-32-characters"
NOW = 1_767_225_600
CLAIMS = {"iss": "platform-auth", "sub": "Alice", "sid": "S1", "exp": NOW + 60}


def sign(claims: dict[str, Any] | bytes, secret: bytes = SECRET) -> str:
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    return jwt.PyJWS().encode(payload, secret, "HS256")


def encode(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def is_good(token: str, audience: str | None = None) -> bool:
    parsed = parse_token(token)
    assert parsed is not None
    is_valid = has_valid_signature(parsed, SECRET) is True and is_for(parsed, audience)
    return is_valid and has_readable_times(parsed) and is_within_its_times(parsed, NOW)


def test_accepts_what_the_service_issues() -> None:
    parsed = parse_token(sign(CLAIMS))
    assert parsed is not None
    assert (parsed.user_id, parsed.session_id) == ("alice", "s1")
    assert is_good(sign(CLAIMS))
    assert "Alice" not in repr(parsed)
    assert sign(CLAIMS) not in repr(parsed)


@pytest.mark.parametrize("expiry", [NOW - 60, 0, -1, True, None, "9999999999", [], {}, -1e300])
def test_refuses_an_expiry_that_is_past_or_not_a_number(expiry: Any) -> None:
    assert not is_good(sign({**CLAIMS, "exp": expiry}))


@pytest.mark.parametrize("expiry", [NOW - 59, NOW + 0.5, 10**400])
def test_takes_any_number_that_is_not_past(expiry: Any) -> None:
    assert is_good(sign({**CLAIMS, "exp": expiry}))


def test_demands_the_configured_audience_and_no_other() -> None:
    for audience in ("recipes", ["other", "recipes"]):
        assert is_good(sign({**CLAIMS, "aud": audience}), "recipes")
        assert not is_good(sign({**CLAIMS, "aud": audience}))
    for audience in ("other", "recipes2", ["other"], [], None, {}, {"recipes": 1}):
        assert not is_good(sign({**CLAIMS, "aud": audience}), "recipes")
    assert not is_good(sign(CLAIMS), "recipes")


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "a.b.c.d",
        "=.=.=",
        encode(b"[" * 3_000) + ".e30.e30",
        encode(b'{"a":' * 600) + ".e30.e30",
        encode(b"null") + ".e30.e30",
        encode(b"\xff") + ".e30.e30",
        encode(b"1" * 3_000) + ".e30.e30",
        encode(b'{"alg":"none"}') + ".e30.",
        encode(b'{"alg":["HS256"]}') + ".e30.e30",
        encode(b'{"alg":{}}') + ".e30.e30",
        encode(b'{"alg":"HS256","kid":[]}') + ".e30.e30",
        encode(b'{"alg":"HS256","crit":[{}]}') + ".e30.e30",
        encode(b'{"alg":"HS256","crit":["b64"],"b64":false}') + "..e30",
        encode(b'{"alg":"HS256","b64":false}') + ".e30.e30",
        sign(b"[" * 2_500),
        sign(b"null"),
        sign(b"\xff\xfe"),
        sign(json.dumps(CLAIMS).encode("utf-16")),
        sign(b"\xef\xbb\xbf" + json.dumps(CLAIMS).encode()),
        sign({**CLAIMS, "exp": float("inf")}),
        sign({**CLAIMS, "exp": float("nan")}),
        sign(CLAIMS) + "=",
        sign(CLAIMS) + ".e30",
        sign(CLAIMS) + "\n",
        sign({**CLAIMS, "sub": 1}),
        sign({**CLAIMS, "sid": None}),
        sign({"iss": "platform-auth"}),
    ],
)
def test_does_not_take_other_text_for_a_token(token: str) -> None:
    assert parse_token(token) is None


def test_cannot_judge_with_a_key_of_another_kind() -> None:
    """A PEM that was configured as the secret is a mistake of the configuration, not of the token."""
    parsed = parse_token(sign(CLAIMS))
    assert parsed is not None
    assert has_valid_signature(parsed, b"-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----") is None
    assert has_valid_signature(parsed, SECRET + b"x") is False


@pytest.mark.parametrize(
    "jwks",
    [
        {"keys": []},
        {"keys": [{}]},
        {"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]},
        {"keys": [{"kty": "EC", "crv": "P-256", "x": 1, "y": []}]},
        {"keys": [{"kty": "oct", "k": "AA"}]},
        {"keys": [{"kty": ["EC"], "crv": "P-256"}]},
    ],
)
def test_skips_keys_that_it_cannot_use(jwks: dict[str, Any]) -> None:
    assert read_published_keys(jwks) == []


@pytest.mark.parametrize("jwks", [{}, {"keys": None}, {"keys": {}}, {"keys": [None]}, {"keys": [{}, 1]}, {"keys": [[]]}])
def test_does_not_take_other_json_for_a_jwks(jwks: dict[str, Any]) -> None:
    assert read_published_keys(jwks) is None


def test_finds_a_key_only_when_one_is_meant() -> None:
    keys = [_publish("1"), _publish("2"), _publish("2")]
    assert find_key(keys, "1") is keys[0]
    assert find_key(keys, "2") is None
    assert find_key(keys, None) is None
    assert find_key(keys[:1], None) is keys[0]
    assert find_key(keys, ["1"]) is None


def _publish(kid: str) -> jwt.PyJWK:
    point = {
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    }
    (key,) = read_published_keys({"keys": [{"kty": "EC", "crv": "P-256", "kid": kid, **point}]}) or []
    return key
