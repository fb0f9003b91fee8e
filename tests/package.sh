#!/usr/bin/env bash
# Installs, upgrades, removes and purges the Debian package in a temporary root, and runs the installed daemon there.
# Usage: tests/package.sh [folder of oracled]. Needs root, dpkg and systemd's sysusers and tmpfiles.
# CLIENTS=DIR also checks that the archives of the clients in DIR are installed.
set -euo pipefail
programs="$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug}")"
cd "$(dirname "$0")/.."

for tool in dpkg dpkg-deb systemd-sysusers systemd-tmpfiles deb-systemd-helper setpriv; do
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: the Debian package ($tool is missing)"
        exit
    fi
done
if [[ $EUID -ne 0 ]]; then
    echo "skipped: the Debian package (the test needs root, for owners of files)"
    exit
fi

work=$(mktemp -d)
# the account of the daemon must reach its files
chmod 0755 "$work"
root="$work/root"
daemon_pid=
cleanup() {
    if [[ -n $daemon_pid ]]; then kill "$daemon_pid" || true; fi
    rm -rf "$work"
}
trap cleanup EXIT

# shellcheck source=tests/package_checks.sh
source tests/package_checks.sh

# --- the packages: the second one has other defaults in a configuration file, as a later release may have
for version in 0.0.1-1 0.0.2-1; do
    COMPRESSION=none packaging/deb.sh "$programs" "$version" "$work" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
done
dpkg-deb -R "$work"/oracled_0.0.2-1_*.deb "$work/second"
echo '# a new default' >>"$work/second/etc/oracled/oracled.toml"
dpkg-deb --root-owner-group -Znone --build "$work/second" "$work"/oracled_0.0.2-1_*.deb >"$work/build.log"
rm -rf "$work/second"

# the package has each file of the list, and its unit the path of its programs
# shellcheck source=packaging/files.sh
source packaging/files.sh
set_layout package
dpkg-deb -c "$work"/oracled_0.0.1-1_*.deb | awk '{ print $6 }' >"$work/contents"
find_in_package() {
    if [[ $1 == optional && -z ${CLIENTS:-} ]]; then return; fi
    # Debian's packages have the licenses in `copyright` and the changelog in `changelog.gz`
    if [[ $3 == */LICENSE-* || $3 == */CHANGELOG.md ]]; then return; fi
    grep -q "^\.${3//\*/[^/]*}\(\.gz\|/\)\?$" "$work/contents" || fail "the package has no $3"
}
for_each_file find_in_package
for file in copyright changelog.gz docs/reference/api.md examples/ground-truth/run.sh; do
    grep -q "/doc/oracled/$file$" "$work/contents" || fail "the package has no $file"
done

# --- a root with the accounts of a new system
mkdir -p "$root"/{etc,var/lib/dpkg/{info,updates,triggers},run,usr/{bin,lib},tmp}
ln -s usr/lib "$root/lib"
touch "$root"/var/lib/dpkg/{status,available}
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"

# dpkg sets DPKG_ROOT for scripts that it runs without chroot; the root has none of the packages in Depends
run_dpkg() {
    dpkg --root="$root" --force-script-chrootless --force-depends --force-confold --force-unsafe-io "$@" \
        >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail "dpkg $* failed"; }
}
owner() { awk -F: -v name="$2" '$1 == name { print $3 }' "$root/etc/$1"; }
show() { stat -c '%a %u %g' "$root$1"; }

# --- install
run_dpkg --install "$work"/oracled_0.0.1-1_*.deb
uid=$(owner passwd oracled)
gid=$(owner group oracled)
if [[ -z $uid || -z $gid ]]; then fail "the account oracled is missing"; fi
if [[ -z $(owner group oracled-admin) || -z $(owner group oracled-review) ]]; then fail "a group is missing"; fi
expect 'mode of /usr/bin/oracled' '755 0 0' "$(show /usr/bin/oracled)"
expect 'target of /usr/bin/oraclectl' oracled "$(readlink "$root/usr/bin/oraclectl")"
expect 'mode of /etc/oracled' "750 0 $gid" "$(show /etc/oracled)"
expect 'mode of /etc/oracled/credentials' '700 0 0' "$(show /etc/oracled/credentials)"
expect 'mode of /etc/oracled/oracled.toml' '644 0 0' "$(show /etc/oracled/oracled.toml)"
expect 'mode of /run/oracled' "755 $uid $gid" "$(show /run/oracled)"
expect 'program of the unit' 'ExecStart=/usr/bin/oracled serve --config /etc/oracled/oracled.toml' \
    "$(grep ^ExecStart= "$root/usr/lib/systemd/system/oracled.service")"
if grep -rq /usr/local "$root/usr/lib/systemd" "$root/usr/lib/sysusers.d" "$root/usr/lib/tmpfiles.d"; then
    fail 'an installed unit names /usr/local'
fi
expect 'conffiles' '/etc/oracled/oracled.toml /etc/systemd/system/oracled.service.d/upstreams.conf' \
    "$(dpkg-query --admindir="$root/var/lib/dpkg" -f '${Conffiles}' -W oracled | awk 'NF { print $1 }' | sort | xargs)"
for link in sockets.target.wants/oracled.socket sockets.target.wants/oracled-control.socket multi-user.target.wants/oracled.service; do
    if [[ ! -L $root/etc/systemd/system/$link ]]; then fail "$link is not enabled"; fi
done
if [[ -e $root/etc/systemd/system/oracled.socket.wants/oracled-review.socket ]]; then
    fail 'the socket for reviewers is enabled'
fi

# --- the installed daemon, with the directories that systemd would pass
state="$root/var/lib/oracled"
install -d -m 0700 -o "$uid" -g "$gid" "$state"
export ORACLED_SOCKET="$root/run/oracled/oracled.sock" ORACLED_CONTROL_SOCKET="$root/run/oracled/control.sock"
for tool in calibrate parquet prompt-try rules-eval; do
    (exec -a "oraclectl-$tool" "$root/usr/libexec/oracled/oraclectl-tools" --version >/dev/null)
done
oraclectl() { "$root/usr/bin/oraclectl" "$@"; }
start_daemon() {
    setpriv --reuid "$uid" --regid "$gid" --clear-groups env -i "STATE_DIRECTORY=$state" "RUNTIME_DIRECTORY=$root/run/oracled" \
        "$root/usr/bin/oracled" serve --config "$root/etc/oracled/oracled.toml" >>"$work/daemon.log" 2>&1 &
    daemon_pid=$!
    local deadline=$((SECONDS + 30))
    until oraclectl status >"$work/status" 2>&1; do
        if ((SECONDS > deadline)); then
            cat "$work/status" "$work/daemon.log" >&2
            fail 'the installed daemon does not serve after 30 s'
        fi
        sleep 0.1
    done
}
stop_daemon() {
    kill "$daemon_pid"
    wait "$daemon_pid" || { cat "$work/daemon.log" >&2; fail 'the installed daemon stopped with an error'; }
    daemon_pid=
}
start_daemon
echo '{"verdict":"GREEN","summary":"A sound and simple plan."}' >"$work/verdict.json"
oraclectl submit cs_1 "$work/verdict.json" --tier quick --query 'Sell honey?' >"$work/submitted"
log_key=$(sha256sum <"$state/log.key")
expect 'program of the backup' 'ExecStart=/usr/libexec/oracled/oracled-backup' \
    "$(grep ^ExecStart= "$root/usr/lib/systemd/system/oracled-backup.service")"
back_up() {
    PATH="$root/usr/bin:$PATH" BACKUPS="$work/backups" KEEP="$1" "$root/usr/libexec/oracled/oracled-backup" >"$work/backup.log" 2>&1
}
# an interrupted run, two complete ones in different seconds, and a failed one
mkdir -p "$work/backups/incomplete/segments"
back_up 2 || { cat "$work/backup.log" >&2; fail 'the first backup failed'; }
first=$(cd "$work/backups" && echo *)
sleep 1
back_up 1 || { cat "$work/backup.log" >&2; fail 'the second backup failed'; }
second=$(cd "$work/backups" && echo *)
if [[ $first != oracled-20*Z || $second != oracled-20*Z || $first == "$second" ]]; then fail "the backups are $first and $second"; fi
if back_up 0; then fail 'a run that keeps no backup succeeded'; fi
sleep 1
# fewer than the 0 lost rows are accepted, as if a row were lost
if LOST_ROWS=-1 back_up 1; then fail 'a backup without lost rows succeeded'; fi
third=$(cd "$work/backups" && echo *)
if [[ $third != "$second oracled-20"*Z ]]; then fail "the backups are $third after $second"; fi
stop_daemon
if back_up 1; then fail 'a backup without a daemon succeeded'; fi
expect 'backup after a failed one' "$third" "$(cd "$work/backups" && echo *)"

# --- upgrade: changes of the configuration, a removed configuration file, a disabled unit and the state stay
echo 'contact = "support@example.org"' >>"$root/etc/oracled/oracled.toml"
rm "$root/etc/systemd/system/oracled.service.d/upstreams.conf"
rm "$root/etc/systemd/system/multi-user.target.wants/oracled.service"
echo key >"$root/etc/oracled/credentials/gemini-api-key"
echo key >"$root/etc/oracled/credentials/log-key"
echo key >"$root/etc/oracled/credentials/held-key"
run_dpkg --install "$work"/oracled_0.0.2-1_*.deb
expect 'version after the upgrade' 0.0.2-1 "$(dpkg-query --admindir="$root/var/lib/dpkg" -f '${Version}' -W oracled)"
grep -q '^contact = ' "$root/etc/oracled/oracled.toml" || fail 'the upgrade replaced the edited configuration'
grep -q '^# a new default$' "$root/etc/oracled/oracled.toml.dpkg-dist" || fail 'the upgrade did not add the new defaults'
expect 'mode of /etc/oracled' "750 0 $gid" "$(show /etc/oracled)"
if [[ -e $root/etc/systemd/system/oracled.service.d/upstreams.conf ]]; then fail 'the upgrade restored a removed file'; fi
if [[ -e $root/etc/systemd/system/multi-user.target.wants/oracled.service ]]; then fail 'the upgrade enabled a disabled unit'; fi
start_daemon
oraclectl verdict cs_1 | grep -q 'A sound and simple plan' || fail 'the upgraded daemon has no verdict of cs_1'
expect 'signing key' "$log_key" "$(sha256sum <"$state/log.key")"
stop_daemon

# --- remove: programs and units go; state and configuration stay
run_dpkg --remove oracled
for file in /usr/bin/oracled /usr/bin/oraclectl /usr/lib/systemd/system/oracled.service; do
    if [[ -e $root$file || -L $root$file ]]; then fail "$file stays after the removal"; fi
done
grep -q '^contact = ' "$root/etc/oracled/oracled.toml" || fail 'the removal deleted the configuration'
if [[ ! -s $state/log.key || ! -s $root/etc/oracled/credentials/gemini-api-key ]]; then
    fail 'the removal deleted the state or a credential'
fi

# --- purge: the configuration goes; the state and the key of its log stay
run_dpkg --purge oracled
for file in /etc/oracled/oracled.toml /etc/oracled/credentials/gemini-api-key /etc/systemd/system/oracled.service.d; do
    if [[ -e $root$file ]]; then fail "$file stays after the purge"; fi
done
if find "$root/etc" -path '*systemd*' -name 'oracled*' | grep -q .; then fail 'a link to a unit stays after the purge'; fi
if [[ ! -s $state/log.key || ! -s $root/etc/oracled/credentials/log-key ]]; then fail 'the purge deleted the audit log or its key'; fi
if [[ ! -s $root/etc/oracled/credentials/held-key ]]; then fail 'the purge deleted the key of held verdicts, which stay'; fi
grep -q 'kept /var/lib/oracled' "$work/dpkg.log" || fail 'the purge does not report that it keeps the state'

echo "passed: the Debian package (install, start, upgrade, remove, purge)"
