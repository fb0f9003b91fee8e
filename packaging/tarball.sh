#!/usr/bin/env bash
# Writes a tarball of the installed files. All are in the folder oracled-VERSION; docs/packages.md has the command to unpack them in /.
# Usage: packaging/tarball.sh PROGRAMS VERSION OUT. PROGRAMS has oracled; OUT is the folder of the tarball.
# The same input and SOURCE_DATE_EPOCH (by default the time of the last commit) give the same bytes.
set -euo pipefail
programs=$(realpath "$1")
name="oracled-$2"
out=$(realpath -m "$3")
cd "$(dirname "$0")/.."
date="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"

staged=$(mktemp -d)
trap 'rm -rf "$staged"' EXIT
packaging/stage.sh "$programs" "$staged/$name" local
mkdir -p "$out"
# only files: an entry of a directory would change the mode of that directory in /
(cd "$staged" && find "$name" ! -type d | LC_ALL=C sort) |
    tar --directory="$staged" --files-from=- --create --format=ustar --mtime="$date" --owner=0 --group=0 --numeric-owner |
    gzip -9n >"$out/$name-$(uname -m)-linux.tar.gz"
