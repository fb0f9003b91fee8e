#!/usr/bin/env bash
# Lets llmock judge the model client: a server that nobody here wrote, which fails as model APIs do and grades how a
# client takes it (waits that are ignored, retries that cannot help, retry storms, giving up too soon).
#
# Needs Python 3.10 or later and PyPI; leaves nothing behind. The server listens on the loopback only. Exit status 0 means that
# the client's own expectations held and that llmock found neither an error nor a warning.
#
#   tests/llmock.sh
source "$(dirname "$0")/beside.sh"

python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check llmock==0.2.2
port=$(free_port)
url="http://127.0.0.1:$port"

# built first, so that the server does not wait for the compiler
cargo test --package oracled-tests --test integration --no-run
"$dir/venv/bin/llmock" serve --host 127.0.0.1 --port "$port" --log-level warning &
server=$!
served "$port"

ORACLED_TEST_LLMOCK="$url" cargo test --package oracled-tests --test integration -- --ignored --nocapture llmock
"$dir/venv/bin/llmock" report --strict --url "$url"
