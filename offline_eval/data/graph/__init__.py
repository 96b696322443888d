"""Questions with and without an answer, made from any knowledge graph.

    RDF file · store · SPARQL endpoint ─► KnowledgeGraph ─► generate_questions ─► UAQFact layout

The world is taken to be closed: an unanswerable question is one to which the graph has no answer,
not one to which there is none anywhere.

Example:
    >>> graph = load_graph("microworld")
    >>> generated = generate_questions(graph, GenerationSettings(per_type=5))
    >>> len(generated.data.items)
    30
"""

from __future__ import annotations

from ._generation import generate_questions, graph_properties
from ._graph import KnowledgeGraph
from ._loading import load_graph
from ._settings import GenerationSettings, PropertyRules
from ._sparql import EndpointSettings
from ._templates import Templates

__all__ = [
    "EndpointSettings",
    "GenerationSettings",
    "KnowledgeGraph",
    "PropertyRules",
    "Templates",
    "generate_questions",
    "graph_properties",
    "load_graph",
]
