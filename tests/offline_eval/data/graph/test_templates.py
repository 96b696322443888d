"""Wordings of questions."""

from __future__ import annotations

from pathlib import Path

from knowgate.offline_eval.data.graph.generation import generate_questions
from knowgate.offline_eval.data.graph.graph import KnowledgeGraph
from knowgate.offline_eval.data.graph.items import QuestionType
from knowgate.offline_eval.data.graph.layout import UaqData, write_layout
from knowgate.offline_eval.data.graph.loading import load_graph
from knowgate.offline_eval.data.graph.properties import GenerationSettings
from knowgate.offline_eval.data.graph.question_templates import Templates

_FRENCH = """
[fr]
asks = "Quoi"
question = "Quel est {property} de {subject} ?"
question_inverse = "Qui a {value} comme {property} ?"
role = "{property} de {subject}"
role_inverse = "a {value} comme {property}"
inter = "{asks} est {role_1} et aussi {role_2} ?"
inter_inverse = "Qui {role_1} et aussi {role_2} ?"
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
