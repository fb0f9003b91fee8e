# What the scripts share that hold a client against somebody else's server: a directory that goes with them, the server's
# end, a free port on the loopback, and the wait until it is served. Sourced, not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dir=$(mktemp -d)
server=
clean_up() {
    if [[ -n $server ]]; then kill "$server" && wait "$server" || true; fi
    rm -rf "$dir"
}
trap clean_up EXIT

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# waits until the server takes connections on this port, or has ended
served() {
    for _ in {1..100}; do
        if (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
        kill -0 "$server"
        sleep 0.2
    done
}
