"""The triples export, against the grammar of N-Triples 1.1."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from knowgate.offline_eval.testbed import default_world
from knowgate.offline_eval.testbed.entities import BASE_IRI, iri, literal

IRI = r'<[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*>'
LITERAL = r'"(?:[^"\\\n\r]|\\[tbnrf"\'\\]|\\u[0-9A-Fa-f]{4})*"(?:\^\^' + IRI + r")?"
TRIPLE = re.compile(rf"{IRI} {IRI} (?:{IRI}|{LITERAL}) \.")
WORLD = default_world()
TEXT = WORLD.to_ntriples()


def test_every_line_is_a_triple() -> None:
    lines = TEXT.split("\n")
    assert lines.pop() == ""
    assert all(TRIPLE.fullmatch(line) for line in lines)
    assert len(set(lines)) == len(lines)


@given(text=st.text())
def test_any_text_becomes_a_valid_literal_on_one_line(text: str) -> None:
    written = literal(text)
    assert re.fullmatch(LITERAL, written)
    back = re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r", "t": "\t"}.get(m[1], m[1]), written)
    assert back[1:-1] == text


@given(name=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_becomes_a_valid_iri(name: str) -> None:
    assert re.fullmatch(IRI, iri("entity", name))


def test_a_fact_without_bounds_is_a_plain_triple() -> None:
    fact = next(fact for fact in WORLD.facts if fact.relation == "born_in")
    town = WORLD.entity_named(fact.value)
    assert town is not None
    line = f"{iri('entity', fact.subject)} {iri('relation', 'born_in')} {iri('entity', town.id)} ."
    assert line in TEXT.splitlines()


def test_a_time_bounded_fact_is_reified_with_its_years_only() -> None:
    fact = next(fact for fact in WORLD.facts if fact.relation == "mayor")
    node = iri("fact", fact.id)
    lines = TEXT.splitlines()
    for name, year in (("start", fact.start), ("end", fact.end)):
        assert f"{node} {iri('relation', name)} {literal(str(year), 'gYear')} ." in lines
    plain = f"{iri('entity', fact.subject)} {iri('relation', 'mayor')} "
    assert not any(line.startswith(plain) for line in lines)


def test_every_fact_and_entity_is_exported() -> None:
    statements = TEXT.count("22-rdf-syntax-ns#Statement>")
    assert statements == len(WORLD.facts)
    assert TEXT.count("rdf-schema#label>") == len(WORLD.entities)
    assert BASE_IRI in TEXT
