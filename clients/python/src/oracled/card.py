"""Verdict cards: HTML pages with a delivered verdict and its proof, and their verification."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from oracled.errors import invalid_type

FRAMES = {
    "c87eabb1757a77c68627032e338e6597bb30caad97bd8c1cb23953ce531279e5",
}
"""The SHA-256 of the page without data and shown text, of each version. `docs/card.md` lists them."""

WITHDRAWN_FRAME = "6659664fb052db29819557251b5a779deacfa45bf8ae9afef3d54b3ba2c96200"
"""The first page, whose cards could be forged. It was never released."""

CARD_BYTES_MAX = 16 * 1024 * 1024
DATA_DEPTH = 5
"""The number of levels of the data of a part."""
ENTRY_DEPTH, ENTRY_MEMBERS = 32, 256
"""The maximum numbers of levels and of members of an entry. The log writes fewer."""
SHOWN_DEPTH, SHOWN_PATH = 32, 256
"""The maximum numbers of levels, and of characters of a path, of a text that is shown by its values. Any other text is shown as it is."""
SHOWN_VALUES = 10_000
"""The maximum number of values that a part shows of its entries and its document. A text with more than remain is shown as it is."""
LAYOUT_NAMES = 6
"""The maximum number of names of a path in a layout."""
WITNESSES_MAX = 100
TIME_MAX = 253_402_207_200
"""The latest time of a cosignature, in seconds: the year 9999."""

SHOWN_START, DATA_START, DATA_END = "<dl>", '</dl>\n<script type="application/json">', "</script>"
LAYOUT_START = '<script type="application/json" id="layout">'
# possessive: a text without an end ends with the input, and is read once
TOKEN = re.compile(r'"(?:[^"\\]++|\\.?)*+"?+|[{}\[\],:]|[^ \t\n\r{}\[\],:"]++', re.DOTALL)
SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
KEY = re.compile(rf"([^+{SPACE}]+)\+([0-9a-f]{{8}})\+(.+)", re.DOTALL)
SIGNATURE = re.compile(rf"— ([^+{SPACE}]+) (.+)", re.DOTALL)
SURROGATE = re.compile("[\ud800-\udfff]")
NUMBER = re.compile(r"[1-9][0-9]{0,14}")
EVENT = re.compile(r'"[a-z_]+"')
SALT = re.compile(r'"[0-9a-f]{32}"')
LINK = re.compile(r'\{"seq":[1-9][0-9]{0,14},"leaf_sha256":"[0-9a-f]{64}"\}')
DIGEST = re.compile(r'(?<=")[0-9a-f]{64}(?=")')

KEY_REQUIRED = "a key is required, as `oraclectl log key` prints it"

Leaf = tuple[str, str]


class CardError(Exception):
    """The file is not an unchanged verdict card of this log."""


@dataclass(frozen=True)
class VerifiedCard:
    """A card whose bytes are all consistent with the key of the log. It does not say that the verdict is true."""

    session_id: str | None
    """The session with its application, as in the log. None if the id was erased."""
    verdict: str | None
    """The delivered text. None if it was erased."""
    key: str
    """The key of the log."""
    size: int
    """The number of entries of the log."""
    cosigned: dict[str, datetime]
    """The witnesses that have cosigned the log, by the names of their keys, and when."""
    test_mode: bool
    """Whether the verdict is one of a daemon in test mode, which was never delivered to a customer."""


@dataclass(frozen=True)
class Entry:
    """An entry whose line has the form that the log writes, so it can be parsed in only one way."""

    seq: int
    event: str
    line: str
    members: dict[str, str]
    """The texts of the values of its members."""
    parsed: dict[str, Any]
    leaf: bytes
    """The hash of its leaf in the tree."""
    hashes: list[str]

    @property
    def itself(self) -> str:
        """The entry, in the form in which another entry names it."""
        return f'{{"seq":{self.seq},"leaf_sha256":"{self.leaf.hex()}"}}'

    @property
    def links(self) -> set[str] | None:
        """The entries that it names. None if it names none, or if the value was erased or withheld."""
        value = self.members.get("links", "")
        found = LINK.findall(value)
        return set(found) if found and f"[{','.join(found)}]" == value else None


@dataclass(frozen=True)
class Part:
    """The data of a part of a card."""

    entries: list[Entry]
    texts: list[str]
    more: list[str]


@dataclass(frozen=True)
class Signer:
    name: str
    id: bytes
    key: bytes


@dataclass(frozen=True)
class Checkpoint:
    size: int
    root: bytes
    cosigned: dict[str, datetime]


def verify_card(
    card: bytes | str, key: str | Sequence[str], *, witnesses: Sequence[str] = (), allow_test_mode: bool = False
) -> VerifiedCard:
    """Verify every byte of a verdict card. This needs the package `cryptography` (`pip install oracled[card]`).

    Args:
        card: The file.
        key: The key of the log, as `oraclectl log key` prints it, from a source that you trust; several if the log got a
            new key.
        witnesses: Keys of witnesses that must have cosigned the log.
        allow_test_mode: Whether a card of a daemon in test mode is accepted, too.

    Raises:
        CardError: The file was changed, is of another log, or is of a daemon in test mode.
        TypeError, ValueError: A key is missing: the card is not at fault.
    """
    keys = checked_keys("key", [key] if isinstance(key, str) or not isinstance(key, Sequence) else key)
    if not keys:
        raise ValueError(f"`key` is an empty list ({KEY_REQUIRED})")
    required = checked_keys("witnesses", witnesses)
    if not isinstance(card, (str, bytes, bytearray, memoryview)):
        raise invalid_type("card", card, "the text or the bytes of a verdict card are required")
    try:
        page = bytes(card).decode("utf-8") if not isinstance(card, str) else card.encode("utf-8").decode("utf-8")
    except UnicodeError:
        raise CardError("the file is not UTF-8") from None
    try:
        verified = verify_page(page, keys, required)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        # a value of a type that the log does not write
        raise CardError("the data of the card cannot be read") from None
    if verified.test_mode and not allow_test_mode:
        raise CardError("the card is of a daemon in test mode: it is no verdict for a customer (`allow_test_mode=True` accepts it)")
    return verified


def verify_page(page: str, keys: list[str], required: list[str]) -> VerifiedCard:
    frame, slots = split_page(page)
    digest = sha256(frame)
    if digest == WITHDRAWN_FRAME:
        raise CardError(
            "the card is of version 1, whose cards can be forged; ask the sender for a card of version 2 (`oraclectl card`)"
        )
    if digest not in FRAMES:
        raise CardError("the file is no verdict card of a version that this client knows, or its page was changed")
    layout = json.loads(frame.partition(LAYOUT_START)[2].partition(DATA_END)[0])
    shown = {part["id"]: text for part, (text, _) in zip(layout["parts"], slots, strict=True)}
    data = {part["id"]: text for part, (_, text) in zip(layout["parts"], slots, strict=True)}
    # the key first: nothing else of a card of another log is read
    proof = read_part("proof", data["proof"])
    require("proof", not proof[0] and len(proof[1].texts) == 2, "the checkpoint or the key is missing")
    texts, more = proof[1].texts, proof[1].more
    if texts[1] not in keys:
        expected = " or ".join(keys)
        raise CardError(f"the card is of the log key {texts[1]}, which is not the expected one, {expected}")
    checkpoint = check_proof(texts, more)
    for witness in required:
        require("proof", witness in more, f"the witness {witness} has not cosigned the log")
    declared = {event for part in layout["parts"] for event in part["events"]}
    parts: dict[str, Part] = {"proof": proof[1]}
    seen: set[int] = set()
    # the verdict before the others, whose entries it names
    for part in sorted(layout["parts"], key=lambda part: part.get("check") != "verdict"):
        id = part["id"]
        if id != "proof":
            lines, read = read_part(id, data[id])
            entries = [read_entry(id, line, hashes) for line, hashes in lines]
            parts[id] = Part(entries, read.texts, read.more)
            check_entries(part, entries, declared, seen, checkpoint)
            check_texts(part, parts[id])
            if part.get("check") != "verdict":
                check_named(part, entries, parts["verdict"].entries[0])
    for part in layout["parts"]:
        require(part["id"], render(part, parts[part["id"]], layout) == shown[part["id"]], "the shown text is not that of its data")
    verdict = parts["verdict"]
    session = verdict.entries[0].parsed.get("session_id")
    return VerifiedCard(
        session if isinstance(session, str) else None,
        verdict.texts[0] if verdict.texts else None,
        texts[1],
        checkpoint.size,
        checkpoint.cosigned,
        any(entry.members.get("test_mode") == "true" for part in parts.values() for entry in part.entries),
    )


def split_page(page: str) -> tuple[str, list[tuple[str, str]]]:
    """The page without data and shown text, and the shown text and the data of each part."""
    if len(page.encode()) > CARD_BYTES_MAX:
        raise CardError(f"the file has more than {CARD_BYTES_MAX} bytes; a verdict card has fewer")
    frame, slots = [], []
    at, start = 0, page.find(SHOWN_START)
    while start >= 0:
        shown = start + len(SHOWN_START)
        middle = page.find(DATA_START, shown)
        data = middle + len(DATA_START)
        end = page.find(DATA_END, data) if middle >= 0 else -1
        if end < 0:
            raise CardError("the file is no verdict card of a version that this client knows, or its page was changed")
        frame.append(page[at:shown] + DATA_START + DATA_END)
        slots.append((page[shown:middle], page[data:end]))
        at = end + len(DATA_END)
        start = page.find(SHOWN_START, at)
    return "".join([*frame, page[at:]]), slots


def checked_keys(name: str, keys: Sequence[object]) -> list[str]:
    """Keys without the white space around them: a file with a key ends with a newline."""
    trimmed = []
    for key in keys:
        if not isinstance(key, str):
            raise invalid_type(name, key, KEY_REQUIRED)
        if not key.strip():
            raise ValueError(f"`{name}` is {key!r:.60} ({KEY_REQUIRED})")
        trimmed.append(key.strip())
    return trimmed


def require(part: str, holds: bool, fault: str) -> None:
    if not holds:
        raise CardError(f"the part `{part}` was changed: {fault}")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_part(id: str, text: str) -> tuple[list[tuple[str, list[str]]], Part]:
    """The data of a part, with the lines and the proofs of its entries. Only one form is accepted, so no byte can change unnoticed."""
    fault = "the data are not in their form"
    require(id, not is_deeper(text, DATA_DEPTH), fault)
    try:
        data = json.loads(text)
        lines = [(str(entry["line"]), [str(hash) for hash in entry["proof"]["hashes"]]) for entry in data["entries"]]
        part = Part([], [str(each) for each in data["texts"]], [str(each) for each in data["more"]])
        entries = [{"line": line, "proof": {"hashes": hashes}} for line, hashes in lines]
        is_own = dump({"entries": entries, "texts": part.texts, "more": part.more}).replace("<", "\\u003c") == text
    except (ValueError, KeyError, TypeError):
        is_own = False
    require(id, is_own, fault)
    return lines, part


def from_base64(text: str) -> bytes:
    """Base64 has one form for each value."""
    try:
        value = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        value = b""
    require("proof", bool(value) and base64.b64encode(value).decode() == text, "a text is not Base64")
    return value


def read_key(text: str, type: int) -> Signer:
    found = KEY.fullmatch(text)
    bytes = from_base64(found[3]) if found else b""
    require("proof", len(bytes) == 33 and bytes[0] == type, "a key is not NAME+ID+KEY with an Ed25519 key")
    assert found is not None
    id = hashlib.sha256(f"{found[1]}\n".encode() + bytes).digest()[:4]
    require("proof", id.hex() == found[2], "the id of a key is not its own")
    return Signer(found[1], id, bytes[1:])


def is_signed(key: bytes, signature: bytes, message: str) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def check_proof(texts: list[str], witnesses: list[str]) -> Checkpoint:
    """Checks the checkpoint, its signature and its cosignatures."""
    note, key_text = texts
    text, separator, signatures = note.rpartition("\n\n")
    text += "\n"
    body, lines = text.split("\n"), signatures[:-1].split("\n")
    is_note = bool(separator) and signatures.endswith("\n") and len(body) == 4
    require("proof", is_note and NUMBER.fullmatch(body[1]) is not None, "the checkpoint is no signed note")
    is_counted = len(witnesses) <= WITNESSES_MAX and len(set(witnesses)) == len(witnesses) == len(lines) - 1
    require("proof", is_counted, "a key or a signature is missing or repeated, or there are too many")
    key = read_key(key_text, 1)
    require("proof", body[0] == key.name, "the checkpoint is of another log than the key")
    open = [key, *(read_key(witness, 4) for witness in witnesses)]
    cosigned: dict[str, datetime] = {}
    for line in lines:
        found = SIGNATURE.fullmatch(line)
        require("proof", found is not None, "the checkpoint has a line that is no signature")
        assert found is not None
        bytes = from_base64(found[2])
        signer = next((each for each in open if each.name == found[1] and each.id == bytes[:4]), None)
        require("proof", signer is not None, "a signature is not of one of the keys")
        assert signer is not None
        open.remove(signer)
        signature, message = bytes[4:], text
        if signer is not key:
            require("proof", len(signature) == 72, "a cosignature is not complete")
            seconds, signature = int.from_bytes(signature[:8], "big"), signature[8:]
            message = f"cosignature/v1\ntime {seconds}\n{text}"
            require("proof", 0 < seconds <= TIME_MAX, "the time of a cosignature is not valid")
            cosigned[signer.name] = datetime.fromtimestamp(seconds, UTC)
        require("proof", is_signed(signer.key, signature, message), "a signature is not valid")
    require("proof", not open, "a signature is missing")
    return Checkpoint(int(body[1]), from_base64(body[2]), cosigned)


def step(token: str) -> int:
    """The change of the depth by a token."""
    return (token in ("{", "[")) - (token in ("}", "]"))


def is_deeper(text: str, most: int) -> bool:
    """Whether a JSON text has more levels than the limit. The parser is recursive, so this check comes first."""
    depth = 0
    for match in TOKEN.finditer(text):
        depth += step(match[0])
        if depth > most:
            return True
    return False


def members(id: str, json_text: str) -> dict[str, str]:
    """The members of a JSON object: the names, and the texts of the values.

    The object has no space around them, each name once, and each text in it is one of Unicode.
    """
    found: dict[str, str] = {}
    name: str | None = None
    depth = start = end = 0
    for match in TOKEN.finditer(json_text):
        token = match[0]
        is_text = not token.startswith('"') or text_of(token) is not None
        require(id, is_text, "a text of an entry is not one of Unicode")
        require(id, token[0] not in "-0123456789" or isfinite(float(token)), "a number of an entry is too large")
        is_separator = depth == 1 and token in (",", "}")
        if is_separator and name is not None:
            found[name] = json_text[start:end]
        if is_separator:
            name = None
        elif depth == 1 and name is None:
            name = decode(token)
        elif depth == 1 and token == ":":
            start = match.end()
        depth += step(token)
        end = match.end()
        is_small = depth <= ENTRY_DEPTH and len(found) <= ENTRY_MEMBERS
        require(id, is_small, "an entry has too many levels or members")
    # a repeated name leaves a gap here
    require(id, object_of(found) == json_text, "the line is not one that the log writes")
    return found


def object_of(members: dict[str, str]) -> str:
    return "{" + ",".join(f"{dump(name)}:{value}" for name, value in members.items()) + "}"


def refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def read_entry(id: str, line: str, hashes: list[str]) -> Entry:
    """Reads an entry. Its line must have the form that the log writes, so it can be parsed in only one way."""
    all = members(id, line)
    own, salts = dict(all), {}
    if list(all)[-1:] == ["salts"]:
        salts = members(id, own.pop("salts"))
        require(id, bool(salts), "an entry has no salts")
    require(id, "salts" not in own, "the salts of an entry are not its last member")
    (first, seq), (second, event) = [*own.items(), ("", ""), ("", "")][:2]
    require(id, first == "seq" and NUMBER.fullmatch(seq) is not None, "an entry has no number")
    require(id, second == "event" and EVENT.fullmatch(event) is not None, "an entry has no event")
    names = iter(own)
    for name, salt in salts.items():
        # with any other salt, the beginning of the value could be moved into it: the hash has no separator between them
        is_own = name in names and SALT.fullmatch(salt) is not None
        require(id, is_own, "the salts of an entry are not those of its members")
    hidden = {name: f'{{"sha256":"{sha256(salt[1:-1] + own[name])}"}}' for name, salt in salts.items()}
    leaf = hashlib.sha256(b"\0" + object_of(own | hidden).encode()).digest()
    # numbers are compared by no check, and can have any length
    parsed = json.loads(line, parse_int=float, parse_constant=refuse_constant)
    return Entry(int(seq), event[1:-1], line, all, parsed, leaf, hashes)


def is_included(hash: bytes, index: int, size: int, hashes: Sequence[str], root: bytes) -> bool:
    """Whether the leaf number `index` is in the tree of `size` leaves with this root (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    node, last = index, size - 1
    for text in hashes:
        sibling = from_base64(text)
        if last == 0 or len(sibling) != 32:
            return False
        if node % 2 == 1 or node == last:
            hash = hashlib.sha256(b"\1" + sibling + hash).digest()
            while node % 2 == 0 and node != 0:
                node, last = node // 2, last // 2
        else:
            hash = hashlib.sha256(b"\1" + hash + sibling).digest()
        node, last = node // 2, last // 2
    return last == 0 and hash == root


def check_entries(
    layout: dict[str, Any], entries: list[Entry], declared: set[str], seen: set[int], checkpoint: Checkpoint
) -> None:
    """Checks the entries of a part against the layout and the tree. `seen` has the numbers of all entries."""
    id, events, last = layout["id"], set[str](), 0
    for entry in entries:
        others = layout.get("others", False)
        is_own = entry.event not in declared if others else entry.event in layout["events"]
        # each event once: more entries are those of other deliveries
        require(id, is_own and (others or entry.event not in events), "an entry belongs to another part")
        require(id, entry.seq not in seen and entry.seq > last, "an entry is repeated, or not in its place")
        last = entry.seq
        events.add(entry.event)
        seen.add(entry.seq)
        is_in = is_included(entry.leaf, entry.seq - 1, checkpoint.size, entry.hashes, checkpoint.root)
        require(id, is_in, f"entry {entry.seq} is not in the log")


def check_named(layout: dict[str, Any], entries: list[Entry], delivery: Entry) -> None:
    """Checks that the delivery names each entry of a part, or that the entry names the delivery."""
    id = layout["id"]
    for entry in entries:
        named, naming = delivery.links, entry.links
        if entry.itself in (named or ()) or delivery.itself in (naming or ()):
            continue
        is_other = (named if entry.seq < delivery.seq else naming) is not None
        require(id, not is_other, f"entry {entry.seq} is not of this delivery")
        raise CardError(f"the part `{id}` cannot be checked: the log does not say that entry {entry.seq} is of this delivery")
    needed = any(delivery.parsed.get(name) == value for name, value in layout.get("needed", {}).items())
    require(id, bool(entries) or not needed, "the card must have an entry here, and has none")


def check_texts(layout: dict[str, Any], part: Part) -> None:
    """Checks the texts of a part against its first entry, by the name in the layout. A text is the one with a digest in the entry."""
    id, check, fault = layout["id"], layout.get("check"), "a text belongs to no entry"
    entry = part.entries[0] if part.entries else None
    if check == "verdict":
        require(id, entry is not None, "the entry of the delivery is missing")
        assert entry is not None
        require(id, len(part.texts) <= 1 and not part.more, fault)
        is_own = all(sha256(text) == entry.parsed.get("verdict_sha256") for text in part.texts)
        require(id, is_own, "the text is not the delivered one")
    elif check == "facts":
        check_facts(entry.parsed if entry else {}, part)
    elif check == "digests":
        digests = set(DIGEST.findall(entry.line)) if entry else set()
        require(id, not part.more and all(sha256(text) in digests for text in part.texts), fault)
    else:
        require(id, not part.texts and not part.more, fault)


def check_facts(entry: dict[str, Any], part: Part) -> None:
    """Checks the facts and their raw records by the digests in the entry. An empty text is one that is left out."""
    fault = "the facts are not those of the entry"
    if "facts_from" not in entry:
        is_own = not part.texts or sha256(dump(part.texts)) == entry.get("facts_sha256")
        return require("facts", is_own and not part.more, fault)
    sources = entry["facts_from"]
    require("facts", isinstance(sources, dict), fault)
    statements = objects(sources, "relied_on")
    require("facts", len(part.texts) == len(part.more) == len(statements), fault)
    hashes: dict[str, object] = {}
    for origin in objects(sources, "origins"):
        record = origin.get("record")
        if isinstance(record, dict) and isinstance(record.get("record_id"), str):
            hashes.setdefault(record["record_id"], record.get("raw_hash"))
    for statement, fact, raw in zip(statements, part.texts, part.more, strict=True):
        require("facts", fact == "" or sha256(fact) == statement.get("fact_sha256"), "a fact is not that of the entry")
        id = statement.get("record_id")
        hash = hashes.get(id) if isinstance(id, str) else None
        require("facts", raw == "" or sha256(raw) == hash, "a raw record is not that of the entry")


def objects(value: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects in an entry; empty if there is none."""
    found = value.get(name, [])
    is_list = isinstance(found, list) and all(isinstance(each, dict) for each in found)
    require("facts", is_list, "an entry has no list where the log writes one")
    return list(found)


def text_of(token: str) -> str | None:
    """The text that a token of JSON quotes. None if it is no text of Unicode."""
    try:
        text = str(json.loads(token)) if token.startswith('"') else None
    except ValueError:
        return None
    return None if text is None or SURROGATE.search(text) else text


def decode(token: str) -> str:
    """The text of a token of JSON. A token that is no text of Unicode stays as it is."""
    text = text_of(token)
    return token if text is None else text


def flatten(text: str, prefix: str, most: int) -> list[Leaf]:
    """The values of a JSON text, each with its path, in their order. Numbers keep their digits; null is left out.

    A text with too many levels, more than `most` values or a too long path is one value.
    """
    leaves: list[Leaf] = []
    path = [prefix]
    length = 0  # of the names after the first, each with its separator
    levels: list[int] = []  # the index in a list; in an object, -1 before a name and -2 after it
    for match in TOKEN.finditer(text):
        token = match[0]
        level = levels[-1] if levels else -2
        name: str | None = None
        if token in ("{", "["):
            levels.append(0 if token == "[" else -1)
            path.append("0" if token == "[" else "")
            length += len(path[-1]) + 1
        elif token in ("}", "]"):
            if levels:
                levels.pop()
                length -= len(path.pop()) + 1
        elif token == ",":
            if level >= 0:
                levels[-1] += 1
                name = str(levels[-1])
            elif levels:
                levels[-1] = -1
        elif level == -1:
            name = decode(token)
            levels[-1] = -2
        elif token not in (":", "null"):
            leaves.append((".".join(path), decode(token)))
        if name is not None:
            length += len(name) - len(path[-1])
            path[-1] = name
        if len(levels) > SHOWN_DEPTH or len(leaves) > most or length > SHOWN_PATH:
            return [(prefix, text)]
    return leaves


def index_of(leaves: list[Leaf]) -> dict[str, list[Leaf]]:
    """The leaves by each path at or above them, as far as a layout has paths."""
    found: dict[str, list[Leaf]] = {"": leaves}
    for leaf in leaves:
        path, end = leaf[0], -1
        for _ in range(LAYOUT_NAMES):
            end = path.find(".", end + 1)
            found.setdefault(path if end < 0 else path[:end], []).append(leaf)
            if end < 0:
                break
    return found


def rows_of(rows: list[dict[str, Any]], under: dict[str, list[Leaf]], layout: dict[str, Any], index: str) -> Iterator[Leaf]:
    """The rows of a part as pairs of a label and a text, by the layout of the page."""
    for row in rows:
        if any(path.replace("#", index) in under for path in row.get("unless", [])):
            continue
        if "text" in row:
            yield row["label"], row["text"]
        elif "each" in row:
            number = 0
            while f"{row['each']}.{number}" in under:
                yield from rows_of(row["rows"], under, layout, str(number))
                number += 1
        else:
            path = row["path"].replace("#", index)
            found = [(leaf, text) for leaf, text in under.get(path, []) if text]
            if len(found) == 1 and found[0][0] == f"{path}.sha256":
                yield row.get("label", ""), layout["withheld"] + found[0][1]
            elif not row.get("hidden"):
                for leaf, text in found:
                    names = [name for name in leaf[len(path) :].split(".") if not re.fullmatch("[0-9]*", name)]
                    label = " › ".join(name for name in [row.get("label", ""), *names] if name)
                    yield label, row.get("words", {}).get(text, text)


def render(part: dict[str, Any], data: Part, layout: dict[str, Any]) -> str:
    """The shown text of a part, from its data. Characters that hide something are shown as escapes."""
    ranges = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in layout["hiding"])
    hiding = re.compile(f"[{ranges}]")

    def to_html(text: str) -> str:
        shown = hiding.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text.replace("\r\n", "\n"))
        return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    documents = [(entry.line, entry.event) for entry in data.entries]
    if part.get("document"):
        documents += [(text, "document") for text in data.texts[:1]]
    leaves: list[Leaf] = []
    for text, prefix in documents:
        leaves += flatten(text, prefix, max(0, SHOWN_VALUES - len(leaves)))
    leaves += [(f"texts.{index}", text) for index, text in enumerate(data.texts)]
    leaves += [(f"more.{index}", text) for index, text in enumerate(data.more)]
    rows = rows_of(part["rows"], index_of(leaves), layout, "")
    return "".join(f"<dt>{to_html(label)}</dt><dd>{to_html(text)}</dd>" for label, text in rows)
