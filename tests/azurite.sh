#!/usr/bin/env bash
# Writes objects to Azurite, Microsoft's own emulator of Azure's blobs, and reads them.
#
# Needs Node, npm, Python and PyPI, and removes all of its files. The server listens on the loopback interface only.
#
#   tests/azurite.sh
source "$(dirname "$0")/beside.sh"

npm install --silent --no-audit --no-fund --prefix "$dir" azurite@3.35.0
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check azure-storage-blob==12.31.1

# build first, so that the server does not wait for the compiler
cargo test --package oracled-store-objects --lib --no-run
port=$(free_port)
"$dir/node_modules/.bin/azurite-blob" --silent --inMemoryPersistence --blobHost 127.0.0.1 --blobPort "$port" --skipApiVersionCheck \
    >"$dir/log" 2>&1 &
server=$!
served "$port"

"$dir/venv/bin/python" - "$port" <<'PYTHON'
import sys
from azure.storage.blob import BlobServiceClient

# the account and the key that the emulator documents
account = "devstoreaccount1"
key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
BlobServiceClient(f"http://127.0.0.1:{sys.argv[1]}/{account}", credential=key).create_container("objects")
PYTHON

AZURE_STORAGE_USE_EMULATOR=true AZURITE_BLOB_STORAGE_URL=http://127.0.0.1:$port ORACLED_OBJECTS=az://objects \
    cargo test --package oracled-store-objects --lib -- --ignored object_of_a_service
