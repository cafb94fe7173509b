"""Compares the name of this service with the one that the authentication service knows it by."""

from concurrent.futures import Future

from platform_auth.events import Misconfigurations
from platform_auth.options import is_service_name

# The name of this cause in configuration errors.
_CAUSE = "SERVICE_NAME"


class ServiceName:
    def __init__(self, name: str, misconfigurations: Misconfigurations) -> None:
        self._name = name
        self._misconfigurations = misconfigurations
        # With a wrong name every verdict would be about another service, so nothing is remembered or asked.
        self.is_wrong = False
        # Done after the first poll, whether it was answered or not.
        self.is_compared: Future[None] = Future()

    def compare(self, caller: str | None) -> None:
        """`caller`: the header of an answer to a poll; None when a proxy has dropped it."""
        self.is_wrong = caller is not None and caller != self._name
        if self.is_wrong:
            owner = caller if is_service_name(caller) else "another service"
            self._misconfigurations.report(_CAUSE, f"{self._name} is configured, but AUTH_APP_ID is a key of {owner}")
        else:
            self._misconfigurations.clear(_CAUSE)

    def finish(self) -> None:
        if not self.is_compared.done():
            self.is_compared.set_result(None)
