"""The data of clients/conformance."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema

_FOLDER = Path(__file__).resolve().parents[2] / "conformance"


def _read(path: str) -> Any:
    return json.loads((_FOLDER / path).read_text())


_DATA = _read("credentials.json")
NAMES: dict[str, str] = _DATA["names"]
CREDENTIALS: dict[str, Any] = _DATA["credentials"]
# Secrets that callers present, of which a verifier keeps only digests.
PRESENTED_SECRETS = {secret for credential in CREDENTIALS.values() for secret in credential.get("secrets", [])}
# None of these may be printed.
SECRETS = PRESENTED_SECRETS | {NAMES["own_app_key"], NAMES["next_own_app_key"], NAMES["secret_key"], NAMES["ocr_token"]}


RESTRICTED_APPS: list[dict[str, Any]] = _read("restrictions.json")["apps"]


def fill(value: Any) -> Any:
    """Replaces `${name}` and `a*5000` in every string."""
    if isinstance(value, str):
        if value in ("${jwks}", "${private_jwks}"):
            return _DATA[value[2:-1]]
        return re.sub(r"\$\{(\w+)\}", lambda match: NAMES[match[1]], value).replace("a*5000", "a" * 5_000)
    if isinstance(value, list):
        return [fill(item) for item in value]
    return {name: fill(item) for name, item in value.items()} if isinstance(value, dict) else value


ANSWERS: dict[str, Any] = fill(_read("answers.json"))


# What the service answers to a poll for events that waited.
NOTHING_HAPPENS = {"after_ms": 20_000, "body": {"events": [], "more": False, "reset": False}}


def read_event_scenarios() -> list[dict[str, Any]]:
    scenarios: list[dict[str, Any]] = _read("events.json")["scenarios"]
    for scenario in scenarios:
        scenario["answers"] = [*map(_to_events_answer, scenario["answers"]), NOTHING_HAPPENS]
    return scenarios


def _to_events_answer(answer: dict[str, Any]) -> dict[str, Any]:
    if "reset" in answer:
        return {"body": {"events": [], "more": False, "reset": True, "cursor": answer["reset"]}}
    if "events" not in answer:
        return answer
    told = {"type": "user.deleted", "time": "2026-01-01T00:00:00.000Z", "subject": {"kind": "user", "id": "alice"}, "data": {}}
    events = [{"id": cursor, **told, "cursor": cursor} for cursor in answer["events"]]
    return {"body": {"events": events, "more": answer.get("more", False), "reset": False}}


def read_scenarios() -> list[tuple[str, dict[str, Any]]]:
    """Returns each scenario with its rule. A misspelt word is an error."""
    validator = jsonschema.Draft7Validator(_read("schema.json"))
    scenarios = []
    for path in sorted((_FOLDER / "scenarios").glob("*.json")):
        content = _read(f"scenarios/{path.name}")
        validator.validate(content)
        scenarios += [(content["rule"], fill(scenario)) for scenario in content["scenarios"]]
    return scenarios
