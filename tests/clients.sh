#!/usr/bin/env bash
# Packs the clients as for a publication, and checks their licenses, metadata and links.
# Usage: tests/clients.sh OUT. OUT is the folder of the archives. Skips what packaging/clients.sh skips.
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "$0")/.."
url=https://example.org/oracled
packaging/clients.sh "$out" "$url"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Checks the files of an unpacked archive. Arguments: name, folder of the licenses, page, file of the metadata, pattern there
check() {
    local name=$1 licenses=$2 page=$3 metadata=$4 pattern=$5
    for license in LICENSE-MIT LICENSE-APACHE; do
        cmp "$license" "$licenses/$license"
    done
    grep -q "$pattern" "$metadata" || { echo "the metadata of $name has no $pattern" >&2; exit 1; }
    if grep -E '\]\([^h#]' "$page"; then
        echo "the page of $name has links that lead nowhere in a registry" >&2
        exit 1
    fi
    echo "the archive of $name has its licenses, metadata and links"
}
if compgen -G "$out/oracled-client-*.tgz" >/dev/null; then
    tar -xzf "$out"/oracled-client-*.tgz -C "$work"
    check oracled-client "$work/package" "$work/package/README.md" "$work/package/package.json" "\"url\": \"git+$url.git\""
fi
if compgen -G "$out/oracled-*.whl" >/dev/null; then
    python3 -m zipfile -e "$out"/oracled-*.whl "$work/wheel"
    info=$(echo "$work"/wheel/*.dist-info)
    check oracled "$info/licenses" "$info/METADATA" "$info/METADATA" "^Project-URL: Repository, $url$"
fi
