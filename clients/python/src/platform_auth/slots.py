"""
Who may ask the service, and when. Terms: a place belongs to one question, and either runs or waits; a stranger is a
credential that was not valid recently; a network is the part of a remote address that one caller cannot change at
will.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv6Network, ip_address
from typing import Generic, TypeVar

# Each running question has a connection of its own. With more, answers would come too late to be used.
_MAX_RUNNING = 32
# One of this many running places is reserved for credentials that were valid recently.
_RESERVED_SHARE = 4
# A site gets a /48 at most, and may use every address of it (RFC 6177).
_IPV6_PREFIX = 48
# Within a house or a platform, each address is a caller of its own (RFC 4193, RFC 4291).
_LOCAL = (IPv6Network("fc00::/7"), IPv6Network("fe80::/10"))


class Place:
    __slots__ = ("network", "was_valid")

    def __init__(self, network: str, was_valid: bool) -> None:
        self.network = network
        self.was_valid = was_valid


AnyPlace = TypeVar("AnyPlace", bound=Place)


class Slots(Generic[AnyPlace]):
    """
    The places of one door. Whoever calls it holds a lock.

    Credentials that were valid recently come first, and have a share of the running places for themselves. Strangers take turns
    by network. Once all places are taken, the newest of the network that waits with most is dropped in favour of one with fewer:
    a client that sends random keys delays and drops its own.
    """

    def __init__(self, size: int) -> None:
        """`size`: of running and waiting places together."""
        self._size = size
        self._max_running = min(size, _MAX_RUNNING)
        self._max_strangers = self._max_running - self._max_running // _RESERVED_SHARE
        self._running = 0
        self._strangers = 0
        self._waiting = 0
        self._valid: deque[AnyPlace] = deque()
        # Round robin: the first network is the next one.
        self._unknown: OrderedDict[str, deque[AnyPlace]] = OrderedDict()

    def enter(self, place: AnyPlace) -> AnyPlace | None:
        """Call `take_next` after it. When all places are taken, returns the dropped one: this one or another."""
        dropped = None
        if self._running + self._waiting >= self._size:
            dropped = self._drop_for(place)
            if dropped is place:
                return place
        queue = self._valid if place.was_valid else self._unknown.setdefault(place.network, deque())
        queue.append(place)
        self._waiting += 1
        return dropped

    def leave(self, place: AnyPlace) -> None:
        """Ends a running place. Call `take_next` after it."""
        self._running -= 1
        self._strangers -= not place.was_valid

    def take_next(self) -> Iterator[AnyPlace]:
        """Returns the places that run from now on."""
        while self._running < self._max_running:
            if self._valid:
                place = self._valid.popleft()
            elif self._unknown and self._strangers < self._max_strangers:
                place = self._take_turn()
                self._strangers += 1
            else:
                return
            self._waiting -= 1
            self._running += 1
            yield place

    def _take_turn(self) -> AnyPlace:
        network, queue = self._unknown.popitem(last=False)
        place = queue.popleft()
        if queue:
            self._unknown[network] = queue
        return place

    def _drop_for(self, place: AnyPlace) -> AnyPlace:
        largest = max(self._unknown.values(), key=len, default=deque[AnyPlace]())
        own = self._unknown.get(place.network, ())
        if not largest or (not place.was_valid and len(largest) <= len(own) + 1):
            return place
        dropped = largest.pop()
        if not largest:
            del self._unknown[dropped.network]
        self._waiting -= 1
        return dropped


@dataclass(slots=True)
class RecentlyValid:
    """The digests of credentials that the service accepted last. Every caller holds a lock."""

    max_entries: int
    _digests: "OrderedDict[bytes, None]" = field(default_factory=OrderedDict[bytes, None], repr=False)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def add(self, digest: bytes) -> None:
        self._digests[digest] = None
        self._digests.move_to_end(digest)
        if len(self._digests) > self.max_entries:
            self._digests.popitem(last=False)

    def discard(self, digest: bytes) -> None:
        self._digests.pop(digest, None)


def to_network(address: str | None) -> str:
    """Returns the text itself when it is not an address, because a framework may name its callers otherwise."""
    try:
        parsed = ip_address((address or "").partition("%")[0])
    except ValueError:
        return address or ""
    if parsed.version == 4 or any(parsed in network for network in _LOCAL):
        return str(parsed)
    return str(parsed.ipv4_mapped or IPv6Network((parsed, _IPV6_PREFIX), strict=False))
