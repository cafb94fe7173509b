"""Answers that no service gives, in addition to those of the conformance suite."""

import json
from typing import Any

import pytest

from platform_auth.answers import Misconfigured, Verdict, Yes, judge, read_poll_answer
from platform_auth.lease import Renewal
from platform_auth.transport import ServiceAnswer

POLL = {"cursor": "1", "reset": False, "lease_ms": 500, "fresh_for_ms": 400, "changes": []}


def answer(status: int, body: Any, headers: dict[str, str] | None = None) -> ServiceAnswer:
    return ServiceAnswer(status, headers or {}, body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.mark.parametrize("field", list(POLL))
@pytest.mark.parametrize("value", [None, True, -1, float("nan"), float("inf"), 10**400, [], {}, [1], [{}], [{"kind": []}]])
def test_takes_over_no_poll_with_a_field_that_it_cannot_read(field: str, value: Any) -> None:
    if (field, value) in (("reset", True), ("changes", [])):
        return
    assert isinstance(read_poll_answer(answer(200, {**POLL, field: value})), Misconfigured)


def test_compares_ids_in_lower_case() -> None:
    renewal = read_poll_answer(answer(200, {**POLL, "changes": [{"kind": "node", "id": "01985F4E"}]}))
    assert isinstance(renewal, Renewal)
    assert [change.id for change in renewal.changes] == ["01985f4e"]


@pytest.mark.parametrize("body", [b"", b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b"[]", b"null", b"1" * 10_000, b'{"a":NaN}'])
def test_takes_text_that_is_not_a_json_object_for_another_program(body: bytes) -> None:
    for status in (200, 400, 401, 403, 404):
        assert isinstance(judge("app", answer(status, body)), Misconfigured)
        assert isinstance(read_poll_answer(answer(status, body)), Misconfigured)
    assert judge("app", answer(502, body)) is Verdict.UNKNOWN
    assert read_poll_answer(answer(502, body)) is Verdict.UNKNOWN


@pytest.mark.parametrize("encode", [lambda text: b"\xef\xbb\xbf" + text.encode(), lambda text: text.encode("utf-16")])
def test_takes_text_in_another_encoding_for_another_program(encode: Any) -> None:
    fresh = {"x-platform-fresh-for-ms": "500"}
    assert isinstance(judge("app", answer(200, {"valid": True}, fresh)), Yes)
    assert isinstance(judge("app", answer(200, encode('{"valid":true}'), fresh)), Misconfigured)
    assert isinstance(read_poll_answer(answer(200, encode(json.dumps(POLL)))), Misconfigured)


@pytest.mark.parametrize("code", [None, 1, [], {}, "invalid_app_credentials\n", "INVALID_APP_CREDENTIALS"])
def test_takes_no_other_code_for_a_refusal(code: Any) -> None:
    for status in (400, 401):
        assert isinstance(judge("app", answer(status, {"code": code})), Misconfigured)


@pytest.mark.parametrize("value", ["", "-1", "1.5", "1e3", "٥", " 5", "5\n", "9" * 10])
def test_reads_headers_of_whole_numbers_only(value: str) -> None:
    fresh = {"x-platform-fresh-for-ms": value}
    assert isinstance(judge("app", answer(200, {"valid": True}, fresh)), Misconfigured)
    remember = {"x-platform-fresh-for-ms": "5", "x-platform-remember": "yes", "x-platform-expires-in": value}
    assert judge("app", answer(200, {"valid": True}, remember)) == Yes({"valid": True}, 0.005, 0)


def test_names_nothing_of_an_answer_but_a_word_that_looks_like_a_code() -> None:
    judged = [judge("app", answer(404, {"code": code})) for code in ("not_found", "a\nb", "x" * 61, "clé", 1, "pa_app_Key1")]
    details = [judgement.detail.split(" (")[0] for judgement in judged if isinstance(judgement, Misconfigured)]
    assert details == ["404: not_found", *["404: not a known problem"] * 5]


def test_says_what_to_do_about_a_wrong_address_and_a_key_that_is_not_valid() -> None:
    wrong_key = judge("node", answer(401, {"code": "invalid_app_credentials"}))
    assert isinstance(wrong_key, Misconfigured) and "rotated or revoked. Run platform-auth apply" in wrong_key.detail
    for read in (judge("app", answer(404, {"code": "not_found"})), read_poll_answer(answer(404, b"<html>"))):
        assert isinstance(read, Misconfigured) and "AUTH_URL must be the address of platform-auth" in read.detail
