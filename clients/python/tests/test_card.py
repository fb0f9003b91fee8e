"""Verdict cards: the client accepts them only unchanged, and with their key."""

import asyncio
import random
import re
from typing import Any

import pytest
from conftest import GOOD, running

from generate import HERE
from oracled import AsyncClient, Card, CardError, Client, Held, ProblemError, ResponseError, verify_card
from oracled.testing import FakeResponse, FakeTransport, fake_order, fake_verdict

OTHER_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
STORED = HERE.parent.parent / "tests" / "stored"
WITNESS_KEY = "witness.example/w1+d9ed62c5+BO1JKMYo0cLG6ukDOJBZlWEpWSc6XGP5NjbBRhSshzfR"


def key_of(card: bytes) -> str:
    """The key in a card. A customer has it from another source."""
    found = re.search(rb"<dt>Log key</dt><dd>([^<]+)<", card)
    assert found is not None
    return found[1].decode()


def expect_each_change_is_detected(card: bytes, changes: int) -> None:
    numbers = random.Random(53)
    for _ in range(changes):
        changed, at, bit = bytearray(card), numbers.randrange(len(card)), 1 << numbers.randrange(8)
        changed[at] ^= bit
        with pytest.raises(CardError):
            verify_card(bytes(changed), key_of(card))


def test_card_of_the_daemon_is_verified_only_unchanged_and_with_its_key() -> None:
    raw = '{"verdict":"GREEN","summary":"A <b>sound</b> & simple plan.","extra":[1.50,null,"\\u202e\\ud83d\\ude00"]}'
    with running() as daemon:
        with Client(daemon.socket) as client:
            facts = ["Ice floats.", "A <b>sound</b> & simple plan."]
            client.submit_verdict(
                "card", {"tier": "quick", "query": "Sell honey?", "raw": raw, "facts": facts, "rules": ["RULE-PREC-004"]}
            )
            client.submit_verdict("plain", {"tier": "quick", "query": "Sell honey?", "raw": GOOD})
            cards = [client.read_card(session) for session in ("card", "plain")]
            with pytest.raises(ProblemError):
                client.read_card("unknown")
    assert all(isinstance(each, Card) for each in cards)
    card, plain = (each.text.encode() for each in cards)
    verified = verify_card(card, ["another", key_of(card)])
    assert (verified.session_id, verified.cosigned) == ("card", {})
    assert "A <b>sound</b> & simple plan." in (verified.verdict or "")
    assert verify_card(plain.decode(), key_of(card)).verdict == GOOD
    with pytest.raises(CardError, match=f"not the expected one, {re.escape(OTHER_KEY)}$"):
        verify_card(card, OTHER_KEY)
    with pytest.raises(CardError, match="has not cosigned"):
        verify_card(card, key_of(card), witnesses=[OTHER_KEY])
    expect_each_change_is_detected(card, 500)


def test_session_without_a_card_is_an_order_or_an_error() -> None:
    page = FakeResponse("<html>")
    answers = [fake_order("cs_1", "held"), page, fake_verdict("cs_1")]
    transport = FakeTransport(lambda _: answers.pop(0))
    with Client(transport=transport) as client:
        assert isinstance(client.read_card("cs_1"), Held)
        assert client.read_card("cs_1").body == "<html>"
        with pytest.raises(ResponseError):
            client.read_card("cs_1")
    assert {request.path for request in transport.requests} == {"/v1/verdicts/cs_1?card=1"}

    async def run() -> None:
        async with AsyncClient(transport=FakeTransport(lambda _: page)) as client:
            assert isinstance(await client.read_card("cs_1"), Card)

    asyncio.run(run())


def test_key_is_trimmed_and_a_missing_one_is_an_error_about_the_argument() -> None:
    card = (STORED / "card-2.html").read_bytes()
    assert verify_card(card, f"{key_of(card)}\n").session_id == "facts"
    missing: list[tuple[Any, type[Exception]]] = [
        (None, TypeError), ([None], TypeError), (b"x", TypeError), ("", ValueError), (" \n", ValueError), ([], ValueError)
    ]  # fmt: skip
    for key, error in missing:
        with pytest.raises(error, match="`key` is .*`oraclectl log key`"):
            verify_card(card, key)
    with pytest.raises(ValueError, match="`witnesses` is ''"):
        verify_card(card, key_of(card), witnesses=[""])


def test_stored_card_is_verified_and_each_change_is_detected() -> None:
    card = (STORED / "card-2.html").read_bytes()
    assert verify_card(card, key_of(card)).session_id == "facts"
    expect_each_change_is_detected(card, 1_000)


def test_card_of_the_first_version_is_refused_by_name() -> None:
    card = (STORED / "card-1.html").read_bytes()
    with pytest.raises(CardError, match="version 1"):
        verify_card(card, key_of(card))


def test_text_with_a_surrogate_alone_is_a_card_error() -> None:
    card = (STORED / "card-2.html").read_text()
    with pytest.raises(CardError):
        verify_card(card + "\ud800", key_of(card.encode()))


def test_stored_card_of_an_erased_person_is_verified_and_each_change_is_detected() -> None:
    card = (STORED / "card-2-erased.html").read_bytes()
    verified = verify_card(card, key_of(card))
    assert (verified.session_id, verified.verdict) == ("facts", None)
    assert b"Aruba" not in card
    expect_each_change_is_detected(card, 500)


def test_stored_card_with_a_cosignature_is_verified_and_each_change_is_detected() -> None:
    card = (STORED / "card-2-cosigned.html").read_bytes()
    verified = verify_card(card, key_of(card), witnesses=[WITNESS_KEY])
    assert list(verified.cosigned) == ["witness.example/w1"]
    assert "The population of Aruba in 2015 was 101,001." in (verified.verdict or "")
    with pytest.raises(CardError, match="has not cosigned"):
        verify_card(card, key_of(card), witnesses=[OTHER_KEY])
    expect_each_change_is_detected(card, 500)
