"""Helpers for tests of an application: answers without a daemon, and a daemon in test mode."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from oracled._client import Client
from oracled._wire import PAGE

NOW = "2026-01-01T00:00:00Z"
GOOD = {"verdict": "GREEN", "summary": "A made-up verdict for a unit test."}
THRESHOLD = 0.9740425724725061
CANNED = '\n[model]\nprovider = "canned"\ncalls_per_minute = 1000000\n'
# the header of a table, or a key before the first table
HAS_MODEL = re.compile(
    r"(?:^|\n)[ \t]*\[\[?[ \t]*models?[ \t]*[.\]]|^(?:(?![ \t]*\[)[^\n]*\n)*[ \t]*models?[ \t]*[.=]"
)

# `read` returns when this process ends, also by SIGKILL: the input of the shell is a pipe from it. The output ends with
# the daemon
GUARD = """folder=$1; shift
"$@" </dev/null & daemon=$!
exec >/dev/null 2>&1
read -r _
kill -KILL $daemon; wait
rm -rf "$folder"
"""


@dataclass(frozen=True)
class FakeRequest:
    """A call of a client."""

    method: str
    path: str
    """The path with its query."""
    body: Any
    """The parsed JSON; None without a body. That of a batch is the list of its requests."""


@dataclass(frozen=True)
class FakeResponse:
    """The answer to a call."""

    body: Any
    """JSON. That of a batch is the list of its answers, each with its `line`; a text for `read_card` is a card."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class FakeTransport(httpx.MockTransport):
    """Answers the calls of `Client(transport=…)` or `AsyncClient(transport=…)` in place of the daemon.

    `requests` has the calls so far. An error that `respond` raises is raised by the call.
    """

    def __init__(self, respond: Callable[[FakeRequest], FakeResponse]) -> None:
        self.requests: list[FakeRequest] = []

        def handle(request: httpx.Request) -> httpx.Response:
            is_batch = request.headers.get("content-type") == "application/x-ndjson"
            lines = request.content.split(b"\n") if is_batch else []
            body = [json.loads(line) for line in lines if line] if is_batch else json.loads(request.content or b"null")
            call = FakeRequest(request.method, request.url.raw_path.decode(), body)
            self.requests.append(call)
            response = respond(call)
            status = response.status
            # as with the daemon, a read has status 200 and not 201, and a report of an order 200 and not 202
            if (status == 201 and call.method == "GET") or (status == 202 and call.path.startswith("/v1/orders/")):
                status = 200
            content = json.dumps(response.body)
            media_type = "application/json" if status < 400 else "application/problem+json"
            if is_batch and status == 200:
                content = "".join(json.dumps(line) + "\n" for line in response.body)
                media_type = "application/x-ndjson"
            if request.headers.get("accept") == PAGE and isinstance(response.body, str):
                content, media_type = response.body, PAGE
            headers = {"content-type": media_type, **response.headers}
            # a stream, because the client reads the bytes of the body as they arrive
            return httpx.Response(status, headers=headers, stream=httpx.ByteStream(content.encode()))

        super().__init__(handle)


def fake_verdict(session_id: str, verdict: Any = GOOD, **members: Any) -> FakeResponse:
    """The answer with a verdict. `members` replaces members of the answer.

    As with the daemon, the status of a submission is 201, or 200 with the member `replayed=True`. That of a read is 200.
    """
    decision = {
        "approved": True,
        "coherence_score": 1.0,
        "crosscheck_reason": "pass",
        "flags": [],
        "threshold": THRESHOLD,
        "verdict_label": verdict["verdict"],
    }
    body = {
        "session_id": session_id,
        "tier": "quick",
        "query": "A query of a unit test",
        "verdict": verdict,
        "decision": decision,
        "cached_at": NOW,
        "regen": False,
    }
    return FakeResponse(body | members, 200 if members.get("replayed") else 201)


def fake_order(session_id: str, state: str = "queued", *, retry_after: int = 0, **members: Any) -> FakeResponse:
    """The answer with an order that waits. With the state `held`, an operator must decide.

    `retry_after` is the time before the next read of an order that is queued or generating, in seconds. That of the
    daemon is 5 or more.
    """
    body: dict[str, Any] = {
        "session_id": session_id,
        "state": state,
        "tier": "quick",
        "placed_at": NOW,
        "changed_at": NOW,
        "tried_since": NOW,
        "attempts": 0,
        "failures_in_a_row": 0,
        "generations": 0,
        "last_attempts": [],
    }
    headers = {"location": f"/v1/orders/{session_id}"}
    if state in ("queued", "generating"):
        headers["retry-after"] = str(retry_after)
    if state == "held":
        body["stop_cause"] = "policy"
    return FakeResponse(body | members, 202, headers)


def fake_problem(
    status: int, code: str, detail: str = "a fault of a unit test", retry_after: int | None = None
) -> FakeResponse:
    """A problem, such as `fake_problem(422, "crosscheck_rejected")`. With `retry_after` it is temporary."""
    body: dict[str, Any] = {"type": f"urn:oracled:problem:{code}", "title": code, "status": status}
    body |= {"detail": detail, "code": code}
    if code == "crosscheck_rejected":
        body["decision"] = {
            "approved": False,
            "coherence_score": 0.0,
            "crosscheck_reason": "degenerate_manifold",
            "flags": [],
            "threshold": THRESHOLD,
        }
    return FakeResponse(body, status, {} if retry_after is None else {"retry-after": str(retry_after)})


@dataclass(frozen=True)
class TestMail:
    """A mail that the daemon would have sent."""

    __test__ = False

    to: str
    subject: str
    """It begins with `[test mode]`."""
    text: str


class TestDaemon:
    """A daemon in test mode. All of its files are in a temporary folder. Use it as a context manager.

    Daemon and folder are also removed when the process of the tests is killed.

    Args:
        program: The program. Default: the variable `ORACLED_BIN`, or `oracled` in the `PATH`.
        config: The configuration, in TOML. Without a model, it gets canned answers without a limit of calls.
        start: The longest time of the start, in seconds.
    """

    # pytest does not collect it
    __test__ = False

    def __init__(
        self, program: str | os.PathLike[str] | None = None, *, config: str = "", start: float = 30.0
    ) -> None:
        self._program = os.fspath(program) if program is not None else os.environ.get("ORACLED_BIN") or "oracled"
        # a short path: that of a socket has at most 107 bytes
        self._temporary = tempfile.TemporaryDirectory(prefix="oracled-")
        self.folder = Path(self._temporary.name)
        """The temporary folder."""
        self.socket = self.folder / "o.sock"
        """For `Client`, and for the variable `ORACLED_SOCKET`."""
        self.control_socket = self.folder / "c.sock"
        """For the variable `ORACLED_CONTROL_SOCKET` of `oraclectl`."""
        (self.folder / "oracled.toml").write_text(config if HAS_MODEL.search(config) else config + CANNED)
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._run(start)
        except BaseException:
            self.stop()
            raise
        self.client = Client(self.socket)

    def __enter__(self) -> TestDaemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.stop()

    def stop(self) -> None:
        """Stop the process and remove its files."""
        if self._process is not None and self._process.poll() is None:
            # closes the input of the shell, and waits for its end
            self._process.communicate()
        self._temporary.cleanup()

    def mails(self) -> list[TestMail]:
        """The mails so far."""
        files = sorted((self.folder / "state" / "test-mail").glob("[!.]*.txt"))
        return [parse_mail(file.read_text("utf-8")) for file in files]

    def oraclectl(self, *args: str) -> str:
        """Run `oraclectl` with the sockets of this daemon, and return its output."""
        env = os.environ | {"ORACLED_SOCKET": str(self.socket), "ORACLED_CONTROL_SOCKET": str(self.control_socket)}
        # the program is `oraclectl` when it is started under that name
        ran = subprocess.run(["oraclectl", *args], executable=self._found(), env=env, capture_output=True, text=True)
        if ran.returncode != 0:
            raise RuntimeError(f"oraclectl {' '.join(args)} failed: {ran.stderr}")
        return ran.stdout

    def _found(self) -> str:
        # `executable` is not searched in the PATH
        found = shutil.which(self._program)
        if found is None:
            raise FileNotFoundError(f"{self._program} is not a program; install oracled, or set ORACLED_BIN")
        return found

    def _run(self, start: float) -> None:
        names = {"config": "oracled.toml", "state-dir": "state", "socket": "o.sock", "control-socket": "c.sock"}
        flags = [flag for name, path in names.items() for flag in (f"--{name}", str(self.folder / path))]
        removed = ("ORACLED_", "XDG_", "LISTEN_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
        program = self._found()
        log = self.folder / "log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                ["sh", "-c", GUARD, "sh", str(self.folder), program, "serve", "--test-mode", *flags],
                env=env,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                # a signal to the group of this process does not end the shell
                start_new_session=True,
            )
        stdout = self._process.stdout
        assert stdout is not None
        os.set_blocking(stdout.fileno(), False)
        end = time.monotonic() + start
        while not self._is_ready():
            # None until the daemon ends, because the daemon prints nothing there
            text: bytes | None = stdout.read(65536)
            if text is not None or time.monotonic() >= end:
                fault = f"was not ready within {start:g} s" if text is None else "did not start"
                printed = (text or b"").decode("utf-8", "replace") + log.read_text("utf-8", "replace")
                printed = printed or "it printed nothing (check that the program is oracled)"
                raise RuntimeError(f"the daemon {program} {fault}: {printed}")
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0


def parse_mail(file: str) -> TestMail:
    head, _, text = file.partition("\n\n")
    members = dict(line.split(": ", 1) for line in head.split("\n") if ": " in line)
    return TestMail(members.get("To", ""), members.get("Subject", ""), text)
