# shellcheck shell=bash
# For tests/package.sh and tests/rpm.sh, which source it

fail() {
    echo "package test failed: $*" >&2
    exit 1
}
# Compares a value. Arguments: subject, expected value, actual value
expect() {
    if [[ $2 != "$3" ]]; then fail "$1 is \`$3\`, expected \`$2\`"; fi
}
