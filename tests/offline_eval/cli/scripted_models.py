"""Models that the command line finds by `python:module:attribute`."""

from __future__ import annotations

import json

from langchain_core.runnables import RunnableLambda

from tests.offline_eval.systems.asked import reader


def chat() -> object:
    """A chat model that reads its passages."""
    return reader()


def failing() -> object:
    """The same, of which four calls in ten fail."""
    return reader(failure_rate=0.4, seed=5)


def chain() -> object:
    """A runnable with a prompt of its own."""
    return RunnableLambda(lambda given: json.dumps(sorted(given)))
