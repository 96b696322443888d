"""Questions in the UAQFact format, read from its files or made from any knowledge graph.

    RDF file · store · SPARQL endpoint ─► KnowledgeGraph ─► generate_questions ─► files ─► UaqData

The world is taken to be closed: an unanswerable question is one to which the graph has no answer,
not one to which there is none anywhere.

Example:
    >>> from knowgate.offline_eval.data.graph.generation import generate_questions
    >>> from knowgate.offline_eval.data.graph.properties import GenerationSettings
    >>> from knowgate.offline_eval.data.graph.loading import load_graph
    >>> graph = load_graph("microworld")
    >>> generated = generate_questions(graph, GenerationSettings(per_type=5))
    >>> len(generated.data.items)
    30
"""

from __future__ import annotations
