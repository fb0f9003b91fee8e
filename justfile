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

# write and read objects of Azure, S3 and Google, or the named services, with emulators (needs npm, PyPI and curl)
objects *services:
    tests/objects.sh {{ services }}

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

# check what a release has beside the programs: the clients, the documentation, the packages and the console in a browser
release-check:
    .ci/release

# drive the console in real browsers (needs chromium and npm's registry; firefox-esr if it is here); `SHOTS=FOLDER just console` writes screenshots of each page
console:
    tests/console.sh

# write the reference and man pages that are generated from the types, and build the site where mdBook is installed
docs:
    cargo run -p oracled-tests --bin docs
    site/build.sh

# write the generated modules of the Python client, then check and test it (needs Python and PyPI)
client-python:
    cargo build --locked -p oracled
    python3 clients/python/generate.py "$(realpath "${CARGO_TARGET_DIR:-target}")/debug/oracled"
    clients/python/ci.sh "${CARGO_TARGET_DIR:-target}/debug/oracled"

# run the daemon in a temporary directory and walk through its main path
dev:
    cargo run -- dev

# run the benchmarks, or the named parts of them, and print each measurement with its lower bound
bench *parts:
    cargo bench -p oracled-tests --features oracled/jemalloc -- {{ parts }}

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
    cargo build --release --locked -p oracled -p oracled-tools --features oracled/jemalloc,oracled/cluster,oracled/otel
    packaging/install.sh "${CARGO_TARGET_DIR:-target}/release"

# remove the installed files; keep the state and the configuration
uninstall:
    packaging/uninstall.sh

# build the .deb, the .rpm, the tarball and the files of the container image in target/package (docs/packages.md)
package:
    packaging/build.sh

# pack the clients for npm and pip in FOLDER; URL is that of the repository, if they are published (docs/clients.md)
pack-clients folder url="":
    packaging/clients.sh {{ quote(folder) }} {{ quote(url) }}

# install, upgrade, remove and purge a Debian package of the debug programs in a temporary root
test-package:
    cargo build --workspace --locked
    tests/package.sh "${CARGO_TARGET_DIR:-target}/debug"
