#!/usr/bin/env bash
# Tests the look-up of sessions with localstripe, a third-party imitation of Stripe. It has no checkout sessions, so payment
# intents take their place: the same protocol and metadata, another path and status.
#
# Needs Python 3.9 or later, PyPI and curl, and removes all of its files. The server listens on the loopback interface only.
# Exit status 0 means that a paid intent was registered, and that an unpaid and an unknown one were not.
#
#   tests/localstripe.sh
source "$(dirname "$0")/beside.sh"

python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check localstripe==1.15.10
cat >"$dir/server.py" <<'PYTHON'
import socket

# localstripe listens on all addresses
class LoopbackSocket(socket.socket):
    def bind(self, address):
        super().bind(("::ffff:127.0.0.1", *address[1:]))

socket.socket = LoopbackSocket
from localstripe import resources, server

# it would write its data to a fixed path in /tmp
type(resources.store).dump_to_disk = lambda store: None
server.start()
PYTHON

# build first, so that the server does not wait for the compiler
cargo test --package oracled-tests --test integration --no-run
port=$(free_port)
"$dir/venv/bin/python" "$dir/server.py" --from-scratch --port "$port" >"$dir/log" 2>&1 &
server=$!
served "$port"

url=http://127.0.0.1:$port
create() {
    local path=$1
    shift
    curl --silent --fail --user sk_test_made_up: "$url/v1/$path" "$@" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])'
}
method=$(create payment_methods -d type=card -d 'card[number]=4242424242424242' -d 'card[exp_month]=12' \
    -d 'card[exp_year]=2040' -d 'card[cvc]=123')
customer=$(create customers -d email=ada@example.org)
create "payment_methods/$method/attach" -d "customer=$customer" >/dev/null
intent=(payment_intents -d amount=500 -d currency=cad -d "customer=$customer" -d "payment_method=$method"
    -d 'metadata[tier]=quick' -d 'metadata[query]=Sell honey?')

ORACLED_TEST_STRIPE_URL=$url ORACLED_TEST_STRIPE_UNPAID=$(create "${intent[@]}") \
    ORACLED_TEST_STRIPE_PAID=$(create "${intent[@]}" -d confirm=true) \
    cargo test --package oracled-tests --test integration -- --ignored --nocapture localstripe
