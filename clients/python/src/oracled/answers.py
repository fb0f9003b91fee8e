"""The results of calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from oracled.types import OrderReport, VerdictResponse

Body = TypeVar("Body")


@dataclass(frozen=True, kw_only=True)
class Answer(Generic[Body]):
    """A successful response."""

    body: Body
    """The JSON document; of a `Card`, the page. Numbers that the API defines as decimals are strings with all their digits."""
    status: int
    """The HTTP status."""
    request_id: str
    """The id of the request, which is also in the daemon's log."""
    retry_after: float | None
    """The time before the next attempt, in seconds, if the daemon requests one."""
    text: str = field(repr=False)
    """The document as it was received, with all digits of its numbers."""


class Delivered(Answer[VerdictResponse]):
    """A verdict that may be delivered. If `body` has a `disclaimer` or a `notice`, it must accompany the verdict."""


class Card(Answer[str]):
    """A verdict card, an HTML page. `text` has it, too. Write it to a file as UTF-8, and verify it with `verify_card`."""


class Ordered(Answer[OrderReport]):
    """The order is stored, and the daemon continues to generate the verdict. Read it after `retry_after` seconds."""


class Held(Answer[OrderReport]):
    """The order or its verdict waits for an operator."""
