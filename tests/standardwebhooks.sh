#!/usr/bin/env bash
# Verifies webhooks of a daemon with standardwebhooks, a third-party library. The receiver fails the first attempt of each
# webhook, and checks that the next one has the same id and body, and that an altered or old request is rejected.
#
# Needs Python 3.9 or later and PyPI, and removes all of its files. The server listens on the loopback interface only.
#
#   tests/standardwebhooks.sh
source "$(dirname "$0")/beside.sh"

python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check standardwebhooks==1.1.0
cat >"$dir/server.py" <<'PYTHON'
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

webhook = Webhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
seen = {}

def rejects(body, headers):
    try:
        webhook.verify(body, headers)
    except WebhookVerificationError:
        return True
    return False

class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        old = str(int(headers["webhook-timestamp"]) - 3600)
        try:
            webhook.verify(body, headers)
            assert rejects(body + b" ", headers), "an altered body is accepted"
            assert rejects(body, {**headers, "webhook-id": "msg_other"}), "another id is accepted"
            assert rejects(body, {**headers, "webhook-timestamp": old}), "an old request is accepted"
            before = seen.setdefault(headers["webhook-id"], [])
            assert all(other == body for other in before), "another attempt has another body"
            before.append(body)
            status = 204 if len(before) > 1 else 503
        except Exception as error:
            print("not verified:", repr(error), flush=True)
            status = 410
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass

HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
PYTHON

# build first, so that the server does not wait for the compiler
cargo test --package oracled-tests --test integration --no-run
port=$(free_port)
"$dir/venv/bin/python" "$dir/server.py" "$port" &
server=$!
served "$port"

ORACLED_TEST_WEBHOOK_URL="http://127.0.0.1:$port/hook" \
    cargo test --package oracled-tests --test integration -- --ignored --nocapture standardwebhooks
