#!/usr/bin/env bash
# Installs, upgrades and erases the RPM package in a temporary root, without its scripts: they would need a shell in that root.
# Usage: tests/rpm.sh [folder of oracled]. Needs root, rpm and rpmbuild.
# CLIENTS=DIR also checks that the archives of the clients in DIR are installed.
set -euo pipefail
programs="$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug}")"
cd "$(dirname "$0")/.."

for tool in rpm rpmbuild; do
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: the RPM package ($tool is missing)"
        exit
    fi
done
if [[ $EUID -ne 0 ]]; then
    echo "skipped: the RPM package (the test needs root, for owners of files)"
    exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root="$work/root"

# shellcheck source=tests/package_checks.sh
source tests/package_checks.sh
run_rpm() {
    rpm --root "$root" --dbpath /var/lib/rpm "$@" >"$work/rpm.log" 2>&1 || { cat "$work/rpm.log" >&2; fail "rpm $* failed"; }
}
install_rpm() { run_rpm --upgrade --nodeps --noscripts --ignorearch --ignoreos "$1"; }
version() { rpm --root "$root" --dbpath /var/lib/rpm --query --queryformat '%{VERSION}' oracled; }

for version in 0.0.1 0.0.2; do
    COMPRESSION=w1.gzdio packaging/rpm.sh "$programs" "$version" 1 "$work"
done
mkdir -p "$root/var/lib/rpm"

# --- install: each file of the list, and no other
install_rpm "$work"/oracled-0.0.1-1.*.rpm
expect 'version' 0.0.1 "$(version)"
# shellcheck source=packaging/files.sh
source packaging/files.sh
set_layout package
find_installed() {
    if [[ $1 == optional && -z ${CLIENTS:-} ]]; then return; fi
    compgen -G "$root$3" >/dev/null || compgen -G "$root$3.gz" >/dev/null || fail "the package has no $3"
}
for_each_file find_installed
expect 'mode of /usr/bin/oracled' 755 "$(stat -c %a "$root/usr/bin/oracled")"
expect 'mode of /etc/oracled/oracled.toml' 644 "$(stat -c %a "$root/etc/oracled/oracled.toml")"
expect 'program of the unit' 'ExecStart=/usr/bin/oracled serve --config /etc/oracled/oracled.toml' \
    "$(grep ^ExecStart= "$root/usr/lib/systemd/system/oracled.service")"
run_rpm --verify --nodeps --nouser --nogroup oracled
"$root/usr/bin/oraclectl" --version >/dev/null

# --- upgrade: a changed configuration and the state stay
echo '# changed' >>"$root/etc/oracled/oracled.toml"
install -d "$root/var/lib/oracled"
echo state >"$root/var/lib/oracled/watermark"
install_rpm "$work"/oracled-0.0.2-1.*.rpm
expect 'version after the upgrade' 0.0.2 "$(version)"
expect 'configuration after the upgrade' '# changed' "$(tail -n 1 "$root/etc/oracled/oracled.toml")"

# --- removal: the programs go, the changed configuration and the state stay
run_rpm --erase --nodeps --noscripts oracled
if [[ -e $root/usr/bin/oracled ]]; then fail 'the removal leaves /usr/bin/oracled'; fi
if [[ -n $(find "$root/usr" ! -type d) ]]; then fail "the removal leaves $(find "$root/usr" ! -type d | head -n 1)"; fi
expect 'configuration after the removal' '# changed' "$(tail -n 1 "$root/etc/oracled/oracled.toml.rpmsave")"
expect 'state after the removal' state "$(cat "$root/var/lib/oracled/watermark")"
echo "the RPM package is installed, upgraded and removed"
