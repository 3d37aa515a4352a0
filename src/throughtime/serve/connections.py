"""The connections of a server: how many there are, and how long each may stay silent."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Collection
from contextlib import suppress
from enum import Enum
from typing import Any

import h11

from throughtime.serve.middleware import Rates
from throughtime.serve.observing import REASONS, Repeated, ServerMetrics
from throughtime.serve.origins import address_group, write_refusal
from throughtime.serve.requests import Options
from throughtime.serve.turns import TurnProtocol, Turns

RETRY = 0.1
"""Seconds until the next try, when the system has no room for another connection."""
SPARE_FILES = 256
"""Files that are kept for other uses than connections."""
FULL_ANSWER = write_refusal(503, "too many connections; try again later", {"Retry-After": "1"})


class Phase(Enum):
    """What a connection waits for; the value is the reason that is counted when it takes too long."""

    HEADER = "slow header"
    IDLE = "idle"
    BODY = "slow body"  # timed where the body is read, so that there is an answer
    ANSWER = "unread answer"
    MODEL = "busy"


FIRST_TO_GO = ((Phase.HEADER, Phase.IDLE), (Phase.BODY,), (Phase.ANSWER,))
"""What connections wait for that make room for others, those that nobody misses first."""


class Slot:
    """The place of one connection, from when it is accepted until it is closed."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.opening: asyncio.Task[None] | None = None
        self.connection: Connection | None = None

    @property
    def phase(self) -> Phase:
        """What it waits for; in a TLS handshake, for the header of its request."""
        return Phase.HEADER if self.connection is None else self.connection.phase

    def close(self) -> None:
        """Close the connection at once."""
        if self.connection is not None:
            self.connection.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


class Connections:
    """Accepts connections up to a limit, in all and for each client.

    At the limit, the oldest connection that waits for its client makes room, so that silent clients keep
    nobody out. If the requests of all are being computed, the new connection is refused with 503.
    """

    def __init__(self, options: Options, metrics: ServerMetrics, rates: Rates) -> None:
        self.options, self.metrics, self.rates, self.warn = options, metrics, rates, Repeated()
        self.turns = Turns()
        self._slots: dict[Slot, None] = {}
        metrics.connections.set_function(lambda: len(self._slots))

    async def accept(
        self, listener: socket.socket, create: Callable[[Slot], Connection], tls: ssl.SSLContext | None
    ) -> None:
        """Accept connections until this is cancelled."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            try:
                line, address = await loop.sock_accept(listener)
            except ConnectionError:
                continue  # its client has left already
            except OSError as error:
                self.warn(f"no more connections can be accepted: {error.strerror}")
                self._make_room(self._slots)
                await asyncio.sleep(RETRY)
                continue
            slot = self.admit(address_group(address[0]) if address else "")
            if slot is None:
                _refuse(line, tls)
            else:
                slot.opening = loop.create_task(self._open(slot, line, create, tls))
            await asyncio.sleep(0)  # accepting never waits while there are more; others must come in between

    def admit(self, group: str) -> Slot | None:
        """Return a slot for a new connection, or None if all others are busy."""
        own = [slot for slot in self._slots if slot.group == group] if group else []
        few = len(own) < self.options.max_connections_per_client or self._make_room(own)
        if few and (len(self._slots) < self.options.max_connections or self._make_room(self._slots)):
            slot = Slot(group)
            self._slots[slot] = None
            return slot
        self.metrics.refusals.labels("connections").inc()
        return None

    def release(self, slot: Slot) -> None:
        """Forget a connection that is closed."""
        self._slots.pop(slot, None)

    def close_opening(self) -> None:
        """Close connections whose TLS handshake is not complete."""
        for slot in list(self._slots):
            if slot.connection is None:
                slot.close()

    def _make_room(self, slots: Collection[Slot]) -> bool:
        oldest = next((slot for phases in FIRST_TO_GO for slot in slots if slot.phase in phases), None)
        if oldest is None:
            return False
        self.release(oldest)
        oldest.close()
        return True

    async def _open(
        self,
        slot: Slot,
        line: socket.socket,
        create: Callable[[Slot], Connection],
        tls: ssl.SSLContext | None,
    ) -> None:
        patience = self.options.header_timeout
        limits = {"ssl_handshake_timeout": patience, "ssl_shutdown_timeout": patience} if tls else {}
        try:
            if line.family in (socket.AF_INET, socket.AF_INET6):
                # Else the body of an answer waits until the client has acknowledged its header: 40 ms.
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: create(slot), line, ssl=tls, **limits)
        except (OSError, TimeoutError, asyncio.CancelledError):
            self.release(slot)
            line.close()


class Connection(TurnProtocol):
    """A connection that is closed when its client is too slow: with a header, with a request, or reading."""

    def __init__(self, slot: Slot, connections: Connections, **uvicorn: Any) -> None:
        super().__init__(connections.turns, **uvicorn)
        self.slot, self.all, self.phase = slot, connections, Phase.MODEL
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio."""
        super().connection_made(transport)
        self.slot.connection = self
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        if self._timer is not None:
            self._timer.cancel()
        self.all.release(self.slot)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """See asyncio."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """See asyncio."""
        super().resume_writing()
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def handle_events(self) -> None:
        """See uvicorn."""
        super().handle_events()
        self._watch()

    def refuse(self, status: int, sentence: str) -> None:
        """See `TurnProtocol`; what is refused counts like a request."""
        self.all.metrics.refusals.labels(REASONS.get(status, "malformed")).inc()
        self.all.rates.seconds_to_wait(self.slot.group)
        super().refuse(status, sentence)
        self._watch()

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: clients may offer other protocols in every request, and are answered in this one."""

    def _watch(self) -> None:
        """Start the time limit of a new phase; more bytes in the same phase do not prolong it."""
        phase = self._find_phase()
        if phase is self.phase:
            return
        self.phase = phase
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        options = self.all.options
        limits = {
            Phase.HEADER: options.header_timeout,
            Phase.IDLE: options.idle_timeout,
            Phase.ANSWER: options.timeout,
        }
        if phase in limits:
            self._timer = self.loop.call_later(limits[phase], self._expire)

    def _find_phase(self) -> Phase:
        if self.flow.write_paused or self.transport.is_closing():
            return Phase.ANSWER
        cycle: Any = self.cycle  # None before the first request
        if cycle is not None and not cycle.response_complete:
            return Phase.BODY if self.conn.their_state is h11.SEND_BODY else Phase.MODEL
        if self.conn.their_state is h11.IDLE and (cycle is None or self.conn.trailing_data[0]):
            return Phase.HEADER
        return Phase.IDLE  # the rest of a body that was answered before its end may come, too

    def _expire(self) -> None:
        if self.phase is not Phase.IDLE:
            self.all.metrics.refusals.labels(self.phase.value).inc()
        if self.phase is Phase.ANSWER:
            self.transport.abort()
        else:
            self.transport.close()  # after what is left to write
            self._watch()


def fit_connections(number: int) -> int:
    """Return how many connections there is room for beside other files, after raising the limit of files."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return number
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY in (soft, hard):
        return number
    soft = max(soft, min(number + SPARE_FILES, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(number, max(soft - SPARE_FILES, soft // 2))


def _refuse(line: socket.socket, tls: ssl.SSLContext | None) -> None:
    with line, suppress(OSError):
        if tls is None:
            line.send(FULL_ANSWER)  # it fits into the buffer of a new connection, or is lost
