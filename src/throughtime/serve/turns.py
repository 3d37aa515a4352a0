"""Turns of the event loop: what clients send is parsed a little at a time, in fair order, within limits."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from throughtime.serve.origins import write_refusal

MAX_HEADER, MAX_FIELDS, MAX_CHUNKS = 16_384, 100, 10_000
"""Maximum bytes and fields of a header, and chunks of a body."""
MAX_PIECE, MAX_LINES = 8_192, 100
"""Maximum bytes and lines that the parser gets at once; a field and a chunk have a line at least."""
SHORT_PIECE = 800
"""Bytes that it gets instead of more lines."""
MAX_WORK = 200
"""Work of one turn, for all connections together; one unit is parsing a line, about 5 microseconds."""
PIECE_WORK, REQUEST_WORK, BYTES = 5, 100, 64
"""Work of any piece and of starting a request, and how many bytes are as much work as a line."""
BLANK = re.compile(rb"\n\r?\n")


class Parser(h11.Connection):
    """Counts the chunks of a request."""

    chunks = 0

    def next_event(self) -> Any:
        """See h11."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.chunks = 0
        elif isinstance(event, h11.Data):
            self.chunks += event.chunk_start
        return event


class SharedFlow(FlowControl):
    """Tells when reading may go on."""

    def __init__(self, transport: asyncio.Transport, resumed: Callable[[], None]) -> None:
        super().__init__(transport)
        self._resumed = resumed

    def resume_reading(self) -> None:
        """See uvicorn."""
        super().resume_reading()
        self._resumed()


class Turns:
    """Connections with bytes to parse take turns; all together parse a bounded amount in each one.

    A connection parses at most one piece in a turn, and a header is a piece of its own. So a request starts
    before its body is parsed, and is refused first if its header suffices to do so.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[TurnProtocol, None] = OrderedDict()
        self._next: asyncio.Handle | None = None

    def wait(self, connection: TurnProtocol) -> None:
        """Let a connection parse in one of the next turns."""
        self._waiting.setdefault(connection)
        if self._next is None:
            self._next = connection.loop.call_soon(self._run)

    def _run(self) -> None:
        work, loop = 0, asyncio.get_running_loop()
        try:
            for _ in range(len(self._waiting)):
                connection, _ = self._waiting.popitem(last=False)
                work += connection.parse()
                if work >= MAX_WORK:
                    break
        finally:
            self._next = loop.call_soon(self._run) if self._waiting else None


class TurnProtocol(H11Protocol):
    """HTTP that is parsed in turns."""

    def __init__(self, turns: Turns, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self.turns, self.unread = turns, bytearray()
        self.conn: Parser = Parser(h11.SERVER, MAX_HEADER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio."""
        super().connection_made(transport)
        self.flow = SharedFlow(transport, self._resume)

    def data_received(self, data: bytes) -> None:
        """Keep bytes for the next turns; more are read when these are parsed."""
        self.unread += data
        if len(self.unread) > MAX_PIECE:
            self.transport.pause_reading()
        self.turns.wait(self)

    def parse(self) -> int:
        """Parse the next piece; return how much work that was."""
        if not self._is_ready():
            return 0
        before, piece = self.conn.trailing_data[0], bytes(self.unread[:MAX_PIECE])
        if piece.count(b"\n") > MAX_LINES:
            piece = piece[:SHORT_PIECE]
        # Within a body, what is left to parse is the start of a chunk, or a trailer.
        header, work = before, PIECE_WORK
        if self.conn.their_state is h11.IDLE:
            if end := BLANK.search(before + piece, max(0, len(before) - 2)):
                piece, work = piece[: end.end() - len(before)], REQUEST_WORK
            header = before + piece
        if len(header) > MAX_HEADER or header.count(b"\n") > MAX_FIELDS + 2:
            self.refuse(431, f"the header has more than {MAX_HEADER:,} bytes or {MAX_FIELDS} fields")
            return work
        del self.unread[: len(piece)]
        super().data_received(piece)
        if self.conn.chunks > MAX_CHUNKS:
            self.refuse(413, f"the request has more than {MAX_CHUNKS:,} chunks")
        elif not (self.unread or self.flow.read_paused):
            self.transport.resume_reading()
        if self._is_ready():
            self.turns.wait(self)
        return work + piece.count(b"\n") + len(piece) // BYTES

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self.refuse(400, "this is not a valid HTTP request")

    def refuse(self, status: int, sentence: str) -> None:
        """Refuse what comes, if no answer to it has begun, and read nothing more."""
        self.unread.clear()
        if self.cycle is not None:
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(write_refusal(status, sentence))
        self.transport.close()

    def _resume(self) -> None:
        """Go on with what has come already: the rest of a body, or the next request."""
        if self.unread:
            self.turns.wait(self)

    def _is_ready(self) -> bool:
        stopped = self.flow.read_paused or self.transport.is_closing()
        return bool(self.unread) and not stopped and self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
