#!/usr/bin/env bash
# Tests the model client with llmock, a third-party server. It fails as model APIs do and grades the client: ignored
# waits, useless retries, retry storms, and too few retries.
#
# Needs Python 3.10 or later and PyPI, and removes all of its files. The server listens on the loopback interface only.
# Exit status 0 means that the test's assertions hold and that llmock reports neither an error nor a warning.
#
#   tests/llmock.sh
source "$(dirname "$0")/beside.sh"

python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check llmock==0.2.2
port=$(free_port)
url="http://127.0.0.1:$port"

# build first, so that the server does not wait for the compiler
cargo test --package oracled-tests --test integration --no-run
"$dir/venv/bin/llmock" serve --host 127.0.0.1 --port "$port" --log-level warning &
server=$!
served "$port"

ORACLED_TEST_LLMOCK="$url" cargo test --package oracled-tests --test integration -- --ignored --nocapture llmock
"$dir/venv/bin/llmock" report --strict --url "$url"
