# Functions for the scripts that test a client with a third-party server: a temporary directory, the end of the server, a
# free port on the loopback interface, and a wait until the server listens. Sourced, not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dir=$(mktemp -d)
server=
stop_server() {
    if [[ -n $server ]]; then kill "$server" && wait "$server" || true; fi
    server=
}
clean_up() {
    stop_server
    rm -rf "$dir"
}
trap clean_up EXIT

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# waits until the server accepts connections on this port, or has ended
served() {
    for _ in {1..100}; do
        if (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
        kill -0 "$server"
        sleep 0.2
    done
}
