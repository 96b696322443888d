"""Intersections that are empty, and answers that stand alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.offline_eval.data.graph.generation import GeneratedSet, generate_questions
from knowgate.offline_eval.data.graph.graph import KnowledgeGraph
from knowgate.offline_eval.data.graph.items import QuestionType
from knowgate.offline_eval.data.graph.loading import load_graph
from knowgate.offline_eval.data.graph.properties import GenerationSettings
from tests.offline_eval.data.graph.graphs import ALIAS, RDFS
from tests.offline_eval.data.graph.test_loading import write

_E = "http://example.org/"


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
    chosen = GenerationSettings(types=(QuestionType.INTER,), examples=4, seed=seed)
    return generate_questions(graph, chosen)


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
