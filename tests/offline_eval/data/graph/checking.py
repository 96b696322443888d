"""Whether a generated question is what it says, asked of a graph in SPARQL, by labels alone.

Nothing of the generator is used: the facts' subjects and relations come from the labels that are
kept with a question, the years from its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pyoxigraph

from knowgate.offline_eval.data.graph.items import QuestionType, Triple, UaqItem

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
        if {triple.object for triple in triples} == set(answers):
            (key,) = {triple.subject for triple in triples}
            stated = self._fact(f"?k{number}", relation, "?x")
        else:
            assert {triple.subject for triple in triples} == set(answers)
            (key,) = {triple.object for triple in triples}
            stated = self._fact("?x", relation, f"?k{number}")
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
