"""Every question is checked against the graph in SPARQL, apart from the generator."""

from __future__ import annotations

import pytest

from knowgate.offline_eval.data.graph.generation import GeneratedSet, generate_questions
from knowgate.offline_eval.data.graph.graph import KnowledgeGraph
from knowgate.offline_eval.data.graph.items import Answerability, QuestionType, UaqItem
from knowgate.offline_eval.data.graph.properties import GenerationSettings
from knowgate.offline_eval.testbed import default_world
from tests.offline_eval.data.graph.checking import (
    Checker,
    qualified,
    qualified_years,
    reified,
    reified_years,
)
from tests.offline_eval.data.graph.graphs import PROPERTIES


@pytest.fixture(scope="module")
def world_checker(world_set: GeneratedSet) -> Checker:
    relations = {
        label: profile.iri for profile in world_set.profiles for label in profile.labels.values()
    }
    return Checker(default_world().to_ntriples(), relations, reified, reified_years)


@pytest.fixture(scope="module")
def wikidata_set(wikidata_graph: KnowledgeGraph) -> GeneratedSet:
    settings = GenerationSettings(languages=("en", "zh"), per_type=60, examples=4)
    return generate_questions(wikidata_graph, settings)


def _of(generated: GeneratedSet, language: str) -> list[UaqItem]:
    examples = [
        item
        for (spoken, _), items in generated.data.clue_examples.items()
        for item in items
        if spoken == language
    ]
    return [item for item in generated.data.items if item.language == language] + examples


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_question_of_the_microworld_has_exactly_its_gold_answers(
    world_set: GeneratedSet, world_checker: Checker, language: str
) -> None:
    items = _of(world_set, language)
    assert len(items) > 500
    assert [item.question for item in items if not world_checker.holds(item)] == []


@pytest.mark.parametrize(("language", "column"), [("en", 0), ("zh", 1)])
def test_every_question_from_statements_with_qualifiers_has_exactly_its_gold_answers(
    wikidata_set: GeneratedSet, wikidata_triples: str, language: str, column: int
) -> None:
    relations = {labels[column]: prop for prop, labels in PROPERTIES.items()}
    tag = "zh-hans" if language == "zh" else language
    checker = Checker(wikidata_triples, relations, qualified, qualified_years, tag)
    items = _of(wikidata_set, language)
    assert {item.type for item in items} == set(QuestionType)
    # Both ways of asking: for the values of subjects, and for the subjects of values.
    intersections = [item for item in items if item.type is QuestionType.INTER]
    assert len({triple.subject in item.question for item in intersections
                for triple in item.triples}) == 2  # fmt: skip
    assert [item.question for item in items if not checker.holds(item)] == []


def test_the_check_tells_a_wrong_question_from_a_right_one(
    world_set: GeneratedSet, world_checker: Checker
) -> None:
    from dataclasses import replace

    by_type = {(item.type, item.kind): item for item in _of(world_set, "en")}
    for question_type in QuestionType:
        answerable = by_type[question_type, Answerability.ANSWERABLE]
        assert not world_checker.holds(replace(answerable, answers=()))


def test_four_option_questions_have_one_right_option(
    world_set: GeneratedSet, world_checker: Checker
) -> None:
    """The facts' true values are those of the clues and triples of the questions linked."""
    items = {(item.language, item.qid): item for item in world_set.data.items if item.unanswerable}
    for choice in world_set.data.choices:
        assert len(set(choice.options)) == 4
        assert choice.target in choice.options
        linked = [items[choice.language, qid] for qid in choice.relevant if "_ua_" in qid]
        assert linked
        for item in linked:
            facts = {name for one in item.triples for name in (one.subject, one.object)}
            assert choice.target in facts


def test_every_unanswerable_question_has_all_its_facts_asked(world_set: GeneratedSet) -> None:
    asked: dict[tuple[str, str], set[str]] = {}
    for choice in world_set.data.choices:
        for qid in choice.relevant:
            asked.setdefault((choice.language, qid), set()).add(choice.target)
    for item in world_set.data.items:
        if item.unanswerable:
            targets = asked[item.language, item.qid]
            if item.type is QuestionType.TIME:
                assert targets == {triple.object for triple in item.triples}
            else:
                assert targets == {answer for clue in item.clues for answer in clue.answers}
