"""`knowgate serve`: what it is started with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from knowgate.guard import Guard, Policy
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.guard.testing import FakeScorer
from knowgate.offline_eval.run import RepliesRun
from tests.offline_eval.cli.commands import Knowgate, refused
from tests.offline_eval.judging.runs import ANSWER, REFUSAL, replies_run

_SCORER = FakeScorer({"nine": 0.9})
own_guard = Guard(
    Policy(scorer=_SCORER.fingerprint, relevance_threshold=0.5), scorer=_SCORER, metrics=False
)
OWN = "tests.offline_eval.cli.test_serve:own_guard"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The application that would be served, and the options of its server."""
    found: dict[str, Any] = {}

    def serve(app: Any, listening: Any, **options: Any) -> None:
        found.update(app=app, address=listening.getsockname(), **options)

    monkeypatch.setattr("knowgate.adapters.serve._server.serve", serve)
    for name in ("KNOWGATE_TOKEN", "KNOWGATE_UPSTREAM", "KNOWGATE_UPSTREAM_KEY"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.mark.enable_socket
def test_a_policy_is_served_on_this_machine_only(
    knowgate: Knowgate, served: dict[str, Any], tmp_path: Path
) -> None:
    Policy.for_scorer(LexicalScorer(), threshold=0.5).save(tmp_path / "policy.json")

    done = knowgate("serve", "--policy", tmp_path / "policy.json", "--port", "0")

    assert done.code == 0, done
    host, port = served["address"]
    assert host == "127.0.0.1"
    assert done.out.startswith(f"serving on http://127.0.0.1:{port} — the policy is not calibr")
    assert served["drain_seconds"] == 30.0


@pytest.mark.enable_socket
async def test_shadow_decisions_are_logged(
    knowgate: Knowgate, served: dict[str, Any], tmp_path: Path
) -> None:
    Policy.for_scorer(LexicalScorer(), threshold=0.5).save(tmp_path / "policy.json")
    arguments = ["--policy", tmp_path / "policy.json", "--port", "0"]

    done = knowgate("serve", *arguments, "--shadow", "--log", tmp_path / "log")

    assert done.code == 0, done
    transport = httpx.ASGITransport(served["app"])
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        found = await client.post("/v1/decide", json={"question": "When?", "passages": ["p"]})
    assert found.json()["decision"]["mode"] == "shadow"
    [path] = (tmp_path / "log").glob("*.jsonl")
    assert len(path.read_text().splitlines()) == 1


@pytest.mark.enable_socket
def test_a_token_that_can_be_guessed_is_rejected(
    knowgate: Knowgate, served: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWGATE_TOKEN", "secret")
    refused(knowgate("serve", "--guard", OWN, "--port", "0"), "16 characters", "openssl")
    assert not served


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return replies_run(tmp_path / "run", {"right": ANSWER, "refused": REFUSAL, "failed": None})


@pytest.mark.slow
def test_the_offline_judges_are_the_default(knowgate: Knowgate, run: Path) -> None:
    outcome = knowgate("judge", run)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("4 verdicts added (0 failed), 0 there before → ")
    assert f"knowgate report {run}" in outcome.out
    found = {name: row.outcome for name, row in RepliesRun.read(run).judgements.items()}
    assert found == {
        "s/right/abstention/detector": "no",
        "s/refused/abstention/detector": "yes",
        "s/right/factuality/estimate": "tier_1",
        "s/refused/factuality/estimate": "NA",
    }
    assert "0 verdicts added (0 failed), 4 there before" in knowgate("judge", run).out
