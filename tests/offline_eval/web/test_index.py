"""The index of runs: what is read, filtered and searched."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import InputError
from knowgate.guard.policy import Policy
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.data.graph.layout import write_layout
from knowgate.offline_eval.web._index import CaseQuery, Runs, index_runs, others
from tests.offline_eval.data.graph.layout_questions import small_set
from tests.offline_eval.web.runs import replies_run, suite_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replies_run(tmp_path_factory.mktemp("view") / "run")


@pytest.fixture(scope="module")
def index(folder: Path) -> Runs:
    policy = Policy.for_scorer(LexicalScorer(), threshold=0.25)
    return index_runs([folder], {"policy": policy})[0]


def keys(index: Runs, **values: str) -> list[str]:
    return [row.key for row in index["run"].select(CaseQuery.read({"run": "run", **values}))]


def test_all_rows_are_there_with_their_facets(index: Runs) -> None:
    run = index["run"]

    assert (run.rows, run.planned, run.suite) == (24, 24, "ookb")
    assert run.facets["system"] == {"guarded": 12, "plain": 12}
    assert run.facets["route"] == {"": 12, "abstain": 6, "follow_context": 6}
    assert run.facets["label"] == {"abstention: no (detector)": 18, "abstention: yes (detector)": 6}
    assert run.scores == (0.0, 0.55)


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ({"system": "plain"}, 12),
        ({"kind": "left_out"}, 12),
        ({"route": "abstain"}, 6),
        ({"reason": "sufficient_context"}, 6),
        ({"label": "abstention: yes (detector)", "kind": "left_out"}, 6),
        ({"low": "0.2", "high": "0.4"}, 5),
        ({"low": "nonsense"}, 24),
        ({"text": '"pool 3"'}, 4),
        ({"text": '"do not know"'}, 6),
        ({"text": "zebra3"}, 4),  # of a passage
        ({"text": "zebra3 abc"}, 0),
        ({"text": "' OR 1=1 -- \" ) NEAR"}, 0),
    ],
)
def test_filters_and_search_select_rows(index: Runs, query: dict[str, str], number: int) -> None:
    assert len(keys(index, **query)) == number


def test_rows_are_ordered_by_score_and_the_neighbours_follow_that_order(index: Runs) -> None:
    query = CaseQuery("run", system="guarded", sort="-score")
    ordered = keys(index, system="guarded", sort="-score")
    by_key = index["run"].by_key

    assert ordered[0] == "guarded/q5/left_out"
    assert index["run"].neighbours(query, by_key[ordered[3]]) == (ordered[2], ordered[4])
    assert index["run"].neighbours(query, by_key[ordered[0]]) == (None, ordered[1])


def test_a_case_has_its_passages_signals_thresholds_and_verdicts(index: Runs) -> None:
    run = index["run"]
    case = run.by_key["guarded/q2/left_out"]

    assert case.question == "When does pool 2 open?"
    assert [(one["name"], one["text"]) for one in run.texts_of(case)] == [
        ("p2", "The pool 2 opens at 2. Zebra2."),
        ("gone", None),
    ]
    assert case.signals == {"relevance": (0.25, 0.25)}
    assert list(case.verdicts.values()) == ["because"]
    assert [row.key for row in others(index, case)] == ["plain/q2/left_out"]


CONFLICT: dict[str, list[dict[str, Any]]] = {
    "rows": [{"row_id": "m/RAG/NC/k", "system": "m", "evidence": "NC", "key": "k", "error": None}],
    "instances": [{"key": "k", "question": "Where?", "evidence": {"NC": {"passage": "Rome."}}}],
}


def test_a_folder_of_runs_is_searched_and_what_is_broken_in_it_left_out(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "a" / "good")
    suite_run(tmp_path / "a" / "bad", "uniknow", rows=[{"case_id": 7}])
    (tmp_path / "a" / "kb").mkdir()
    (tmp_path / "a" / "kb" / "manifest.json").write_text('{"schema_version": 1}', "utf-8")
    index, skipped = index_runs([tmp_path / "a"])
    assert list(index) == ["good"]
    assert len(skipped) == 1
    assert "bad/rows.jsonl:1" in skipped[0]
    with pytest.raises(InputError, match=r"rows\.jsonl:1"):
        index_runs([tmp_path / "a" / "bad"])


def test_questions_in_the_layout_of_uaqfact_are_shown(tmp_path: Path) -> None:
    asked = next(one for one in small_set().items if one.answers)
    row = {"row_id": f"m/question/{asked.key}", "system": "m", "key": asked.key, "response": "R"}
    run = suite_run(tmp_path / "run", "uaqfact", rows=[row])
    write_layout(small_set(), run / "questions")
    (record,) = index_runs([run])[0]["run"].records
    told = " · ".join(one.label for one in asked.answers)
    assert (record.question, record.expected) == (asked.question, told)
    # Of another suite, whose layout is not known.
    other = suite_run(tmp_path / "other", "mine", rows=[row])
    (other / "questions").mkdir()
    assert len(index_runs([other])[0]["other"].records) == 1


def damaged(run: Path, name: str) -> None:
    """Damage a run that `replies_run` or `suite_run` made."""
    if name == "manifest.json":
        values = json.loads((run / name).read_text("utf-8"))
        (run / name).write_text(json.dumps({**values, "systems": 5}), "utf-8")
    elif name == "replies.jsonl":
        text = (run / name).read_text("utf-8")
        (run / name).write_text(re.sub(r'"passages": \[.*?\]', '"passages": 5', text), "utf-8")
    else:
        (run / "rows.jsonl").write_text(name + "\n", "utf-8")


@pytest.mark.parametrize("name", ["manifest.json", "replies.jsonl", "5", "null", "true"])
def test_a_damaged_run_is_left_out(folder: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(folder, tmp_path / "good")
    if name.endswith(("json", "jsonl")):
        shutil.copytree(folder, tmp_path / "bad")
    else:
        suite_run(tmp_path / "bad", "conflict", **CONFLICT)
    damaged(tmp_path / "bad", name)
    index, skipped = index_runs([tmp_path])
    assert list(index) == ["good"]
    (line,) = skipped
    assert f"{tmp_path / 'bad'}" in line
    with pytest.raises(InputError):
        index_runs([tmp_path / "bad"])
