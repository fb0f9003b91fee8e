"""Calls against a scripted server: retries, time limits and unreadable responses."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ScriptedServer, problem, response

from oracled import (
    AsyncClient,
    Client,
    DaemonConnectionError,
    DaemonTimeoutError,
    Delivered,
    Held,
    OracledError,
    Ordered,
    ProblemError,
    RejectedError,
    ResponseError,
    TemporaryError,
)
from oracled._wire import socket_path
from oracled.types import EvaluateTextRequest

RULES = response(200, {"rules": []})


def test_call_repeats_after_a_broken_connection(scripted: ScriptedServer) -> None:
    scripted.script = [[], [], [RULES]]
    with Client(scripted.path) as client:
        assert client.list_rules().body["rules"] == []
    assert len(scripted.requests) == 3
    assert len(set(scripted.requests)) == 1, "all attempts have the same X-Request-Id"


def test_async_call_repeats_after_a_broken_connection(scripted: ScriptedServer) -> None:
    scripted.script = [[], [RULES]]

    async def run() -> None:
        async with AsyncClient(scripted.path) as client:
            assert (await client.list_rules()).body["rules"] == []

    asyncio.run(run())
    assert len(scripted.requests) == 2


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_call_ends_after_its_retries(scripted: ScriptedServer, retries: int) -> None:
    scripted.script = [[] for _ in range(9)]
    with Client(scripted.path, retries=retries) as client, pytest.raises(DaemonConnectionError) as raised:
        client.list_rules(request_id="mine")
    assert len(scripted.requests) == retries + 1
    assert raised.value.request_id == "mine"


def test_call_waits_for_retry_after_when_overloaded(scripted: ScriptedServer) -> None:
    scripted.script = [[problem(503, "overloaded", "retry-after: 1")], [RULES]]
    with Client(scripted.path) as client:
        began = time.monotonic()
        client.list_rules()
    assert time.monotonic() - began >= 1
    assert len(scripted.requests) == 2


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (503, []),
        (502, ["retry-after: 1"]),
        (504, ["retry-after: 1"]),
        (503, ["retry-after: 60"]),
        (409, ["retry-after: 1"]),
    ],
)
def test_call_is_not_repeated_without_a_cheap_retry_in_time(
    scripted: ScriptedServer, status: int, headers: list[str]
) -> None:
    scripted.script = [[problem(status, "model_refused", *headers)]]
    with Client(scripted.path) as client, pytest.raises(ProblemError) as raised:
        client.read_verdict("cs_1")
    assert len(scripted.requests) == 1
    assert isinstance(raised.value, TemporaryError) == bool(headers)
    assert raised.value.retry_after == (float(headers[0].split()[1]) if headers else None)


def test_rejection_has_its_own_class_even_with_retry_after(scripted: ScriptedServer) -> None:
    scripted.script = [[problem(422, "crosscheck_rejected", "retry-after: 60", "x-request-id: theirs")]]
    with Client(scripted.path) as client, pytest.raises(RejectedError) as raised:
        client.read_verdict("cs_1")
    assert (raised.value.retry_after, raised.value.request_id) == (60, "theirs")


def test_call_ends_at_its_time_limit(scripted: ScriptedServer) -> None:
    scripted.script = [[5.0]]
    with Client(scripted.path) as client:
        began = time.monotonic()
        with pytest.raises(DaemonTimeoutError):
            client.list_rules(timeout=0.3)
    assert time.monotonic() - began < 3
    assert len(scripted.requests) == 1


def test_timeout_in_a_retry_has_the_last_failure_and_the_time(scripted: ScriptedServer) -> None:
    scripted.script = [[], [5.0]]
    expected = r"within 0\.5 s, after 2 attempts in 0\.[5-9] s; the last failure: .* broke: "
    with Client(scripted.path) as client, pytest.raises(DaemonTimeoutError, match=expected) as raised:
        client.list_rules(timeout=0.5)
    assert isinstance(raised.value.__cause__, DaemonConnectionError)


def test_call_ends_at_its_time_limit_if_the_body_trickles(scripted: ScriptedServer) -> None:
    begun = RULES.replace(b"content-length: 13", b"content-length: 900")
    trickle: list[bytes | float] = [b" ", 0.1]
    scripted.script = [[begun, *(trickle * 50)]]
    with Client(scripted.path) as client:
        began = time.monotonic()
        with pytest.raises(DaemonTimeoutError):
            client.list_rules(timeout=0.5)
    assert time.monotonic() - began < 3


def test_response_is_unreadable_if_it_is_no_document_of_the_api(scripted: ScriptedServer) -> None:
    answers = [
        response(200, b"<html>", media_type="text/html"),
        response(200, b"{"),
        response(200, {}, media_type="text/plain"),
        response(302, {}, "location: http://127.0.0.1:9/"),
        response(400, b"", media_type="text/plain"),
        response(500, {"error": "x"}),
    ]
    scripted.script = [[answer] for answer in answers]
    with Client(scripted.path) as client:
        for status in (200, 200, 200, 302, 400, 500):
            with pytest.raises(ResponseError) as raised:
                client.list_rules()
            assert raised.value.status == status
    assert len(scripted.requests) == len(answers)


def test_connection_is_reused(scripted: ScriptedServer) -> None:
    scripted.script = [[RULES] for _ in range(5)]
    with Client(scripted.path) as client:
        for _ in range(5):
            client.list_rules()
    assert scripted.connections == 1


def test_environment_does_not_change_the_connection(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("SSL_CERT_FILE", str(scripted.path.with_name("none")))
    scripted.script = [[RULES]]
    with Client(scripted.path) as client:
        client.list_rules()
    assert len(scripted.requests) == 1


def test_socket_is_that_of_the_environment(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORACLED_SOCKET", str(scripted.path))
    scripted.script = [[RULES]]
    with Client() as client:
        client.list_rules()
    assert len(scripted.requests) == 1


def test_missing_socket_is_a_connection_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path / ("long" * 40)):
        with Client(path, retries=0) as client, pytest.raises(DaemonConnectionError) as raised:
            client.list_rules()
        assert str(path) in str(raised.value)
        assert "ORACLED_SOCKET" not in str(raised.value)

        async def run(path: Path) -> None:
            async with AsyncClient(path, retries=0) as client:
                await client.list_rules()

        with pytest.raises(DaemonConnectionError):
            asyncio.run(run(path))


def test_connection_error_names_a_variable_that_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORACLED_SOCKET", raising=False)
    monkeypatch.setattr("oracled._wire.find_socket", lambda: str(tmp_path / "none"))
    with Client(retries=0) as client, pytest.raises(DaemonConnectionError, match="ORACLED_SOCKET is not set, so the default"):
        client.list_rules()


@pytest.mark.parametrize(("timeout", "least"), [(0.8, 0.4), (35.0, 4.9)])
def test_missing_daemon_is_tried_for_5_seconds_within_the_time_limit(
    tmp_path: Path, timeout: float, least: float
) -> None:
    with Client(tmp_path / "none") as client:
        began = time.monotonic()
        with pytest.raises(DaemonConnectionError):
            client.list_rules(timeout=timeout)
    assert least <= time.monotonic() - began < least + 1


def test_call_of_a_closed_client_is_an_error(scripted: ScriptedServer) -> None:
    client = Client(scripted.path)
    client.close()
    texts: list[EvaluateTextRequest] = [{"candidate_output": "a", "facts": []}]
    for call in (
        lambda: client.read_verdict("cs_1"),
        lambda: client.wait_for_verdict("cs_1"),
        lambda: list(client.evaluate_texts(texts)),
    ):
        with pytest.raises(OracledError, match="the client is closed"):
            call()

    async def run() -> None:
        client = AsyncClient(scripted.path)
        await client.aclose()
        await client.list_rules()

    with pytest.raises(OracledError, match="the client is closed"):
        asyncio.run(run())
    assert not scripted.requests


def test_expired_submission_says_that_it_can_be_repeated(scripted: ScriptedServer) -> None:
    scripted.script = [[5.0]]
    with Client(scripted.path) as client:
        with pytest.raises(DaemonTimeoutError, match="may be stored: repeat the same call, or call `wait_for_verdict`$"):
            client.submit_verdict("cs_1", {"tier": "quick", "query": "Sell honey?"}, timeout=0.3)


@pytest.mark.parametrize(
    ("session_id", "path"),
    [
        ("..", b"/v1/verdicts/%2E%2E"),
        (".", b"/v1/verdicts/%2E"),
        ("a/../b?c#d", b"/v1/verdicts/a%2F..%2Fb%3Fc%23d"),
        ("cs_1:a-b.c", b"/v1/verdicts/cs_1:a-b.c"),
        ("é%2F", b"/v1/verdicts/%C3%A9%252F"),
    ],
)
def test_session_id_stays_one_segment_of_the_path(scripted: ScriptedServer, session_id: str, path: bytes) -> None:
    scripted.script = [[RULES]]
    with Client(scripted.path) as client:
        client.read_verdict(session_id)
    assert scripted.requests[0].split()[1] == path


def test_id_that_is_no_string_is_an_error_and_sends_nothing(scripted: ScriptedServer) -> None:
    request: Any = {"tier": "quick", "query": "Sell honey?"}
    with Client(scripted.path) as client:
        calls: list[tuple[str, Callable[[Any], object]]] = [
            ("session_id", lambda id: client.submit_verdict(id, request)),
            ("session_id", client.read_verdict),
            ("session_id", client.wait_for_verdict),
            ("session_id", client.read_order),
            ("session_id", client.cancel_order),
            ("session_id", lambda id: client.register_session(id, request)),
            ("record_id", client.read_record),
            ("record_id", client.read_provenance),
            ("execution_id", client.read_verification),
        ]
        for name, call in calls:
            for id in (None, 17, float("nan"), b"cs_1", ["cs_1"]):
                with pytest.raises(TypeError, match=rf"^`{name}` is .* \(a non-empty string is required\)$"):
                    call(id)
            for length in (0, 256):
                with pytest.raises(ValueError, match=rf"^`{name}` has {length} characters \(1 to 255 allowed\)$"):
                    call("a" * length)
    assert not scripted.requests


def test_missing_request_is_an_error_and_sends_nothing(scripted: ScriptedServer) -> None:
    missing: Any = None
    with Client(scripted.path) as client:
        for call in (
            lambda: client.submit_verdict("cs_1", missing),
            lambda: client.register_session("cs_1", missing),
            lambda: client.verify_values(missing),
        ):
            with pytest.raises(TypeError, match=r"^`request` is None \(a dict is required\)$"):
                call()
    assert not scripted.requests


def test_invalid_arguments_are_rejected_before_a_request(scripted: ScriptedServer) -> None:
    with Client(scripted.path) as client:
        for request_id in ("", "a b", "é", "a" * 129, "a\r\nx: y"):
            with pytest.raises(ValueError):
                client.list_rules(request_id=request_id)
        for timeout in (0.0, -1.0, float("nan"), float("inf")):
            with pytest.raises(ValueError):
                client.list_rules(timeout=timeout)
        with pytest.raises(ValueError):
            client.verify_values({"workflow": "w", "where": {"year": float("nan")}, "axes": []})
    with pytest.raises(ValueError):
        Client(scripted.path, retries=-1)
    with pytest.raises(ValueError, match="`socket` is empty"):
        Client("")
    assert not scripted.requests


def test_wait_continues_while_the_daemon_restarts(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oracled._client.POLL_AFTER_S", 0.2)
    order = {"state": "queued"}
    scripted.script = [
        [response(202, order, "retry-after: 1")],
        [],
        [problem(503, "draining", "retry-after: 1")],
        [response(200, {"verdict": {}})],
    ]
    with Client(scripted.path, retries=0) as client:
        began = time.monotonic()
        assert isinstance(client.wait_for_verdict("cs_1", wait=30), Delivered)
    assert 2.2 <= time.monotonic() - began < 10
    assert not scripted.script


def test_wait_ends_if_the_order_is_held(scripted: ScriptedServer) -> None:
    scripted.script = [[response(202, {"state": "held"})]]
    with Client(scripted.path) as client:
        assert isinstance(client.wait_for_verdict("cs_1"), Held)


def test_wait_ends_with_a_last_read_at_its_limit(scripted: ScriptedServer) -> None:
    order = {"state": "generating", "attempts": 1, "last_attempts": []}
    scripted.script = [[response(202, order, "retry-after: 300")]] * 2
    with Client(scripted.path) as client:
        began = time.monotonic()
        with pytest.raises(DaemonTimeoutError) as raised:
            client.wait_for_verdict("cs_1", wait=1)
    assert 1 <= time.monotonic() - began < 3
    assert raised.value.order is not None and raised.value.order["state"] == "generating"


def test_async_wait_ends_when_its_task_is_cancelled(scripted: ScriptedServer) -> None:
    scripted.script = [[response(202, {"state": "queued"}, "retry-after: 300")]]

    async def run() -> None:
        async with AsyncClient(scripted.path) as client:
            assert isinstance(await client.read_verdict("cs_1"), Ordered)
            scripted.script = [[response(202, {"state": "queued"}, "retry-after: 300")]]
            async with asyncio.timeout(0.5):
                await client.wait_for_verdict("cs_1", wait=3000)

    with pytest.raises(TimeoutError):
        asyncio.run(run())


def test_socket_is_that_of_a_daemon_of_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ORACLED_SOCKET", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("oracled._wire.SOCKET_OF_SYSTEMD", str(tmp_path / "none"))
    assert socket_path(None) == str(tmp_path / "none")
    own = tmp_path / ".local/state/oracled/oracled.sock"
    runtime = tmp_path / "run/oracled/oracled.sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    for socket in (own, runtime):
        socket.parent.mkdir(parents=True)
        socket.touch()
        assert socket_path(None) == str(socket)
    monkeypatch.setenv("ORACLED_SOCKET", "other.sock")
    assert socket_path(None) == "other.sock"


def ndjson(*lines: int) -> bytes:
    body = b"".join(json.dumps({"line": line, "evaluation": {"verdict": "PASS"}}).encode() + b"\n" for line in lines)
    return response(200, body, media_type="application/x-ndjson")


def test_batch_sends_a_window_again_if_answers_are_missing(scripted: ScriptedServer) -> None:
    scripted.script = [[ndjson(1)], [ndjson(1, 2)]]
    with Client(scripted.path) as client:
        answers = list(client.evaluate_texts([{"candidate_output": "a", "facts": []}] * 2))
    assert [answer["line"] for answer in answers] == [1, 2]
    assert scripted.requests[0] == scripted.requests[1]


@pytest.mark.parametrize("lines", [(2, 1), (1, 1), (1, 2, 3)])
def test_batch_rejects_answers_of_other_lines(scripted: ScriptedServer, lines: tuple[int, ...]) -> None:
    scripted.script = [[ndjson(*lines)]]
    with Client(scripted.path) as client, pytest.raises(ResponseError):
        list(client.evaluate_texts([{"candidate_output": "a", "facts": []}] * 2))


def test_batch_raises_the_problem_of_the_whole_request(scripted: ScriptedServer) -> None:
    scripted.script = [[problem(415, "unsupported_media_type")]]
    with Client(scripted.path) as client, pytest.raises(ProblemError) as raised:
        list(client.evaluate_texts([{"candidate_output": "a", "facts": []}]))
    assert raised.value.code == "unsupported_media_type"


def test_batch_is_sent_in_windows_of_limited_size(scripted: ScriptedServer) -> None:
    scripted.script = [[ndjson(1, 2)], [ndjson(1)], [ndjson(1)], [ndjson(1, 2)]]
    sizes = [30_000, 30_000, 30_000, 100_000, 30_000, 30_000]
    with Client(scripted.path) as client:
        answers = list(client.evaluate_texts({"candidate_output": "a" * size, "facts": []} for size in sizes))
    assert [answer["line"] for answer in answers] == [1, 2, 3, 4, 5, 6]
    assert not scripted.script
