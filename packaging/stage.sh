#!/usr/bin/env bash
# Copies the installed files below a directory, as packaging/files lists them.
# Usage: packaging/stage.sh PROGRAMS DEST LAYOUT. PROGRAMS has oracled and the programs that oraclectl starts; LAYOUT is `local` or `package`.
# CLIENTS=DIR adds the archives of the clients.
set -euo pipefail
programs=$(realpath "$1")
dest=$(realpath -m "$2")
cd "$(dirname "$0")/.."
# shellcheck source=packaging/files.sh
source packaging/files.sh
set_layout "$3"

generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT
mkdir "$generated"/{man1,bash,zsh,fish}
# the program is oraclectl when it is started under that name
oraclectl() { (exec -a oraclectl "$programs/oracled" "$@"); }
oraclectl man "$generated/man1"
oraclectl completions bash >"$generated/bash/oraclectl"
oraclectl completions zsh >"$generated/zsh/_oraclectl"
oraclectl completions fish >"$generated/fish/oraclectl.fish"
# the units in the repository name the programs of `just install`
for unit in oracled.service oracled-backup.service; do
    sed "s|/usr/local/bin/oracled-backup|$libexec/oracled-backup|; s|/usr/local/bin/|$prefix/bin/|" "systemd/$unit" >"$generated/$unit"
done

put() {
    local kind=$1 pattern=$2 destination=$3 mode=0644 file name
    if [[ $kind == tree ]]; then
        while IFS= read -r file; do
            if [[ -x $pattern/$file ]]; then mode=0755; else mode=0644; fi
            install -D -m "$mode" "$pattern/$file" "$dest$destination/$file"
        done < <(find "$pattern" -type f -printf '%P\n')
        return
    fi
    if [[ $kind == link ]]; then
        mkdir -p "$dest${destination%/*}"
        ln -s "$pattern" "$dest$destination"
        return
    fi
    if [[ $kind == program ]]; then mode=0755; fi
    if [[ $pattern == systemd/*.service ]]; then pattern="$generated/${pattern##*/}"; fi
    for file in $pattern; do
        if [[ $kind == optional && ! -e $file ]]; then continue; fi
        name=$destination
        if [[ $name == *'*'* ]]; then name="${destination%/*}/${file##*/}"; fi
        install -D -m "$mode" "$file" "$dest$name"
    done
}
umask 022
for_each_file put
