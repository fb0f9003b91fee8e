#!/usr/bin/env bash
# Installs the client in a virtual environment in a temporary directory, and checks and tests it with the real daemon.
# Usage: clients/python/ci.sh [path of oracled]. Skips if Python 3.11 is missing, or its registry cannot be reached.
set -euo pipefail
# the path is relative to the caller's directory
if [[ $# -gt 0 ]]; then ORACLED_BIN="$(realpath "$1")"; fi
cd "$(dirname "$0")"
export ORACLED_BIN="${ORACLED_BIN:-$(realpath ../../target/debug/oracled)}"
export PYTHONDONTWRITEBYTECODE=1

if ! python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "skipped: the Python client (Python 3.11 with venv is missing)"
    exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
if ! "$work/venv/bin/pip" index versions httpx >/dev/null; then
    echo "skipped: the Python client (the registry of Python packages cannot be reached)"
    exit
fi

# not editable, so that the tests use the files of the wheel
"$work/venv/bin/pip" install --quiet --disable-pip-version-check '.[test]' >&2
"$work/venv/bin/mypy" --cache-dir "$work/mypy"
# a user's program outside of the package finds its types
cp examples/*.py "$work"
(cd "$work" && venv/bin/mypy --strict --cache-dir "$work/mypy-user" ./*.py)
"$work/venv/bin/pytest" --quiet
