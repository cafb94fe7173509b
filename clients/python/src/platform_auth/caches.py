"""
Remembered verdicts: digests of credentials, never the credentials, and never refusals. The fingerprint of the headers
finds a credential, so that a remembered one is not parsed again. A recall takes no lock (lease.py says why that is
safe); every write holds the lock of the lease.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any, Generic, TypeVar

from platform_auth.clocks import Instant
from platform_auth.credentials import UNREADABLE, Credential, Headers, compute_fingerprint, compute_hash
from platform_auth.lease import Change, Lease, Ticket
from platform_auth.principals import AnyUserPrincipal, AppPrincipal, DelegatedUserPrincipal, NodePrincipal
from platform_auth.uses import Use, UsedKind, Uses

Identity = TypeVar("Identity", AppPrincipal, NodePrincipal, AnyUserPrincipal)
KeyIdentity = TypeVar("KeyIdentity", AppPrincipal, NodePrincipal)
# Asks again about the credential that these headers present, from this remote address.
Renew = Callable[[Headers, str | None], None]
# Takes the headers of a request, its remote address, and the fingerprint if it is known. Returns None when the
# headers must be parsed or the service asked.
Recall = Callable[[Headers, str | None, bytes | None], Identity | None]
_MISSES = (KeyError, *UNREADABLE)
# A verdict with a shorter term ends with its credential, so another question would not prolong it.
_RENEWED_SECONDS = 60
_MAX_KEYS_OF_ID = 2
# The age at which a verdict in use is asked for again, in the background.
_RENEWAL_AGE_SECONDS = 45


def _do_not_renew(headers: Headers, address: str | None) -> None:
    pass


@dataclass(slots=True, eq=False)
class _Entry(Generic[Identity]):
    fingerprint: bytes = field(repr=False)
    principal: Identity
    usable_until: Instant
    # The moments by the monotonic clock at which it is renewed, and later ends.
    checked_at: float
    evicted_by: tuple[Change, ...]
    # Only for keys, which are found by their ids too.
    digest: bytes = field(default=b"", repr=False)
    # Only for keys, because uses of tokens are not reported.
    use: Use | None = None
    was_recalled: bool = False


class _Cache(Generic[Identity]):
    def __init__(self, header: str, lease: Lease, max_entries: int, renew: Renew) -> None:
        self._lease = lease
        self._renew = renew
        self._max_entries = max_entries
        self._entries: OrderedDict[bytes, _Entry[Identity]] = OrderedDict()
        self._by_change: dict[Change, set[bytes]] = {}
        self.recall: Recall[Identity] = self._create_recall(header)
        lease.add_listener(self)

    def _create_recall(self, header: str) -> Recall[Identity]:
        """
        Returns one function over local variables, because every request calls it.
        `header`: presents the credential, unless its fingerprint is known.
        """
        length = len(header)
        spellings = frozenset((header, header.encode()))
        lease, entries = self._lease, self._entries
        read_monotonic, read_wall = lease.clocks.monotonic, lease.clocks.wall

        def recall(headers: Any, address: str | None, fingerprint: bytes | None) -> Identity | None:
            pairs: list[tuple[Any, Any]] = headers
            found: Any = None
            try:
                if fingerprint is None:
                    if type(pairs) is not list:
                        return None
                    for name, value in pairs:
                        # Lengths are compared first, because they tell most names apart.
                        if len(name) == length and (name in spellings or name.lower() in spellings):
                            if found is not None:
                                return None
                            found = value
                    fingerprint = compute_hash(found).digest()
                held_until = lease.held_until
                entry = entries[fingerprint]
            except _MISSES:
                return None
            usable_until = entry.usable_until
            monotonic, wall = read_monotonic(), read_wall()
            if monotonic >= held_until.monotonic or wall >= held_until.wall or wall >= usable_until.wall:
                return None
            if monotonic >= entry.checked_at:
                if monotonic >= usable_until.monotonic:
                    return None
                # Asked before it ends, because strangers may have taken every slot by then.
                entry.checked_at = usable_until.monotonic
                self._renew(headers, address)
            entry.was_recalled = True
            use = entry.use
            if use is not None:
                use.at = monotonic
                if not use.is_pending:
                    use.uses.add(use)
            return entry.principal

        return recall

    def evict(self, change: Change) -> None:
        # Signing keys are not indexed: the revocation of one is a reset, and the tokens of a retired one stay valid.
        for fingerprint in tuple(self._by_change.get(change, ())):
            self._delete(fingerprint)

    def evict_all(self) -> None:
        self._entries.clear()
        self._by_change.clear()

    def _put(self, entry: _Entry[Identity]) -> None:
        self._delete(entry.fingerprint)
        if len(self._entries) >= self._max_entries:
            self._delete(self._find_unused())
        self._entries[entry.fingerprint] = entry
        for change in entry.evicted_by:
            self._by_change.setdefault(change, set()).add(entry.fingerprint)

    def _find_unused(self) -> bytes:
        """
        Returns the oldest entry that was not recalled since it was last considered ("second chance"). An exact order
        of use would take a lock at every request.
        """
        entries = self._entries
        for _ in range(len(entries)):
            fingerprint, entry = next(iter(entries.items()))
            if not entry.was_recalled:
                return fingerprint
            entry.was_recalled = False
            entries.move_to_end(fingerprint)
        return next(iter(entries))

    def _delete(self, fingerprint: bytes) -> None:
        entry = self._entries.pop(fingerprint, None)
        for change in entry.evicted_by if entry else ():
            known = self._by_change[change]
            known.discard(fingerprint)
            if not known:
                del self._by_change[change]


class KeyCache(_Cache[KeyIdentity]):
    """
    The valid keys of apps or nodes, by their ids in lower case. A rotation leaves two keys of one id, and replicas
    present both.
    """

    def __init__(
        self, kind: UsedKind, lease: Lease, uses: Uses, max_entries: int, renew: Renew = _do_not_renew
    ) -> None:
        # Only a node's key has a single header to search; an app's fingerprint is computed before its recall.
        super().__init__("x-api-key", lease, max_entries, renew)
        self._kind: UsedKind = kind
        self._uses = uses

    def recall_by_id(
        self, key_id: str, digest: bytes, headers: Headers = (), address: str | None = None
    ) -> KeyIdentity | None:
        """Recalls a parsed key, whatever the spelling of its headers."""
        with self._lease.lock:
            fingerprint = self._find(key_id, digest)
        return None if fingerprint is None else self.recall(headers, address, fingerprint)

    def forget(self, credential: Credential) -> None:
        """Forgets the key, whatever the spelling of its headers. Another key of the same id stays."""
        with self._lease.lock:
            fingerprint = self._find(credential.id, credential.digest)
            if fingerprint is not None:
                self._delete(fingerprint)

    def _find(self, key_id: str, digest: bytes) -> bytes | None:
        """The fingerprint under which this key is remembered. The caller holds the lock."""
        for fingerprint in self._by_change.get(Change(self._kind, key_id), ()):
            if compare_digest(self._entries[fingerprint].digest, digest):
                return fingerprint
        return None

    def remember(
        self, credential: Credential, principal: KeyIdentity, sent: Instant, seconds: float, ticket: Ticket
    ) -> None:
        """
        Remembers the key for some seconds since its question was sent, unless any change was reported since the
        ticket was taken (TOCTOU).
        """
        change = Change(self._kind, credential.id)
        is_previous = isinstance(principal, AppPrincipal) and principal.is_previous
        use = Use(self._kind, credential.id, self._uses, previous=is_previous)
        fingerprint = compute_fingerprint(credential)
        usable_until, checked_at = sent.plus(seconds), _choose_check(sent, seconds)
        entry = _Entry(fingerprint, principal, usable_until, checked_at, (change,), credential.digest, use)
        with self._lease.lock:
            if self._lease.is_current(ticket):
                same = self._find(credential.id, credential.digest)
                if same is not None:
                    self._delete(same)
                known = self._by_change.get(change, ())
                if len(known) >= _MAX_KEYS_OF_ID:
                    self._delete(min(known, key=lambda known_one: self._entries[known_one].usable_until.monotonic))
                self._put(entry)


class TokenCache(_Cache[AnyUserPrincipal]):
    """Access tokens of live sessions; several for each session, user and pair of a chain."""

    def __init__(self, lease: Lease, max_entries: int, renew: Renew = _do_not_renew) -> None:
        super().__init__("authorization", lease, max_entries, renew)

    def remember(
        self, credential: Credential, principal: AnyUserPrincipal, sent: Instant, seconds: float, ticket: Ticket
    ) -> None:
        """
        Remembers the token for some seconds since its question was sent, unless any change was reported since the
        ticket was taken (TOCTOU).
        """
        chain = principal.chain if isinstance(principal, DelegatedUserPrincipal) else ()
        pairs = (Change("app", link.app_id) for link in chain)
        changes = (Change("session", principal.session_id), Change("user", principal.user_id), *pairs)
        fingerprint, checked_at = compute_fingerprint(credential), _choose_check(sent, seconds)
        entry = _Entry(fingerprint, principal, sent.plus(seconds), checked_at, changes)
        with self._lease.lock:
            if self._lease.is_current(ticket):
                self._put(entry)

    def forget(self, credential: Credential) -> None:
        with self._lease.lock:
            self._delete(compute_fingerprint(credential))


def _choose_check(sent: Instant, seconds: float) -> float:
    return sent.monotonic + (seconds if seconds < _RENEWED_SECONDS else _RENEWAL_AGE_SECONDS)
