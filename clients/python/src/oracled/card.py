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
from typing import Any

from oracled._wire import invalid_type

FRAMES = {
    "6659664fb052db29819557251b5a779deacfa45bf8ae9afef3d54b3ba2c96200",
}
"""The SHA-256 of the page without data and shown text, of each version. `docs/card.md` lists them."""

SLOT = re.compile(r'<dl>(.*?)</dl>\n<script type="application/json">(.*?)</script>', re.DOTALL)
EMPTY_SLOT = '<dl></dl>\n<script type="application/json"></script>'
LAYOUT = re.compile(r'<script type="application/json" id="layout">(.*?)</script>', re.DOTALL)
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^ \t\n\r{}\[\],:"]+', re.DOTALL)
KEY = re.compile(r"([^+\s]+)\+([0-9a-f]{8})\+(.+)", re.DOTALL)
SIGNATURE = re.compile(r"— ([^+\s]+) (.+)", re.DOTALL)

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


@dataclass(frozen=True)
class Part:
    """The data of a part of a card."""

    entries: list[dict[str, Any]]
    """The entries of the log, parsed."""
    lines: list[str]
    hashes: list[list[str]]
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


def verify_card(card: bytes | str, key: str | Sequence[str], *, witnesses: Sequence[str] = ()) -> VerifiedCard:
    """Verify every byte of a verdict card. This needs the package `cryptography` (`pip install oracled[card]`).

    Args:
        card: The file.
        key: The key of the log, as `oraclectl log key` prints it, from a source that you trust; several if the log got a
            new key.
        witnesses: Keys of witnesses that must have cosigned the log.

    Raises:
        CardError: The file was changed, or is of another log.
        TypeError, ValueError: A key is missing: the card is not at fault.
    """
    keys = checked_keys("key", [key] if isinstance(key, str) or not isinstance(key, Sequence) else key)
    if not keys:
        raise ValueError(f"`key` is an empty list ({KEY_REQUIRED})")
    required = checked_keys("witnesses", witnesses)
    try:
        page = card if isinstance(card, str) else bytes(card).decode("utf-8")
    except UnicodeDecodeError:
        raise CardError("the file is not UTF-8") from None
    frame = SLOT.sub(EMPTY_SLOT, page)
    if sha256(frame) not in FRAMES:
        raise CardError("the file is no verdict card of a version that this client knows, or its page was changed")
    layout = json.loads(LAYOUT.findall(frame)[0])
    parts: dict[str, Part] = {}
    for part, (shown, data) in zip(layout["parts"], SLOT.findall(page), strict=True):
        parts[part["id"]] = read_part(part["id"], data)
        require(part["id"], render(part, parts[part["id"]], layout) == shown, "the shown text is not that of its data")
    proof = parts["proof"]
    checkpoint = check_proof(proof)
    if proof.texts[1] not in keys:
        expected = " or ".join(keys)
        raise CardError(f"the card is of the log key {proof.texts[1]}, which is not the expected one, {expected}")
    for witness in required:
        require("proof", witness in proof.more, f"the witness {witness} has not cosigned the log")
    for part in layout["parts"]:
        check_part(part, parts[part["id"]], parts["verdict"], checkpoint)
    verdict = parts["verdict"]
    session = verdict.entries[0].get("session_id")
    return VerifiedCard(
        session if isinstance(session, str) else None,
        verdict.texts[0] if verdict.texts else None,
        proof.texts[1],
        checkpoint.size,
        checkpoint.cosigned,
    )


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


def read_part(id: str, text: str) -> Part:
    """The data of a part. They have one form, so that no byte of them is free."""
    try:
        data = json.loads(text)
        lines = [str(entry["line"]) for entry in data["entries"]]
        hashes = [[str(hash) for hash in entry["proof"]["hashes"]] for entry in data["entries"]]
        texts, more = [str(each) for each in data["texts"]], [str(each) for each in data["more"]]
        part = Part([json.loads(line) for line in lines], lines, hashes, texts, more)
        entries = [{"line": line, "proof": {"hashes": each}} for line, each in zip(lines, hashes, strict=True)]
        is_own = dump({"entries": entries, "texts": texts, "more": more}).replace("<", "\\u003c") == text
        is_own = is_own and all(isinstance(entry, dict) for entry in part.entries)
    except (ValueError, KeyError, TypeError, RecursionError):
        is_own = False
    require(id, is_own, "the data are not in their form")
    return part


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


def check_proof(part: Part) -> Checkpoint:
    """Checks the checkpoint, its signature and its cosignatures."""
    require("proof", not part.entries and len(part.texts) == 2, "the checkpoint or the key is missing")
    note, key_text = part.texts
    text, separator, signatures = note.rpartition("\n\n")
    text += "\n"
    body = text.split("\n")
    is_note = bool(separator) and signatures.endswith("\n") and len(body) == 4
    require("proof", is_note and re.fullmatch(r"[1-9][0-9]{0,15}", body[1]) is not None, "the checkpoint is no signed note")
    key = read_key(key_text, 1)
    require("proof", body[0] == key.name, "the checkpoint is of another log than the key")
    open = [key, *(read_key(witness, 4) for witness in part.more)]
    cosigned: dict[str, datetime] = {}
    for line in signatures[:-1].split("\n"):
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
        require("proof", is_signed(signer.key, signature, message), "a signature is not valid")
        if signer is not key:
            cosigned[signer.name] = datetime.fromtimestamp(seconds, UTC)
    require("proof", not open, "a signature is missing")
    return Checkpoint(int(body[1]), from_base64(body[2]), cosigned)


def members(line: str) -> list[Leaf]:
    """The members of a JSON object: the names, and the texts of the values."""
    found: list[Leaf] = []
    name: str | None = None
    depth = start = end = 0
    for match in TOKEN.finditer(line):
        token = match[0]
        is_separator = depth == 1 and token in (",", "}")
        if is_separator and name is not None:
            found.append((name, line[start:end]))
        if is_separator:
            name = None
        elif depth == 1 and name is None:
            name = decode(token)
        elif depth == 1 and token == ":":
            start = match.end()
        depth += (token in ("{", "[")) - (token in ("}", "]"))
        end = match.end()
    return found


def object_of(pairs: Sequence[Leaf]) -> str:
    return "{" + ",".join(f"{dump(name)}:{value}" for name, value in pairs) + "}"


def leaf_of(id: str, line: str) -> bytes:
    """The leaf of an entry in the tree: a hash of the salt and the value in place of each value with a salt."""
    all = members(line)
    salts = [value for name, value in all if name == "salts"]
    if not salts:
        return line.encode()
    salt = {name: decode(value) for name, value in members(salts[0])}
    own = [(name, value) for name, value in all if name != "salts"]
    require(id, object_of([*own, ("salts", dump(salt))]) == line, "the line is not one that the log writes")
    return object_of(
        [(name, f'{{"sha256":"{sha256(salt[name] + value)}"}}' if name in salt else value) for name, value in own]
    ).encode()


def is_included(leaf: bytes, index: int, size: int, hashes: Sequence[bytes], root: bytes) -> bool:
    """Whether the leaf number `index` is in the tree of `size` leaves with this root (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    node, last, hash = index, size - 1, hashlib.sha256(b"\0" + leaf).digest()
    for sibling in hashes:
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


def check_part(layout: dict[str, Any], part: Part, verdict: Part, checkpoint: Checkpoint) -> None:
    """Checks the entries of a part against the tree, and its texts against its entries."""
    id = layout["id"]
    for entry, line, hashes in zip(part.entries, part.lines, part.hashes, strict=True):
        require(id, entry.get("event") in layout["events"], "an entry belongs to another part")
        seq = entry.get("seq")
        index = seq - 1 if isinstance(seq, int) else -1
        proof = [from_base64(hash) for hash in hashes]
        is_in = is_included(leaf_of(id, line), index, checkpoint.size, proof, checkpoint.root)
        require(id, is_in, f"entry {seq} is not in the log")
        for name in ("session_id", "verdict_sha256", "evaluation_sha256"):
            own, delivered = entry.get(name), verdict.entries[0].get(name)
            is_other = isinstance(own, str) and isinstance(delivered, str) and own != delivered
            require(id, not is_other, f"entry {seq} is about another verdict or its facts")
        has_facts = "evaluation_sha256" in verdict.entries[0] or "evaluation_sha256" not in entry
        require(id, has_facts, "the verdict was delivered without facts")
    first = part.entries[0] if part.entries else {}
    if id == "facts":
        return check_facts(first, part)
    if id == "verdict":
        require(id, first.get("event") == "verdict_cached", "the entry of the delivery is missing")
        is_text = all(sha256(text) == first.get("verdict_sha256") for text in part.texts)
        require(id, len(part.texts) <= 1 and not part.more and is_text, "the text is not the delivered one")
    elif id != "proof":
        require(id, not part.texts and not part.more, "a text belongs to no entry")
    if id == "divergence" and verdict.entries[0].get("path") == "regen":
        require(id, bool(part.entries), "the comparison with the first verdict is missing")


def check_facts(entry: dict[str, Any], part: Part) -> None:
    """Checks the facts and their raw records by the digests in the entry. An empty text is one that is left out."""
    fault = "the facts are not those of the entry"
    sources = entry.get("facts_from")
    if sources is None:
        is_own = not part.texts or sha256(dump(part.texts)) == entry.get("facts_sha256")
        return require("facts", is_own and not part.more, fault)
    statements = sources.get("relied_on") or []
    require("facts", len(part.texts) == len(part.more) == len(statements), fault)
    records = [origin["record"] for origin in sources.get("origins") or [] if "record" in origin]
    for statement, fact, raw in zip(statements, part.texts, part.more, strict=True):
        require("facts", fact == "" or sha256(fact) == statement.get("fact_sha256"), "a fact is not that of the entry")
        record: dict[str, Any] = next((each for each in records if each["record_id"] == statement["record_id"]), {})
        require("facts", raw == "" or sha256(raw) == record.get("raw_hash"), "a raw record is not that of the entry")


def decode(token: str) -> str:
    """The text of a token of JSON. A token that is no text of Unicode stays as it is."""
    if not token.startswith('"'):
        return token
    try:
        text = str(json.loads(token))
        text.encode()
    except ValueError:
        return token
    return text


def flatten(text: str, prefix: str) -> Iterator[Leaf]:
    """The values of a JSON text, each with its path, in their order. Numbers keep their digits; null is left out."""
    path = [prefix]
    levels: list[int] = []  # the index in a list; in an object, -1 before a name and -2 after it
    for token in TOKEN.findall(text):
        level = levels[-1] if levels else -2
        if token in ("{", "["):
            levels.append(0 if token == "[" else -1)
            path.append("0" if token == "[" else "")
        elif token in ("}", "]"):
            if levels:
                levels.pop()
                path.pop()
        elif token == ",":
            if level >= 0:
                levels[-1] += 1
                path[-1] = str(levels[-1])
            elif levels:
                levels[-1] = -1
        elif level == -1:
            path[-1] = decode(token)
            levels[-1] = -2
        elif token not in (":", "null"):
            yield ".".join(path), decode(token)


def is_under(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}.")


def rows_of(rows: list[dict[str, Any]], leaves: list[Leaf], layout: dict[str, Any], index: str) -> Iterator[Leaf]:
    """The rows of a part as pairs of a label and a text, by the layout of the page."""

    def has(path: str) -> bool:
        return any(is_under(leaf, path) for leaf, _ in leaves)

    for row in rows:
        if any(has(path.replace("#", index)) for path in row.get("unless", [])):
            continue
        if "text" in row:
            yield row["label"], row["text"]
        elif "each" in row:
            number = 0
            while has(f"{row['each']}.{number}"):
                yield from rows_of(row["rows"], leaves, layout, str(number))
                number += 1
        else:
            path = row["path"].replace("#", index)
            found = [(leaf, text) for leaf, text in leaves if is_under(leaf, path) and text]
            if len(found) == 1 and found[0][0] == f"{path}.sha256":
                yield row["label"], layout["withheld"] + found[0][1]
            elif not row.get("hidden"):
                for leaf, text in found:
                    names = [name for name in leaf[len(path) :].split(".") if not re.fullmatch("[0-9]*", name)]
                    yield " › ".join([row["label"], *names]), row.get("words", {}).get(text, text)


def to_html(text: str, hiding: list[list[int]]) -> str:
    """A text as HTML. Characters that hide something are shown as escapes."""
    shown = []
    for character in text.replace("\r\n", "\n"):
        is_hiding = any(first <= ord(character) <= last for first, last in hiding)
        shown.append(f"\\u{{{ord(character):x}}}" if is_hiding else character)
    return "".join(shown).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def render(part: dict[str, Any], data: Part, layout: dict[str, Any]) -> str:
    """The shown text of a part, from its data."""
    leaves: list[Leaf] = []
    for line, entry in zip(data.lines, data.entries, strict=True):
        leaves += flatten(line, str(entry.get("event")))
    leaves += [(f"texts.{index}", text) for index, text in enumerate(data.texts)]
    leaves += [(f"more.{index}", text) for index, text in enumerate(data.more)]
    if part.get("document") and data.texts:
        leaves += flatten(data.texts[0], "document")
    html = [
        f"<dt>{to_html(label, layout['hiding'])}</dt><dd>{to_html(text, layout['hiding'])}</dd>"
        for label, text in rows_of(part["rows"], leaves, layout, "")
    ]
    return "".join(html)
