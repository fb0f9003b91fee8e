# list the recipes
default:
    @just --list

# check formatting and lints
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# run all tests except the heavy ones
test:
    cargo test --workspace

# run the heavy tests one at a time, because each needs the whole machine
torture:
    cargo test -p oracled-tests -- --ignored --test-threads 1 --skip llmock --skip llmposter --skip litellm --skip aiosmtpd --skip localstripe --skip real_model --skip ground_data --skip verification_data

# run hostile clients beside an honest one for five minutes; this optimized build asserts the honest client's p99
hostile:
    cargo test --release -p oracled-tests --test integration hostile_routes -- --ignored --nocapture

# test the model client with llmock, a third-party server that grades it (needs Python and PyPI)
llmock:
    tests/llmock.sh

# test the model client with llmposter, another third-party server (needs crates.io)
llmposter:
    tests/llmposter.sh

# test the model client with LiteLLM, a third-party gateway for all three protocols (needs Python and PyPI)
litellm:
    tests/litellm.sh

# test the look-up of sessions with localstripe, a third-party imitation of Stripe (needs Python and PyPI)
localstripe:
    tests/localstripe.sh

# verify the signatures of webhooks with standardwebhooks, a third-party library (needs Python and PyPI)
standardwebhooks:
    tests/standardwebhooks.sh

# test the whole path with a real model on any server with OpenAI's protocol; `just real-model http://127.0.0.1:8080/v1 NAME`
real-model url name:
    ORACLED_TEST_MODEL_URL={{quote(url)}} ORACLED_TEST_MODEL_NAME={{quote(name)}} \
        cargo test -p oracled-tests --test integration real_model -- --ignored --nocapture

# ingest releases of real sources by the example pipelines and print the results; docs/benchmarks.md describes FOLDER
real-data folder:
    ORACLED_GROUND_DATA={{quote(folder)}} \
        cargo test --release -p oracled-tests --test integration -- ground_data verification_data --ignored --nocapture --test-threads 1

# write the reference and man pages that are generated from the types, and build the site where mdBook is installed
docs:
    cargo run -p oracled-tests --bin docs
    if command -v mdbook > /dev/null; then mdbook build; else echo "mdbook is not installed; no site is built"; fi

# write the generated modules of the Python client, then check and test it (needs Python and PyPI)
client-python:
    cargo build --locked -p oracled
    python3 clients/python/generate.py "$(realpath "${CARGO_TARGET_DIR:-target}")/debug/oracled"
    clients/python/ci.sh "${CARGO_TARGET_DIR:-target}/debug/oracled"

# run the daemon in a temporary directory and walk through its main path
dev:
    cargo run --release -- dev

# run the benchmarks and print each measurement with its lower bound
bench:
    cargo bench -p oracled-tests

# check licenses, sources and advisories of all dependencies (needs cargo-deny: `just install-deny`)
deny:
    cargo deny check

# install cargo-deny, which checks the dependencies
install-deny:
    cargo install --locked cargo-deny

# build and install for systemd; run it as an ordinary user, it uses sudo if root is required. DESTDIR=DIR installs below DIR
install:
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --release --locked -p oracled -p oracled-ctl
    bin="${CARGO_TARGET_DIR:-target}/release"
    dest="${DESTDIR:-}"
    as_root=()
    if [[ -z $dest && $EUID -ne 0 ]]; then as_root=(sudo); fi

    made=$(mktemp -d)
    trap 'rm -rf "$made"' EXIT
    mkdir "$made/man1"
    "$bin/oraclectl" man "$made/man1"
    for shell in bash zsh fish; do "$bin/oraclectl" completions "$shell" >"$made/$shell"; done

    put() { "${as_root[@]}" install -D -m "$1" "$2" "$dest$3"; }
    put 0755 "$bin/oracled" /usr/local/bin/oracled
    put 0755 "$bin/oraclectl" /usr/local/bin/oraclectl
    for unit in oracled.service oracled.socket oracled-control.socket oracled-review.socket; do
        put 0644 "systemd/$unit" "/etc/systemd/system/$unit"
    done
    put 0644 systemd/oracled.service.d/upstreams.conf /etc/systemd/system/oracled.service.d/upstreams.conf
    put 0644 systemd/oracled.sysusers.conf /etc/sysusers.d/oracled.conf
    put 0644 systemd/oracled.tmpfiles.conf /etc/tmpfiles.d/oracled.conf
    for page in "$made"/man1/*; do put 0644 "$page" "/usr/local/share/man/man1/${page##*/}"; done
    put 0644 docs/man/oracled.toml.5 /usr/local/share/man/man5/oracled.toml.5
    put 0644 docs/man/oracled.8 /usr/local/share/man/man8/oracled.8
    put 0644 "$made/bash" /usr/local/share/bash-completion/completions/oraclectl
    put 0644 "$made/zsh" /usr/local/share/zsh/site-functions/_oraclectl
    put 0644 "$made/fish" /usr/local/share/fish/vendor_completions.d/oraclectl.fish
    # as root, because other users cannot read /etc/oracled after the first installation
    if "${as_root[@]}" test -e "$dest/etc/oracled/oracled.toml"; then
        echo "kept $dest/etc/oracled/oracled.toml"
    else
        put 0644 systemd/oracled.toml /etc/oracled/oracled.toml
    fi

    if [[ -z $dest && -d /run/systemd/system ]]; then
        "${as_root[@]}" systemd-sysusers oracled.conf
        "${as_root[@]}" systemd-tmpfiles --create oracled.conf
        "${as_root[@]}" systemctl daemon-reload
        echo "installed; start it with: systemctl enable --now oracled.socket oracled-control.socket oracled.service"
    else
        echo "installed below ${dest:-/}"
    fi

# remove the installed files; keep the state and the configuration
uninstall:
    #!/usr/bin/env bash
    set -euo pipefail
    dest="${DESTDIR:-}"
    as_root=()
    if [[ -z $dest && $EUID -ne 0 ]]; then as_root=(sudo); fi
    units=(oracled.service oracled.socket oracled-control.socket oracled-review.socket)

    live=false
    if [[ -z $dest && -d /run/systemd/system ]]; then live=true; fi
    if $live && [[ -e /etc/systemd/system/oracled.service ]]; then
        "${as_root[@]}" systemctl disable --now "${units[@]}"
    fi
    for path in \
        /usr/local/bin/{oracled,oraclectl} \
        "${units[@]/#//etc/systemd/system/}" \
        /etc/systemd/system/oracled.service.d/upstreams.conf \
        /etc/{sysusers,tmpfiles}.d/oracled.conf \
        /usr/local/share/man/man5/oracled.toml.5 \
        /usr/local/share/man/man8/oracled.8 \
        /usr/local/share/bash-completion/completions/oraclectl \
        /usr/local/share/zsh/site-functions/_oraclectl \
        /usr/local/share/fish/vendor_completions.d/oraclectl.fish
    do
        "${as_root[@]}" rm -f "$dest$path"
    done
    "${as_root[@]}" rm -f "$dest"/usr/local/share/man/man1/oraclectl{,-*}.1
    if [[ -d "$dest/etc/systemd/system/oracled.service.d" ]]; then
        "${as_root[@]}" rmdir --ignore-fail-on-non-empty "$dest/etc/systemd/system/oracled.service.d"
    fi
    if $live; then "${as_root[@]}" systemctl daemon-reload; fi
    echo "kept $dest/etc/oracled, $dest/var/lib/oracled and the accounts oracled, oracled-admin and oracled-review"
