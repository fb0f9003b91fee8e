#!/usr/bin/env bash
# Writes the software bill of materials (CycloneDX 1.5) of oracled and of its tools, with cargo-cyclonedx.
# Usage: packaging/sbom.sh VERSION OUT. The same commit and SOURCE_DATE_EPOCH (by default the time of the commit) give the same bytes.
set -euo pipefail
version=$1
out=$(realpath -m "$2")
cd "$(dirname "$0")/.."
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
host=$(rustc -vV | sed -n 's/^host: //p')

# cargo-cyclonedx writes beside each Cargo.toml, so it gets a copy of the sources
sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT
git archive HEAD | tar -x -C "$sources"
cargo cyclonedx --manifest-path "$sources/Cargo.toml" --format json --spec-version 1.5 --target "$host" --no-build-deps --quiet
mkdir -p "$out"
# without the path of this machine
for crate in daemon/oracled tools/oracled-tools; do
    sed "s|path+file://$sources/|path+file:///|g" "$sources/$crate.cdx.json" >"$out/${crate#*/}-$version.cdx.json"
done
