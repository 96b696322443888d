"""What the language model is trained on, and what it must never see."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.offline_eval.testbed import FactStatus, default_world
from tools.microworld._batches import build_tokenizer
from tools.microworld._mixture import load_mixture
from tools.microworld._tasks import Row, TaskMaker

WORLD, MIXTURE = default_world(), load_mixture()
TOKENIZER = build_tokenizer()


def rows(seed: int, count: int) -> list[Row]:
    tasks = TaskMaker(WORLD, MIXTURE, Random(seed))
    made = [tasks.closed_book_row() for _ in range(count)]
    return made + [tasks.context_row(phase) for phase in MIXTURE.phase for _ in range(count)]


ROWS = rows(1, 300)


def test_unseen_entities_never_occur_as_subjects_in_training() -> None:
    unseen = {
        WORLD.entity(fact.subject).name
        for fact in WORLD.facts
        if all(f.status is FactStatus.WITHHELD for f in WORLD.facts_about(fact.subject))
    }
    # A name may occur as a value; its fact would make it part of a question.
    questions = "\n".join(
        prompt.rpartition("Question: ")[2]
        for row in ROWS
        for prompt, is_answer in row.parts
        if not is_answer
    )
    assert not [name for name in unseen if name in questions]


@pytest.mark.slow
def test_withheld_facts_never_occur_with_their_values() -> None:
    texts = "\n".join(row.text for row in ROWS)
    for fact in WORLD.facts_with_status(FactStatus.WITHHELD):
        for phrasing in range(len(WORLD.relation(fact).statements)):
            assert WORLD.statement(fact, phrasing=phrasing) not in texts
        for question in WORLD.questions(fact):
            assert f"{question.text}\nAnswer: {fact.value}\n" not in texts


def test_held_out_phrasings_never_occur_in_training() -> None:
    asked = "\n".join(row.text for row in ROWS)
    for fact in WORLD.facts_with_status(FactStatus.TAUGHT):
        for question in WORLD.questions(fact, held_out=True):
            assert f"Question: {question.text}\n" not in asked


def test_parts_encoded_alone_are_the_tokens_of_the_whole() -> None:
    for row in ROWS[::20]:
        parts = [TOKENIZER.encode(text).ids for text, _ in row.parts]
        assert [token for part in parts for token in part] == TOKENIZER.encode(row.text).ids


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_round_trips_through_the_tokenizer(text: str) -> None:
    ids = TOKENIZER.encode(text).ids
    assert TOKENIZER.decode(ids, skip_special_tokens=False) == text
