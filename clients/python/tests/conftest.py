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
    """For tests that hold answers back: on a busy machine, a time-out would end their questions first."""
    for name in _LIMITS:
        monkeypatch.setattr(f"platform_auth.{name}", _LONG_SECONDS)
