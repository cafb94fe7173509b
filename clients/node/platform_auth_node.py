#!/usr/bin/env python3
"""Enrols a device with platform-auth and keeps its key: one file, Python 3.9 or newer, no dependencies.

    platform_auth_node.py --file /var/lib/device/node.json enrol --url https://auth.example.org 7KQ2M-XV9TB
    platform_auth_node.py --file /var/lib/device/node.json header
    platform_auth_node.py --file /var/lib/device/node.json rotate --check https://ocr.example.org/languages --url https://auth.example.org

`enrol` exchanges a code for the credential of this device, once. When the answer is lost, run it again with the same code.
`header` prints the value of X-API-Key, for other programs of the device.
`rotate` asks platform-auth (--url) for a new key, or reads one from standard input that an operator sent: the key, or node id and
key with a colon between them. It stores the key beside the old one,
uses it at a service (--check), and only when that service has accepted it forgets the old one. It forgets the new one only when that service
refuses it and accepts the old one. Whenever it is interrupted, run it again, without input.

Exit codes: 0 done; 1 refused, an operator must act; 2 wrong usage; 3 not known yet: run it again.
"""

import argparse
import http.client
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
import uuid

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
TIMEOUT_SECONDS = 10
ATTEMPTS = 5
MAX_PAUSE_SECONDS = 30
REFUSED, AWAY = 1, 3
KEY = re.compile(r"(?:([0-9A-Fa-f-]{36}):)?(pa_node_[A-Za-z0-9_-]{43,})")


class Failure(Exception):
    def __init__(self, message, exit_code):
        super().__init__(message)
        self.exit_code = exit_code


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the code or the key to another address."""

    def redirect_request(self, *_):
        return None


OPENER = urllib.request.build_opener(NoRedirect)


def call(url, headers, body=None):
    """Returns the status, the headers and the text of the answer; status 0 when there is none."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers} if data else headers)
    try:
        with OPENER.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return 0, {}, ""


def call_until_answered(url, headers, body=None):
    """Repeats a call that was not answered, or with 429 or 503, which are no verdicts."""
    for attempt in range(ATTEMPTS):
        status, answer_headers, text = call(url, headers, body)
        if status not in (0, 429, 503):
            return status, text
        if attempt < ATTEMPTS - 1:
            after = answer_headers.get("Retry-After", "")
            time.sleep(min(int(after) if after.isdigit() else 2**attempt, MAX_PAUSE_SECONDS))
    raise Failure(f"{url} did not answer ({status or 'no connection'}). Run this again.", AWAY)


def canonical(code):
    """Returns the code as the service compares it. The last character is a check symbol (Crockford's base 32)."""
    text = "".join(code.upper().replace("-", " ").split()).replace("O", "0").replace("I", "1").replace("L", "1")
    digits = [ALPHABET.find(character) for character in text]
    if len(digits) != 10 or -1 in digits:
        raise Failure("That is no code: a code has ten letters and digits.", REFUSED)
    value = 0
    for digit in digits[:9]:
        value = value * 32 + digit
    if value % 37 != digits[9]:
        raise Failure("There is a typing error in the code. Read it again.", REFUSED)
    return text


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError:
        raise Failure(f"{path} is not valid JSON.", REFUSED) from None
    if not isinstance(state, dict):
        raise Failure(f"{path} is not a JSON object.", REFUSED)
    return state


def write(path, content):
    """Replaces the file in one step, readable by its owner only; after a power failure it is the old one or the new one."""
    temporary = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def enrol(path, url, typed):
    state = read(path)
    if "api_key" in state:
        raise Failure(f"{path} holds the credential of node {state['node_id']}: this device has enrolled.", REFUSED)
    code = canonical(typed)
    kept = {name: value for name, value in state.items() if name != "enrolment"}
    pending = state.get("enrolment", {})
    if pending.get("code") != code:
        pending = {"code": code, "retry": str(uuid.uuid4())}
        # Before the call: a device that loses power after it still has the header that repeats the answer.
        write(path, {**kept, "enrolment": pending})
    address = url.rstrip("/") + "/api/v0/nodes/enrol"
    status, text = call_until_answered(address, {"Idempotency-Key": pending["retry"]}, {"code": code})
    if status in (404, 409):
        # Only a verdict ends the retries: the clock of a device without a battery jumps when it meets the network.
        write(path, kept)
    if status == 404:
        raise Failure("The code is unknown, has expired or was cancelled. Ask for a new one.", REFUSED)
    if status == 409:
        raise Failure("The code was used before, or its node was revoked. Tell the operator: another device may have it.", REFUSED)
    if status != 201:
        raise Failure(f"{address} answered {status}.", REFUSED)
    write(path, {**kept, **json.loads(text)})
    return f"Enrolled as node {json.loads(text)['node_id']}."


def header_of(state, key="api_key"):
    if key not in state:
        raise Failure("This device has not enrolled.", REFUSED)
    return f"{state['node_id']}:{state[key]}"


def read_key(text, node_id):
    """Returns the key in the text. What is in the text is never shown: it may be a key in another form."""
    found = KEY.fullmatch(text)
    if not found:
        raise Failure("That is not a key: send the key alone, or node id and key with a colon between them.", REFUSED)
    if found[1] and found[1].lower() != node_id.lower():
        raise Failure("That is the key of another node.", REFUSED)
    return found[2]


def ask_for_key(url, state):
    address = url.rstrip("/") + "/api/v0/nodes/me/rotate"
    status, text = call_until_answered(address, {"X-API-Key": header_of(state)}, {})
    if status != 200:
        raise Failure(f"{address} answered {status}.", REFUSED)
    return json.loads(text)["api_key"]


def rotate(path, check, sent, url):
    state = read(path)
    header_of(state)
    if not sent and "next_api_key" not in state:
        if not url:
            raise Failure("There is no new key: send it to standard input, or name platform-auth with --url.", REFUSED)
        # If the answer is lost, the old key stays valid for a day, and the next call gets another new one.
        sent = ask_for_key(url, state)
    new_key = read_key(sent or state["next_api_key"], state["node_id"])
    if sent:
        state["next_api_key"] = new_key
        write(path, state)
    # The first accepted use of the new key ends the old one.
    status, _ = call_until_answered(check, {"X-API-Key": header_of(state, "next_api_key")})
    if 200 <= status < 300:
        del state["next_api_key"]
        write(path, {**state, "api_key": new_key})
        return "The new key is in use."
    if status != 401:
        raise Failure(f"{check} answered {status}: whether it accepts the new key is not known. Both are kept.", AWAY)
    # A service refuses both when it is set up wrongly, and the new key may be the only one that is left.
    status, _ = call_until_answered(check, {"X-API-Key": header_of(state)})
    if not 200 <= status < 300:
        raise Failure(f"{check} refused the new key, and answered {status} to the old one. Both are kept.", AWAY)
    del state["next_api_key"]
    write(path, state)
    raise Failure("The new key was refused and is forgotten. The old one is accepted.", REFUSED)


def read_input():
    return "" if sys.stdin.isatty() else sys.stdin.buffer.read().decode("ascii", "replace").strip()


def address(text):
    if not re.fullmatch(r"https?://[!-~]+", text):
        raise argparse.ArgumentTypeError("it must begin with https:// or http://")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", required=True, help="where the credential of this device is kept")
    commands = parser.add_subparsers(dest="command", required=True)
    enrolling = commands.add_parser("enrol")
    enrolling.add_argument("--url", type=address, required=True, help="of platform-auth")
    enrolling.add_argument("code")
    commands.add_parser("header")
    rotating = commands.add_parser("rotate")
    rotating.add_argument("--url", type=address, help="of platform-auth, which makes the new key")
    rotating.add_argument("--check", type=address, required=True, help="an address of a service that asks for the key")
    given = parser.parse_args()
    try:
        if given.command == "enrol":
            text = enrol(given.file, given.url, given.code)
        elif given.command == "header":
            text = header_of(read(given.file))
        else:
            text = rotate(given.file, given.check, "" if given.url else read_input(), given.url)
    except Failure as failure:
        print(failure, file=sys.stderr)
        sys.exit(failure.exit_code)
    except OSError as error:
        print(f"{given.file} cannot be used: {error.strerror}.", file=sys.stderr)
        sys.exit(REFUSED)
    print(text)


if __name__ == "__main__":
    main()
