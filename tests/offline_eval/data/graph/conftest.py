"""Graphs and what is made of them, once a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.offline_eval.data.graph.generation import GeneratedSet, generate_questions
from knowgate.offline_eval.data.graph.graph import KnowledgeGraph
from knowgate.offline_eval.data.graph.loading import load_graph
from knowgate.offline_eval.data.graph.properties import GenerationSettings
from tests.offline_eval.data.graph.graphs import WikidataLike


@pytest.fixture(scope="session")
def world_graph() -> KnowledgeGraph:
    return load_graph("microworld", languages=("en", "zh"))


@pytest.fixture(scope="session")
def world_set(world_graph: KnowledgeGraph) -> GeneratedSet:
    return generate_questions(world_graph, GenerationSettings(languages=("en", "zh")))


@pytest.fixture(scope="session")
def wikidata_triples() -> str:
    return WikidataLike().text()


@pytest.fixture(scope="session")
def wikidata_file(wikidata_triples: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "people.nt"
    path.write_text(wikidata_triples, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def wikidata_graph(wikidata_file: Path) -> KnowledgeGraph:
    return load_graph(wikidata_file, languages=("en", "zh"))
