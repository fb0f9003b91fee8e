"""Calls against the real daemon."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
from conftest import BAD, CONFIG, GOOD, Daemon, Model, running

from generate import HERE
from oracled import (
    AsyncClient,
    Client,
    DaemonTimeoutError,
    Delivered,
    Held,
    Ordered,
    ProblemError,
    RejectedError,
    TemporaryError,
)
from oracled.types import EvaluateTextRequest, OracleQuery, QueryFilter, VerifyRequest

QUERY = "Sell honey?"


def new_id() -> str:
    return f"cs_{uuid.uuid4().hex}"


def test_submission_is_delivered_and_replayed(client: Client) -> None:
    session = new_id()
    first = client.submit_verdict(session, {"tier": "quick", "query": QUERY, "raw": GOOD}, request_id="first")
    assert isinstance(first, Delivered)
    assert (first.status, first.request_id) == (201, "first")
    assert first.body["verdict"] == {"verdict": "GREEN", "summary": "A sound and simple plan."}
    again = client.submit_verdict(session, {"tier": "quick", "query": QUERY, "raw": BAD})
    assert isinstance(again, Delivered)
    assert (again.status, again.body["replayed"]) == (200, True)
    read = client.read_verdict(session, proof=True)
    assert isinstance(read, Delivered)
    assert read.body["proof"] is not None
    assert '"verdict":{"verdict":"GREEN","summary":"A sound and simple plan."}' in read.text


def test_large_body_is_answered_by_its_problem(client: Client) -> None:
    with pytest.raises(ProblemError) as raised:
        client.submit_verdict(new_id(), {"tier": "quick", "query": QUERY, "raw": "x" * (64 << 20)})
    assert raised.value.code == "body_too_large"


def test_session_id_that_is_a_step_of_a_path_is_refused(client: Client) -> None:
    for session in ("..", "."):
        with pytest.raises(ProblemError) as raised:
            client.submit_verdict(session, {"tier": "quick", "query": QUERY, "raw": GOOD})
        assert (raised.value.code, raised.value.status) == ("invalid_session_id", 400)


def test_rejection_has_code_decision_and_flags(client: Client) -> None:
    with pytest.raises(RejectedError) as raised:
        client.submit_verdict(new_id(), {"tier": "quick", "query": QUERY, "raw": BAD}, request_id="mine")
    error = raised.value
    assert (error.code, error.status, error.request_id) == ("crosscheck_rejected", 422, "mine")
    assert "field_missing:summary" in error.problem["decision"]["flags"]


def test_other_query_is_a_session_mismatch(client: Client) -> None:
    session = new_id()
    client.submit_verdict(session, {"tier": "quick", "query": QUERY, "raw": GOOD})
    with pytest.raises(ProblemError) as raised:
        client.submit_verdict(session, {"tier": "quick", "query": "Sell wax?", "raw": GOOD})
    assert not isinstance(raised.value, (RejectedError, TemporaryError))
    assert (raised.value.code, raised.value.problem["mismatch"]) == ("session_mismatch", "query")


def test_check_judges_without_delivery(client: Client) -> None:
    decision = client.check_verdict({"session_id": new_id(), "tier": "quick", "query": QUERY, "raw": BAD})
    assert decision.body["approved"] is False


def test_session_is_registered_once(client: Client) -> None:
    session = new_id()
    assert client.register_session(session, {"tier": "quick", "query": QUERY}).status == 201
    assert client.register_session(session, {"tier": "quick", "query": QUERY}).status == 200


def test_unknown_ids_are_problems(client: Client) -> None:
    for call, code in (
        (client.read_verdict, "session_unknown"),
        (client.read_order, "order_unknown"),
        (client.read_verification, "execution_unknown"),
        (client.read_record, "record_unknown"),
        (client.read_provenance, "record_unknown"),
    ):
        with pytest.raises(ProblemError) as raised:
            call("none-1")
        assert (raised.value.code, raised.value.status) == (code, 404)


def test_order_is_delivered_after_a_wait(ordering: Daemon, model: Model) -> None:
    released = threading.Event()
    model.answer = lambda: (released.wait(30), GOOD)[1]
    with Client(ordering.socket) as client:
        began = time.monotonic()
        ordered = client.submit_verdict("cs_1", {"tier": "quick", "query": QUERY}, respond_async=True)
        assert time.monotonic() - began < 10, "the request does not wait for the model"
        assert isinstance(ordered, Ordered)
        assert ordered.status == 202 and ordered.retry_after is not None and ordered.retry_after >= 5
        assert client.read_order("cs_1").body["state"] in ("queued", "generating")
        page = client.list_orders(state="generating", limit=1).body
        assert [order["session_id"] for order in page["items"]] == ["cs_1"]
        with pytest.raises(DaemonTimeoutError) as raised:
            client.wait_for_verdict("cs_1", wait=1)
        assert raised.value.order is not None
        released.set()
        delivered = client.wait_for_verdict("cs_1", wait=30)
        assert isinstance(delivered, Delivered)
        assert delivered.body["verdict"]["verdict"] == "GREEN"
        assert client.list_orders(state="generating").body["items"] == []


def test_cancelled_order_gets_no_verdict(ordering: Daemon, model: Model) -> None:
    released = threading.Event()
    model.answer = lambda: (released.wait(30), GOOD)[1]
    with Client(ordering.socket) as client:
        client.submit_verdict("cancelled", {"tier": "quick", "query": QUERY}, respond_async=True)
        for _ in range(2):
            assert client.cancel_order("cancelled").body["state"] == "cancelled"
        released.set()
        with pytest.raises(ProblemError) as raised:
            client.wait_for_verdict("cancelled")
        assert raised.value.code == "order_cancelled" and raised.value.status == 409


def test_order_fails_after_unusable_answers(ordering: Daemon, model: Model) -> None:
    model.answer = lambda: BAD

    async def run() -> None:
        async with AsyncClient(ordering.socket) as client:
            await client.submit_verdict("cs_1", {"tier": "quick", "query": QUERY})

    with pytest.raises(RejectedError) as raised:
        asyncio.run(run())
    assert raised.value.code == "order_failed"


def test_order_survives_a_kill_during_a_wait(ordering: Daemon, model: Model) -> None:
    answers = iter([30.0])
    stopped = threading.Event()

    def answer() -> str:
        stopped.wait(next(answers, 0.0))
        return GOOD

    model.answer = answer
    with Client(ordering.socket) as client:
        client.submit_verdict("cs_1", {"tier": "quick", "query": QUERY}, respond_async=True)

        def restart() -> None:
            time.sleep(0.5)
            ordering.end(signal.SIGKILL)
            stopped.set()
            time.sleep(1)
            ordering.start()

        thread = threading.Thread(target=restart)
        thread.start()
        delivered = client.wait_for_verdict("cs_1", wait=60)
        thread.join(60)
    assert isinstance(delivered, Delivered)


def test_submission_bridges_a_restart_of_the_daemon(ordering: Daemon) -> None:
    ordering.end(signal.SIGKILL)
    thread = threading.Timer(1.5, ordering.start)
    thread.start()
    with Client(ordering.socket) as client:
        delivered = client.submit_verdict("cs_1", {"tier": "quick", "query": QUERY, "raw": GOOD})
    thread.join(60)
    assert isinstance(delivered, Delivered)


def test_held_verdict_is_an_outcome(model: Model) -> None:
    verdict = '{"verdict":"GREEN","summary":"A sound and simple plan.","extra":1}'
    with running('[gate]\nhold = ["unexpected_field"]\n' + CONFIG.format(url=model.url)) as daemon:
        with Client(daemon.socket) as client:
            held = client.submit_verdict("cs_1", {"tier": "quick", "query": QUERY, "raw": verdict})
            assert isinstance(held, Held)
            assert isinstance(client.wait_for_verdict("cs_1"), Held)
            assert held.body["stop_cause"] == "policy"


def test_rules_are_listed_and_applied(client: Client) -> None:
    assert "RULE-PREC-001" in {rule["id"] for rule in client.list_rules().body["rules"]}
    evaluation = client.evaluate_text({"candidate_output": "The moon is made of cheese.", "facts": ["Ice melts"]})
    assert evaluation.body["verdict"] == "FAIL"


# a text line ends at each of these characters, but a line of NDJSON only at LF
SEPARATORS = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\nh\r\ni"


def requests(count: int, read: list[int]) -> Iterator[EvaluateTextRequest]:
    for number in range(count):
        read.append(number)
        # one text is longer than a window
        text = "Ice melts" if number != 700 else "Ice melts " * 10_000
        yield {"id": f"{number} {SEPARATORS}", "candidate_output": text, "facts": ["Ice melts", SEPARATORS]}


async def async_requests(count: int, read: list[int]) -> AsyncIterator[EvaluateTextRequest]:
    for request in requests(count, read):
        await asyncio.sleep(0)
        yield request


def test_batch_answers_in_order_while_it_reads_requests(client: Client) -> None:
    read: list[int] = []
    count = 3000
    for number, answer in enumerate(client.evaluate_texts(requests(count, read))):
        assert (answer["line"], answer["id"]) == (number + 1, f"{number} {SEPARATORS}")
        assert "evaluation" in answer
        assert len(read) <= number + 258, "the client reads one window ahead"
    assert number == count - 1


def test_batch_of_long_texts_does_not_block(client: Client) -> None:
    # each answer is about as long as its request, and the socket holds only some of them
    text = " ".join(f"Claim {number} is not supported." for number in range(1000))
    long: EvaluateTextRequest = {"candidate_output": text, "facts": ["Ice melts"], "rules": ["RULE-PREC-001"]}
    answers = list(client.evaluate_texts([long] * 60, timeout=20))
    assert [answer["evaluation"]["verdict"] for answer in answers] == ["FAIL"] * 60


def test_async_batch_answers_in_order(dev: Daemon) -> None:
    async def run() -> int:
        expected = 0
        async with AsyncClient(dev.socket) as client:
            async for answer in client.evaluate_texts(async_requests(1000, [])):
                expected += 1
                assert answer["line"] == expected
            async for answer in client.evaluate_texts(requests(1, [])):
                assert answer["line"] == 1
            async for answer in client.evaluate_texts([]):
                raise AssertionError("an empty batch has no answer")
        return expected

    assert asyncio.run(run()) == 1000


def test_batch_reports_an_invalid_request_and_continues(client: Client) -> None:
    invalid: EvaluateTextRequest = {"id": "bad", "candidate_output": "Ice melts"}
    good: EvaluateTextRequest = {"id": "good", "candidate_output": "Ice melts", "facts": ["Ice melts"]}
    first, second = client.evaluate_texts([invalid, good])
    assert first["id"] == "bad" and "evaluation" not in first and first["problem"]["status"] >= 400
    assert second["id"] == "good" and "problem" not in second


def test_batch_raises_errors_of_its_requests_unchanged(client: Client) -> None:
    def failing() -> Iterator[EvaluateTextRequest]:
        yield {"candidate_output": "Ice melts", "facts": []}
        raise LookupError("mine")

    with pytest.raises(LookupError):
        list(client.evaluate_texts(failing()))


def test_batches_of_queries_and_questions_answer_in_order(client: Client) -> None:
    source = next(found["oracle_id"] for found in client.list_sources().body if "world-bank" in found["oracle_id"])

    def queries() -> Iterator[OracleQuery]:
        for number in range(300):
            year: QueryFilter = {"axis": "year", "operator": "eq", "value": "2015"}
            area: QueryFilter = {"axis": "area", "operator": "eq", "value": ("MDA", "SRB")[number % 2]}
            yield {"oracle_id": source, "request": {"axes_requested": ["population"], "filters": [area, year]}}

    for number, answer in enumerate(client.query_sources(queries())):
        assert answer["line"] == number + 1
        records = answer["answer"]["response"]["records"]
        assert [record["axes"]["area"] for record in records] == [("MDA", "SRB")[number % 2]]
    assert number == 299
    unknown: OracleQuery = {"oracle_id": "nowhere", "request": {"axes_requested": ["population"]}}
    (refused,) = client.query_sources([unknown])
    assert refused["problem"]["code"] == "source_unknown" and "answer" not in refused
    workflow = source.replace("world-bank", "census")
    question: VerifyRequest = {"workflow": workflow, "where": {"area": "SRB", "year": "2015"}, "axes": ["population"]}
    invalid: VerifyRequest = {"workflow": "none", "where": {}, "axes": ["population"]}
    first, second = client.verify_values_in_batch([question, invalid])
    assert (first["line"], first["envelope"]["workflow"]) == (1, workflow)
    assert (second["line"], second["problem"]["code"]) == (2, "workflow_unknown")


def test_query_keeps_digits_and_leads_to_provenance(client: Client) -> None:
    source = next(found["oracle_id"] for found in client.list_sources().body if "world-bank" in found["oracle_id"])
    answer = client.query_source(
        {
            "oracle_id": source,
            "request": {
                "axes_requested": ["area_name", "population"],
                "filters": [
                    {"axis": "area", "operator": "eq", "value": "MDA"},
                    {"axis": "year", "operator": "eq", "value": 2015},
                ],
            },
        }
    ).body
    record = answer["response"]["records"][0]
    assert record["axes"]["population"] == "2835978"
    assert client.read_record(record["record_id"]).body["record_id"] == record["record_id"]
    assert client.read_provenance(record["record_id"]).body["oracle_id"] == source
    assert client.list_changes(limit=1).body["more"]


def test_verification_can_be_read_again(client: Client) -> None:
    answer = client.verify_values(
        {"workflow": "dev-1-census", "where": {"area": "SRB", "year": "2015"}, "axes": ["population"]}
    )
    assert answer.body["kind"] == "authoritative"
    assert client.read_verification(answer.body["execution_id"]).text == answer.text


def run_example(name: str, *arguments: str, socket: str, text: str = "") -> str:
    """The output of an example."""
    command = [sys.executable, str(HERE / "examples" / name), *arguments]
    env = {**os.environ, "ORACLED_SOCKET": socket}
    return subprocess.run(
        command, check=True, env=env, input=text, text=True, stdout=subprocess.PIPE, timeout=60
    ).stdout


def test_examples_print_results_of_the_daemon(dev: Daemon) -> None:
    assert run_example("first_verdict.py", socket=str(dev.socket)).startswith("deliver {'verdict': ")
    texts = "Ice melts\nThe moon is made of cheese\n"
    assert run_example("check_texts.py", "Ice melts", socket=str(dev.socket), text=texts) == "1 PASS\n2 FAIL\n"
