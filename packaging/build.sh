#!/usr/bin/env bash
# Builds static programs, and from them all packages, in target/package.
# Usage: packaging/build.sh [PROGRAMS]. PROGRAMS is a folder with programs that are already built.
# Skips what lacks its tool: dpkg-deb, rpmbuild, cargo-cyclonedx, buildah, npm, pip.
set -euo pipefail
programs="${1:+$(realpath "$1")}"
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out="$target/package"
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

if [[ -z $programs ]]; then
    host=$(rustc -vV | sed -n 's/^host: //p')
    cargo_home="${CARGO_HOME:-$HOME/.cargo}"
    # static, so that one build serves each distribution, and without the paths of this machine.
    # --target keeps these flags from procedural macros, which are shared libraries
    RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$PWD=oracled --remap-path-prefix=$cargo_home=cargo" \
        CFLAGS="-ffile-prefix-map=$PWD=oracled -ffile-prefix-map=$cargo_home=cargo" \
        cargo build --profile dist --locked --target "$host" -p oracled -p oracled-tools --features oracled/jemalloc,oracled/cluster,oracled/otel
    programs="$target/$host/dist"
fi
for program in oracled oraclectl-tools; do
    if ! LC_ALL=C ldd "$programs/$program" 2>&1 | grep -Eq 'statically linked|not a dynamic executable'; then
        echo "$programs/$program is not static: build it with -C target-feature=+crt-static" >&2
        exit 1
    fi
done

rm -rf "$out"
mkdir -p "$out"
packaging/clients.sh "$out"
export CLIENTS="$out"
if command -v dpkg-deb >/dev/null; then
    packaging/deb.sh "$programs" "$version-1" "$out"
else
    echo "skipped: the Debian package (dpkg-deb is missing)"
fi
if command -v rpmbuild >/dev/null; then
    packaging/rpm.sh "$programs" "$version" 1 "$out"
else
    echo "skipped: the RPM package (rpmbuild is missing)"
fi
if cargo cyclonedx --version >/dev/null 2>&1; then
    packaging/sbom.sh "$version" "$out"
else
    echo "skipped: the bill of materials (cargo-cyclonedx is missing)"
fi
packaging/tarball.sh "$programs" "$version" "$out"
packaging/image.sh "$programs" "$version" "$out"

cd "$out"
find . -maxdepth 1 -type f -printf '%P\n' | LC_ALL=C sort | grep -v ^SHA256SUMS | xargs sha256sum >SHA256SUMS
cat SHA256SUMS
