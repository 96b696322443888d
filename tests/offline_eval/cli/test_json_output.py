"""`--json`: on every command that prints figures, and then nothing else is printed."""

from __future__ import annotations

import json
from dataclasses import make_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from knowgate.calibration import Interval
from knowgate.calibration.training.sufficiency import TuningReport
from knowgate.guard import Policy
from knowgate.offline_eval.cli._console import out
from tests.offline_eval.cli.commands import Knowgate, every_command, refused, write_lines
from tests.offline_eval.judging.labelling.toy_replies import toy_run
from tests.offline_eval.judging.runs import ANSWER, REFUSAL, replies_run

# They print where files are, an address, or text for another program.
_WITHOUT_FIGURES = {"dashboards", "import", "init", "play", "serve", "view"}
# Of each command a call that is cheap in `workplace`.
_CALLS = {
    "apply": "apply --input replies.jsonl --output flags.jsonl",
    "calibrate": "calibrate --run run --risk 0.2 --out new.json",
    "calibrate --dry-run": "calibrate --dry-run --questions kb.jsonl",
    "calibrate --like": "calibrate --like policy.json --run run --out newer.json",
    "demo": "demo --out demo",
    "doctor": "doctor --scorers",
    "drift": "drift --policy policy.json --run run",
    "index": "index passages.jsonl --out passages --scorer lexical",
    "judge": "judge replies --judge detector",
    "kb build": "kb build docs --out kb --filter semantic=off",
    "label": "label replies --export labels.csv",
    "measure": "measure --questions kb.jsonl --out run --scorer lexical",
    "models": "models",
    "report": "report run --out report --format json --fail-if abstention_rate<0.1",
    "tune relevance": "tune relevance --questions kb.jsonl --out tuned",
    "tune scenarios": "tune scenarios --method kaft --out adapter",
}
# Of others the test of the command itself does it, in the same folder.
_ELSEWHERE = {
    "check": "test_project_file.py",
    "kg generate": "test_demo.py",
    "shadow-report": "test_shadow_report.py",
    "verify": "test_verify.py",
}
_PRINTED: dict[str, dict[str, Any]] = {
    "apply": {"replies": 1, "abstained": 0},
    "judge": {"total": 2, "failed": 0},
    "measure": {"total": 120, "already": 120, "stored": 0, "failed": 0},
    "tune relevance": {"auroc_before": 0.7, "helped": True},
}


def test_every_command_that_prints_figures_has_the_option_and_a_test() -> None:
    commands = {" ".join(words): command for words, command in every_command()}
    with_option = {
        name
        for name, command in commands.items()
        if any("--json" in parameter.opts for parameter in command.params)
    }

    assert set(commands) - with_option == _WITHOUT_FIGURES
    tested = {*_CALLS, *_ELSEWHERE} | {"tune"}
    assert {name for name in with_option if not name.startswith("eval ")} <= tested
    for file in _ELSEWHERE.values():
        assert '"--json"' in (Path(__file__).parent / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", _CALLS)
def test_only_the_figures_are_printed(
    knowgate: Knowgate, workplace: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(workplace)
    _write_inputs(workplace, name)
    _replace_what_takes_long(workplace, monkeypatch)

    outcome = knowgate(*_CALLS[name].split(), "--json")

    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out, parse_constant=pytest.fail)
    assert found
    for field, value in _PRINTED.get(name, {}).items():
        assert found[field] == value
    assert not out.quiet


def _write_inputs(folder: Path, name: str) -> None:
    write_lines(folder / "replies.jsonl", [{"response": "It opens at nine."}])
    write_lines(folder / "signals.jsonl", [{"relevance": 1.0, "confidence": None}])
    write_lines(folder / "pairs.jsonl", [{"question": "When?", "passages": ["At nine."]}])
    write_lines(folder / "passages.jsonl", [{"text": "At nine."}])
    (folder / "docs").mkdir()
    (folder / "docs" / "faq.md").write_text("Q: When?\nA: At nine.\n\nQ: Who?\nA: Ann.\n")
    if name == "judge":
        replies_run(folder / "replies", {"right": ANSWER, "refused": REFUSAL, "failed": None})
    elif name == "label":
        toy_run(folder / "replies")


def _replace_what_takes_long(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put reports in the place of models, encoders and training."""
    answer = {
        "question": "When?",
        "situation": "missing",
        "route": "abstain",
        "relevance": 0.1,
        "guarded": "No.",
        "unguarded": "At nine.",
    }
    measured = SimpleNamespace(
        policy=Policy.load(folder / "policy.json"),
        measured=SimpleNamespace(name="x"),
        false_abstention=Interval(0.2, 0.1, 0.3, 40),
    )
    for module, name, found in (
        ("_demo", "measured_and_calibrated", measured),
        ("_demo", "write_calibrated", None),
        ("_demo", "write_report", SimpleNamespace(html=folder / "report.html")),
        ("_demo", "Guard", SimpleNamespace(load=lambda *_, **__: None)),
        ("_demo", "live_answers", [answer]),
        ("_index", "index_passages", _made(read=1, encoded=1, stored=1, bytes=9)),
        ("_tune", "tune_relevance",
         TuningReport(40, 0.7, 0.9, Interval(0.2, 0.1, 0.3, 40), 7)),
        ("_tune", "train_scenarios", _made(folder=folder, losses=(1.0, 0.5))),
        ("_tune", "tuning_examples", None),
    ):  # fmt: skip
        replaced = found if name == "Guard" else lambda *_, __found=found, **__: __found
        monkeypatch.setattr(f"knowgate.offline_eval.cli.{module}.{name}", replaced)


def _made(**fields: Any) -> Any:
    return make_dataclass("Report", fields)(**fields)


def test_labelling_itself_prints_no_figures(knowgate: Knowgate, tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run").folder

    refused(knowgate("label", run, "--annotator", "anna", "--json"), "--json: does not go with")


def test_a_calibration_that_certifies_nothing_says_so_in_json(
    knowgate: Knowgate, workplace: Path
) -> None:
    outcome = knowgate(
        "calibrate", "--run", workplace / "run", "--risk", "0.01", "--out", workplace / "no.json",
        "--json",
    )  # fmt: skip

    found = json.loads(outcome.out)
    assert outcome.code == 3
    assert (found["policy"], found["certified"], found["relevance_threshold"]) == (
        None,
        False,
        None,
    )
    assert found["problems"][0]["hint"]
    assert found["smallest_risk"] > 0.01


def test_a_selective_promise_has_its_rates_in_json(knowgate: Knowgate, tmp_path: Path) -> None:
    head = {"scorer": {"kind": "own"}, "aggregator": "max"}
    rows = [
        {"question_id": f"q{n}", "case": "in_kb", "group": f"p{n}", "relevance": n / 80,
         "confidence": None, "context_right": n > 20, "closed_book_right": None}
        for n in range(80)
    ]  # fmt: skip
    write_lines(tmp_path / "records.jsonl", [head, *rows])
    done = knowgate(
        "calibrate", "--records", tmp_path / "records.jsonl", "--risk", "0.4", "--promise",
        "selective", "--out", tmp_path / "p.json", "--json",
    )  # fmt: skip
    assert done.code in (0, 3), done.err
    assert json.loads(done.out)
