"""The microworld: a fictional region and a small language model that was taught part of it.

Because model and world are both made here, it is known fact by fact what the model knows:
*taught* facts it answers from memory, *withheld* ones stand in documents only, *half-taught* ones
it gets right now and then.

Example:
    >>> world = default_world()
    >>> fact = world.facts_with_status(FactStatus.TAUGHT)[0]
    >>> fact.value in world.document_for(fact).text
    True
    >>> fact.value in world.contradiction(fact).text
    False
"""

from __future__ import annotations

from pathlib import Path

from ._world import World, default_world
from .check import microworld_model_path
from .entities import FactStatus

__all__ = [
    "FactStatus",
    "World",
    "default_world",
    "microworld_model_path",
    "sample_knowledge_base_path",
]


def sample_knowledge_base_path() -> Path:
    """Return the path of the bundled JSON Lines file, one question a line, in UTF-8.

    Each line is an object of five non-empty strings: `id`, `question`, `answer`, `passage` (the
    article that answers the question) and `source` (the article's title). An article with several
    questions repeats its text verbatim on each of their lines.

    Example:
        >>> sample_knowledge_base_path().name
        'city_services.jsonl'
    """
    return Path(__file__).with_name("city_services.jsonl")
