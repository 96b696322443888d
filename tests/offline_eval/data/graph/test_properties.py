"""Which properties questions are made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.offline_eval.data.graph.generation import graph_properties
from knowgate.offline_eval.data.graph.graph import KnowledgeGraph
from knowgate.offline_eval.data.graph.loading import load_graph
from knowgate.offline_eval.data.graph.properties import (
    GenerationSettings,
    PropertyProfile,
    PropertyRules,
)
from tests.offline_eval.data.graph.graphs import RDFS, XSD
from tests.offline_eval.data.graph.test_loading import write

_E = "http://example.org/"


def profiles(graph: KnowledgeGraph, **rules: object) -> dict[str, PropertyProfile]:
    settings = GenerationSettings(rules=PropertyRules(**rules))  # type: ignore[arg-type]
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
