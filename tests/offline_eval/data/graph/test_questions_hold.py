"""Every question is checked against the graph in SPARQL, apart from the generator."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pyoxigraph
import pytest

from knowgate.offline_eval.data.graph.generation import GeneratedSet, generate_questions
from knowgate.offline_eval.data.graph.graph import KnowledgeGraph
from knowgate.offline_eval.data.graph.items import Answerability, QuestionType, Triple, UaqItem
from knowgate.offline_eval.data.graph.properties import GenerationSettings
from knowgate.offline_eval.testbed import default_world
from tests.offline_eval.data.graph.graphs import PROPERTIES

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_PREFIX = f"PREFIX rdf: <{RDF}> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
_YEARS = re.compile(r"(?<!\d)\d{4}(?!\d)")
Pattern = Callable[[str, str, str], str]
"""(subject, property's IRI, object), two of them variables → what states it."""


class Checker:
    """Asks one graph.

    Args:
        triples: N-Triples.
        relations: label of a property → its IRI.
        fact: what states a fact in this graph.
        dated: what binds ?a and ?b to the years between which a fact holds.
        tag: of the labels.
    """

    def __init__(
        self,
        triples: str,
        relations: Mapping[str, str],
        fact: Pattern,
        dated: Pattern,
        tag: str = "",
    ) -> None:
        self.store = pyoxigraph.Store()
        self.store.load(triples, pyoxigraph.RdfFormat.N_TRIPLES)
        self._relations, self._fact, self._dated = relations, fact, dated
        self._tag = f"@{tag}" if tag else ""

    def holds(self, item: UaqItem) -> bool:
        """Whether the graph's answers are exactly the gold ones, none where there are none."""
        found = {
            QuestionType.INTER: self._inter,
            QuestionType.TIME: self._time,
            QuestionType.DILEMMA: self._dilemma,
        }[item.type](item)
        return found == {answer.label for answer in item.answers}

    def _inter(self, item: UaqItem) -> set[str]:
        parts = []
        assert len(item.clues) == 2
        relations = list(dict.fromkeys(triple.relation for triple in item.triples))
        assert len(relations) == 2
        for clue, relation in zip(item.clues, relations, strict=True):
            own = [triple for triple in item.triples if triple.relation == relation]
            parts.append(self._side(clue.answers, own))
        found = self._select(" ".join(parts))
        return {row[0] for row in found}

    def _side(self, answers: tuple[str, ...], triples: list[Triple]) -> str:
        number = abs(hash(tuple(triples)))
        relation = self._relations[triples[0].relation]
        assert {triple.object for triple in triples} == set(answers)
        (key,) = {triple.subject for triple in triples}
        stated = self._fact(f"?k{number}", relation, "?x")
        return f"{self._called(f'?k{number}', key)} {stated}"

    def _time(self, item: UaqItem) -> set[str]:
        (subject,) = {triple.subject for triple in item.triples}
        (relation,) = {triple.relation for triple in item.triples}
        years = [int(year) for year in _YEARS.findall(item.question)]
        start, end = years[0], years[-1]
        stated = self._dated("?s", self._relations[relation], "?x")
        called = self._called("?s", subject)
        # A fact without an end may still hold; one without a beginning may always have held.
        some = f"FILTER(COALESCE(?a, 0) <= {end} && COALESCE(?b, 9999) >= {start})"
        throughout = f"FILTER(?a <= {start} && COALESCE(?b, ?a) >= {end})"
        overlapping = {row[0] for row in self._select(f"{called} {stated} {some}")}
        covering = {row[0] for row in self._select(f"{called} {stated} {throughout}")}
        assert overlapping == covering, item.question
        return overlapping

    def _dilemma(self, item: UaqItem) -> set[str]:
        (subject,) = {triple.subject for triple in item.triples}
        (relation,) = {triple.relation for triple in item.triples}
        stated = self._fact("?s", self._relations[relation], "?x")
        true = {row[0] for row in self._select(f"{self._called('?s', subject)} {stated}")}
        assert true == set(item.clues[0].answers)
        assert len(item.options) == 2
        return true & set(item.options)

    def _called(self, variable: str, label: str) -> str:
        return f"{variable} rdfs:label {_literal(label)}{self._tag} ."

    def _select(self, pattern: str) -> list[tuple[str]]:
        tag = self._tag[1:]
        query = (
            f"{_PREFIX} SELECT DISTINCT ?x ?name WHERE {{ {pattern} "
            f'OPTIONAL {{ ?x rdfs:label ?name FILTER(LANG(?name) = "{tag}") }} }}'
        )
        rows = self.store.query(query)
        assert isinstance(rows, pyoxigraph.QuerySolutions)
        return [(_written(row["x"], row["name"]),) for row in rows]


def _literal(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _written(node: object, name: object) -> str:
    if name is not None:
        return str(name.value)  # type: ignore[attr-defined]
    value: str = node.value  # type: ignore[attr-defined]
    if value.startswith("+"):
        return value[1:]
    return value[:4] if "T00:00:00Z" in value else value


def reified(subject: str, prop: str, obj: str) -> str:
    """As the microworld states facts: plain, or as an rdf:Statement."""
    return (
        f"{{ {{ {subject} <{prop}> {obj} }} UNION "
        f"{{ [] rdf:subject {subject} ; rdf:predicate <{prop}> ; rdf:object {obj} }} }}"
    )


def reified_years(subject: str, prop: str, obj: str) -> str:
    """As the microworld dates facts."""
    base = "https://knowgate.example/microworld/relation/"
    return (
        f"?n rdf:subject {subject} ; rdf:predicate <{prop}> ; rdf:object {obj} ; "
        f"<{base}start> ?start ; <{base}end> ?end . "
        "BIND(<http://www.w3.org/2001/XMLSchema#integer>(STR(?start)) AS ?a) "
        "BIND(<http://www.w3.org/2001/XMLSchema#integer>(STR(?end)) AS ?b)"
    )


def qualified(subject: str, prop: str, obj: str) -> str:
    """As Wikidata states facts."""
    return f"{subject} <http://www.wikidata.org/prop/direct/{prop}> {obj} ."


def qualified_years(subject: str, prop: str, obj: str) -> str:
    """As Wikidata dates facts."""
    base = "http://www.wikidata.org/prop/"
    return (
        f"{subject} <{base}{prop}> ?n . ?n <{base}statement/{prop}> {obj} . "
        f"OPTIONAL {{ ?n <{base}qualifier/P580> ?start BIND(YEAR(?start) AS ?a) }} "
        f"OPTIONAL {{ ?n <{base}qualifier/P582> ?end BIND(YEAR(?end) AS ?b) }}"
    )


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
