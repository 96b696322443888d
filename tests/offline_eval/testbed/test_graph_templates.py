"""The bundled templates of the knowledge graph, against the phrasings of the microworld."""

from __future__ import annotations

from knowgate.offline_eval.data.graph.question_templates import Templates
from knowgate.offline_eval.testbed.entities import relations


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
        assert not texts.asks_inversely(iri)
        assert texts.time_choice(iri) == ("value" if relation.time_bounded else "begin")
