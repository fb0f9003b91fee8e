"""Requests and responses without their connection: what the sync and the async client share."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypedDict, TypeGuard, TypeVar
from urllib.parse import quote

import httpx

from oracled.answers import Answer, Card, Delivered, Held, Ordered
from oracled.errors import (
    DaemonConnectionError,
    DaemonTimeoutError,
    OracledError,
    ProblemError,
    RejectedError,
    ResponseError,
    TemporaryError,
    invalid_type,
)
from oracled.types import OrderReport

SOCKET_OF_SYSTEMD = "/run/oracled/oracled.sock"
BASE_URL = "http://oracled"

POLL_AFTER_S = 5.0
"""The pause before the next read of an order if the daemon requests none."""
READ_MIN_S = 2.0
"""The least time of a read, and the longest one after the end of a wait."""

WINDOW_BYTES = 64 * 1024
"""The most bytes of requests in a window of a batch.

A client that sends more than the socket's buffer holds, and does not read meanwhile, can block itself and the daemon.
Linux gives a Unix socket 208 KiB, so a window is always sent as a whole.
"""
WINDOW_LINES = 256
"""The most requests in a window of a batch. It limits the memory for their results."""

PIECE_BYTES = 64 * 1024
"""The most bytes that the sync client sends at once."""

ID_MAX = 255
"""The longest id of the daemon."""

RESTART_S = 5.0
"""A daemon that cannot be reached may be restarting. It is tried again for this time."""
RECONNECT_S = 0.2
"""The pause before a further attempt to reach the daemon."""

PAGE = "text/html"
"""The media type of a card."""

REJECTIONS = ("crosscheck_rejected", "rules_rejected", "policy_rejected", "order_failed")

Item = TypeVar("Item")
Requests: TypeAlias = Iterable[Item]
AsyncRequests: TypeAlias = Iterable[Item] | AsyncIterable[Item]


class CallOptions(TypedDict, total=False):
    """The options of one call."""

    timeout: float
    """Time limit of the call with its retries, in seconds. Default: that of the client."""
    request_id: str
    """`X-Request-Id` of the call: 1 to 128 visible ASCII characters. Default: a new id."""


@dataclass
class Call:
    """A request with its id, its time limit and its attempts."""

    method: str
    path: str
    content: bytes | None
    headers: dict[str, str]
    timeout: float
    retries: int
    request_id: str
    deadline: float
    attempts: int = 0
    failures: list[OracledError] = field(default_factory=list)
    restart_ends: float | None = None
    status: int = 0
    response_headers: Mapping[str, str] = field(default_factory=dict)

    def remaining(self) -> float:
        """The time until the deadline, in seconds. An expired deadline is an error."""
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise self.timed_out()
        return remaining

    def timed_out(self) -> DaemonTimeoutError:
        return DaemonTimeoutError(
            f"{self.method} {self.path} has no response within {self.timeout:g} s", self.request_id
        )

    def timed_out_after_failures(self, now: float) -> DaemonTimeoutError:
        """The error of a timeout in a retry, which alone does not show why earlier attempts failed."""
        elapsed = now - (self.deadline - self.timeout)
        attempts = f"after {len(self.failures) + 1} attempts in {elapsed:.1f} s"
        return DaemonTimeoutError(
            f"{self.timed_out()}, {attempts}; the last failure: {self.failures[-1]}", self.request_id
        )

    def broken(self, fault: str) -> DaemonConnectionError:
        """The error of an attempt without a complete response."""
        return DaemonConnectionError(f"{self.method} {self.path} has no complete response: {fault}", self.request_id)

    def pause_after(self, error: OracledError) -> float:
        """The pause before the next attempt, in seconds. Raises `error` if there is no further attempt."""
        now = time.monotonic()
        if isinstance(error.__cause__, httpx.ConnectError) and self.retries > 0:
            self.restart_ends = self.restart_ends or now + RESTART_S
            pause = RECONNECT_S if now < self.restart_ends else None
        else:
            self.attempts += 1
            pause = pause_before_retry(error, self.attempts) if self.attempts <= self.retries else None
        if pause is None or pause >= self.deadline - now:
            if isinstance(error, DaemonTimeoutError) and self.failures:
                raise self.timed_out_after_failures(now) from self.failures[-1]
            raise error
        self.failures.append(error)
        return pause

    def pieces(self) -> list[bytes] | None:
        """The content in pieces: after each send, the sync transport of httpx copies what remains of a piece."""
        content = self.content
        if content is None:
            return None
        return [content[at : at + PIECE_BYTES] for at in range(0, len(content), PIECE_BYTES)]

    def begin_response(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.response_headers = response.headers

    def answer(self, body: bytes) -> Answer[Any]:
        """The successful response with this body: JSON, or the page that was asked for. Raises the error of another response."""
        request_id = self.response_headers.get("x-request-id") or self.request_id
        retry_after = seconds(self.response_headers.get("retry-after"))
        is_success = 200 <= self.status < 300
        is_page = is_success and self.media_type() == self.headers.get("accept") == PAGE
        expected = "application/json" if is_success else "application/problem+json"
        if is_page or self.media_type() == expected:
            try:
                text = body.decode("utf-8")
                document = text if is_page else json.loads(text)
            except ValueError as error:
                raise self.unreadable(f"invalid JSON: {error}") from error
            if is_success:
                return Answer(
                    body=document, status=self.status, request_id=request_id, retry_after=retry_after, text=text
                )
            if isinstance(document, dict) and all(
                isinstance(document.get(name), kind) for name, kind in (("code", str), ("detail", str), ("status", int))
            ):
                raise problem_error(document, request_id, retry_after)
        raise self.unreadable(f"content type {self.response_headers.get('content-type', 'missing')!r}")

    def batch_answers(self, body: bytes, window: Window) -> list[Any]:
        """The answers to the requests of a window."""
        if self.status != 200 or self.media_type() != "application/x-ndjson":
            self.answer(body)
            raise self.unreadable("not a response to a batch")
        # not splitlines(): JSON may contain U+2028, U+0085 and other characters that end lines of a text
        *lines, rest = body.split(b"\n")
        if rest or len(lines) < len(window.lines):
            # a daemon that stops ends its response early
            raise self.broken(f"{len(lines)} of {len(window.lines)} answers arrived")
        try:
            answers = [json.loads(line) for line in lines]
            numbers = [answer["line"] for answer in answers]
        except (ValueError, TypeError, KeyError) as error:
            raise self.unreadable(f"invalid line: {error}") from error
        if numbers != list(range(1, len(window.lines) + 1)):
            raise self.unreadable(f"answers to lines {numbers[:3]}… of {len(window.lines)}")
        for answer in answers:
            answer["line"] += window.offset
        return answers

    def media_type(self) -> str:
        return self.response_headers.get("content-type", "").partition(";")[0].strip().lower()

    def unreadable(self, fault: str) -> ResponseError:
        return ResponseError(
            f"{self.method} {self.path} has an unreadable response with status {self.status}: {fault}",
            self.request_id,
            self.status,
        )


@dataclass
class Window:
    """Consecutive requests of a batch that are sent together."""

    offset: int = 0
    lines: list[bytes] = field(default_factory=list)
    size: int = 0

    def has_room_for(self, line: bytes) -> bool:
        return not self.lines or (len(self.lines) < WINDOW_LINES and self.size + len(line) <= WINDOW_BYTES)

    def add(self, line: bytes) -> None:
        self.lines.append(line)
        self.size += len(line)

    def following(self) -> Window:
        """The empty window after this one."""
        return Window(self.offset + len(self.lines))


def socket_path(given: str | os.PathLike[str] | None) -> str:
    if given == "":
        raise ValueError("`socket` is empty; omit it for the default socket")
    return os.fspath(given) if given is not None else os.environ.get("ORACLED_SOCKET") or find_socket()


def socket_remedy(given: str | os.PathLike[str] | None) -> str:
    """What to check if the socket cannot be reached."""
    is_default = given is None and not os.environ.get("ORACLED_SOCKET")
    used = "ORACLED_SOCKET is not set, so the default socket was used; " if is_default else ""
    return used + "check that oracled runs, that its socket has this path, and that this user may open it"


def find_socket() -> str:
    """The socket of `oraclectl`, too: systemd's if it exists, otherwise that of a daemon of this user."""
    variables = [os.environ.get(name, "") for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME")]
    folders = [*variables, os.path.expanduser("~/.local/state")]
    own = [os.path.join(folder, "oracled/oracled.sock") for folder in folders if os.path.isabs(folder)]
    return next((path for path in [SOCKET_OF_SYSTEMD, *own] if os.path.exists(path)), SOCKET_OF_SYSTEMD)


def check_positive(name: str, value: float) -> float:
    """Checks a time limit in seconds."""
    if not 0 < value < float("inf"):
        raise ValueError(f"`{name}` is {value} (a number of seconds above 0 is required)")
    return value


def check_retries(retries: int) -> int:
    if retries < 0:
        raise ValueError(f"`retries` is {retries} (0 or more is required)")
    return retries


def checked_request_id(given: str | None) -> str:
    if given is None:
        return uuid.uuid4().hex
    if not 1 <= len(given) <= 128 or not all("!" <= character <= "~" for character in given):
        raise ValueError(f"`request_id` is {given[:200]!r} (1 to 128 visible ASCII characters are required)")
    return given


def path_of(collection: str, **ids: str) -> str:
    """The path of a collection, or of an id in it. The name of an id is that of the argument."""
    return "/".join(["/v1", collection, *(encoded(name, id) for name, id in ids.items())])


def encoded(name: str, id: str) -> str:
    if not isinstance(id, str):
        raise invalid_type(name, id, "a non-empty string is required")
    if not 1 <= len(id) <= ID_MAX:
        raise ValueError(f"`{name}` has {len(id)} characters (1 to {ID_MAX} allowed)")
    # httpx removes the segments `.` and `..` from a path, and the daemon has an error for them
    return quote(id, safe="").replace(".", "%2E") if id in (".", "..") else quote(id, safe=":")


def encode(document: object) -> bytes:
    """The document as one line of JSON. A number that JSON does not have is a ValueError."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def seconds(header: str | None) -> float | None:
    return float(header) if header is not None and header.isascii() and header.isdigit() else None


def problem_error(document: Any, request_id: str, retry_after: float | None) -> ProblemError:
    """The error of the class that fits the problem."""
    if document["code"] in REJECTIONS:
        return RejectedError(document, request_id, retry_after)
    if retry_after is not None:
        return TemporaryError(document, request_id, retry_after)
    return ProblemError(document, request_id, retry_after)


def is_unavailable(error: OracledError) -> TypeGuard[TemporaryError]:
    """Whether the daemon had no capacity for the request. After another error, an attempt could cost a call of the model."""
    return isinstance(error, TemporaryError) and error.status in (429, 503)


def pause_before_retry(error: OracledError, attempt: int) -> float | None:
    """The pause before a retry, in seconds; None if a retry does not help."""
    if isinstance(error, DaemonConnectionError):
        return 0.1 * 2.0 ** (attempt - 1)
    return error.retry_after if is_unavailable(error) else None


def outcome(answer: Answer[Any]) -> Delivered | Ordered | Held:
    """The outcome of a submission or a read, by its status."""
    members = vars(answer)
    if answer.status != 202:
        return Delivered(**members)
    return Held(**members) if answer.body.get("state") == "held" else Ordered(**members)


def card_outcome(answer: Answer[Any]) -> Card | Ordered | Held:
    """The outcome of a read of a card, by its status."""
    if answer.status != 202 and not isinstance(answer.body, str):
        fault = "the response is no card; do the versions of daemon and client match?"
        raise ResponseError(fault, answer.request_id, answer.status)
    result = outcome(answer)
    return Card(**vars(answer)) if isinstance(result, Delivered) else result


def wait_expired(session_id: str, wait: float, order: OrderReport | None, cause: OracledError | None) -> str:
    """The message about a wait without a verdict: the time, the state of the order, and why it has no verdict yet."""
    text = f"session {session_id} has no verdict within {wait:g} s; "
    if order is None:
        text += "the state of its order is unknown"
    else:
        text += f"its order is {order['state']} (attempts: {order['attempts']})"
        failed = [attempt for attempt in order["last_attempts"] if attempt.get("outcome") and attempt.get("cause")]
        if failed:
            text += f"; the last attempt: {failed[-1].get('outcome')}: {failed[-1].get('cause')}"
    return text if cause is None else f"{text}; the last read: {cause}"


async def each(items: AsyncRequests[Item]) -> AsyncIterator[Item]:
    """The items of a sync or an async iterable."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
