#!/usr/bin/env bash
# Checks the Node client: its types, and its tests against the daemon. ORACLED_NEXT=1 also builds the Next.js example (about 1 min).
# Usage: clients/node/ci.sh [path of oracled]. Skips the checks if this machine lacks Node 20 or cannot reach npm's registry.
set -euo pipefail
# the path is relative to the caller's directory
if [[ $# -gt 0 ]]; then set -- "$(realpath "$1")"; fi
cd "$(dirname "$0")"
ORACLED_BIN="$(realpath "${1:-${CARGO_TARGET_DIR:-../../target}/debug/oracled}")"
export ORACLED_BIN

if ! command -v npm >/dev/null || ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then
    echo "skipped: the Node client (Node 20 or later is missing)"
    exit 0
elif ! npm view typescript name >&2; then
    echo "skipped: the Node client (the registry of npm cannot be reached)"
    exit 0
fi

npm ci --silent --no-audit --no-fund >&2
npm test
if [[ -n "${ORACLED_NEXT:-}" ]]; then
    cd examples/nextjs
    npm ci --silent --no-audit --no-fund >&2
    NEXT_TELEMETRY_DISABLED=1 npm run build
fi
