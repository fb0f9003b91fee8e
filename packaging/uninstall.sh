#!/usr/bin/env bash
# Removes the files of packaging/install.sh; keeps the state and the configuration. DESTDIR=DIR removes below DIR.
set -euo pipefail
cd "$(dirname "$0")/.."
dest="${DESTDIR:-}"
as_root=()
if [[ -z $dest && $EUID -ne 0 ]]; then as_root=(sudo); fi
# shellcheck source=packaging/files.sh
source packaging/files.sh
set_layout local

live=false
if [[ -z $dest && -d /run/systemd/system ]]; then live=true; fi
if $live && [[ -e $units/oracled.service ]]; then
    "${as_root[@]}" systemctl disable --now oracled-backup.timer oracled.service oracled.socket oracled-control.socket oracled-review.socket
fi
remove() {
    if [[ $1 == config ]]; then return; fi
    local directory="$dest${3%/*}"
    if [[ ! -d $directory ]]; then return; fi
    if [[ $1 == tree ]]; then
        "${as_root[@]}" rm -rf "$dest$3"
        return
    fi
    # the name may be a pattern
    "${as_root[@]}" find "$directory" -maxdepth 1 -name "${3##*/}" -delete
}
for_each_file remove
doc="$dest$prefix/share/doc/oracled"
for directory in "$dest$units/oracled.service.d" "$doc/clients/node" "$doc/clients/python" "$doc/clients" "$doc/systemd" "$doc" \
    "$dest$prefix/share/oracled/clients" "$dest$prefix/share/oracled"; do
    if [[ -d $directory ]]; then "${as_root[@]}" rmdir --ignore-fail-on-non-empty "$directory"; fi
done
if $live; then "${as_root[@]}" systemctl daemon-reload; fi
echo "kept $dest/etc/oracled, $dest$units/oracled.service.d, $dest/var/lib/oracled and the accounts oracled, oracled-admin and oracled-review"
