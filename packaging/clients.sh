#!/usr/bin/env bash
# Packs the clients: an archive for npm and a wheel for pip, both with the licenses.
# Usage: packaging/clients.sh OUT [URL]. OUT is the folder of the archives. URL is that of the repository, for a publication in the
# public registries: it goes into the metadata, and makes the links of the READMEs absolute.
# The same commit, SOURCE_DATE_EPOCH (by default the time of the last commit) and npm give the same bytes. Skips what lacks its tool or registry.
set -euo pipefail
out=$(realpath -m "$1")
url=${2:-}
url=${url%/}
cd "$(dirname "$0")/.."
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
# without the files of a build
git ls-files -z clients | xargs -0 cp --parents -t "$work"
# `npm pack` copies them from there
cp LICENSE-MIT LICENSE-APACHE "$work"
cp LICENSE-MIT LICENSE-APACHE "$work/clients/python"
# a checkout has no license there, and a pattern without a file is an error
sed -i '/^license = /a license-files = ["LICENSE-*"]' "$work/clients/python/pyproject.toml"
mkdir -p "$out"
cd "$work/clients"

if [[ -n $url ]]; then
    if [[ ! $url =~ ^https://[^\"[:space:]]+$ ]]; then
        echo "the URL of the repository is \`$url\` (https://… is required)" >&2
        exit 1
    fi
    files="$url/blob/v$(sed -n 's/^version = "\(.*\)"$/\1/p' python/pyproject.toml)"
    for client in node python; do
        sed -i "s,](../../,]($files/,g" "$client/README.md"
        sed -i "s,](examples/,]($files/clients/$client/examples/,g" "$client/README.md"
    done
    sed -i 's/^npm install .*\.tgz$/npm install oracled-client/' node/README.md
    sed -i 's/^pip install .*\.whl$/pip install oracled/' python/README.md
    printf '\n[project.urls]\nRepository = "%s"\nDocumentation = "%s"\nChangelog = "%s"\n' \
        "$url" "$files/docs/clients.md" "$files/CHANGELOG.md" >>python/pyproject.toml
else
    # an archive has no pages beside its own
    for client in node python; do
        sed -Ei 's,\[([^]]*)\]\(\.\./\.\./([^)#]*)[^)]*\),\1 (`\2` of oracled),g' "$client/README.md"
    done
fi

if ! command -v npm >/dev/null; then
    echo "skipped: the Node client (npm is missing)"
elif ! npm view typescript name >/dev/null 2>&1; then
    echo "skipped: the Node client (the registry of npm cannot be reached)"
else
    cd node
    if [[ -n $url ]]; then
        # npm compares `repository` with the origin of the build before it accepts a statement of provenance
        npm pkg set repository.type=git "repository.url=git+$url.git" repository.directory=clients/node \
            "homepage=$files/docs/clients.md" "bugs.url=$url/issues"
    fi
    npm ci --silent --no-audit --no-fund
    npm pack --silent --pack-destination "$out" >/dev/null
    cd ..
fi
if ! python3 -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "skipped: the Python client (Python 3.11 with pip is missing)"
elif ! python3 -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$out" ./python 2>"$work/log"; then
    cat "$work/log" >&2
    echo "skipped: the Python client (its wheel cannot be built)"
fi
