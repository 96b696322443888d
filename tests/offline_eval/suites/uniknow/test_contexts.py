"""Building contexts, cases and splits."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from knowgate.offline_eval.data.answers.matching import holds_answer
from knowgate.offline_eval.suites.uniknow._bundled import fact_of
from knowgate.offline_eval.suites.uniknow._cases import ContextKind, Dataset, Knowledge
from knowgate.offline_eval.suites.uniknow._contexts import build_contexts
from knowgate.offline_eval.suites.uniknow._questions import read_dataset
from knowgate.offline_eval.suites.uniknow.plan import split_questions
from knowgate.offline_eval.testbed import FactStatus
from tests.offline_eval.suites.uniknow.bag_of_words import BagOfWords

ALL = tuple(ContextKind)
WITHOUT_ANSWER = (ContextKind.RANDOM, ContextKind.RETRIEVED, ContextKind.NONE_OF_K)
PEOPLE = ["Ada Brown", "Bo Green", "Cy White", "Di Black", "Ed Gray", "Flo Stone"]
CITIES = ["Rome", "Oslo", "Lima", "Bern", "Kyiv", "Riga"]


@pytest.fixture
def towers(tmp_path: Path) -> Dataset:
    rows = []
    for number, (person, city) in enumerate(zip(PEOPLE, CITIES, strict=True)):
        year = 1801 + 7 * number
        text = f"The tower of {city} was built in {year} by {person}. It is tall."
        for asked, answer in (
            (f"Who built the tower of {city}?", person),
            (f"In which city did {person} build?", city),
            (f"When was the tower of {city} built?", str(year)),
        ):
            rows.append(
                {"question": asked, "answers": [answer], "context": text, "group": str(number)}
            )
    path = tmp_path / "towers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return read_dataset(path)


def test_every_kind_is_built_for_every_question(towers: Dataset) -> None:
    built, problems = build_contexts(towers, encoder=BagOfWords(), kinds=ALL)

    assert problems == []
    for question in towers.questions:
        found = built[question.id]
        assert set(found) == set(ALL)
        assert holds_answer(found[ContextKind.ORIGINAL].passages[0], question.answers)
        assert found[ContextKind.ORIGINAL].context_answers == question.answers
        for kind in (*WITHOUT_ANSWER, ContextKind.UNTRUE):
            assert not holds_answer(" ".join(found[kind].passages), question.answers)
            assert found[kind].context_answers == ()
        assert len(set(found[ContextKind.ONE_OF_K].passages)) == 4
        assert len(set(found[ContextKind.NONE_OF_K].passages)) == 4
        both = found[ContextKind.TWO_IN_CONFLICT]
        assert sum(holds_answer(text, question.answers) for text in both.passages) == 1
        assert both.context_answers == (
            *question.answers,
            *found[ContextKind.CONFLICTING].context_answers,
        )
        assert holds_answer(
            found[ContextKind.UNTRUE].passages[0], found[ContextKind.UNTRUE].untrue_answers
        )


def test_a_conflicting_context_names_another_answer_of_the_same_kind(towers: Dataset) -> None:
    built, _ = build_contexts(towers, encoder=BagOfWords())

    for question in towers.questions:
        (text,), answers, _ = built[question.id][ContextKind.CONFLICTING]
        assert not holds_answer(text, question.answers)
        assert holds_answer(text, answers[:1])
        pool = next(p for p in (PEOPLE, CITIES, None) if p is None or question.answers[0] in p)
        assert pool is None or answers[0] in pool
        assert pool is not None or answers[0].isdecimal()


@pytest.mark.parametrize(("kind", "count"), [("one_of_k", 3), ("two_in_conflict", 2)])
def test_the_right_passage_stands_in_each_place_equally_often(
    towers: Dataset, kind: str, count: int
) -> None:
    built, _ = build_contexts(towers, encoder=BagOfWords(), kinds=[ContextKind(kind)], passages=3)

    places = Counter(
        [holds_answer(passage, question.answers) for passage in context.passages].index(True)
        for question in towers.questions
        for context in built[question.id].values()
    )
    assert places == dict.fromkeys(range(count), 18 // count)


def test_what_cannot_be_built_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    rows = [
        {"id": "bare", "question": "Who?", "answer": "Ada"},
        {"id": "held", "question": "Where?", "answer": "Rome", "context": "It is in Rome."},
        {"id": "missing", "question": "When?", "answer": "1843", "context": "Long ago."},
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    built, problems = build_contexts(read_dataset(path), encoder=BagOfWords(), kinds=ALL)

    assert set(built["bare"]) == {ContextKind.RANDOM, ContextKind.RETRIEVED}
    assert set(built["held"]) == {ContextKind.ORIGINAL}
    reasons = {(p.question_id, p.kind): p.reason for p in problems}
    assert reasons["bare", ContextKind.ORIGINAL] == "the question has no source"
    assert reasons["missing", ContextKind.ORIGINAL] == "no source holds an answer"
    built_kinds = sum(map(len, built.values()))
    assert len(problems) == 3 * len(ALL) - built_kinds


def _true_knowledge(dataset: Dataset) -> dict[str, Knowledge]:
    by_status = {
        FactStatus.TAUGHT: Knowledge.KNOWN,
        FactStatus.WITHHELD: Knowledge.UNKNOWN,
        FactStatus.HALF_TAUGHT: Knowledge.UNDEFINED,
    }
    return {q.id: by_status[fact_of(q).status] for q in dataset.questions}


def test_the_microworld_leaves_four_hundred_of_each_side_for_evaluation() -> None:
    dataset = read_dataset("microworld")
    knowledge = _true_knowledge(dataset)

    training, evaluation = split_questions(dataset, knowledge)

    there = Counter(knowledge[q.id] for q in evaluation)
    assert there[Knowledge.KNOWN] >= 400
    assert there[Knowledge.UNKNOWN] >= 400
    trained = Counter(knowledge[q.id] for q in training)
    assert trained[Knowledge.KNOWN] == trained[Knowledge.UNKNOWN] >= 165
    assert set(trained) == {Knowledge.KNOWN, Knowledge.UNKNOWN}
    assert not {q.group for q in training} & {q.group for q in evaluation}
