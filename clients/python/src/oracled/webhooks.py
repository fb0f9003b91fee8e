"""Webhooks of the daemon: their types, and the verification of their signature."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict

from oracled.errors import invalid_type
from oracled.types import VerdictLabel


class OrderEventData(TypedDict):
    """The data of an event about an order."""

    application: str
    session_id: str
    attempts: int


class StoppedOrderEventData(OrderEventData):
    """The data of an order that was held or failed."""

    cause: str


class DivergenceEventData(TypedDict):
    application: str
    session_id: str
    original_verdict: VerdictLabel | Literal["UNKNOWN"]
    regen_verdict: VerdictLabel
    divergence_level: str


class ReviewEventData(TypedDict):
    review_id: str
    workflow_id: str


class RunEventData(TypedDict):
    run_id: str
    oracle_id: str
    pipeline_id: str


class CircuitEventData(TypedDict):
    oracle_id: str
    consecutive_failures: int


class RecallEventData(TypedDict):
    application: str
    session_id: str
    oracle_id: str
    run_id: str
    result: str


class MailEventData(TypedDict):
    mail_id: str
    kind: str
    attempts: int


class PausedEndpoint(TypedDict, total=False):
    application: str
    endpoint: str


class EndpointPausedEventData(PausedEndpoint):
    failing_since: str


class OrderEvent(TypedDict):
    type: Literal["order.delivered", "order.cancelled"]
    timestamp: str
    data: OrderEventData


class StoppedOrderEvent(TypedDict):
    type: Literal["order.held", "order.failed"]
    timestamp: str
    data: StoppedOrderEventData


class DivergenceEvent(TypedDict):
    type: Literal["verdict.diverged"]
    timestamp: str
    data: DivergenceEventData


class RecallEvent(TypedDict):
    type: Literal["verdict.recalled"]
    timestamp: str
    data: RecallEventData


class ReviewEvent(TypedDict):
    type: Literal["review.opened"]
    timestamp: str
    data: ReviewEventData


class RunEvent(TypedDict):
    type: Literal["run.held"]
    timestamp: str
    data: RunEventData


class CircuitEvent(TypedDict):
    type: Literal["circuit.opened", "circuit.closed"]
    timestamp: str
    data: CircuitEventData


class MailEvent(TypedDict):
    type: Literal["mail.dead_letter"]
    timestamp: str
    data: MailEventData


class EndpointPausedEvent(TypedDict):
    type: Literal["endpoint.paused"]
    timestamp: str
    data: EndpointPausedEventData


class EndpointTestEvent(TypedDict):
    type: Literal["webhook.test"]
    timestamp: str
    data: dict[str, Any]


WebhookEvent: TypeAlias = (
    OrderEvent
    | StoppedOrderEvent
    | DivergenceEvent
    | RecallEvent
    | ReviewEvent
    | RunEvent
    | CircuitEvent
    | MailEvent
    | EndpointPausedEvent
    | EndpointTestEvent
)
"""An event that the daemon reports. Later versions can add types and members."""


class WebhookError(Exception):
    """The request is not a webhook of the daemon with this secret. Answer it with status 400."""


@dataclass(frozen=True)
class VerifiedWebhook:
    """A verified webhook."""

    id: str
    """The same for all attempts: ignore an id that was processed."""
    event: WebhookEvent


def verify_webhook(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance: float = 300.0,
    now: float | None = None,
) -> VerifiedWebhook:
    """Verify a webhook by the Standard Webhooks scheme, and return its event.

    Args:
        body: The bytes of the body as they were received.
        headers: The headers of the request. Names can have any case.
        secret: `whsec_` and a key in base64; several while the secret is replaced.
        tolerance: The largest difference between the time of the request and the clock, in seconds.
        now: The current time, in seconds since 1970. Default: the clock.

    Raises:
        WebhookError: The signature does not fit, or the time differs too much.
        TypeError, ValueError: An argument is invalid: the request is not at fault.
    """
    if not isinstance(body, (str, bytes, bytearray, memoryview)):
        raise invalid_type("body", body, "the raw bytes of the body are needed, not the parsed JSON")
    if not hasattr(headers, "items"):
        raise invalid_type("headers", headers, "the headers of the request are needed")
    if isinstance(secret, (str, bytes)) or not isinstance(secret, Sequence):
        secret = [secret]
    keys = [key_of(each) for each in secret]
    if not keys:
        raise ValueError("`secret` is an empty list (at least one secret is required)")
    values = {name.lower(): value for name, value in headers.items()}
    id, timestamp, signatures = (values.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (id and timestamp and signatures):
        raise WebhookError("the headers `webhook-id`, `webhook-timestamp` and `webhook-signature` are required")
    is_time = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 15
    if not is_time or abs((time.time() if now is None else now) - int(timestamp)) > tolerance:
        raise WebhookError(
            f"`webhook-timestamp` is {timestamp[:20]}, which differs from the clock by more than {tolerance:g} s"
        )
    content = body.encode() if isinstance(body, str) else bytes(body)
    signed = f"{id}.{timestamp}.".encode() + content
    given = [signature[3:] for signature in signatures.split(" ") if signature.startswith("v1,")]
    expected = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()) for key in keys]
    if not any(hmac.compare_digest(signature.encode(), each) for signature in given for each in expected):
        raise WebhookError(
            "no signature in `webhook-signature` fits; is the body unchanged, and the secret that of the endpoint?"
        )
    event: WebhookEvent = json.loads(content)
    return VerifiedWebhook(id, event)


def key_of(secret: object) -> bytes:
    if not isinstance(secret, str):
        raise TypeError(f"the secret is of type {type(secret).__name__} (`whsec_` and a key in base64 are required)")
    prefix, _, text = secret.strip().partition("_")
    try:
        key = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if prefix != "whsec" or not 24 <= len(key) <= 64:
        # the secret is not quoted
        raise ValueError("the secret is not `whsec_` and the base64 form of 24 to 64 bytes")
    return key
