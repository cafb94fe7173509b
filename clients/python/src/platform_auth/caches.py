"""Remembered verdicts: digests of credentials, never the credentials. Refusals are never remembered."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Generic, Literal, TypeVar

from platform_auth.clocks import Instant
from platform_auth.credentials import Credential, compute_fingerprint
from platform_auth.lease import Change, Lease, Ticket
from platform_auth.principals import AppPrincipal, NodePrincipal, UserPrincipal

Identity = TypeVar("Identity", AppPrincipal, NodePrincipal)


@dataclass(frozen=True, slots=True)
class _Key(Generic[Identity]):
    digest: bytes = field(repr=False)
    fingerprint: bytes = field(repr=False)
    principal: Identity
    usable_until: Instant


class KeyCache(Generic[Identity]):
    """
    The valid keys of one kind, by their ids in lower case, and by the fingerprints of the headers that presented them, so that a
    remembered key need not be parsed. The least recently used is evicted beyond the limit.
    """

    def __init__(self, kind: Literal["app", "node"], lease: Lease, max_entries: int) -> None:
        self._kind = kind
        self._lease = lease
        self._max_entries = max_entries
        self._entries: OrderedDict[str, _Key[Identity]] = OrderedDict()
        self._ids: dict[bytes, str] = {}
        lease.add_listener(self)

    def recall_exact(self, fingerprint: bytes) -> tuple[str, Identity] | None:
        """Returns the id too. None when the credential must be parsed."""
        with self._lease.lock:
            key_id = self._ids.get(fingerprint)
            if key_id is None:
                return None
            entry = self._entries[key_id]
            if not self._lease.covers(entry.usable_until):
                return None
            self._entries.move_to_end(key_id)
            return key_id, entry.principal

    def recall(self, key_id: str, digest: bytes) -> Identity | None:
        """Returns None when the service must be asked."""
        with self._lease.lock:
            entry = self._entries.get(key_id)
            if entry is None or not self._lease.covers(entry.usable_until):
                return None
            if not compare_digest(entry.digest, digest):
                return None
            self._entries.move_to_end(key_id)
            return entry.principal

    def remember(
        self, credential: Credential, principal: Identity, usable_until: Instant, ticket: Ticket
    ) -> None:
        """Ignores a key when any change was heard since the ticket was taken."""
        key_id, fingerprint = credential.id, compute_fingerprint(credential)
        with self._lease.lock:
            if not self._lease.is_current(ticket):
                return
            self._delete(key_id)
            self._entries[key_id] = _Key(credential.digest, fingerprint, principal, usable_until)
            self._ids[fingerprint] = key_id
            if len(self._entries) > self._max_entries:
                self._delete(next(iter(self._entries)))

    def evict(self, change: Change) -> None:
        if change.kind == self._kind:
            self._delete(change.id)

    def evict_all(self) -> None:
        self._entries.clear()
        self._ids.clear()

    def _delete(self, key_id: str) -> None:
        entry = self._entries.pop(key_id, None)
        if entry is not None:
            del self._ids[entry.fingerprint]


@dataclass(frozen=True, slots=True)
class _Token:
    principal: UserPrincipal
    usable_until: Instant


class TokenCache:
    """Access tokens of live sessions, by their digests; found by session and by user when those change."""

    def __init__(self, lease: Lease, max_entries: int) -> None:
        self._lease = lease
        self._max_entries = max_entries
        self._entries: OrderedDict[bytes, _Token] = OrderedDict()
        self._by_session = _Index(lambda principal: principal.session_id)
        self._by_user = _Index(lambda principal: principal.user_id)
        lease.add_listener(self)

    def recall(self, digest: bytes) -> UserPrincipal | None:
        """Returns None when the service must be asked."""
        with self._lease.lock:
            entry = self._entries.get(digest)
            if entry is None or not self._lease.covers(entry.usable_until):
                return None
            self._entries.move_to_end(digest)
            return entry.principal

    def remember(self, digest: bytes, principal: UserPrincipal, usable_until: Instant, ticket: Ticket) -> None:
        """Ignores a token when any change was heard since the ticket was taken."""
        with self._lease.lock:
            if not self._lease.is_current(ticket):
                return
            self._delete(digest)
            self._entries[digest] = _Token(principal, usable_until)
            self._by_session.add(principal, digest)
            self._by_user.add(principal, digest)
            if len(self._entries) > self._max_entries:
                self._delete(next(iter(self._entries)))

    def evict(self, change: Change) -> None:
        # Not for signing keys: one that was revoked is a reset, and the tokens of a retired one live on.
        if change.kind == "session":
            for digest in self._by_session.find(change.id):
                self._delete(digest)
        elif change.kind == "user":
            for digest in self._by_user.find(change.id):
                self._delete(digest)

    def evict_all(self) -> None:
        self._entries.clear()
        self._by_session.clear()
        self._by_user.clear()

    def _delete(self, digest: bytes) -> None:
        entry = self._entries.pop(digest, None)
        if entry is not None:
            self._by_session.delete(entry.principal, digest)
            self._by_user.delete(entry.principal, digest)


class _Index:
    """Digests by an id of the principal."""

    def __init__(self, to_id: Callable[[UserPrincipal], str]) -> None:
        self._to_id = to_id
        self._digests: dict[str, set[bytes]] = {}

    def add(self, principal: UserPrincipal, digest: bytes) -> None:
        self._digests.setdefault(self._to_id(principal), set()).add(digest)

    def delete(self, principal: UserPrincipal, digest: bytes) -> None:
        name = self._to_id(principal)
        known = self._digests.get(name, set())
        known.discard(digest)
        if not known:
            self._digests.pop(name, None)

    def find(self, name: str) -> list[bytes]:
        return list(self._digests.get(name, ()))

    def clear(self) -> None:
        self._digests.clear()
