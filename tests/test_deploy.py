"""The image and its surroundings, checked without a docker daemon."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from knowgate.offline_eval.cli import app
from tests.support.paths import ROOT

DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def instructions() -> list[tuple[str, str]]:
    """Instruction and arguments of each line of the Dockerfile."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def options_of(command: str) -> set[str]:
    """The options that a command of knowgate takes."""
    root: Any = typer.main.get_command(app)
    found = root.get_command(typer.Context(root, info_name="knowgate"), command)
    return {name for parameter in found.params for name in parameter.opts}


def test_the_image_runs_as_a_user_without_rights_and_checks_its_health() -> None:
    last = max(i for i, (name, _) in enumerate(instructions()) if name == "FROM")
    final = dict(instructions()[last:])
    assert final["USER"].isdigit()
    assert int(final["USER"]) > 0
    assert "/readyz" in final["HEALTHCHECK"]
    assert final["STOPSIGNAL"] == "SIGTERM"
    # As lists, so that the signal reaches the server and not a shell.
    assert json.loads(final["ENTRYPOINT"]) == ["knowgate"]
    command, *arguments = json.loads(final["CMD"])
    assert command == "serve"
    assert {one for one in arguments if one.startswith("--")} <= options_of("serve")


def test_what_the_image_copies_is_there_and_is_not_ignored() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert not {"knowgate", "guard", "adapters", "offline_eval", "calibration"} & set(ignored)
    assert not {"pyproject.toml", "README.md", "constraints.txt", "LICENSE"} & set(ignored)
    assert {".git", ".venv"} <= set(ignored)


def test_nothing_listens_to_other_machines(compose: Any) -> None:
    published = [port for one in compose["services"].values() for port in one.get("ports", [])]
    assert published
    assert all(str(port).startswith("127.0.0.1:") for port in published)


def test_secrets_come_from_the_environment_and_must_be_set(compose: Any) -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    for name in ("KNOWGATE_TOKEN", "KNOWGATE_UPSTREAM", "GRAFANA_PASSWORD"):
        assert f"${{{name}:?" in text
    source = (ROOT / "offline_eval" / "cli" / "_serve.py").read_text(encoding="utf-8")
    for name in compose["services"]["knowgate"]["environment"]:
        assert f'"{name}"' in source


def test_every_file_that_is_mounted_is_there(compose: Any) -> None:
    for service in compose["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), source
            else:
                assert source in compose["volumes"]


def test_services_of_the_product_have_few_rights(compose: Any) -> None:
    for name in ("knowgate", "monitoring"):
        service = compose["services"][name]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    assert compose["services"]["knowgate"]["read_only"] is True
    grace = int(compose["services"]["knowgate"]["stop_grace_period"].removesuffix("s"))
    assert grace > 30 + 5


def test_prometheus_asks_the_service_with_its_token(compose: Any) -> None:
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))
    [job] = config["scrape_configs"]
    [target] = job["static_configs"]
    assert target["targets"] == ["knowgate:8000"]
    [secret] = compose["services"]["prometheus"]["secrets"]
    assert job["authorization"]["credentials_file"] == f"/run/secrets/{secret['source']}"
    assert compose["secrets"][secret["source"]] == {"environment": "KNOWGATE_TOKEN"}


def test_dashboard_and_rules_are_where_they_are_looked_for(compose: Any) -> None:
    [script] = compose["services"]["monitoring"]["command"]
    command = script.split("&& knowgate ")[1].split()
    assert {one for one in command if one.startswith("--")} <= options_of(command[0])
    out = command[command.index("--out") + 1]
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))
    assert config["rule_files"] == [f"{out}/knowgate-rules.yml"]
    provider = yaml.safe_load((DEPLOY / "grafana/dashboards/knowgate.yaml").read_text())
    assert provider["providers"][0]["options"]["path"] == out


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_accepts_its_configuration() -> None:
    done = subprocess.run(
        ["promtool", "check", "config", "--syntax-only", str(DEPLOY / "prometheus.yml")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_hadolint_finds_nothing() -> None:
    # Beside the Python of the tests, which need not be on the path.
    hadolint = shutil.which("hadolint", path=Path(sys.executable).parent)
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    command = [hadolint, str(DEPLOY / "Dockerfile")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
