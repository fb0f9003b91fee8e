"""The helpers for tests of an application, and the verification of webhooks."""

import asyncio
import base64
import hashlib
import hmac
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generate import default_program
from oracled import (
    Answer,
    AsyncClient,
    Client,
    DaemonTimeoutError,
    Delivered,
    Held,
    RejectedError,
    WebhookError,
    verify_webhook,
)
from oracled.testing import (
    HAS_MODEL,
    FakeRequest,
    FakeResponse,
    FakeTransport,
    TestDaemon,
    fake_order,
    fake_problem,
    fake_verdict,
)
from oracled.types import SubmitVerdictRequest

ORDER: SubmitVerdictRequest = {"tier": "quick", "query": "Sell honey?"}


def test_fake_transport_answers_calls_without_a_daemon() -> None:
    def respond(request: FakeRequest) -> FakeResponse:
        return fake_order("cs_1", "held") if request.method == "GET" else fake_verdict("cs_1")

    transport = FakeTransport(respond)
    with Client(transport=transport) as client:
        assert isinstance(client.submit_verdict("cs_1", ORDER), Delivered)
        assert isinstance(client.read_verdict("cs_1"), Held)

    async def run() -> None:
        async with AsyncClient(transport=transport) as client:
            assert isinstance(await client.read_verdict("cs_1"), Held)

    asyncio.run(run())
    calls = [(request.method, request.path, request.body) for request in transport.requests]
    assert calls[:2] == [("POST", "/v1/verdicts/cs_1", ORDER), ("GET", "/v1/verdicts/cs_1", None)]


def test_fakes_have_the_status_and_headers_of_the_daemon() -> None:
    held: SubmitVerdictRequest = {**ORDER, "query": "Sell? test:hold"}
    slow: SubmitVerdictRequest = {**ORDER, "query": "Sell? test:slow=9s"}
    fakes = {
        "good": fake_verdict("good"),
        "again": fake_verdict("good", replayed=True),
        "held": fake_order("held", "held"),
        "slow": fake_order("slow", "generating", retry_after=5),
    }
    calls: list[tuple[str, Callable[[Client], Answer[Any]]]] = [
        ("good", lambda client: client.submit_verdict("good", ORDER)),
        ("again", lambda client: client.submit_verdict("good", ORDER)),
        ("good", lambda client: client.read_verdict("good")),
        ("held", lambda client: client.submit_verdict("held", held)),
        ("held", lambda client: client.read_verdict("held")),
        ("held", lambda client: client.read_order("held")),
        ("slow", lambda client: client.submit_verdict("slow", slow, respond_async=True)),
        ("slow", lambda client: client.read_order("slow")),
    ]

    def fake(response: FakeResponse) -> Client:
        return Client(transport=FakeTransport(lambda _: response))

    def shown(answer: Answer[Any]) -> list[object]:
        members = [answer.body.get(name) for name in ("replayed", "state", "stop_cause")]
        return [type(answer), answer.status, answer.retry_after, *members]

    with TestDaemon(default_program()) as daemon:
        for name, call in calls:
            assert shown(call(fake(fakes[name]))) == shown(call(daemon.client)), name


def test_fake_transport_answers_batches_and_problems() -> None:
    def respond(request: FakeRequest) -> FakeResponse:
        if not request.path.endswith(":batch"):
            return fake_problem(422, "crosscheck_rejected")
        return FakeResponse([{"line": line, "problem": {}} for line, _ in enumerate(request.body, 1)])

    with Client(transport=FakeTransport(respond)) as client:
        with pytest.raises(RejectedError) as raised:
            client.submit_verdict("cs_1", ORDER)
        assert raised.value.problem["decision"]["approved"] is False
        texts: Any = [{"candidate_output": "Ice melts."}] * 3
        assert [answer["line"] for answer in client.evaluate_texts(texts)] == [1, 2, 3]


def test_wait_reads_a_last_time_at_its_limit() -> None:
    answers = [fake_order("cs_1", retry_after=5), fake_verdict("cs_1")]
    with Client(transport=FakeTransport(lambda _: answers.pop(0))) as client:
        began = time.monotonic()
        assert isinstance(client.wait_for_verdict("cs_1", wait=0.3), Delivered)
    assert time.monotonic() - began >= 0.3
    assert not answers


def test_expired_wait_names_its_time_and_the_last_cause() -> None:
    last = {"attempt": 3, "outcome": "model_unavailable", "cause": "HTTP status 503"}
    waiting = fake_order("cs_1", attempts=3, last_attempts=[last])
    with Client(transport=FakeTransport(lambda _: waiting)) as client, pytest.raises(DaemonTimeoutError) as raised:
        client.wait_for_verdict("cs_1", wait=0.2)
    message = str(raised.value)
    assert "no verdict within 0.2 s" in message
    assert message.endswith("queued (attempts: 3); the last attempt: model_unavailable: HTTP status 503")


@pytest.mark.parametrize(
    ("config", "has_model"),
    [
        ("", False),
        ("[limits]\nidle_s = 50\n", False),
        ('[tools]\nmodel = "a"\nmodels.b = 1\n', False),
        ("[tools.model]\na = 1\n", False),
        ('[model]\nprovider = "canned"\n', True),
        ("a = 1\n [models.x]\n", True),
        ("[limits]\r\nidle_s = 50\r\n[[ models ]]\r\n", True),
        ('a = 1\n\nmodel.provider = "canned"\n', True),
        ('models = ["a"]', True),
        ("model_limit = 1\n", False),
    ],
)
def test_configuration_has_a_model_by_its_table_or_a_key_before_the_tables(config: str, has_model: bool) -> None:
    assert bool(HAS_MODEL.search(config)) == has_model


SECRET = "whsec_" + base64.b64encode(bytes([7] * 32)).decode()
OTHER = "whsec_" + base64.b64encode(bytes([8] * 32)).decode()


def test_webhook_is_verified_by_its_signature_and_its_time() -> None:
    at = int(time.time())
    event = {"type": "order.delivered", "timestamp": "2026-01-01T00:00:00Z", "data": {"session_id": "cs_1"}}
    body = json.dumps(event).encode()
    digest = hmac.new(bytes([7] * 32), f"msg_1.{at}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1a,x v1,{base64.b64encode(digest).decode()}"
    headers = {"Webhook-Id": "msg_1", "webhook-timestamp": str(at), "webhook-signature": signature}
    verified = verify_webhook(body, headers, SECRET)
    assert (verified.id, verified.event) == ("msg_1", event)
    assert verify_webhook(body.decode(), headers, [OTHER, SECRET]).event == event
    broken: list[tuple[bytes, dict[str, str], str, float]] = [
        (body + b" ", headers, SECRET, at),
        (body, headers, OTHER, at),
        (body, {**headers, "Webhook-Id": "msg_2"}, SECRET, at),
        (body, {}, SECRET, at),
        (body, headers, SECRET, at + 301),
    ]
    for content, sent, secret, now in broken:
        with pytest.raises(WebhookError):
            verify_webhook(content, sent, secret, now=now)
    with pytest.raises(ValueError, match="24 to 64 bytes"):
        verify_webhook(body, headers, "whsec_short")


def test_webhook_with_an_invalid_argument_is_an_error_that_names_it() -> None:
    secrets: list[Any] = [None, [None], 17, SECRET.encode(), []]
    for secret in secrets:
        with pytest.raises((TypeError, ValueError), match="secret.* is .*required"):
            verify_webhook(b"{}", {}, secret)
    parsed: list[Any] = [{"type": "order.held"}, None, [1], 3]
    for body in parsed:
        with pytest.raises(TypeError, match="^`body` is .*raw bytes.*not the parsed JSON"):
            verify_webhook(body, {}, SECRET)
    missing: Any = None
    with pytest.raises(TypeError, match="^`headers` is None"):
        verify_webhook(b"{}", missing, SECRET)


def test_daemon_answers_by_the_words_of_the_query() -> None:
    with TestDaemon(default_program()) as daemon:
        delivered = daemon.client.submit_verdict("cs_1", {**ORDER, "customer_email": "a@example.org"})
        assert isinstance(delivered, Delivered)
        assert isinstance(daemon.client.submit_verdict("cs_2", {**ORDER, "query": "Sell? test:hold"}), Held)
        assert "test mode" in daemon.oraclectl("status")
        end = time.monotonic() + 5
        while not daemon.mails() and time.monotonic() < end:
            time.sleep(0.02)
        [mail] = daemon.mails()
        assert (mail.to, mail.subject) == ("a@example.org", "[test mode] Your verdict: GREEN")
    assert not daemon.folder.exists()


def test_configuration_without_a_model_gets_the_canned_one() -> None:
    with TestDaemon(default_program(), config="[limits]\nidle_s = 50") as daemon:
        assert isinstance(daemon.client.submit_verdict("cs_1", ORDER), Delivered)


def test_daemon_that_cannot_start_is_an_error_with_its_output() -> None:
    with pytest.raises(RuntimeError, match="provider"):
        TestDaemon(default_program(), config="[model]\nprovider = 7\n")
    with pytest.raises(RuntimeError, match="/true did not start: it printed nothing"):
        TestDaemon("true")
    with pytest.raises(FileNotFoundError, match="/nowhere/oracled is not a program.*ORACLED_BIN"):
        TestDaemon("/nowhere/oracled")


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_daemon_ends_and_its_files_are_removed_if_its_parent_is_killed(sent: signal.Signals) -> None:
    script = """
import sys, time
from oracled.testing import TestDaemon
daemon = TestDaemon(sys.argv[1])
print(daemon.folder, flush=True)
time.sleep(60)
"""
    arguments = [sys.executable, "-c", script, default_program()]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        folder = Path(parent.stdout.readline().strip())
        with Client(folder / "o.sock") as client:
            client.list_rules()
        parent.send_signal(sent)
    end = time.monotonic() + 10
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not folder.exists()
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(folder) not in processes
