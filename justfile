# what there is to run
default:
    @just --list

# formatting and lints
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# every test but the heavy ones
test:
    cargo test --workspace

# the heavy tests, one at a time: each wants the machine to itself
torture:
    cargo test -p oracled-tests -- --ignored --test-threads 1 --skip llmock --skip llmposter --skip aiosmtpd --skip real_model --skip ground_data --skip verification_data

# five minutes of hostile callers beside an honest one, whose p99 is asserted in this optimized build
hostile:
    cargo test --release -p oracled-tests --test integration hostile_routes -- --ignored --nocapture

# the model client under a server that nobody here wrote, which grades it (needs Python and PyPI)
llmock:
    tests/llmock.sh

# the model client against another server that nobody here wrote (wants crates.io)
llmposter:
    tests/llmposter.sh

# a real model on the whole path, behind any server that speaks OpenAI's wire; `just real-model http://127.0.0.1:8080/v1 NAME`
real-model url name:
    ORACLED_TEST_MODEL_URL={{quote(url)}} ORACLED_TEST_MODEL_NAME={{quote(name)}} \
        cargo test -p oracled-tests --test integration real_model -- --ignored --nocapture

# releases of real sources through the gallery's pipelines, with a table of what came of each; FOLDER holds them as README says
real-data folder:
    ORACLED_GROUND_DATA={{quote(folder)}} \
        cargo test --release -p oracled-tests --test integration -- ground_data verification_data --ignored --nocapture --test-threads 1

# the daemon in a throw-away directory, with a walk through its main path
dev:
    cargo run --release -- dev

# one table of measurements, each beside its floor
bench:
    cargo bench -p oracled-tests

# licenses, sources and advisories of all dependencies (needs cargo-deny: `just install-deny`)
deny:
    cargo deny check

# cargo-deny, which checks the dependencies
install-deny:
    cargo install --locked cargo-deny

# build, then install for systemd; run it as yourself, sudo is asked for where root is needed. DESTDIR=DIR installs below DIR instead
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
    "$bin/oraclectl" man >"$made/oraclectl.1"
    for shell in bash zsh fish; do "$bin/oraclectl" completions "$shell" >"$made/$shell"; done

    put() { "${as_root[@]}" install -D -m "$1" "$2" "$dest$3"; }
    put 0755 "$bin/oracled" /usr/local/bin/oracled
    put 0755 "$bin/oraclectl" /usr/local/bin/oraclectl
    for unit in oracled.service oracled.socket oracled-control.socket; do
        put 0644 "systemd/$unit" "/etc/systemd/system/$unit"
    done
    put 0644 systemd/oracled.service.d/upstreams.conf /etc/systemd/system/oracled.service.d/upstreams.conf
    put 0644 systemd/oracled.sysusers.conf /etc/sysusers.d/oracled.conf
    put 0644 systemd/oracled.tmpfiles.conf /etc/tmpfiles.d/oracled.conf
    put 0644 "$made/oraclectl.1" /usr/local/share/man/man1/oraclectl.1
    put 0644 "$made/bash" /usr/local/share/bash-completion/completions/oraclectl
    put 0644 "$made/zsh" /usr/local/share/zsh/site-functions/_oraclectl
    put 0644 "$made/fish" /usr/local/share/fish/vendor_completions.d/oraclectl.fish
    # as root: after a first install nobody else may look into /etc/oracled
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

# remove what install put there; the state and the configuration stay
uninstall:
    #!/usr/bin/env bash
    set -euo pipefail
    dest="${DESTDIR:-}"
    as_root=()
    if [[ -z $dest && $EUID -ne 0 ]]; then as_root=(sudo); fi
    units=(oracled.service oracled.socket oracled-control.socket)

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
        /usr/local/share/man/man1/oraclectl.1 \
        /usr/local/share/bash-completion/completions/oraclectl \
        /usr/local/share/zsh/site-functions/_oraclectl \
        /usr/local/share/fish/vendor_completions.d/oraclectl.fish
    do
        "${as_root[@]}" rm -f "$dest$path"
    done
    if [[ -d "$dest/etc/systemd/system/oracled.service.d" ]]; then
        "${as_root[@]}" rmdir --ignore-fail-on-non-empty "$dest/etc/systemd/system/oracled.service.d"
    fi
    if $live; then "${as_root[@]}" systemctl daemon-reload; fi
    echo "kept $dest/etc/oracled, $dest/var/lib/oracled and the accounts oracled and oracled-admin"
