#!/usr/bin/env bash
# drive the console and verdict cards in a real browser: needs chromium, and npm with its registry; the attacks of an earlier server also run in Firefox; SHOTS=FOLDER writes screenshots, and with BROWSER_REQUIRED=1 a missing chromium is a failure
set -euo pipefail
cd "$(dirname "$0")/.."

chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ -z $chromium ]] || ! command -v npm >/dev/null; then
    echo "${BROWSER_REQUIRED:+failed instead of }skipped: the console and cards in a browser (chromium or npm is not here)"
    exit "${BROWSER_REQUIRED:-0}"
fi
firefox=$(command -v firefox-esr || command -v firefox || true)
if [[ -z $firefox ]]; then echo "skipped: attacks of an earlier server in Firefox (firefox-esr is not here)"; fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp tests/console/* "$folder"
(cd "$folder" && npm ci --no-audit --no-fund)
CHROMIUM=$chromium FIREFOX=$firefox ORACLED_CONSOLE_WALK=$folder CONSOLE_SHOTS=${SHOTS:+$(realpath "$SHOTS")} \
    cargo test --workspace --locked --test integration -- browser_ --ignored --test-threads=1 --nocapture
