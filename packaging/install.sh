#!/usr/bin/env bash
# Installs the program of a folder for systemd, below /usr/local and /etc. Uses sudo if root is required.
# Usage: packaging/install.sh PROGRAMS. DESTDIR=DIR installs below DIR.
set -euo pipefail
programs=$(realpath "$1")
cd "$(dirname "$0")/.."
dest="${DESTDIR:-}"
as_root=()
if [[ -z $dest && $EUID -ne 0 ]]; then as_root=(sudo); fi

staged=$(mktemp -d)
trap 'rm -rf "$staged"' EXIT
packaging/stage.sh "$programs" "$staged" local
# shellcheck source=packaging/files.sh
source packaging/files.sh
set_layout local

keep_config() {
    if [[ $1 != config ]]; then return; fi
    # as root, because other users cannot read /etc/oracled after the first installation
    if "${as_root[@]}" test -e "$dest$3"; then
        echo "kept $dest$3"
        rm "$staged$3"
    # an earlier installation has installed the drop-in with its unit, so an operator has removed the drop-in
    elif [[ $3 == *.service.d/* && -e $dest${3%.d/*} ]]; then
        echo "not restored: $dest$3, which was removed"
        rm "$staged$3"
    fi
}
for_each_file keep_config
# in reverse order, a drop-in is installed before its unit: an interrupted installation can be repeated
while read -r kind mode file; do
    if [[ $kind == l ]]; then
        "${as_root[@]}" cp -P --remove-destination "$staged/$file" "$dest/$file"
    else
        "${as_root[@]}" install -D -m "$mode" "$staged/$file" "$dest/$file"
    fi
done < <(find "$staged" ! -type d -printf '%y %m %P\n' | LC_ALL=C sort -rk 3)

if [[ -z $dest && -d /run/systemd/system ]]; then
    "${as_root[@]}" systemd-sysusers oracled.conf
    "${as_root[@]}" systemd-tmpfiles --create oracled.conf
    "${as_root[@]}" systemctl daemon-reload
    echo "installed; start it with: systemctl enable --now oracled.socket oracled-control.socket oracled.service"
else
    echo "installed below ${dest:-/}"
fi
