"""This service's own key for the authentication service: a text, or the text of a file, such as a mounted Secret."""

import re
from dataclasses import dataclass, field
from hmac import compare_digest
from pathlib import Path
from typing import TypeGuard

_APP_KEY = re.compile(r"pa_app_[A-Za-z0-9_-]{1,4000}")


@dataclass(slots=True)
class OwnKey:
    app_id: str
    key: str = field(repr=False)
    # A rotation writes the next key into this file.
    file: str | None = None
    # Counts the keys, to tell whether a refused one was replaced meanwhile.
    version: int = 0

    def to_headers(self) -> dict[str, str]:
        return {"X-Platform-App-Id": self.app_id, "X-Platform-App-Key": self.key}

    def replace_refused(self, version: int) -> bool:
        """
        Returns whether there is another key than the refused one. Safe with threads: two of them read the same file.
        """
        if self.version != version or self.file is None:
            return self.version != version
        found = read_key_file(self.file)
        if found is None or compare_digest(found, self.key):
            return False
        self.key = found
        self.version += 1
        return True


def is_app_key(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _APP_KEY.fullmatch(value) is not None


def read_key_file(path: str) -> str | None:
    """Returns None when the file cannot be read, or holds anything but a key and a line break."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    # A TypeError comes from a caller that is not type-checked.
    except (OSError, ValueError, TypeError):
        return None
    # Python reads every line break as this one.
    key = text.removesuffix("\n")
    return key if is_app_key(key) else None
