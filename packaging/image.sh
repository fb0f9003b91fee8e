#!/usr/bin/env bash
# Writes the files of the container image, and builds the image where buildah is installed.
# Usage: packaging/image.sh PROGRAMS VERSION OUT. PROGRAMS has the static oracled; OUT gets the folder `image`,
# which is the context of the Containerfile, and with buildah the archive of the image.
set -euo pipefail
programs=$(realpath "$1")
version=$2
out=$(realpath -m "$3")
cd "$(dirname "$0")/.."
date="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
image="$out/image"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
packaging/stage.sh "$programs" "$work/staged" package
rm -rf "$image"
mkdir -p "$image"/usr/bin "$image"/usr/libexec/oracled "$image"/usr/share/doc "$image"/etc/ssl/certs "$image"/var/lib/oracled "$image"/run/oracled
cp -P "$work"/staged/usr/bin/* "$image/usr/bin"
cp "$work/staged/usr/libexec/oracled/oraclectl-tools" "$image/usr/libexec/oracled"
cp -r "$work/staged/usr/share/doc/oracled" "$image/usr/share/doc"
if [[ -d $work/staged/usr/share/oracled ]]; then cp -r "$work/staged/usr/share/oracled" "$image/usr/share"; fi
cp -r "$work/staged/etc/oracled" "$image/etc"
cat >"$image/etc/passwd" <<'END'
root:x:0:0:root:/:/usr/sbin/nologin
oracled:x:65532:65532:oracled daemon:/var/lib/oracled:/usr/sbin/nologin
END
printf 'root:x:0:\noracled:x:65532:\n' >"$image/etc/group"
# the resolver of glibc: without other modules, it needs no shared library
echo 'hosts: files dns' >"$image/etc/nsswitch.conf"
# the roots of TLS are those of this machine
if [[ -r /etc/ssl/certs/ca-certificates.crt ]]; then
    cp /etc/ssl/certs/ca-certificates.crt "$image/etc/ssl/certs"
else
    echo "no /etc/ssl/certs/ca-certificates.crt: mount one in the container for HTTPS (Debian's package ca-certificates)" >&2
fi

if ! command -v buildah >/dev/null; then
    echo "skipped: the archive of the container image (buildah is missing)"
    exit
fi
storage=(--root "$work/storage" --runroot "$work/run" --storage-driver vfs)
buildah "${storage[@]}" build --isolation chroot --format docker --timestamp "$date" --tag "oracled:$version" \
    --file Containerfile "$image" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
archive="$out/oracled-$version-image.tar"
rm -f "$archive"
buildah "${storage[@]}" push "oracled:$version" "docker-archive:$archive:oracled:$version" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
