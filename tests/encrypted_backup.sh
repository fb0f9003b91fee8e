#!/usr/bin/env bash
# runs the commands of docs/recover.md that encrypt a backup with age, decrypt it, verify it and restore it
# Usage: tests/encrypted_backup.sh [path of oracled]. Skips if age is missing.
set -euo pipefail
oracled="$(realpath "${1:-${CARGO_TARGET_DIR:-target}/debug/oracled}")"
cd "$(dirname "$0")/.."
if ! command -v age >/dev/null || ! command -v age-keygen >/dev/null; then
    echo "skipped: the encrypted backup (age is not here; \`apt-get install age\`)"
    exit
fi

work=$(mktemp -d)
daemon=
stop() {
    if [[ -n $daemon ]]; then kill "$daemon" && wait "$daemon" || true; fi
    daemon=
}
trap 'stop; rm -rf "$work"' EXIT
fail() { echo "the encrypted backup: $1" >&2; exit 1; }

mkdir "$work/bin" "$work/backup" "$work/safe"
ln -s "$oracled" "$work/bin/oracled"
ln -s "$oracled" "$work/bin/oraclectl"
# the commands of the page are run by a user who needs no rights of root
printf '#!/bin/sh\nexec "$@"\n' >"$work/bin/sudo"
chmod +x "$work/bin/sudo"
export PATH="$work/bin:$PATH" ORACLED_SOCKET="$work/oracled.sock" ORACLED_CONTROL_SOCKET="$work/control.sock"

# starts a daemon with a state directory, and waits until it serves
serve() {
    oracled serve --state-dir "$1" --socket "$ORACLED_SOCKET" --control-socket "$ORACLED_CONTROL_SOCKET" >"$work/serve.log" 2>&1 &
    daemon=$!
    for _ in $(seq 300); do
        if oraclectl status >/dev/null 2>&1; then return; fi
        kill -0 "$daemon" || { cat "$work/serve.log" >&2; exit 1; }
        sleep 0.1
    done
    fail "the daemon does not serve: $(cat "$work/serve.log")"
}

# the blocks of a section of the page, each as a file, with its folders in the working directory
awk -v dir="$work" '/^#/ && !inside { here = ($0 == "### Encrypt backups") }
    here && /^```(sh|bash)$/ { inside = 1; number++; next }
    inside && /^```$/ { inside = 0; next }
    inside { print > (dir "/block" number) }' docs/recover.md
for number in 1 2 3; do
    [[ -s $work/block$number ]] || fail "docs/recover.md has no block $number under \"Encrypt backups\""
    sed -i "s| /backup| $work/backup|g; s| /safe| $work/safe|g" "$work/block$number"
done
run() { (cd "$work" && bash -e "block$1"); }

query="Sell honey at the encrypted market?"
serve "$work/state"
curl -sf --unix-socket "$ORACLED_SOCKET" http://oracled/v1/verdicts/cs_1 -H 'content-type: application/json' \
    -d "{\"tier\":\"quick\",\"query\":\"$query\",\"raw\":\"{\\\"verdict\\\":\\\"GREEN\\\",\\\"summary\\\":\\\"A sound and simple plan.\\\"}\"}" >/dev/null
delivered=$(curl -sf --unix-socket "$ORACLED_SOCKET" http://oracled/v1/verdicts/cs_1)
oraclectl log key >"$work/log-key"
run 1
oraclectl backup "$work/clear" >/dev/null
grep -rqaF "$query" "$work/clear" || fail "this check does not find the query in a backup in clear text"
run 2
stop
[[ ! -e $work/backup/oracled-2026-11-22 ]] || fail "the backup in clear text is still there"
copy="$work/oracled-2026-11-22.tar.age"
if grep -qaF "$query" "$copy"; then fail "the copy has the query in clear text"; fi

# another key, a changed byte and a missing end are errors
age-keygen -o "$work/other" 2>/dev/null
if age -d -i "$work/other" "$copy" >/dev/null 2>&1; then fail "another key opens the copy"; fi
cp "$copy" "$work/whole"
size=$(stat -c %s "$copy")
printf 'changed' | dd of="$copy" bs=1 seek=$((size / 2)) conv=notrunc status=none
if run 3 >/dev/null 2>&1; then fail "a changed copy is accepted"; fi
head -c $((size - 1)) "$work/whole" >"$copy"
if run 3 >/dev/null 2>&1; then fail "a copy without its end is accepted"; fi

rm -rf "$work/backup" && mkdir "$work/backup"
cp "$work/whole" "$copy"
run 3
oraclectl restore "$work/backup/oracled-2026-11-22" --state-dir "$work/restored" --key "$work/log-key" \
    --log-key "$work/state/log.key" >/dev/null
serve "$work/restored"
[[ $(curl -sf --unix-socket "$ORACLED_SOCKET" http://oracled/v1/verdicts/cs_1) == "$delivered" ]] ||
    fail "the restored daemon does not return the delivered verdict"
echo "a backup is encrypted, decrypted, verified and restored by the commands of docs/recover.md"
