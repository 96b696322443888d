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

from ._build import build_world, default_world
from ._check import Measure, MicroworldCheck, check_microworld
from ._entities import Document, Entity, EntityKind, Fact, FactStatus, Question, ValueKind
from ._model import microworld_model_path
from ._phrasings import PromptName, Relation, prompt_template, relations
from ._world import World

__all__ = [
    "Document",
    "Entity",
    "EntityKind",
    "Fact",
    "FactStatus",
    "Measure",
    "MicroworldCheck",
    "PromptName",
    "Question",
    "Relation",
    "ValueKind",
    "World",
    "build_world",
    "check_microworld",
    "default_world",
    "microworld_model_path",
    "prompt_template",
    "relations",
]
