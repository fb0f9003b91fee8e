"""The async client. `generate.py` makes the sync client from this file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any, Unpack

import httpx

from oracled._wire import (
    BASE_URL,
    PAGE,
    POLL_AFTER_S,
    READ_MIN_S,
    AsyncRequests,
    Call,
    CallOptions,
    Window,
    card_outcome,
    check_positive,
    check_retries,
    checked_request_id,
    each,
    encode,
    is_unavailable,
    outcome,
    path_of,
    socket_path,
    socket_remedy,
    wait_expired,
)
from oracled.answers import Answer, Card, Delivered, Held, Ordered
from oracled.errors import DaemonConnectionError, DaemonTimeoutError, OracledError, invalid_type
from oracled.types import (
    BatchAnswer,
    ChangesPage,
    CrosscheckDecision,
    CrosscheckRequest,
    Envelope,
    EvaluateTextRequest,
    ListPage_OrderReport,
    OracleQuery,
    OrderReport,
    OrderState,
    ProvenanceRecord,
    QueryAnswer,
    QueryBatchAnswer,
    RecordAnswer,
    RegisterSessionRequest,
    RegisterSessionResponse,
    RulesEvaluation,
    RulesResponse,
    SourceSummary,
    SubmitVerdictRequest,
    VerifyBatchAnswer,
    VerifyRequest,
)


class AsyncClient:
    """A client of the routes' socket. It reuses its connections, so create one for the whole process.

    Every method raises an `OracledError` if it has no result. After a broken connection, and after status 429 or 503
    with `Retry-After`, a call is repeated within its time limit. This is safe: a repeated request adds at most entries
    to the audit log.

    Args:
        socket: Path of the routes' socket. Default: the variable `ORACLED_SOCKET`, or the first that exists of
            `/run/oracled/oracled.sock` and those of a daemon of this user.
        timeout: Time limit of a call with its retries, in seconds. The daemon may take 30 s.
        retries: The most retries of a call. With 0, no restart of the daemon is bridged.
        transport: It answers calls in place of the daemon, for unit tests. `oracled.testing.FakeTransport` is one.
    """

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        *,
        timeout: float = 35.0,
        retries: int = 2,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._timeout = check_positive("timeout", timeout)
        self._retries = check_retries(retries)
        self._socket = socket_path(socket)
        self._remedy = socket_remedy(socket)
        self._http = httpx.AsyncClient(
            base_url=BASE_URL,
            # the environment must not change the connection, for example by SSL_CERT_FILE or a proxy
            transport=transport or httpx.AsyncHTTPTransport(uds=self._socket, trust_env=False),
            trust_env=False,
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections. Later calls fail."""
        await self._http.aclose()

    async def submit_verdict(
        self,
        session_id: str,
        request: SubmitVerdictRequest,
        *,
        respond_async: bool = False,
        **options: Unpack[CallOptions],
    ) -> Delivered | Ordered | Held:
        """Submit a verdict as `raw` or `verdict`, or order one if both are missing.

        A session has one verdict: a further submission returns the stored one. With `respond_async` an order returns at
        once, and does not wait for the model.

        Raises:
            RejectedError: The verdict was rejected. Nothing is delivered.
            DaemonTimeoutError: No response arrived in time. The verdict or its order may be stored.
        """
        headers = {"prefer": "respond-async"} if respond_async else {}
        path = path_of("verdicts", session_id=session_id)
        try:
            return outcome(await self._post(path, request, options, headers))
        except DaemonTimeoutError as error:
            remedy = "the verdict or its order may be stored: repeat the same call, or call `wait_for_verdict`"
            raise DaemonTimeoutError(f"{error}; {remedy}", error.request_id) from error

    async def read_verdict(
        self, session_id: str, *, proof: bool = False, **options: Unpack[CallOptions]
    ) -> Delivered | Ordered | Held:
        """Read the verdict of a session.

        A lost verdict is regenerated, and `body` reports the difference. With `proof` the answer has the proof that the
        log contains the delivery.

        Raises:
            RejectedError: The order of the session failed, or a regenerated verdict was rejected.
        """
        path = path_of("verdicts", session_id=session_id) + ("?proof=1" if proof else "")
        return outcome(await self._get(path, options))

    async def read_card(self, session_id: str, **options: Unpack[CallOptions]) -> Card | Ordered | Held:
        """Read the verdict card of a session, as `read_verdict` reads its verdict.

        Raises:
            RejectedError: The order of the session failed, or a regenerated verdict was rejected.
        """
        path = path_of("verdicts", session_id=session_id) + "?card=1"
        return card_outcome(await self._call("GET", path, options, headers={"accept": PAGE}))

    async def wait_for_verdict(
        self, session_id: str, *, wait: float = 600.0, **options: Unpack[CallOptions]
    ) -> Delivered | Held:
        """Read the verdict of a session until it is delivered, or until its order is held.

        The daemon determines the time between the reads (`Retry-After`, 5 s to 5 min). The last read is at the end of
        the wait. The wait continues while the daemon restarts.

        Args:
            wait: Time limit of the whole wait, in seconds, before the last read, which takes at most 2 s. `timeout` is
                that of each read.

        Raises:
            DaemonTimeoutError: The last read has no verdict. It has the last `order`. The order continues.
            RejectedError: The order failed.
        """
        deadline = monotonic() + check_positive("wait", wait)
        options["request_id"] = checked_request_id(options.get("request_id"))
        timeout = options.get("timeout", self._timeout)
        order: OrderReport | None = None
        while True:
            retry_after: float | None = None
            cause: OracledError | None = None
            options["timeout"] = min(timeout, max(deadline - monotonic(), READ_MIN_S))
            try:
                answer = await self.read_verdict(session_id, **options)
                if not isinstance(answer, Ordered):
                    return answer
                order, retry_after = answer.body, answer.retry_after
            except OracledError as error:
                if is_unavailable(error):
                    retry_after = error.retry_after
                elif not isinstance(error, (DaemonConnectionError, DaemonTimeoutError)):
                    raise
                cause = error
            left = deadline - monotonic()
            if left <= 0:
                expired = wait_expired(session_id, wait, order, cause)
                raise DaemonTimeoutError(expired, options["request_id"], order) from cause
            await asyncio.sleep(min(POLL_AFTER_S if retry_after is None else retry_after, left))

    async def check_verdict(
        self, request: CrosscheckRequest, **options: Unpack[CallOptions]
    ) -> Answer[CrosscheckDecision]:
        """Judge a verdict without delivering it. The decision can be negative."""
        return await self._post(path_of("crosscheck"), request, options)

    async def read_order(self, session_id: str, **options: Unpack[CallOptions]) -> Answer[OrderReport]:
        """Read the order of a session, with its last attempts."""
        return await self._get(path_of("orders", session_id=session_id), options)

    async def cancel_order(self, session_id: str, **options: Unpack[CallOptions]) -> Answer[OrderReport]:
        """Cancel the order of a session, which then gets no verdict.

        The answer of a call in progress is discarded, and its cost counts. It can be repeated.
        """
        return await self._call("DELETE", path_of("orders", session_id=session_id), options)

    async def list_orders(
        self,
        *,
        state: OrderState | None = None,
        after: str | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> Answer[ListPage_OrderReport]:
        """List a page of orders. `next` in the answer is the `after` of the next page, or None on the last page."""
        return await self._get(path_of("orders"), options, state=state, after=after, limit=limit)

    async def register_session(
        self, session_id: str, request: RegisterSessionRequest, **options: Unpack[CallOptions]
    ) -> Answer[RegisterSessionResponse]:
        """Register a session, so that its verdict can be regenerated. The status is 201 if the session is new."""
        return await self._call("PUT", path_of("sessions", session_id=session_id), options, request)

    async def list_rules(self, **options: Unpack[CallOptions]) -> Answer[RulesResponse]:
        """List the rules."""
        return await self._get(path_of("rules"), options)

    async def evaluate_text(
        self, request: EvaluateTextRequest, **options: Unpack[CallOptions]
    ) -> Answer[RulesEvaluation]:
        """Check a text against facts. Only the verdict `PASS` is a pass."""
        return await self._post(path_of("rules/evaluate"), request, options)

    async def evaluate_texts(
        self, requests: AsyncRequests[EvaluateTextRequest], **options: Unpack[CallOptions]
    ) -> AsyncIterator[BatchAnswer]:
        """Check many texts, and return one answer for each, in the same order.

        Each answer has an `evaluation` or a `problem`. `line` is the number of its request, from 1. The requests are
        read and sent in windows of at most 256 requests and 64 KiB (a larger request is sent alone). The next window is
        read after the answers of the previous one were taken. `timeout` is the time limit of a window.
        """
        async for answer in self._batch(path_of("rules/evaluate:batch"), requests, options):
            yield answer

    async def query_source(self, request: OracleQuery, **options: Unpack[CallOptions]) -> Answer[QueryAnswer]:
        """Query a source. Numbers and dates in the answer are strings with all their digits."""
        return await self._post(path_of("query"), request, options)

    async def query_sources(
        self, requests: AsyncRequests[OracleQuery], **options: Unpack[CallOptions]
    ) -> AsyncIterator[QueryBatchAnswer]:
        """Send many queries, and return one `answer` or `problem` for each, in the same order, as `evaluate_texts`."""
        async for answer in self._batch(path_of("query:batch"), requests, options):
            yield answer

    async def list_sources(self, **options: Unpack[CallOptions]) -> Answer[list[SourceSummary]]:
        """List the sources."""
        return await self._get(path_of("sources"), options)

    async def list_changes(
        self,
        *,
        since: str | None = None,
        oracle_id: str | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> Answer[ChangesPage]:
        """List a page of the changes of records. `next` in the answer is the `since` of the next page."""
        return await self._get(path_of("changes"), options, since=since, oracle_id=oracle_id, limit=limit)

    async def read_record(self, record_id: str, **options: Unpack[CallOptions]) -> Answer[RecordAnswer]:
        """Read a record of a source."""
        return await self._get(path_of("records", record_id=record_id), options)

    async def read_provenance(self, record_id: str, **options: Unpack[CallOptions]) -> Answer[ProvenanceRecord]:
        """Read the provenance of a record."""
        return await self._get(path_of("records", record_id=record_id) + "/provenance", options)

    async def verify_values(self, request: VerifyRequest, **options: Unpack[CallOptions]) -> Answer[Envelope]:
        """Compare the values of several sources. Only an axis of the kind `authoritative` has a value.

        If the `kind` of the envelope is `provisional`, the decision is pending: read it with `read_verification` after
        `retry_after` seconds.
        """
        return await self._post(path_of("verify"), request, options)

    async def verify_values_in_batch(
        self, requests: AsyncRequests[VerifyRequest], **options: Unpack[CallOptions]
    ) -> AsyncIterator[VerifyBatchAnswer]:
        """Decide many questions, and return one `envelope` or `problem` for each, in the same order, as `evaluate_texts`."""
        async for answer in self._batch(path_of("verify:batch"), requests, options):
            yield answer

    async def read_verification(self, execution_id: str, **options: Unpack[CallOptions]) -> Answer[Envelope]:
        """Read the envelope of an earlier verification."""
        return await self._get(path_of("verify", execution_id=execution_id), options)

    async def _get(self, path: str, options: CallOptions, **query: str | int | None) -> Answer[Any]:
        given = {name: value for name, value in query.items() if value is not None}
        return await self._call("GET", f"{path}?{httpx.QueryParams(given)}" if given else path, options)

    async def _post(
        self, path: str, request: object, options: CallOptions, headers: dict[str, str] | None = None
    ) -> Answer[Any]:
        return await self._call("POST", path, options, request, headers)

    async def _call(
        self,
        method: str,
        path: str,
        options: CallOptions,
        request: object = None,
        headers: dict[str, str] | None = None,
    ) -> Answer[Any]:
        if method in ("POST", "PUT") and not isinstance(request, dict):
            raise invalid_type("request", request, "a dict is required")
        content = None if request is None else encode(request)
        call = self._prepare(method, path, options, content, "application/json", headers)
        while True:
            try:
                return call.answer(await self._exchange(call))
            except OracledError as error:
                pause = call.pause_after(error)
            await asyncio.sleep(pause)

    async def _batch(
        self, path: str, requests: AsyncRequests[object], options: CallOptions
    ) -> AsyncIterator[Any]:
        options["request_id"] = checked_request_id(options.get("request_id"))
        window = Window()
        async for request in each(requests):
            line = encode(request) + b"\n"
            if not window.has_room_for(line):
                for answer in await self._send_window(path, window, options):
                    yield answer
                window = window.following()
            window.add(line)
        if window.lines:
            for answer in await self._send_window(path, window, options):
                yield answer

    async def _send_window(self, path: str, window: Window, options: CallOptions) -> list[Any]:
        content = b"".join(window.lines)
        call = self._prepare("POST", path, options, content, "application/x-ndjson")
        while True:
            try:
                return call.batch_answers(await self._exchange(call), window)
            except OracledError as error:
                pause = call.pause_after(error)
            await asyncio.sleep(pause)

    def _prepare(
        self,
        method: str,
        path: str,
        options: CallOptions,
        content: bytes | None,
        media_type: str,
        headers: dict[str, str] | None = None,
    ) -> Call:
        timeout = check_positive("timeout", options.get("timeout", self._timeout))
        request_id = checked_request_id(options.get("request_id"))
        sent = {"x-request-id": request_id, "accept-encoding": "identity", **(headers or {})}
        if content is not None:
            sent |= {"content-type": media_type, "content-length": str(len(content))}
        return Call(method, path, content, sent, timeout, self._retries, request_id, monotonic() + timeout)

    async def _exchange(self, call: Call) -> bytes:
        """Send the request once, and return the body of the response."""
        if self._http.is_closed:
            raise OracledError("the client is closed; create another one", call.request_id)
        try:
            async with self._http.stream(
                call.method, call.path, content=call.content, headers=call.headers, timeout=call.remaining()
            ) as response:
                call.begin_response(response)
                body = bytearray()
                async for chunk in response.aiter_raw():
                    body += chunk
                    # the time limit of httpx applies to each chunk
                    call.remaining()
                return bytes(body)
        except httpx.TimeoutException as error:
            raise call.timed_out() from error
        except httpx.ConnectError as error:
            raise call.broken(f"cannot connect to {self._socket}: {error} ({self._remedy})") from error
        except httpx.TransportError as error:
            raise call.broken(f"the connection to {self._socket} broke: {error or type(error).__name__}") from error
