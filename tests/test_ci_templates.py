"""The GitHub Action and the GitLab job: well-formed, and their own shell steps do what they say."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
GITLAB: dict[str, Any] = yaml.safe_load(
    (ROOT / "examples" / "ci" / "gitlab-ci.yml").read_text(encoding="utf-8")
)
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
# In the place of knowgate: says what it was called with, leaves a report, and ends as asked.
_STUB = """#!/bin/bash
echo "python $*" >> "$CALLS"
case "$2" in
  pip) exit 0 ;;
  knowgate) ;;
esac
previous=
for word in "$@"; do [ "$previous" = --out ] && out=$word; previous=$word; done
echo "gate FAILED: fail if auroc<2; it is 1"
if [ "$STUB_CODE" != 2 ]; then
  mkdir -p "$out/report" "$out/run"
  echo "# Report" > "$out/report/report.md"
fi
exit "$STUB_CODE"
"""


@dataclass(frozen=True, slots=True)
class Job:
    """A folder in which steps are run as a runner runs them."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script as GitHub's `shell: bash` does."""
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text],
            cwd=self.folder,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def step(self, name: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run a step of the action."""
        step = STEPS[name]
        values = {f"inputs.{key}": one["default"] for key, one in ACTION["inputs"].items()}
        values |= {f"inputs.{key.replace('_', '-')}": value for key, value in inputs.items()}
        values |= {f"steps.check.outputs.{key}": one for key, one in self.outputs().items()}
        values |= {"runner.temp": str(self.folder / "temp"), "github.action_path": "/action"}
        environment = {
            key: _EXPRESSION.sub(lambda found: values[found[1]], text)
            for key, text in step["env"].items()
        }
        return self.run(step["run"], **environment)

    def outputs(self) -> dict[str, str]:
        """The outputs of the steps so far."""
        lines = (self.folder / "outputs").read_text(encoding="utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    for name in ("outputs", "summary", "calls"):
        (tmp_path / name).touch()
    for name in ("temp", "bin"):
        (tmp_path / name).mkdir()
    stub = tmp_path / "bin" / "python"
    stub.write_text(_STUB, encoding="utf-8")
    stub.chmod(0o755)
    return Job(
        tmp_path,
        {
            **os.environ,
            "PATH": f"{stub.parent}:{os.environ['PATH']}",
            "CALLS": str(tmp_path / "calls"),
            "GITHUB_OUTPUT": str(tmp_path / "outputs"),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
            "STUB_CODE": "0",
        },
    )


def test_the_action_is_a_composite_whose_expressions_are_known() -> None:
    assert set(ACTION) == {"name", "description", "branding", "inputs", "outputs", "runs"}
    assert ACTION["runs"]["using"] == "composite"
    known = {f"inputs.{name}" for name in ACTION["inputs"]}
    known |= {"runner.temp", "github.action_path"}
    known |= {f"steps.check.outputs.{name}" for name in ACTION["outputs"]}
    known.add("always() && inputs.artifact != ''")
    assert {found[1] for found in _EXPRESSION.finditer((ROOT / "action.yml").read_text())} <= known
    for step in STEPS.values():
        assert ("run" in step) == ("shell" in step) != ("uses" in step)
        # Inputs are never pasted into a script, where they would be run.
        assert "${{" not in step.get("run", "")
    for one in ACTION["inputs"].values():
        assert one["description"].endswith(".")
        assert isinstance(one["default"], str)


def test_the_documentation_names_every_input() -> None:
    page = (ROOT / "docs" / "how-to" / "check-in-ci.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?m)^\| `([\w-]+)` \|", page))
    assert named == set(ACTION["inputs"])
    assert all(name in page for name in ACTION["outputs"])


def test_the_package_and_the_requirements_are_installed(job: Job) -> None:
    assert job.step("Install knowgate").returncode == 0
    done = job.step("Install knowgate", package="knowgate[eval]==9", requirements="my reqs.txt")
    assert done.returncode == 0
    assert job.read("calls").splitlines() == [
        "python -m pip install --quiet /action[eval]",
        "python -m pip install --quiet knowgate[eval]==9 --requirement my reqs.txt",
    ]


@pytest.mark.parametrize("code", ["0", "1", "2", "3"])
def test_the_result_is_that_of_the_check_with_a_summary(job: Job, code: str) -> None:
    done = job.run(
        STEPS["Check"]["run"],
        KNOWGATE_ARGUMENTS="--policy p.json\n--fail-if auroc<0.8\n  --fail-if a<1\n",
        KNOWGATE_CONFIG="knowgate.toml",
        KNOWGATE_TEMP=str(job.folder / "temp"),
        STUB_CODE=code,
    )

    assert done.returncode == 0, done.stderr
    assert job.outputs()["exit-code"] == code
    out = Path(job.outputs()["report"]).parent
    assert out.parent == job.folder / "temp"
    assert job.outputs()["policy"] == str(out / "policy.json")
    assert job.read("calls") == (
        f"python -m knowgate --config knowgate.toml check --out {out} --policy p.json "
        "--fail-if auroc<0.8 --fail-if a<1\n"
    )
    assert f"exit code {code}" in job.read("summary")
    assert "gate FAILED" in job.read("summary")
    assert ("# Report" in job.read("summary")) is (code != "2")
    assert job.step("Result").returncode == int(code)


def test_two_uses_in_one_job_share_no_folder(job: Job) -> None:
    folders = set()
    for _ in range(2):
        assert job.step("Check").returncode == 0
        folders.add(job.outputs()["report"])  # the last ones written
    assert len(folders) == 2
    # What is kept is that of this use.
    paths = STEPS["Keep the report"]["with"]["path"].split("\n")
    assert [one for one in paths if one] == [
        "${{ steps.check.outputs.report }}",
        "${{ steps.check.outputs.policy }}",
    ]


def test_the_gitlab_job_ends_as_the_check_and_keeps_the_report(job: Job) -> None:
    script = "\n".join(GITLAB["knowgate"]["script"])
    variables = GITLAB["knowgate"]["variables"]

    given = {"KNOWGATE_REQUIREMENTS": "r.txt", "KNOWGATE_ARGUMENTS": "--fail-if auroc<0.8"}
    done = job.run(script, **{**variables, **given, "STUB_CODE": "3"})

    assert done.returncode == 3
    assert job.read("calls").splitlines() == [
        "python -m pip install --quiet knowgate[eval] --requirement r.txt",
        # The gates and their tests in the merge request come of one command.
        "python -m knowgate check --out knowgate-check --format html,md,json,junit "
        "--fail-if auroc<0.8",
    ]
    assert job.run(script, **variables).returncode == 0
    assert GITLAB["knowgate"]["artifacts"]["when"] == "always"
