#!/usr/bin/env bash
# runs the shell example of docs/testing.md
# Usage: tests/testing.sh [path of oracled]
set -euo pipefail
oracled="$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug/oracled}")"
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# the program is oraclectl when it is started under that name
mkdir "$work/bin"
ln -s "$oracled" "$work/bin/oracled"
ln -s "$oracled" "$work/bin/oraclectl"
awk '/^### Shell$/ { here = 1 } here && /^```sh$/ { inside = 1; next } inside && /^```$/ { exit } inside' docs/testing.md >"$work/example.sh"
if [[ ! -s $work/example.sh ]]; then
    echo "docs/testing.md has no shell example" >&2
    exit 1
fi
PATH="$work/bin:$PATH" TMPDIR="$work" sh "$work/example.sh"
echo "the shell example of docs/testing.md passes"
