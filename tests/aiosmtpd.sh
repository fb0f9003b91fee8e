#!/usr/bin/env bash
# Tests the SMTP client with aiosmtpd, a third-party mail server. It stores accepted mails, and refuses some addresses.
#
# Needs Python 3.9 or later, PyPI and openssl, and removes all of its files. The server listens on the loopback interface
# only. Exit status 0 means that all assertions about the server's answers and the stored mails hold.
#
#   tests/aiosmtpd.sh
source "$(dirname "$0")/beside.sh"

python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check aiosmtpd==1.4.6
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 \
    -keyout "$dir/key.pem" -out "$dir/cert.pem" 2>/dev/null
mkdir "$dir/mails"
cat >"$dir/server.py" <<'PYTHON'
import asyncio, logging, os, ssl, sys
from aiosmtpd.smtp import SMTP, AuthResult

# aiosmtpd logs many warnings about logins without TLS
logging.disable(logging.WARNING)

class Keeper:
    count = 0
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("refused@"):
            return "550 5.1.1 no such user"
        if address.startswith("busy@"):
            return "451 4.7.1 later"
        envelope.rcpt_tos.append(address)
        return "250 OK"
    async def handle_DATA(self, server, session, envelope):
        Keeper.count += 1
        with open(os.path.join(sys.argv[1], "mails", f"{Keeper.count:04}"), "wb") as file:
            file.write(envelope.content.replace(b"\r\n", b"\n"))
        return "250 OK"

def authenticate(server, session, envelope, mechanism, data):
    # not handled: the server sends the answer
    return AuthResult(success=(data.login, data.password) == (b"oracle", b"s3cret"), handled=False)

def protocol():
    return SMTP(Keeper(), authenticator=authenticate, auth_required=True, auth_require_tls=False)

async def main():
    loop = asyncio.get_running_loop()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{sys.argv[1]}/cert.pem", f"{sys.argv[1]}/key.pem")
    plain = await loop.create_server(protocol, "127.0.0.1", 0)
    tls = await loop.create_server(protocol, "127.0.0.1", 0, ssl=context)
    ports = [server.sockets[0].getsockname()[1] for server in (plain, tls)]
    with open(f"{sys.argv[1]}/ports.new", "w") as file:
        file.write("%d %d\n" % tuple(ports))
    os.rename(f"{sys.argv[1]}/ports.new", f"{sys.argv[1]}/ports")
    await asyncio.Event().wait()

asyncio.run(main())
PYTHON

# build first, so that the server does not wait for the compiler
cargo test --package oracled-tests --test integration --no-run
"$dir/venv/bin/python" -W ignore "$dir/server.py" "$dir" &
server=$!
for _ in {1..100}; do
    if [[ -e $dir/ports ]]; then break; fi
    kill -0 "$server"
    sleep 0.1
done
read -r plain tls <"$dir/ports"

ORACLED_TEST_SMTP_PORT=$plain ORACLED_TEST_SMTPS_PORT=$tls ORACLED_TEST_SMTP_DIR="$dir/mails" \
    cargo test --package oracled-tests --test integration -- --ignored --nocapture aiosmtpd
