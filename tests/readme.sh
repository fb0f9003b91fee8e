#!/usr/bin/env bash
# runs the programs in README.md, in docs/http.md and in the READMEs of the clients against `oracled dev`, and the tests of
# docs/testing.md in Node and Python; parses its CI recipes and its compose file
# Usage: tests/readme.sh [path of oracled]. Skips a language whose tools are missing, and a client whose registry cannot be reached.
set -euo pipefail
oracled="$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug/oracled}")"
cd "$(dirname "$0")/.."
repository=$PWD

work=$(mktemp -d)
daemon=
cleanup() {
    if [[ -n $daemon ]]; then
        kill "$daemon" || true
        wait "$daemon" || true
    fi
    rm -rf "$work"
}
trap cleanup EXIT

"$oracled" dev >"$work/dev.log" 2>&1 &
daemon=$!
for _ in $(seq 600); do
    ORACLED_SOCKET=$(sed -n 's/^  export ORACLED_SOCKET=//p' "$work/dev.log")
    if [[ -n $ORACLED_SOCKET ]]; then break; fi
    sleep 0.1
done
if [[ -z $ORACLED_SOCKET ]]; then
    cat "$work/dev.log" >&2
    exit 1
fi
export ORACLED_SOCKET

# the first block of a language in a page, as a file. Arguments: page, language, file
extract() {
    awk -v fence="\`\`\`$2" '$0 == fence { inside = 1; next } /^```$/ { if (inside) exit } inside' "$1" >"$3"
    if [[ ! -s $3 ]]; then
        echo "$1 has no example in $2" >&2
        exit 1
    fi
}
# runs an example, which must deliver a verdict. Arguments: name, command
check() {
    local name=$1 printed
    shift
    printed=$("$@") || { echo "$name failed: $printed" >&2; exit 1; }
    if [[ ! $printed =~ ^deliver\ .*(GREEN|AMBER|RED|NULL) ]]; then
        echo "$name printed: $printed" >&2
        exit 1
    fi
    echo "$name delivers a verdict"
}

# README.md has the examples of the clients' READMEs
for example in node:ts python:python; do
    extract README.md "${example#*:}" "$work/readme"
    extract "clients/${example%:*}/README.md" "${example#*:}" "$work/own"
    cmp "$work/readme" "$work/own"
done

has_node() { command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; }
if has_node; then
    extract docs/http.md js "$work/raw.mjs"
    check "docs/http.md in JavaScript" node "$work/raw.mjs"
else
    echo "skipped: docs/http.md in JavaScript (Node 20 or later is missing)"
fi
if command -v python3 >/dev/null; then
    extract docs/http.md python "$work/raw.py"
    check "docs/http.md in Python" python3 "$work/raw.py"
else
    echo "skipped: docs/http.md in Python (python3 is missing)"
fi

if has_node && npm view typescript name >/dev/null 2>&1; then
    extract clients/node/README.md ts "$work/client.mts"
    mkdir "$work/clients"
    cp -r clients/node "$work/clients"
    cp LICENSE-* "$work"
    (cd "$work/clients/node" && npm ci --silent --no-audit --no-fund && npm pack --silent --pack-destination "$work" >/dev/null)
    (cd "$work" && npm init -y >/dev/null && npm install --silent --no-audit --no-fund "$work"/oracled-client-*.tgz)
    # as a user compiles it
    cp -r "$work"/clients/node/node_modules/{typescript,@types,undici-types} "$work/node_modules/"
    (cd "$work" && node node_modules/typescript/bin/tsc --strict --module nodenext --target es2022 --types node client.mts)
    check "clients/node/README.md" node "$work/client.mjs"
    awk -v work="$work" '$0 == "```js" { file = work "/sample" ++count ".test.mjs"; next } /^```$/ { file = "" } file { print >file }' docs/testing.md
    (cd "$work" && ORACLED_BIN="$oracled" node --test sample*.test.mjs >sample.log) || { cat "$work/sample.log" >&2; exit 1; }
    echo "the Node tests of docs/testing.md pass"
    for sample in "$work"/sample*.test.mjs; do
        sed -e 's/^let oracled;/let oracled: TestDaemon;/' -e 's/^\(  const request = .*\);/\1 as const;/' "$sample" >"${sample%.mjs}.mts"
    done
    (cd "$work" && node node_modules/typescript/bin/tsc --noEmit --strict --module nodenext --target es2022 --types node sample*.test.mts)
    echo "the Node tests of docs/testing.md are TypeScript"
else
    echo "skipped: clients/node/README.md (Node 20 or npm's registry is missing)"
fi
if python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    extract clients/python/README.md python "$work/client.py"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check "$repository/clients/python"
    check "clients/python/README.md" "$work/venv/bin/python" "$work/client.py"
    awk -v work="$work" '$0 == "```python" { file = work "/test_sample" ++count ".py"; next } /^```$/ { file = "" } file { print >file }' docs/testing.md
    awk -v work="$work" '$0 == "```yaml" { file = work "/sample" ++count ".yml"; next } /^```$/ { file = "" } file { print >file }' docs/testing.md
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check pytest==9.2.0 PyYAML==6.0.4
    export ORACLED_BIN="$oracled"
    (cd "$work" && venv/bin/python test_sample1.py && venv/bin/pytest -q test_sample2.py) >"$work/sample.log" 2>&1 ||
        { cat "$work/sample.log" >&2; exit 1; }
    echo "the Python tests of docs/testing.md pass"
    (cd "$work" && venv/bin/python -c 'import sys, yaml; [yaml.safe_load(open(file)) for file in sys.argv[1:]]' sample*.yml)
    echo "the CI recipes and the compose file of docs/testing.md are YAML"
else
    echo "skipped: clients/python/README.md (Python 3.11 with venv is missing)"
fi
