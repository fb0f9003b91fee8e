"""A daemon under test in a temporary directory, a scripted model, and a scripted server on a Unix socket."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from generate import default_program
from oracled import Client

GOOD = '{"verdict":"GREEN","summary":"A sound and simple plan."}'
BAD = '{"verdict":"GREEN"}'

CONFIG = """
[model]
base_url = "{url}"
max_retries = 0
calls_per_minute = 1000000
"""


class Daemon:
    """`oracled` with all its files in `folder`."""

    def __init__(self, folder: Path, config: str = "") -> None:
        self.folder = folder
        self.socket = folder / "o.sock"
        (folder / "oracled.toml").write_text(config)

    def start(self, command: str = "serve") -> None:
        """Starts `oracled serve` or `oracled dev`, and waits until it is ready."""
        names = {"config": "oracled.toml", "state-dir": "state", "socket": "o.sock", "control-socket": "c.sock"}
        flags = [flag for name, path in names.items() for flag in (f"--{name}", str(self.folder / path))]
        env = {
            name: value for name, value in os.environ.items() if not name.startswith(("ORACLED_", "XDG_", "LISTEN_"))
        }
        env.pop("GEMINI_API_KEY", None)
        if command == "serve":
            env["GEMINI_API_KEY"] = "not-a-real-key"
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [default_program(), command, *flags],
                env={**env, "TMPDIR": str(self.folder), "HOME": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        end = time.monotonic() + 60
        while not self.is_ready(command):
            if self.process.poll() is not None or time.monotonic() > end:
                self.end(signal.SIGKILL)
                raise AssertionError(f"the daemon is not ready: {self.output()}")
            time.sleep(0.05)

    def is_ready(self, command: str) -> bool:
        if command == "dev":
            return "steps passed" in self.output()
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0

    def output(self) -> str:
        return (self.folder / "output").read_text("utf-8", "replace")

    def end(self, sent: signal.Signals = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(sent)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(20)


@contextmanager
def running(config: str = "", command: str = "serve") -> Iterator[Daemon]:
    """A daemon that ends with the block. Its path is short, because that of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="oracled-py-") as folder:
        daemon = Daemon(Path(folder), config)
        try:
            daemon.start(command)
            yield daemon
        finally:
            if hasattr(daemon, "process"):
                daemon.end()


class Model:
    """A model with Gemini's protocol on the loopback interface. `answer` returns the text of each answer."""

    def __init__(self) -> None:
        self.answer: Callable[[], str] = lambda: GOOD
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                parts = {"parts": [{"text": model.answer()}], "role": "model"}
                usage = {"promptTokenCount": 300, "candidatesTokenCount": 40, "totalTokenCount": 340}
                document = {
                    "candidates": [{"content": parts, "finishReason": "STOP", "index": 0}],
                    "usageMetadata": usage,
                    "modelVersion": "gemini-2.5-flash",
                    "responseId": "r1",
                }
                body = json.dumps(document).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.stop()


@pytest.fixture(scope="session")
def dev() -> Iterator[Daemon]:
    """`oracled dev` after its demonstration: it has sources with records, and a workflow."""
    with running(command="dev") as daemon:
        yield daemon


@pytest.fixture
def client(dev: Daemon) -> Iterator[Client]:
    with Client(dev.socket) as client:
        yield client


@pytest.fixture
def ordering(model: Model) -> Iterator[Daemon]:
    """A daemon that orders verdicts from the scripted model."""
    with running(CONFIG.format(url=model.url)) as daemon:
        yield daemon


class ScriptedServer:
    """A server on a Unix socket. Each request takes the next script: bytes to send, or a number of seconds to wait."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.requests: list[bytes] = []
        self.connections = 0
        self.script: list[list[bytes | float]] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection, connection.makefile("rb") as incoming:
                while self.script and (head := b"".join(iter(incoming.readline, b"\r\n"))):
                    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                    body = incoming.read(int(lengths[0].split(b":")[1])) if lengths else b""
                    self.requests.append(head + b"\r\n" + body)
                    is_kept = self.play(connection, self.script.pop(0))
                    if not is_kept:
                        break

    def play(self, connection: socket.socket, steps: list[bytes | float]) -> bool:
        """Sends the steps. An empty list of steps closes the connection."""
        for step in steps:
            if isinstance(step, bytes):
                try:
                    connection.sendall(step)
                except OSError:
                    return False
            else:
                self.stopped.wait(step)
        return bool(steps)

    def stop(self) -> None:
        self.stopped.set()
        # close() alone does not end accept()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with tempfile.TemporaryDirectory(prefix="oracled-py-") as folder:
        server = ScriptedServer(Path(folder) / "s.sock")
        yield server
        server.stop()


def response(status: int, document: object, *headers: str, media_type: str | None = None) -> bytes:
    """The bytes of a response with a JSON document."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    media_type = media_type or ("application/json" if status < 400 else "application/problem+json")
    lines = [f"HTTP/1.1 {status} X", f"content-type: {media_type}", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def problem(status: int, code: str, *headers: str) -> bytes:
    document = {"type": f"urn:oracled:problem:{code}", "title": "X", "status": status, "detail": "X", "code": code}
    return response(status, document, *headers)
