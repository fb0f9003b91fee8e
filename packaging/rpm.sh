#!/usr/bin/env bash
# Builds an RPM package.
# Usage: packaging/rpm.sh PROGRAMS VERSION RELEASE OUT. PROGRAMS has oracled; OUT is the folder of the .rpm.
# The same input and SOURCE_DATE_EPOCH (by default the time of the last commit) give the same bytes.
# COMPRESSION=w1.gzdio is for tests: xz needs a minute and more.
set -euo pipefail
programs=$(realpath "$1")
version=$2
release=$3
out=$(realpath -m "$4")
cd "$(dirname "$0")/.."
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
staged="$work/staged"
packaging/stage.sh "$programs" "$staged" package
find "$staged/usr/share/man" -type f -exec gzip -9n {} +
find "$staged" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
# an upgrade keeps changes of each file in /etc
(cd "$staged" && find . ! -type d -printf '/%P\n' | LC_ALL=C sort | sed '
    s|^/etc/|%config(noreplace) &|
    s|^/usr/share/doc/oracled/LICENSE|%license &|
    s|^/usr/share/doc/|%doc &|') >"$work/files"

mkdir -p "$out"
# no automatic changes of the files, and nothing in the package that names this machine or the time of the build
rpmbuild -bb --quiet packaging/rpm/oracled.spec \
    --define "_topdir $work/rpmbuild" --define "_rpmdir $out" --define '_build_name_fmt %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm' \
    --define "package_version $version" --define "package_release $release" \
    --define "staged $staged" --define "file_list $work/files" \
    --define '__os_install_post %{nil}' --define '_build_id_links none' --define 'debug_package %{nil}' \
    --define '_buildhost oracled' --define 'use_source_date_epoch_as_buildtime 1' \
    --define 'clamp_mtime_to_source_date_epoch 1' --define "_binary_payload ${COMPRESSION:-w9.xzdio}"
