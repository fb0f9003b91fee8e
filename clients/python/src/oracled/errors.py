"""The errors of the client."""

from __future__ import annotations

from oracled.types import OrderReport, ProblemDocument


class OracledError(Exception):
    """Base class of all errors of this client."""

    request_id: str
    """The id of the request, which is also in the daemon's log."""

    def __init__(self, message: str, request_id: str) -> None:
        super().__init__(message)
        self.request_id = request_id


class ProblemError(OracledError):
    """The daemon returned an error: a problem document (RFC 9457)."""

    def __init__(self, problem: ProblemDocument, request_id: str, retry_after: float | None) -> None:
        super().__init__(f"{problem['code']}: {problem['detail']}", request_id)
        self.problem = problem
        """The whole document, for example with the `decision` of a rejection."""
        self.code: str = problem["code"]
        """The stable code, for programs: a `ProblemCode`, or a new code of a later version."""
        self.status: int = problem["status"]
        """The HTTP status."""
        self.detail: str = problem["detail"]
        """The fault, its value, and what is allowed."""
        self.retry_after = retry_after
        """The time before the next attempt, in seconds; None if it is unknown, or if a retry does not help."""


class RejectedError(ProblemError):
    """The crosscheck, the rules or the policy rejected the verdict, or its order failed. Nothing is delivered.

    `problem` has the `decision`, the `evaluation` or the `causes`. A rejected regeneration has `retry_after`.
    """


class TemporaryError(ProblemError):
    """The same request can succeed after `retry_after` seconds."""

    retry_after: float


class DaemonConnectionError(OracledError):
    """No complete response arrived.

    The daemon is not running, its socket is not permitted, or the connection broke. `__cause__` has the error of the
    connection. The daemon may have stored the result, so repeat the same request.
    """


class DaemonTimeoutError(OracledError):
    """The time limit of a call or a wait has expired. The daemon may have stored the result, or continue an order."""

    def __init__(self, message: str, request_id: str, order: OrderReport | None = None) -> None:
        super().__init__(message, request_id)
        self.order = order
        """The last known state of the order, if `wait_for_verdict` read one."""


class ResponseError(OracledError):
    """The response does not conform to the API: the server is not oracled, or has an unknown version."""

    def __init__(self, message: str, request_id: str, status: int) -> None:
        super().__init__(message, request_id)
        self.status = status
        """The HTTP status."""


def invalid_type(name: str, value: object, required: str) -> TypeError:
    """The error about an argument whose type may not be checked by a type checker."""
    return TypeError(f"`{name}` is {value!r:.60} ({required})")
