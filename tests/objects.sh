#!/usr/bin/env bash
# Writes objects to local emulators of Azure, S3 and Google Cloud Storage, and reads them.
#
# Azurite is Microsoft's own emulator of Azure's blobs. moto is a third-party emulator of S3.
#
# moto is also a stand-in for Google Cloud Storage, because fake-gcs-server and gcp-storage-emulator have no multipart uploads in Google's
# XML API. The requests and replies for objects in this API are those of S3. moto checks no token and ignores Google's own headers.
#
# Needs Node, npm, Python, curl and PyPI, and removes all of its files. The servers listen on the loopback interface only.
#
#   tests/objects.sh [azure|s3|google]...
source "$(dirname "$0")/beside.sh"

if [[ $# == 0 ]]; then set -- azure s3 google; fi
for service in "$@"; do
    case $service in
    azure | s3 | google) ;;
    *)
        echo "$service is not azure, s3 or google" >&2
        exit 2
        ;;
    esac
done

python3 -m venv "$dir/venv"
install_python_packages() {
    "$dir/venv/bin/pip" install --quiet --disable-pip-version-check "$@"
}

# writes and reads objects in the bucket at this address, with the credentials in the environment
write_and_read() {
    ORACLED_OBJECTS=$1 cargo test --package oracled-store-objects --lib -- --ignored object_of_a_service
}

azure() {
    npm install --silent --no-audit --no-fund --prefix "$dir" azurite@3.35.0
    install_python_packages azure-storage-blob==12.31.1
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

    AZURE_STORAGE_USE_EMULATOR=true AZURITE_BLOB_STORAGE_URL=http://127.0.0.1:$port write_and_read az://objects
}

# starts moto with an empty bucket
serve_bucket() {
    install_python_packages 'moto[server]==5.2.5'
    port=$(free_port)
    "$dir/venv/bin/moto_server" --host 127.0.0.1 --port "$port" >"$dir/log" 2>&1 &
    server=$!
    served "$port"
    curl --silent --fail --request PUT "http://127.0.0.1:$port/objects"
}

s3() {
    serve_bucket
    AWS_ENDPOINT=http://127.0.0.1:$port AWS_ALLOW_HTTP=true AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any \
        write_and_read s3://objects
}

google() {
    serve_bucket
    # the key file of a service account, with the address of the server
    "$dir/venv/bin/python" - "$port" >"$dir/key.json" <<'PYTHON'
import json, sys
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)
json.dump(
    {
        "gcs_base_url": f"http://127.0.0.1:{sys.argv[1]}",
        "client_email": "oracled@project.iam.gserviceaccount.com",
        "private_key_id": "1",
        "private_key": key.decode(),
    },
    sys.stdout,
)
PYTHON
    GOOGLE_SERVICE_ACCOUNT=$dir/key.json write_and_read gs://objects
}

# build first, so that no server waits for the compiler
cargo test --package oracled-store-objects --lib --no-run
for service in "$@"; do
    "$service"
    stop_server
done
