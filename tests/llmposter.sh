#!/usr/bin/env bash
# Tests the model client with llmposter, a third-party server for both protocols. It runs as a separate program and is not
# linked, because its license is not permitted in oracled's dependency tree.
#
# Needs crates.io, builds for a few minutes, and removes all of its files. The server listens on the loopback interface only.
#
#   tests/llmposter.sh
source "$(dirname "$0")/beside.sh"

CARGO_TARGET_DIR="$dir/target" cargo install --quiet --locked --no-default-features --root "$dir" --version 0.5.0 llmposter
cat >"$dir/fixtures.yaml" <<'YAML'
fixtures:
  - match: {user_message: "a good question"}
    response: {content: '{"verdict":"GREEN","summary":"A sound and simple plan."}'}
  - match: {user_message: "one that passes"}
    scenario: {name: passes, required_state: "", set_state: once}
    error: {status: 503, message: "made up"}
  - match: {user_message: "one that passes"}
    scenario: {name: passes, required_state: once, set_state: ""}
    response: {content: '{"verdict":"GREEN","summary":"A sound and simple plan."}'}
  - match: {user_message: "a slow one"}
    response: {content: "late"}
    failure: {latency_ms: 3000}
  - match: {user_message: "a garbled one"}
    response: {content: "x"}
    failure: {corrupt_body: true}
  - match: {user_message: "a cut one"}
    response: {content: '{"verdict":"GR', finish_reason: "length"}
YAML
for status in 400 401 403 404 429 500 502 503; do
    cat >>"$dir/fixtures.yaml" <<YAML
  - match: {user_message: "one of status $status"}
    error: {status: $status, message: "made up"}
YAML
done

# build first, so that the server does not wait for the compiler
cargo test --package oracled-tests --test integration --no-run
port=$(free_port)
"$dir/bin/llmposter" --fixtures "$dir/fixtures.yaml" --port "$port" &
server=$!
served "$port"

ORACLED_TEST_LLMPOSTER="http://127.0.0.1:$port" \
    cargo test --package oracled-tests --test integration -- --ignored --nocapture llmposter
