#!/usr/bin/env bash
# Builds a Debian package.
# Usage: packaging/deb.sh PROGRAMS VERSION OUT. PROGRAMS has oracled; VERSION is that of the package, such
# as 0.2.0-1; OUT is the folder of the .deb. The same input and SOURCE_DATE_EPOCH (by default the time of the last commit)
# give the same bytes. COMPRESSION=none is for tests: xz needs a minute and more.
set -euo pipefail
programs=$(realpath "$1")
version=$2
out=$(realpath -m "$3")
cd "$(dirname "$0")/.."
architecture=$(dpkg --print-architecture)
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"
umask 022
packaging/stage.sh "$programs" "$root" package
# Debian's policy: compressed man pages and changelog, and the licenses in one file
find "$root/usr/share/man" -type f -exec gzip -9n {} +
doc="$root/usr/share/doc/oracled"
mv "$doc/CHANGELOG.md" "$doc/changelog"
cat >"$doc/changelog.Debian" <<END
oracled ($version) unstable; urgency=medium

  * See changelog.gz.

 -- $(sed -n 's/^Maintainer: //p' packaging/debian/control)  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END
gzip -9n "$doc/changelog" "$doc/changelog.Debian"
rm "$doc/LICENSE-MIT" "$doc/LICENSE-APACHE"
{ cat packaging/debian/copyright; sed 's/^$/./; s/^/ /' LICENSE-MIT; } >"$doc/copyright"

control="$root/DEBIAN"
mkdir "$control"
size=$(find "$root" -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
sed "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@SIZE@/$size/" packaging/debian/control >"$control/control"
# dpkg keeps changes of each file in /etc, and its removal
(cd "$root" && find etc -type f | LC_ALL=C sort | sed 's|^|/|') >"$control/conffiles"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$control/md5sums"
for script in postinst prerm postrm; do
    install -m 0755 "packaging/debian/$script" "$control/$script"
done

mkdir -p "$out"
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Z"${COMPRESSION:-xz}" --build "$root" "$out/oracled_${version}_$architecture.deb"
