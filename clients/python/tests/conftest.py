"""What the tests share."""

import pytest

_LONG_SECONDS = 120.0
_LIMITS = (
    "service_client._ATTEMPT_TIMEOUT_SECONDS",
    "questions._VERDICT_TIMEOUT_SECONDS",
    "questions._MAX_WAIT_SECONDS",
    "transport._CONNECT_TIMEOUT_SECONDS",
    "verifier.PATIENCE_SECONDS",
)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Lengthens the timeouts for tests that hold answers back, because on a busy machine they would end the questions
    first.
    """
    for name in _LIMITS:
        monkeypatch.setattr(f"platform_auth.{name}", _LONG_SECONDS)
