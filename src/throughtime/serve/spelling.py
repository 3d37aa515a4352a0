"""Tokens as they are written become text: only what is sure, and nothing after a stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from throughtime.tasks.language.framing import WINDOW

if TYPE_CHECKING:
    from throughtime.tasks.language.framing import Framing

TORN = "\ufffd"  # what the first bytes of a character decode to


class Spelling:
    """The text that each further token adds to a prompt.

    A character of several bytes is said when it is whole.
    """

    def __init__(self, framing: Framing, prompt: Sequence[int]) -> None:
        self.framing = framing
        self.ids = list(prompt[-WINDOW:])
        self.said = len(self.ids)

    def add(self, token: int) -> str:
        """What this token adds, together with those that were held back before it."""
        self.ids.append(token)
        before, longer = self._texts()
        return "" if longer.endswith(TORN) else self._say(before, longer)

    def rest(self) -> str:
        """What was held back, when nothing more comes."""
        return self._say(*self._texts()) if self.said < len(self.ids) else ""

    def _texts(self) -> tuple[str, str]:
        decode = self.framing.codec.decode
        return decode(self.ids[: self.said]), decode(self.ids)

    def _say(self, before: str, longer: str) -> str:
        self.ids = self.ids[-WINDOW:]
        self.said = len(self.ids)
        # A token may change what was said before it, such as the space after a quotation mark.
        same = next(
            (place for place, pair in enumerate(zip(before, longer, strict=False)) if len(set(pair)) > 1),
            None,
        )
        return longer[len(before) if same is None else same :]


class Stops:
    """Holds text back as long as it may be the beginning of a stop.

    >>> stops = Stops(["END"])
    >>> [stops.add(piece) for piece in ("the ", "E", "gg ", "EN", "D of it")], stops.stopped
    (['the ', '', 'Egg ', '', ''], True)
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = [stop for stop in stops if stop]
        self.held = ""
        self.stopped = False

    def add(self, text: str) -> str:
        """What can be said for sure; nothing any more once a stop was met."""
        whole = self.held + text
        found = [place for stop in self.stops if (place := whole.find(stop)) >= 0]
        if found:
            self.held, self.stopped = "", True
            return whole[: min(found)]
        keep = max((self._begun(whole, stop) for stop in self.stops), default=0)
        self.held = whole[len(whole) - keep :]
        return whole[: len(whole) - keep]

    def rest(self) -> str:
        """What was held back, when nothing more comes."""
        held, self.held = self.held, ""
        return held

    @staticmethod
    def _begun(whole: str, stop: str) -> int:
        """How many last characters may be the beginning of the stop."""
        most = min(len(whole), len(stop) - 1)
        return next((size for size in range(most, 0, -1) if whole.endswith(stop[:size])), 0)
