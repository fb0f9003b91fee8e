# shellcheck shell=bash
# Functions over packaging/files. A script that sources this file runs in the root of the repository.

# Sets the directories of a layout: `local` (just install, tarball) or `package` (deb, rpm, image)
set_layout() {
    case "$1" in
    local)
        prefix=/usr/local
        libexec=/usr/local/bin
        units=/etc/systemd/system
        sysusers=/etc/sysusers.d
        tmpfiles=/etc/tmpfiles.d
        ;;
    package)
        prefix=/usr
        libexec=/usr/libexec/oracled
        units=/usr/lib/systemd/system
        sysusers=/usr/lib/sysusers.d
        tmpfiles=/usr/lib/tmpfiles.d
        ;;
    *)
        echo "unknown layout \`$1\` (local or package)" >&2
        return 1
        ;;
    esac
}

# Calls `$1 KIND SOURCE DESTINATION` for each line of the list. The source may contain a pattern
for_each_file() {
    local kind source destination
    while read -r kind source destination; do
        if [[ -z $kind || $kind == '#'* ]]; then continue; fi
        source=${source/#PROGRAMS/${programs:-}}
        source=${source/#GENERATED/${generated:-}}
        source=${source/#CLIENTS/${CLIENTS:-CLIENTS}}
        destination=${destination/#PREFIX/$prefix}
        destination=${destination/#LIBEXEC/$libexec}
        destination=${destination/#UNITS/$units}
        destination=${destination/#SYSUSERS/$sysusers}
        destination=${destination/#TMPFILES/$tmpfiles}
        if [[ $destination == */ ]]; then destination+=${source##*/}; fi
        "$1" "$kind" "$source" "$destination"
    done <packaging/files
}
