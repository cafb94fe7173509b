"""Tells a forged token from a wrong setting of this verifier: a setting is wrong when the service accepts the token."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from math import inf
from typing import Any

from platform_auth.clocks import Clocks
from platform_auth.events import Misconfigurations
from platform_auth.token_check import TokenSetting

# Limits the questions about one setting, so that a flood of forged tokens does not reach the service.
_QUESTION_PAUSE_SECONDS = 10
_DETAIL = "the service accepts a token that does not fit this setting: give it the value of the service, and restart"

# Whether the service accepts the token; None when it could not tell.
Ask = Callable[[], Coroutine[Any, Any, bool | None]]


@dataclass(slots=True)
class _Doubt:
    asked_at: float = -inf
    asking: "asyncio.Task[bool | None] | None" = None
    # None until the service has answered.
    is_wrong: bool | None = None


class TokenSettings:
    """Runs on the loop of the questions."""

    def __init__(self, clocks: Clocks, misconfigurations: Misconfigurations) -> None:
        self._clocks = clocks
        self._misconfigurations = misconfigurations
        self._doubts: dict[TokenSetting, _Doubt] = {}

    async def is_forged(self, setting: TokenSetting, ask: Ask) -> bool:
        """Judges a token that does not fit the setting. Returns False when it is not known either."""
        doubt = self._doubts.setdefault(setting, _Doubt())
        now = self._clocks.monotonic()
        if now < doubt.asked_at + _QUESTION_PAUSE_SECONDS:
            if doubt.is_wrong is None and doubt.asking is not None:
                await asyncio.shield(doubt.asking)
            return doubt.is_wrong is False
        doubt.asked_at = now
        doubt.asking = asyncio.create_task(self._ask(setting, doubt, ask))
        is_accepted = await asyncio.shield(doubt.asking)
        return is_accepted is False or doubt.is_wrong is False

    def confirm(self) -> None:
        """Call it when the service has accepted a token that fits the setting."""
        for setting, doubt in self._doubts.items():
            doubt.is_wrong = False
            self._misconfigurations.clear(setting.value)

    async def _ask(self, setting: TokenSetting, doubt: _Doubt, ask: Ask) -> bool | None:
        """A refusal does not prove the setting right, because a forged token is refused in any case."""
        is_accepted = await ask()
        if is_accepted:
            doubt.is_wrong = True
            self._misconfigurations.report(setting.value, _DETAIL)
        elif is_accepted is False and doubt.is_wrong is None:
            doubt.is_wrong = False
        return is_accepted
