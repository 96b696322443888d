"""Four options: which are right, and that no letter is favoured."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.offline_eval.suites.conflict._answering import make_instances, right_letters
from knowgate.offline_eval.suites.conflict._rows import Instance, planned, right_roles
from knowgate.offline_eval.suites.conflict.beliefs import conflict_prompts
from knowgate.offline_eval.suites.conflict.evidence import Believed, EvidenceMaker, Validator
from knowgate.offline_eval.suites.conflict.items import EvidenceKind, Task

from .questions import item, small_set

NC, HPC, HPCE, LPC = EvidenceKind


def instances(items: tuple[object, ...], seed: int = 0) -> list[Instance]:
    believed = [Believed(one, 0) for one in items]  # type: ignore[arg-type]
    by_key = {one.item.key: one.item for one in believed}
    rows = EvidenceMaker(conflict_prompts(), tuple(EvidenceKind)).make(believed)
    return make_instances(believed, Validator(conflict_prompts()).validate(rows, by_key), seed)


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
    believed = [Believed(item(), 0)]
    rows = EvidenceMaker(conflict_prompts(), [NC]).make(believed)
    rows = Validator(conflict_prompts()).validate(rows, {believed[0].item.key: believed[0].item})
    assert make_instances(believed, rows, 0) == []
