"""The microworld's facts, documents and questions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.offline_eval.testbed import FactStatus, World, default_world
from knowgate.offline_eval.testbed._world import WORLD_FILE
from knowgate.offline_eval.testbed.entities import EntityKind, mentions, relations
from tools.microworld.world import build_world, write_world

WORLD = default_world()


def small(seed: int) -> World:
    return build_world(seed, places=8, persons=12, organisations=8, works=6)


@pytest.mark.parametrize(
    ("status", "least"),
    [(FactStatus.TAUGHT, 400), (FactStatus.WITHHELD, 450), (FactStatus.HALF_TAUGHT, 80)],
)
def test_the_default_world_has_enough_facts_of_each_status(status: FactStatus, least: int) -> None:
    assert len(WORLD.facts_with_status(status)) >= least


def test_every_relation_has_four_training_phrasings_and_two_held_out() -> None:
    for relation in relations().values():
        assert len(relation.training_statements) >= 4
        assert len(relation.training_questions) >= 4
        assert min(map(len, (relation.held_out_statements, relation.held_out_questions))) >= 2
        assert len(set(relation.questions)) == len(relation.questions)
        assert len(set(relation.statements)) == len(relation.statements)


def test_some_facts_are_time_bounded_and_terms_follow_each_other() -> None:
    bounded = [fact for fact in WORLD.facts if fact.start is not None]
    assert bounded
    for fact in bounded:
        assert fact.start is not None
        assert fact.end is not None
        assert fact.start < fact.end
    second = next(fact for fact in bounded if fact.id.endswith("_2"))
    assert WORLD.fact(second.id[:-1] + "1").end == second.start


def test_a_document_states_each_of_its_facts() -> None:
    for document in WORLD.documents:
        for fact_id in document.fact_ids:
            fact = WORLD.fact(fact_id)
            assert WORLD.document_for(fact) is document
            assert mentions(document.text, fact.value)
            assert mentions(document.text, document.title)


def test_no_question_holds_its_own_answer() -> None:
    for fact in WORLD.facts:
        for question in WORLD.questions(fact):
            assert not mentions(question.text, fact.value)


def test_half_of_the_withheld_facts_and_more_are_about_unseen_entities() -> None:
    withheld = WORLD.facts_with_status(FactStatus.WITHHELD)
    unseen = [
        fact
        for fact in withheld
        if all(other.status is FactStatus.WITHHELD for other in WORLD.facts_about(fact.subject))
    ]
    assert 0.5 < len(unseen) / len(withheld) < 1


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_same_seed_gives_the_same_world(seed: int) -> None:
    first, second = small(seed), small(seed)
    assert first.facts == second.facts
    assert first.documents == second.documents
    assert first.to_ntriples() == second.to_ntriples()


def test_the_bundled_file_holds_the_world_that_is_drawn(tmp_path: Path) -> None:
    drawn = build_world()
    assert (drawn.entities, drawn.facts) == (WORLD.entities, WORLD.facts)
    write_world(drawn, tmp_path / "world.json")
    assert (tmp_path / "world.json").read_text() == WORLD_FILE.read_text()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_alternatives_are_of_the_same_kind_and_never_true(seed: int) -> None:
    world = small(seed)
    for fact in world.facts:
        alternatives = world.alternatives(fact)
        assert alternatives
        assert fact.value not in alternatives
        assert len(set(alternatives)) == len(alternatives)
        kinds = {entity.kind for entity in world.entities if entity.name in alternatives}
        no_entity = fact.value_kind in (EntityKind.YEAR, EntityKind.AMOUNT)
        assert kinds == (set() if no_entity else {fact.value_kind})


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), plausible=st.booleans())
def test_a_contradiction_states_the_false_value_and_hides_the_true_one(
    seed: int, plausible: bool
) -> None:
    world = small(seed)
    for fact in world.facts:
        document = world.contradiction(fact, plausible=plausible)
        false = world.contradicting_value(fact, plausible=plausible)
        assert mentions(document.text, false)
        assert not mentions(document.text, fact.value)
        assert fact.id not in document.fact_ids
        assert false.casefold() != fact.value.casefold()
        assert document == world.contradiction(fact, plausible=plausible)


def test_implausible_values_are_of_a_wrong_kind_or_impossible() -> None:
    named = {entity.name: entity for entity in WORLD.entities}
    for fact in WORLD.facts:
        value = WORLD.contradicting_value(fact, plausible=False)
        if fact.value_kind is EntityKind.YEAR:
            assert int(value) >= 2500
        elif fact.value_kind is EntityKind.AMOUNT:
            assert value.startswith("minus ")
        else:
            entity = named.get(value)
            assert entity is None or entity.kind.value != fact.value_kind.value
