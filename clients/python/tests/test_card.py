"""Verdict cards: the client accepts them only unchanged, and with their key."""

import random
import re
from pathlib import Path

import httpx
import pytest
from conftest import GOOD, running

from generate import HERE
from oracled import CardError, Client, verify_card

OTHER_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
STORED = HERE.parent.parent / "tests" / "stored"
WITNESS_KEY = "witness.example/w1+d9ed62c5+BO1JKMYo0cLG6ukDOJBZlWEpWSc6XGP5NjbBRhSshzfR"


def read_card(socket: Path, session: str) -> bytes:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket))) as client:
        return client.get(f"http://oracled/v1/verdicts/{session}?card=1").content


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
        card, plain = read_card(daemon.socket, "card"), read_card(daemon.socket, "plain")
    verified = verify_card(card, ["another", key_of(card)])
    assert (verified.session_id, verified.cosigned) == ("card", {})
    assert "A <b>sound</b> & simple plan." in (verified.verdict or "")
    assert verify_card(plain.decode(), key_of(card)).verdict == GOOD
    with pytest.raises(CardError, match="not the expected one"):
        verify_card(card, OTHER_KEY)
    with pytest.raises(CardError, match="has not cosigned"):
        verify_card(card, key_of(card), witnesses=[OTHER_KEY])
    expect_each_change_is_detected(card, 500)


def test_stored_card_of_the_first_version_is_verified_and_each_change_is_detected() -> None:
    card = (STORED / "card-1.html").read_bytes()
    assert verify_card(card, key_of(card)).session_id == "facts"
    expect_each_change_is_detected(card, 1_000)


def test_stored_card_of_an_erased_person_is_verified_and_each_change_is_detected() -> None:
    card = (STORED / "card-1-erased.html").read_bytes()
    verified = verify_card(card, key_of(card))
    assert (verified.session_id, verified.verdict) == ("facts", None)
    assert b"Aruba" not in card
    expect_each_change_is_detected(card, 500)


def test_stored_card_with_a_cosignature_is_verified_and_each_change_is_detected() -> None:
    card = (STORED / "card-1-cosigned.html").read_bytes()
    verified = verify_card(card, key_of(card), witnesses=[WITNESS_KEY])
    assert list(verified.cosigned) == ["witness.example/w1"]
    assert "The population of Aruba in 2015 was 101,001." in (verified.verdict or "")
    with pytest.raises(CardError, match="has not cosigned"):
        verify_card(card, key_of(card), witnesses=[OTHER_KEY])
    expect_each_change_is_detected(card, 500)
