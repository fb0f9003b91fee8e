#!/usr/bin/env bash
# Tests the model client with LiteLLM, a third-party gateway that speaks all three protocols and translates between them.
#
# Needs Python 3.10 or later and PyPI, and removes all of its files. The server listens on the loopback interface only.
#
#   tests/litellm.sh
source "$(dirname "$0")/beside.sh"

python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check 'litellm[proxy]==1.106.2'
cat >"$dir/config.yaml" <<'YAML'
general_settings: {master_key: AIza-not-a-real-key}
router_settings: {num_retries: 0, disable_cooldowns: true}
model_list:
  - model_name: good
    litellm_params:
      {model: openai/any, api_key: none, mock_response: '{"verdict":"GREEN","summary":"A sound and simple plan."}'}
  - model_name: down
    litellm_params: {model: openai/any, api_key: none, api_base: "http://127.0.0.1:1", max_retries: 0}
YAML

# build first, so that the server does not wait for the compiler
cargo test --package oracled-tests --test integration --no-run
port=$(free_port)
# without the local price map it would fetch one
LITELLM_LOCAL_MODEL_COST_MAP=True "$dir/venv/bin/litellm" --config "$dir/config.yaml" --host 127.0.0.1 --port "$port" \
    --telemetry False >"$dir/log" 2>&1 &
server=$!
served "$port" || { cat "$dir/log"; exit 1; }

ORACLED_TEST_LITELLM="http://127.0.0.1:$port" \
    cargo test --package oracled-tests --test integration -- --ignored --nocapture litellm
