"""How far a server is on its way out, and what it no longer waits for."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive

PAST = 0.0


class Ending:
    """Once begun, requests that have arrived are finished and the others given up; hurried, all are."""

    def __init__(self) -> None:
        self.begun = self.hurried = False
        self._waits: set[asyncio.Timeout] = set()

    def begin(self) -> None:
        """Give up every request that has not arrived whole. To be called in the event loop."""
        self.begun = True
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(PAST)

    async def arrival(self, receive: Receive, deadline: float) -> Message:
        """The next message of a request; TimeoutError at the deadline, and once the end has begun."""
        # What lies ready is still taken then: it comes before the timeout has its turn.
        async with asyncio.timeout_at(PAST if self.begun else deadline) as wait:
            self._waits.add(wait)
            try:
                return await receive()
            finally:
                self._waits.discard(wait)
