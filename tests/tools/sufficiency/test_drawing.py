"""Sets of several sizes and of two questions in one; weights of sources."""

from __future__ import annotations

import pytest

from knowgate.calibration.training.cases import MixExample, SetCase, TrainingQuestion
from tests.calibration.training.sufficiency.knowledge import hash_embedding, made_up_questions
from tests.calibration.training.sufficiency.test_cases import QUESTION, turned
from tools.sufficiency.drawing import drawn_cases, weighed


def test_two_questions_in_one_need_both_passages() -> None:
    other = TrainingQuestion("o", "question", "other", "t", source="s")
    pool = ["own", "near", "middle", "far", "farther", "other"]

    found = drawn_cases(
        [QUESTION, other], {"t": pool}, turned, seed=0, sizes=(5,), compound_share=1.0
    )

    both, half = [case for case in found if case.compound]
    assert [case.sufficient for case in found if not case.compound] == [True, False]
    assert both == SetCase(
        "q", "question question", ("own", "other", "near", "middle", "far"), True, "s", True
    )
    assert half == SetCase(
        "q", "question question", ("own", "near", "middle", "far", "farther"), False, "s", True
    )


def test_questions_with_one_passage_are_never_joined() -> None:
    pool = ["own", "near", "middle", "far", "farther", "farthest"]
    for other in (
        TrainingQuestion("o", "question", "own", "t"),
        TrainingQuestion("o", "question", "near", "t", others=("own",)),
    ):
        found = drawn_cases(
            [QUESTION, other], {"t": pool}, turned, seed=0, sizes=(5,), compound_share=1.0
        )
        assert not any(case.compound for case in found)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_seed_gives_the_same_cases(seed: int) -> None:
    questions = made_up_questions()
    pools = {"town": [question.passage for question in questions]}
    first, second = (
        drawn_cases(
            questions, pools, hash_embedding, seed=seed, sizes=(2, 3, 4, 5), compound_share=0.3
        )
        for _ in range(2)
    )
    assert first == second
    assert len({len(case.passages) for case in first}) > 1
    for case in first:
        own = next(q.passage for q in questions if q.id == case.question_id)
        assert (own in case.passages) == (case.sufficient or case.compound)
        assert len(set(case.passages)) == len(case.passages)


def test_weights_even_out_the_sources() -> None:
    cases = [SetCase("a", "?", ("x",), True, source) for source in ("large", "large", "small")]
    examples = [MixExample(((0.0,),), (0.0,), True)] * 3

    found = weighed(examples, cases, balance=1.0, source_weights={"small": 2.0})

    assert [one.weight for one in found] == pytest.approx([1.5, 1.5, 6.0])
