"""Properties of questions, their wordings, and intersections that are empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.offline_eval.data.graph.generation import (
    GeneratedSet,
    generate_questions,
    graph_properties,
)
from knowgate.offline_eval.data.graph.graph import KnowledgeGraph
from knowgate.offline_eval.data.graph.items import QuestionType
from knowgate.offline_eval.data.graph.layout import UaqData, write_layout
from knowgate.offline_eval.data.graph.loading import load_graph
from knowgate.offline_eval.data.graph.properties import (
    GenerationSettings,
    PropertyProfile,
    PropertyRules,
)
from knowgate.offline_eval.data.graph.question_templates import Templates
from tests.offline_eval.data.graph.graphs import ALIAS, RDFS, XSD, only
from tests.offline_eval.data.graph.test_loading import write

_E = "http://example.org/"


def profiles(graph: KnowledgeGraph, **rules: object) -> dict[str, PropertyProfile]:
    settings = GenerationSettings(rules=PropertyRules(**rules))
    return {profile.iri.rsplit("/")[-1]: profile for profile in graph_properties(graph, settings)}


@pytest.fixture
def mixed(tmp_path: Path) -> KnowledgeGraph:
    lines = []
    values = {
        "homepage": '"http://x.example/"',
        "isbn": '"12"^^<http://www.w3.org/2001/XMLSchema#integer>',
        "flagImage": f"<{_E}picture>",
        "motto": '"Go on"',
        "twin": f"<{_E}b>",
        "height": f'"3"^^<{XSD}integer>',
        "nameless": f"<{_E}b>",
    }
    for at in range(6):
        lines.append(f'<{_E}a{at}> <{RDFS}label> "Town {at}"@en')
        lines += [f"<{_E}a{at}> <{_E}{name}> {value}" for name, value in values.items()]
        lines.append(f"<{_E}a{at}> <{_E}twin> <{_E}c{at}>")
        lines.append(f'<{_E}c{at}> <{RDFS}label> "Lake {at}"@en')
        lines.append(f"<{_E}a{at}> <{_E}about> <{_E}page{at}>")
        lines.append(f"<{_E}a{at}> <{RDFS}seeAlso> <{_E}c{at}>")
    lines += [f'<{_E}{name}> <{RDFS}label> "{name}"@en' for name in values if name != "nameless"]
    lines.append(f'<{_E}about> <{RDFS}label> "described at"@en')
    lines.append(f'<{_E}b> <{RDFS}label> "Big City"@en')
    lines.append(f"<{_E}a0> <{_E}rare> <{_E}b>")
    lines.append(f'<{_E}rare> <{RDFS}label> "rare thing"@en')
    return load_graph(write(tmp_path / "g.nt", *lines))


def test_the_reason_is_given_for_every_property_left_out(mixed: KnowledgeGraph) -> None:
    found = {name: profile.left_out for name, profile in profiles(mixed).items()}
    assert found == {
        "homepage": "identifier, address or picture",
        "isbn": "identifier, address or picture",
        "flagImage": "identifier, address or picture",
        "motto": "its values are texts",
        "rdf-schema#seeAlso": "part of the vocabulary",
        "nameless": "no label in: en",
        "about": "its values have no names",
        "rare": "fewer than 5 facts",
        "twin": "",
        "height": "",
    }


_FRENCH = """
[fr]
asks = "Quoi"
question = "Quel est {property} de {subject} ?"
role = "{property} de {subject}"
inter = "{asks} est {role_1} et aussi {role_2} ?"
time_between = "Quel était {property} de {subject} de {start} à {end} ?"
time_year = "Quel était {property} de {subject} en {year} ?"
begin = "En quelle année {subject} a eu pour la première fois {property} ?"
finish = "En quelle année {subject} a eu pour la dernière fois {property} ?"
dilemma = "{question}, {option_1} or {option_2} ?"
[[property]]
iri = "http://www.wikidata.org/entity/P19"
[property.fr]
label = "lieu natal"
question = "Où est né(e) {subject} ?"
"""


def test_any_language_with_templates_of_the_user(wikidata_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "fr.toml"
    file.write_text(_FRENCH, encoding="utf-8")
    graph = load_graph(wikidata_file, languages=("fr", "en"))
    settings = GenerationSettings(languages=("fr", "en"), per_type=20)
    made = generate_questions(graph, settings, templates=Templates([file]))
    french = [item for item in made.data.items if item.language == "fr"]
    assert {item.type for item in french} == set(QuestionType)
    assert any(item.question.startswith("Où est né(e) ") for item in french)
    assert all("(fr)" in item.question for item in french)
    assert {t.relation for item in french for t in item.triples} >= {"lieu natal", "fonction"}
    read = UaqData.read(write_layout(made.data, tmp_path / "set"))
    assert {item.key: item for item in read.items} == {item.key: item for item in made.data.items}


def test_wordings_that_an_earlier_version_asked_by_are_read_and_left_out(tmp_path: Path) -> None:
    file = tmp_path / "fr.toml"
    former = _FRENCH.replace("[[prop", 'role_inverse = "a {value} comme {property}"\n[[prop')
    file.write_text(former.replace("[property.fr]", "inverse = false\n[property.fr]"), "utf-8")
    Templates([file]).require("fr")


def test_the_question_word_is_that_of_the_class(wikidata_graph: KnowledgeGraph) -> None:
    made = generate_questions(wikidata_graph, GenerationSettings(per_type=40))
    cast = [
        clue.question
        for item in made.data.items
        for clue in item.clues
        if "cast member of" in clue.question
    ]
    assert cast
    assert all(question.startswith("Who is the cast member of") for question in cast)


def plays(tmp_path: Path, *more: str) -> KnowledgeGraph:
    """Twelve people, each of whom made a film and a play."""
    lines = [f'<{_E}director> <{RDFS}label> "chief"@en', f'<{_E}writer> <{RDFS}label> "author"@en']
    for at, name in enumerate("ABCDEFGHIJKL"):
        lines += [
            f'<{_E}p{at}> <{RDFS}label> "Per {name * 3}"@en',
            f'<{_E}f{at}> <{RDFS}label> "Film {name * 3}"@en',
            f'<{_E}g{at}> <{RDFS}label> "Play {name * 3}"@en',
            f"<{_E}f{at}> <{_E}director> <{_E}p{at}>",
            f"<{_E}g{at}> <{_E}writer> <{_E}p{at}>",
        ]
    return load_graph(write(tmp_path / "plays.nt", *lines, *more))


def inter(graph: KnowledgeGraph, seed: int) -> GeneratedSet:
    chosen = GenerationSettings(examples=4, seed=seed)
    return only(generate_questions(graph, chosen), QuestionType.INTER)


def empty_pairs(graph: KnowledgeGraph) -> set[tuple[str, str]]:
    """Films and plays that unanswerable questions bring together, over several seeds."""
    found = set()
    for seed in range(40):
        for item in inter(graph, seed).data.items:
            film, play = (triple.subject for triple in item.triples)
            if not item.answers:
                found.add((film[-1], play[-1]))
    return found


@pytest.mark.slow
def test_what_another_fact_or_name_may_connect_is_not_called_unconnected(tmp_path: Path) -> None:
    doubtful = {("A", "B"), ("C", "D"), ("E", "F")}
    assert doubtful <= empty_pairs(plays(tmp_path))
    graph = plays(
        tmp_path,
        f"<{_E}f0> <{_E}helper> <{_E}p1>",  # the film with who wrote the play
        f"<{_E}p2> <{_E}helper> <{_E}g3>",  # who directed the film with the play
        f'<{_E}p4> {ALIAS} "Per FFF"@en',  # who directed and who wrote may be one person
    )
    found = empty_pairs(graph)
    assert len(found) > 50
    assert not found & doubtful
