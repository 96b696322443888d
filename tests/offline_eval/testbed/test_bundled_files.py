"""The triples export by its grammar, the bundled templates and the sample knowledge base."""

from __future__ import annotations

import json
import re
from collections import defaultdict

import pytest

from knowgate.offline_eval.data.graph.question_templates import Templates
from knowgate.offline_eval.testbed import default_world, sample_knowledge_base_path
from knowgate.offline_eval.testbed.entities import BASE_IRI, iri, literal, relations

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


def test_a_fact_without_bounds_is_a_plain_triple() -> None:
    fact = next(fact for fact in WORLD.facts if fact.relation == "born_in")
    town = next(entity for entity in WORLD.entities if entity.name == fact.value)
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


def test_the_microworld_is_asked_in_its_own_words() -> None:
    """The bundled templates say what the world's questions say, where they are plain ones."""
    texts = Templates()
    own = {
        question.replace("{s}", "{subject}")
        for relation in relations().values()
        for question in relation.training_questions
    }
    for name, relation in relations().items():
        iri = f"https://knowgate.example/microworld/relation/{name}"
        assert texts.label(iri, "en")
        assert texts.label(iri, "zh")
        key = "time_between" if relation.time_bounded else "question"
        wordings = texts._texts["en", iri, key]
        assert set(wordings) <= own, name
        assert texts.time_choice(iri) == ("value" if relation.time_bounded else "begin")


NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
# A number with the word after it, such as "5.80 crowns": what a reader takes for a value.
QUANTITY = re.compile(r"(\d+(?:[.,:]\d+)*) ([A-Za-z]+)")


@pytest.fixture(scope="module")
def records() -> list[dict[str, str]]:
    text = sample_knowledge_base_path().read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_title_names_one_article_with_one_to_three_questions(
    records: list[dict[str, str]],
) -> None:
    passages: dict[str, list[str]] = defaultdict(list)
    for record in records:
        passages[record["source"]].append(record["passage"])

    assert len({record["passage"] for record in records}) == len(passages)
    for texts in passages.values():
        assert len(set(texts)) == 1
        assert 1 <= len(texts) <= 3


def test_every_number_in_an_answer_occurs_in_its_passage(records: list[dict[str, str]]) -> None:
    for record in records:
        missing = set(NUMBER.findall(record["answer"])) - set(NUMBER.findall(record["passage"]))

        assert not missing, record["id"]


def test_a_quantity_in_an_answer_occurs_in_no_other_article(records: list[dict[str, str]]) -> None:
    titles: dict[tuple[str, str], set[str]] = defaultdict(set)
    for record in records:
        for quantity in QUANTITY.findall(record["passage"]):
            titles[quantity].add(record["source"])

    for record in records:
        for quantity in QUANTITY.findall(record["answer"]):
            assert titles[quantity] <= {record["source"]}, record["id"]
