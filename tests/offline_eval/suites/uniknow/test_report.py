from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import Scenario
from knowgate.offline_eval.suites import write_report
from knowgate.offline_eval.suites.uniknow._cases import (
    PAPER_KINDS,
    Case,
    Context,
    ContextKind,
    Knowledge,
    KnowledgeEstimate,
    Question,
    UniKnowRow,
)
from knowgate.offline_eval.suites.uniknow.plan import Plan
from tests.support.plots import full_plots
from tests.support.report_page import Page

Row = dict[str, Any]

# Per method: share done as wanted in conflict, external_only, parametric_only, unknown and
# elsewhere; and share declined where that is not wanted.
HABITS = {
    "naive": ((0.60, 0.66, 0.84, 0.06, 0.60), 0.01),
    "prompting": ((0.52, 0.60, 0.73, 0.46, 0.55), 0.15),
    "cad": ((0.70, 0.69, 0.66, 0.05, 0.58), 0.01),
    "coiecd": ((0.72, 0.71, 0.74, 0.07, 0.60), 0.01),
    "coiecd_prompt": ((0.70, 0.68, 0.60, 0.37, 0.55), 0.12),
    "retrobust": ((0.37, 0.61, 0.90, 0.14, 0.58), 0.02),
    "kaft": ((0.85, 0.77, 0.88, 0.13, 0.65), 0.02),
    "lm_uniknow": ((0.87, 0.77, 0.67, 0.75, 0.62), 0.18),
    "guard_naive": ((0.59, 0.65, 0.81, 0.93, 0.61), 0.05),
    "guard_coiecd": ((0.71, 0.70, 0.81, 0.93, 0.63), 0.05),
}
_SCENARIOS = (Scenario.CONFLICT, Scenario.EXTERNAL_ONLY, Scenario.PARAMETRIC_ONLY, Scenario.UNKNOWN)
_KNOWLEDGE = (Knowledge.KNOWN, Knowledge.UNKNOWN, Knowledge.KNOWN, Knowledge.UNKNOWN)


def simulated_cases(
    questions: int, *, kinds: Sequence[ContextKind] = PAPER_KINDS, text: str = ""
) -> list[Case]:
    """Every fifth question is of undefined knowledge; `text` stands in all that is free text."""
    cases = []
    for number in range(questions):
        question = Question(
            id=f"q{number}",
            question=f"Where does person {number} live? {text}".strip(),
            answers=(f"Town {number} {text}".strip(), f"City of Town {number}"),
            dataset="towns",
            group=f"person {number}",
        )
        knowledge = Knowledge.UNDEFINED if number % 5 == 4 else _KNOWLEDGE[number % 4]
        estimate = KnowledgeEstimate(knowledge, 0, 10)
        cases += [Case.of(question, kind, _context(kind, number, text), estimate) for kind in kinds]
    return cases


def _context(kind: ContextKind, number: int, text: str) -> Context:
    other = f"Village {number}"
    gold = (f"Town {number} {text}".strip(), f"City of Town {number}")
    near = f"Person {number + 1000} lives in Hamlet {number}. {text}"
    says_gold, says_other = f"Person {number} lives in {gold[0]}.", f"Person lives in {other}."
    return {
        ContextKind.ORIGINAL: Context((says_gold,), gold),
        ContextKind.CONFLICTING: Context((says_other,), (other,)),
        ContextKind.RANDOM: Context((f"Bread is baked. {text}",)),
        ContextKind.RETRIEVED: Context((near,)),
        ContextKind.ONE_OF_K: Context((near, says_gold, "Bread is baked."), gold),
        ContextKind.TWO_IN_CONFLICT: Context((says_gold, says_other), (*gold, other)),
        ContextKind.NONE_OF_K: Context((near, "Bread is baked.")),
        ContextKind.UNTRUE: Context(("They live on the moon.",), (), ("the moon",)),
    }[kind]


def simulated_rows(
    cases: Sequence[Case],
    methods: Mapping[str, tuple[tuple[float, ...], float]] = HABITS,
    *,
    seed: int = 0,
    failing: float = 0.0,
) -> list[UniKnowRow]:
    """One row per method and case, method by method."""
    rng = random.Random(seed)
    return [
        UniKnowRow.model_validate(_row(method, case, habits, rng, failing))
        for method, habits in methods.items()
        for case in cases
    ]


def _row(
    method: str,
    case: Case,
    habits: tuple[tuple[float, ...], float],
    rng: random.Random,
    failing: float,
) -> Row:
    shares, declines = habits
    scenario = case.scenario
    wanted = rng.random() < (
        shares[_SCENARIOS.index(scenario)] if scenario in _SCENARIOS else shares[4]
    )
    row: Row = {
        "case_id": f"{method}|{case.case_id}",
        "method": method,
        **case.about,
        "context_kind": case.context_kind.value,
        "scenario": None if scenario is None else scenario.value,
        "knowledge": case.knowledge.value,
        "answer": "",
        "abstained": False,
        "right": False,
        "parametric": False,
        "misled": False,
        "route": None,
        "relevance": None,
        "confidence": None,
        "error": None,
    }
    if rng.random() < failing:
        return {**row, "error": "LanguageModelTimeoutError: no reply within 5 s"}
    if wanted and scenario is not Scenario.UNKNOWN:
        return {**row, "answer": case.expected[0], "right": True}
    if wanted or rng.random() < declines:
        return {**row, "answer": "unknown", "abstained": True}
    return {**row, **_wrong(case, rng)}


def _wrong(case: Case, rng: random.Random) -> Row:
    if case.untrue_answers and rng.random() < 0.6:
        return {"answer": case.untrue_answers[0], "misled": True}
    gold = case.answers[0]
    if gold not in case.expected and rng.random() < 0.7:
        return {"answer": gold, "parametric": True}
    if "Hamlet" in case.context and rng.random() < 0.6:
        return {"answer": f"Hamlet {case.question_id.removeprefix('q')}"}
    return {"answer": "Somewhere Else"}


def write_run(
    folder: Path,
    cases: Sequence[Case],
    rows: Sequence[UniKnowRow],
    *,
    stored: int | None = None,
    **manifest: object,
) -> Path:
    """A run folder; only the first `stored` rows are there where a number is given."""
    folder.mkdir()
    top = {
        "schema_version": 1,
        "suite": "uniknow",
        "created_by": "knowgate 0.1.0",
        "settings": {"data": "towns", "seed": 0},
        "inputs": [{"name": "towns.jsonl", "sha256": "0" * 64}],
        "methods": list(dict.fromkeys(row.method for row in rows)),
        **manifest,
    }
    (folder / "manifest.json").write_text(json.dumps(top), encoding="utf-8")
    stored_cases = [case.model_dump_json() + "\n" for case in cases]
    (folder / "cases.jsonl").write_text("".join(stored_cases), encoding="utf-8")
    sides = Counter({case.question_key: case.knowledge.value for case in cases}.values())
    plan = Plan(
        training_cases=0,
        evaluation_cases=len(cases),
        rows=len(rows),
        grouped=True,
        knowledge={side.value: sides[side.value] for side in Knowledge},
    )
    (folder / "plan.json").write_text(
        json.dumps({"schema_version": 1, **plan.model_dump(mode="json")}), encoding="utf-8"
    )
    lines = [row.model_dump_json() + "\n" for row in rows[:stored]]
    (folder / "rows.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


TEXT = (
    "</style><script>alert(1)</script><img src=x onerror=alert(1)> | **b** [x](javascript:y) "
    "![i](https://evil.example/x.png) {{ 7 * 7 }} {% raw %} `c` \u202eabc \x00\n# head"
)


@pytest.fixture(scope="module")
def full_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of all methods, ablations, kinds beyond the paper, and some failures."""
    habits = dict(HABITS)
    for variant in ("abstention=0.0", "abstention=0.5", "without=conflicting"):
        habits[f"lm_uniknow@{variant}"] = HABITS["lm_uniknow"]
    cases = simulated_cases(20, kinds=tuple(ContextKind))
    folder = tmp_path_factory.mktemp("runs") / "run"
    return write_run(folder, cases, simulated_rows(cases, habits, failing=0.01))


@pytest.fixture(scope="module")
def written(full_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of that run."""
    folder = tmp_path_factory.mktemp("report")
    with full_plots():
        write_report(full_run, out_dir=folder)
    return folder


def page_of(folder: Path) -> Page:
    return Page((folder / "report.html").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.usefixtures("whole_plots")
def test_text_of_questions_replies_and_names_cannot_become_markup(tmp_path: Path) -> None:
    cases = simulated_cases(8, text=TEXT)
    habits = {"naive": HABITS["naive"], "<script>x": HABITS["kaft"]}
    run = write_run(tmp_path / "run", cases, simulated_rows(cases, habits))
    paths = write_report(run)
    page = Page(paths.html.read_text(encoding="utf-8"))
    assert not page.tags & {"script", "img", "b", "i"}
    assert not page.handlers
    assert "<script>x" in page.text
    assert "\u202e" not in page.text
    markdown = paths.markdown.read_text(encoding="utf-8")
    assert not re.search(r"<\w|(?<!\\)\[\w|(?<!\\)`c|https?://|\n# head", markdown)


def test_an_empty_scenario_is_null_and_said(tmp_path: Path) -> None:
    cases = [one for one in simulated_cases(20) if one.knowledge is not Knowledge.KNOWN]
    run = write_run(tmp_path / "run", cases, simulated_rows(cases, {"naive": HABITS["naive"]}))
    paths = write_report(run)
    scenarios = json.loads(paths.json.read_text())["methods"]["naive"]["scenarios"]
    empty = {"value": None, "low": None, "high": None, "n": 0}
    assert scenarios["conflict"]["em"] == scenarios["parametric_only"]["rely"] == empty
    assert scenarios["all"]["em"]["value"] is None
    assert scenarios["all"]["rely"]["value"] is not None
    assert "No case of this run falls under “Context against memory”" in page_of(run).text


def test_ablations_and_contexts_beyond_the_paper_stand_apart(written: Path) -> None:
    text = (written / "report.md").read_text(encoding="utf-8")
    found = json.loads((written / "report.json").read_text())
    main, rest = text.split("## What the training needs")
    ablations, beyond = rest.split("## More than one passage, and untrue ones")
    assert "lm_uniknow@" not in main + beyond.partition("## Single replies")[0]
    assert "lm_uniknow@without=conflicting" in ablations
    assert all("@" in name for name in list(found["methods"])[-3:])
    assert list(found["beyond"]) == ["one_of_k", "two_in_conflict", "none_of_k", "untrue"]
    assert found["beyond"]["untrue"]["naive"]["misled"]["value"] > 0
    assert beyond.count("Misled |") == 1
