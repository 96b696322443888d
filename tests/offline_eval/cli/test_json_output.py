"""`--json`: on every command that prints figures, and then nothing else is printed."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import make_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from knowgate.calibration import Interval
from knowgate.calibration.training.sufficiency import TuningReport
from knowgate.guard import Policy
from knowgate.offline_eval.cli import _city_demo, _microworld_demo
from knowgate.offline_eval.cli._app import app
from knowgate.offline_eval.cli._command_group import import_commands
from knowgate.offline_eval.cli._console import out, print_figures, prints_figures
from knowgate.offline_eval.cli._suite_command import suite_function
from knowgate.offline_eval.suites import find_suite, suite_names
from tests.offline_eval.cli.commands import Knowgate, refused, write_lines
from tests.offline_eval.judging.labelling.toy_replies import toy_run
from tests.offline_eval.judging.runs import ANSWER, REFUSAL, replies_run

# They print where files are, an address, or text for another program.
_WITHOUT_FIGURES = {
    "dashboards",
    "import knowornot",
    "import lm-eval",
    "init",
    "microworld path",
    "models get",
    "play",
    "serve",
    "serve-lm",
    "view",
}
# Of each command a call that is cheap in `workplace`.
_CALLS = {
    "abstained": "abstained --input replies.jsonl --output flags.jsonl",
    "calibrate": "calibrate --run run --risk 0.2 --out new.json",
    "demo": "demo --out demo",
    "doctor": "doctor --scorers",
    "drift": "drift --policy policy.json --run run",
    "export-onnx": "export-onnx lexical --out onnx --calibration-data pairs.jsonl",
    "index": "index passages.jsonl --out passages --scorer lexical",
    "judge": "judge replies --judge detector",
    "kb build": "kb build docs --out kb",
    "kb filter": "kb filter kb.jsonl --out kept.jsonl --semantic off --keyword off",
    "label": "label replies --export labels.csv",
    "measure": "measure --questions kb.jsonl --out run --scorer lexical",
    "microworld check": "microworld check",
    "models list": "models list",
    "plan": "plan --questions kb.jsonl",
    "recalibrate": "recalibrate --policy policy.json --run run --out newer.json",
    "report": "report run --out report --format json --fail-if abstention_rate<0.1",
    "route": "route --policy policy.json --input signals.jsonl --output decisions.jsonl",
    "score": "score --input pairs.jsonl --output scores.jsonl --scorer lexical",
    "tune relevance": "tune relevance --questions kb.jsonl --out tuned",
    "tune scenarios": "tune scenarios --method kaft --out adapter",
}
# Of others the test of the command itself does it, in the same folder.
_ELSEWHERE = {
    "check": "test_project_file.py",
    "compare-scorers": "test_compare_scorers.py",
    "kg generate": "test_kg.py",
    "review": "test_review.py",
    "shadow-report": "test_shadow_report.py",
}
_PRINTED: dict[str, dict[str, Any]] = {
    "abstained": {"replies": 1, "abstained": 0},
    "judge": {"total": 2, "failed": 0},
    "kb filter": {"kept": 60, "dropped": {}},
    "measure": {"total": 120, "already": 120, "stored": 0, "failed": 0},
    "route": {"lines": 1, "routes": {"follow_context": 1}},
    "score": {"lines": 1, "failed": 0},
    "tune relevance": {"auroc_before": 0.7, "helped": True},
}


def _callbacks(app: typer.Typer, before: str = "") -> Iterator[tuple[str, Any]]:
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        yield f"{before}{name}", command.callback
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from _callbacks(group.typer_instance, f"{before}{group.name} ")


def _has_option(command: Any) -> bool:
    return "as_json" in inspect.signature(command).parameters


def test_every_command_that_prints_figures_has_the_option_and_a_test() -> None:
    import_commands()
    commands = dict(_callbacks(app))
    with_option = {name for name, command in commands.items() if _has_option(command)}

    assert set(commands) - with_option == _WITHOUT_FIGURES
    assert with_option == {*_CALLS, *_ELSEWHERE}
    for file in _ELSEWHERE.values():
        assert '"--json"' in (Path(__file__).parent / file).read_text(encoding="utf-8")
    for name in suite_names():
        assert _has_option(suite_function(find_suite(name)))


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
    cli = "knowgate.offline_eval.cli"
    policy = folder / "policy.json"
    answer = _city_demo.LiveAnswer("When?", True, "abstain", 0.1, "No.", "At nine.")
    abstained, report = Interval(0.2, 0.1, 0.3, 40), folder / "report.html"
    city = _city_demo.CityDemo(Policy.load(policy), "x", abstained, policy, report, (answer,))
    for module, name, found in (
        ("_city_demo", "run_city_demo", city),
        ("_microworld_demo", "run_microworld_demo", _microworld_demo.MicroworldDemo(())),
        ("_export_onnx", "export_scorer", _made(kind="x", dtype="y", pairs=1, difference=0.0,
                                                correlation=None, bytes=9)),
        ("_index", "index_passages", _made(read=1, encoded=1, reused=0, stored=1, bytes=9)),
        ("_tune", "tune_relevance",
         TuningReport(40, 0.7, 0.9, Interval(0.2, 0.1, 0.3, 40), 7)),
        ("_tune_scenarios", "train_scenarios", _made(folder=folder, losses=(1.0, 0.5))),
        ("_tune_scenarios", "tuning_examples", None),
    ):  # fmt: skip
        monkeypatch.setattr(f"{cli}.{module}.{name}", lambda *_, __found=found, **__: __found)
    checked = SimpleNamespace(rows=list, to_json=lambda: {"conflict": {"value": 0.5, "n": 2}})
    monkeypatch.setattr("knowgate.offline_eval.testbed.check_microworld", lambda **_: checked)
    monkeypatch.setattr("knowgate.guard.engine.BiEncoderScorer", lambda: None)
    monkeypatch.setattr("knowgate.guard.signals.relevance.load_scorer", lambda _: None)


def _made(**fields: Any) -> Any:
    return make_dataclass("Report", fields)(**fields)


def test_labelling_itself_prints_no_figures(knowgate: Knowgate, tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run").folder

    refused(knowgate("label", run, "--annotator", "anna", "--json"), "--json: goes with")


def test_a_bad_input_prints_no_json(knowgate: Knowgate, tmp_path: Path) -> None:
    refused(knowgate("plan", "--questions", tmp_path / "none.jsonl", "--json"), "no such file")
    assert not out.quiet


def test_a_failed_gate_is_in_the_figures(knowgate: Knowgate, workplace: Path) -> None:
    outcome = knowgate(
        "report", workplace / "run", "--format", "json", "--fail-if", "auroc<2", "--json"
    )

    assert outcome.code == 1
    (gate,) = json.loads(outcome.out)["gates"]
    assert (gate["expression"], gate["failed"]) == ("auroc<2", True)
    assert 0 < gate["value"] <= 1


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


def test_figures_may_be_anything_that_commands_count_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @prints_figures
    def command(what: int) -> None:
        out.print("for people")
        print_figures({"path": Path("a"), "rate": Interval(0.5, 0.4, 0.6, what)})

    command(what=3)
    assert capsys.readouterr().out == "for people\n"
    command(what=3, as_json=True)
    rate = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 3}
    assert json.loads(capsys.readouterr().out) == {"path": "a", "rate": rate}
    with pytest.raises(TypeError, match="set is no figure"):
        prints_figures(lambda: print_figures({"x": {1}}))(as_json=True)
    assert not out.quiet
