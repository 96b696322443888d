"""Four options: which are right, and that no letter is favoured."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.suites.conflict._answering import make_instances, right_letters
from knowgate.offline_eval.suites.conflict._rows import Instance, planned, right_roles
from knowgate.offline_eval.suites.conflict.beliefs import conflict_prompts
from knowgate.offline_eval.suites.conflict.evidence import make_evidence, validate
from knowgate.offline_eval.suites.conflict.items import (
    ConflictItem,
    ConflictSet,
    EvidenceKind,
    Task,
)

from .questions import item, small_set

NC, HPC, HPCE, LPC = EvidenceKind


def instances(items: tuple[ConflictItem, ...], seed: int = 0) -> list[Instance]:
    believed = [replace(one, given=0) for one in items]
    by_key = {one.key: one for one in believed}
    rows = make_evidence(believed, conflict_prompts(), tuple(EvidenceKind))
    return make_instances(believed, validate(rows, by_key, conflict_prompts()), seed)


@pytest.mark.parametrize(
    ("task", "kind", "wanted"),
    [
        (Task.CK, NC, {"belief"}),
        (Task.CK, HPC, {"plausible"}),
        (Task.CK, HPCE, {"plausible"}),
        (Task.CK, LPC, {"implausible"}),
        (Task.PK, NC, {"belief"}),
        (Task.PK, HPC, {"belief"}),
        (Task.PK, None, {"belief"}),
        (Task.PCK, NC, {"belief"}),
        (Task.PCK, HPC, {"belief", "plausible"}),
        (Task.PCK, LPC, {"belief", "implausible"}),
        (Task.RAG, NC, {"belief"}),
        (Task.RAG, HPCE, {"belief", "plausible"}),
        (Task.KF, HPC, set()),
    ],
)
def test_what_is_right_follows_from_task_and_evidence(
    task: Task, kind: EvidenceKind | None, wanted: set[str]
) -> None:
    assert right_roles(task, kind) == wanted


@pytest.mark.parametrize("seed", range(5))
def test_each_letter_is_right_equally_often(seed: int) -> None:
    made = instances(small_set(8), seed)
    for task in (Task.CK, Task.PK):
        for kind in tuple(EvidenceKind):
            counts = Counter(
                right_letters(one) for one in planned(made, [task], [kind]) if one.evidence is kind
            )
            assert set(counts.values()) == {2}, (task, kind)
            assert len(counts) == 4
    assert sum(one.agreeing_first for one in made) == 4


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(0, 1000))
def test_options_are_always_four_and_different(size: int, seed: int) -> None:
    for one in instances(small_set(size), seed):
        assert len({option.text for option in one.options}) == 4
        roles = [option.role for option in one.options]
        assert sorted(roles) == ["belief", "distractor", "implausible", "plausible"]


def test_a_question_alone_in_the_world_still_has_four_options() -> None:
    from dataclasses import replace

    lonely = replace(item(absurd=False), distractors=())
    one = instances((lonely,))[0]
    assert sum(option.text.startswith("none of these") for option in one.options) == 2


def test_a_question_without_contradiction_is_no_instance() -> None:
    believed = [replace(item(), given=0)]
    rows = make_evidence(believed, conflict_prompts(), [NC])
    rows = validate(rows, {believed[0].key: believed[0]}, conflict_prompts())
    assert make_instances(believed, rows, 0) == []


CONFLICTQA = {
    "question": "Is Rill old?",
    "memory_answer": "Rill is old.",
    "parametric_memory": "Rill was founded in 900.",
    "counter_answer": "Rill is not old.",
    "counter_memory": "Rill was founded in 1990.",
    "parametric_memory_aligned_evidence": "Its walls are old.",
    "counter_memory_aligned_evidence": "",
}


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_conflictqa_gives_the_belief_and_two_passages(tmp_path: Path) -> None:
    found = ConflictItem.read(write(tmp_path / "qa.jsonl", CONFLICTQA)).items[0]
    assert (found.key, found.given) == ("qa/1", 0)
    assert found.answers[0].passages == ("Rill was founded in 900.", "Its walls are old.")
    assert found.answers[1].passages == ("Rill was founded in 1990.",)


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl"])
def test_wikicontradict_is_read_in_every_format(tmp_path: Path, suffix: str) -> None:
    fields = {
        "question_ID": "7",
        "question": "Who ran Rill?",
        "context1": "Ann ran it,\nthey say.",
        "context2": "Bo ran it.",
        "answer1": "Ann",
        "answer2": "Bo",
        "contradictType": "Explicit",
    }
    path = tmp_path / f"wiki.{suffix}"
    if suffix == "csv":
        quoted = ",".join(f'"{value}"' for value in fields.values())
        path.write_text(",".join(fields) + "\n" + quoted + "\n")
    elif suffix == "json":
        path.write_text(json.dumps({"data": [fields]}))
    else:
        write(path, fields)
    found = ConflictItem.read(path).items[0]
    assert (found.key, found.given) == ("wiki/7", None)
    assert [answer.text for answer in found.answers] == ["Ann", "Bo"]
    assert found.answers[0].passages == ("Ann ran it,\nthey say.",)


def test_any_set_of_answers_is_read(tmp_path: Path) -> None:
    line = {
        "id": "x",
        "question": "Who ran Rill?",
        "answers": [
            "Ann",
            {"text": "Bo", "aliases": ["Robert"], "evidence": "Bo ran it."},
            {"text": "a teapot", "evidence": ["A teapot ran it."], "implausible": True},
        ],
        "belief": "Robert",
        "distractors": ["Cy"],
        "wordings": ["Rill was run by whom?"],
    }
    found = ConflictItem.read(write(tmp_path / "set.jsonl", line)).items[0]
    assert (found.key, found.given, found.acceptable) == ("set/x", 1, (0, 1))
    assert found.answers[2].implausible
    assert found.distractors == ("Cy",)


@pytest.mark.parametrize(
    "answers",
    [
        ["The Beatles", "the beatles."],
        ["1,200", "1200"],
        [{"text": "Bo", "aliases": ["Robert"]}, "Robert"],
    ],
)
def test_one_answer_in_two_spellings_is_no_conflict(tmp_path: Path, answers: object) -> None:
    line = {"question": "Who?", "answers": answers}
    found = ConflictItem.read(write(tmp_path / "qa.jsonl", CONFLICTQA, line))
    assert found.quirks == ("qa.jsonl, 2: two answers are the same; left out",)
    with pytest.raises(InputError, match="no question is left of 1"):
        ConflictItem.read(write(tmp_path / "qa.jsonl", line))


@pytest.mark.slow
def test_the_public_files_are_read(shared_data: Path) -> None:
    found = ConflictItem.read(shared_data / "conflictqa")
    assert len(found.items) == 1245 + 671 + 559 - 2
    assert len(found.quirks) == 2
    assert all(item.given == 0 and all(a.passages for a in item.answers) for item in found.items)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [*CONFLICTQA, "answers", "answer1", "answer2", "context1", "belief", "id", "text", "evidence"]
)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.dictionaries(NAMES, JSON, max_size=8), max_size=3),
    st.sampled_from(["json", "jsonl"]),
)
def test_any_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, object]], suffix: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"fuzz.{suffix}"
    text = json.dumps(lines) if suffix == "json" else "".join(json.dumps(x) + "\n" for x in lines)
    path.write_text(text)
    with contextlib.suppress(InputError):
        assert isinstance(ConflictItem.read(path), ConflictSet)
