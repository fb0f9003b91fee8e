"""Client of the daemon oracled, which checks and stores the verdicts of language models.

`Client` is sync, `AsyncClient` has the same methods as coroutines. `oracled.types` has the types of all documents,
`oracled.testing` helpers for tests.
"""

from oracled._async_client import AsyncClient
from oracled._client import Client
from oracled._wire import CallOptions
from oracled.answers import Answer, Card, Delivered, Held, Ordered
from oracled.card import CardError, VerifiedCard, verify_card
from oracled.errors import (
    DaemonConnectionError,
    DaemonTimeoutError,
    OracledError,
    ProblemError,
    RejectedError,
    ResponseError,
    TemporaryError,
)
from oracled.webhooks import VerifiedWebhook, WebhookError, WebhookEvent, verify_webhook

__all__ = [
    "Answer",
    "AsyncClient",
    "CallOptions",
    "Card",
    "CardError",
    "Client",
    "DaemonConnectionError",
    "DaemonTimeoutError",
    "Delivered",
    "Held",
    "Ordered",
    "OracledError",
    "ProblemError",
    "RejectedError",
    "ResponseError",
    "TemporaryError",
    "VerifiedCard",
    "VerifiedWebhook",
    "WebhookError",
    "WebhookEvent",
    "verify_card",
    "verify_webhook",
]
