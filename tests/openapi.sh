#!/usr/bin/env bash
# Validates the OpenAPI documents of all sockets with an outside validator and a linter with its default rules, and compiles a TypeScript client made from them.
# Usage: tests/openapi.sh [path of oracled]. Skips a check if this machine lacks Python or Node, or cannot reach its registry.
set -euo pipefail
# the path is relative to the caller's directory
if [[ $# -gt 0 ]]; then set -- "$(realpath "$1")"; fi
cd "$(dirname "$0")/.."
oracled="$(realpath "${1:-${CARGO_TARGET_DIR:-target}/release/oracled}")"
validator=openapi-spec-validator==0.9.0
generator=openapi-typescript@7.13.0
compiler=typescript@5.9.3
linter=@redocly/cli@2.77.0
usage="$PWD/tests/data/openapi-usage.ts"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$oracled" openapi >routes.json
"$oracled" openapi --control >control.json
"$oracled" openapi --review >review.json

# a failure of `npm view` or `pip index` means that the registry cannot be reached; every other failure ends the script
if ! command -v python3 >/dev/null; then
    echo "skipped: validation of the OpenAPI documents (python3 is missing)"
elif python3 -m venv venv && ! venv/bin/pip index versions "${validator%%==*}" >&2; then
    echo "skipped: validation of the OpenAPI documents (the registry of Python packages cannot be reached)"
else
    venv/bin/pip install --quiet "$validator" >&2
    for document in routes control review; do
        venv/bin/openapi-spec-validator --schema 3.1 "$document.json"
    done
fi

if ! command -v npm >/dev/null; then
    echo "skipped: the TypeScript client (npm is missing)"
elif ! npm view "${compiler%@*}" name >&2; then
    echo "skipped: the TypeScript client (the registry of npm cannot be reached)"
else
    npm install --silent --no-audit --no-fund --prefix . "$generator" "$compiler" >&2
    for document in routes control review; do
        node_modules/.bin/openapi-typescript "$document.json" --output "$document.ts" >&2
    done
    cp "$usage" usage.ts
    node_modules/.bin/tsc --strict --noEmit --target es2022 --module nodenext --moduleResolution nodenext \
        --skipLibCheck false routes.ts control.ts review.ts usage.ts
    echo "compiled: the TypeScript client of all sockets"
    if node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; then
        npm install --silent --no-audit --no-fund --prefix . "$linter" >&2
        REDOCLY_TELEMETRY=off node_modules/.bin/redocly lint --format=summary routes.json control.json review.json >lint.log 2>&1 || { cat lint.log >&2; exit 1; }
        if grep -q '^warning' lint.log; then cat lint.log >&2; exit 1; fi
        echo "linted: the OpenAPI documents have no fault by Redocly's default rules"
    else
        echo "skipped: the linter of the OpenAPI documents (Node 20 or later is missing)"
    fi
fi
