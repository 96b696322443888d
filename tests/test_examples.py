"""The examples run as they are; all but one in this process, where everything is imported."""

from __future__ import annotations

import importlib
import importlib.util
import re
import runpy
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from knowgate.guard import DecisionLog
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"
Printed = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printed:
    """Runs an example like a program, and returns what it printed."""

    def printed(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return printed


def needs(*packages: str) -> pytest.MarkDecorator:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


@pytest.mark.parametrize(
    "name",
    [
        "rag",
        pytest.param("agent", marks=needs("langchain", "langgraph")),
        pytest.param("graph", marks=needs("langgraph")),
    ],
)
def test_what_the_pages_answer_is_answered_and_the_rest_is_not(run: Printed, name: str) -> None:
    first, second = run(name).splitlines()

    assert re.fullmatch(r"When .* \[follow_context\] .*opens at nine\.", first)
    assert re.fullmatch(r"Who .* \[abstain\] .*do not contain enough.*", second)


@needs("uvicorn", "fastapi")
@pytest.mark.enable_socket
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_any_client_gets_the_guard_through_the_proxy(run: Printed) -> None:
    first, second = run("proxy").splitlines()

    assert first.endswith("[follow_context] It opens at nine.")
    assert "[abstain]" in second


@needs("fastapi")
@pytest.mark.enable_socket
def test_the_service_answers_or_abstains_and_has_the_api_of_the_guard() -> None:
    from fastapi.testclient import TestClient

    service = importlib.import_module("examples.service")
    client = TestClient(service.app, client=("127.0.0.1", 1), base_url="http://127.0.0.1")

    asked = [
        client.post("/ask", json={"question": question}).json()
        for question in ("When does the library open?", "Who painted the ceiling of the museum?")
    ]
    decided = client.post(
        "/guard/v1/decide", json={"question": "When does it open?", "passages": []}
    )

    assert asked[0]["answer"] == "The library opens at nine."
    assert asked[1] == {"answer": "I do not know.", "reason": "insufficient_context"}
    assert decided.json()["decision"]["reason"] == "nothing_retrieved"


@needs("fastapi", "transformers")
@pytest.mark.enable_socket
def test_the_model_server_speaks_openais_interface_and_shows_faults_only_if_allowed() -> None:
    from fastapi.testclient import TestClient

    from knowgate.adapters.huggingface import HuggingFaceLM
    from knowgate.offline_eval.testbed.check import microworld_model_path

    create = runpy.run_path(str(EXAMPLES / "model_server.py"))["create_model_app"]
    lm = HuggingFaceLM(microworld_model_path(), device="cpu")
    body = {"messages": [{"role": "user", "content": "Who?"}], "temperature": 0, "n": 2}

    for allowed in (False, True):
        client = TestClient(create(lm, "tiny", allow_faults=allowed))
        faulty = client.post(
            "/v1/chat/completions", json=body, headers={"X-Knowgate-Fault": "empty"}
        )
        assert faulty.status_code == (200 if allowed else 400)
    found = client.post("/v1/chat/completions", json=body).json()
    assert [one["message"]["content"] for one in found["choices"]] == [
        one.text for one in lm.generate(["Who?"], n=2)[0]
    ]
    assert client.get("/v1/models").json()["data"][0]["id"] == "tiny"


def test_a_rollout_is_told_by_its_log(run: Printed, tmp_path: Path) -> None:
    printed = run("rollout", str(tmp_path))

    assert "Enforcing would have replaced 50\xa0%" in printed
    assert "insufficient_context: 50%" in printed
    assert "not yet: The policy certifies nothing" in printed
    assert DecisionLog.plain_question_id("Is there a garden?") in "".join(
        path.read_text("utf-8") for path in tmp_path.glob("*.jsonl")
    )


def test_a_veto_abstains_from_what_is_out_of_date(run: Printed) -> None:
    first, second = run("veto").splitlines()

    assert "follow_context (sufficient_context), {'age': 0.0}" in first
    assert "abstain (passage_too_old)" in second


def test_the_guarded_rag_example_takes_all_routes(run: Printed) -> None:
    printed = run("guarded_rag")

    assert "follow_context (sufficient_context): The library opens at nine" in printed
    assert "answer (confident_memory): Paris" in printed
    assert "abstain (neither_knows): I do not know" in printed
    assert "streamed: The library opens at nine" in printed


@pytest.mark.enable_socket
def test_the_metrics_example_serves_and_prints_the_abstention_rate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = runpy.run_path(str(EXAMPLES / "metrics.py"))["main"](0)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{server.server_port}/metrics", timeout=60) as response:
        served = response.read().decode()
    server.shutdown()
    server.server_close()

    assert "abstention rate 0.67" in capsys.readouterr().out
    labels = 'knowgate_decisions_total{guard="default",mode="enforce",reason="sufficient_context"'
    assert labels in served


def test_the_monitoring_example_raises_an_alarm_in_the_changed_week(run: Printed) -> None:
    printed = run("monitoring")

    assert "quiet week: no alarm" in printed
    assert re.search(r"changed week: .*drift", printed)


@pytest.mark.slow
def test_the_metrics_example_ends_by_itself_without_a_terminal() -> None:
    done = subprocess.run(
        [sys.executable, "examples/metrics.py", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    assert "abstention rate" in done.stdout


def test_every_example_is_listed_and_run_here() -> None:
    files = {path.name for path in EXAMPLES.glob("*.py")}
    listed = set(re.findall(r"\]\((\w+\.py)\)", (EXAMPLES / "README.md").read_text("utf-8")))
    tested = set(re.findall(r'"(\w+)(?:\.py)?"', (ROOT / "tests/test_examples.py").read_text()))

    assert files == listed
    assert {name.removesuffix(".py") for name in files} - {"service"} <= tested
