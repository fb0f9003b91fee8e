"""The generated modules, and the version, are those of the daemon."""

import inspect
import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from generate import HERE, default_program, generated_modules
from oracled import AsyncClient, Client

ROOT = HERE.parents[1]

# these routes are for the service manager, the metrics, other services, and callers of the replaced service
OMITTED = {
    "list_oracle_health",
    "read_cached_verdict",
    "read_liveness",
    "read_metrics",
    "read_openapi",
    "read_readiness",
    "send_signal",
    "write_cached_verdict",
}


@pytest.fixture(scope="module")
def document() -> Any:
    return json.loads(subprocess.run([default_program(), "openapi"], check=True, capture_output=True).stdout)


def version(path: Path, *keys: str) -> Any:
    value: Any = tomllib.loads(path.read_text())
    for key in keys:
        value = value[key]
    return value


def test_generated_modules_are_up_to_date() -> None:
    for path, text in generated_modules(default_program()).items():
        assert path.read_text("utf-8") == text, f"{path.name} is out of date (run `python generate.py`)"


def test_version_is_that_of_the_workspace(document: Any) -> None:
    ours = version(HERE / "pyproject.toml", "project", "version")
    assert ours == version(ROOT / "Cargo.toml", "workspace", "package", "version")
    assert ours == document["info"]["version"]


def test_clients_have_a_method_for_each_operation(document: Any) -> None:
    operations = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
        if isinstance(operation, dict)
    }
    methods = {name for name in vars(Client) if not name.startswith("_")}
    assert methods - {"close", "read_card", "wait_for_verdict"} == operations - OMITTED
    assert {name for name in vars(AsyncClient) if not name.startswith("_")} == methods - {"close"} | {"aclose"}
    assert all(inspect.getdoc(getattr(Client, name)) for name in methods)
