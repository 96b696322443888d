"""A script for building knowledge bases: one fact a sentence, one question a fact."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

_SENTENCE = re.compile(r"^\[(\d+)\] (.+)$", re.MULTILINE)
_FACT = re.compile(r"^Fact: (.+)$", re.MULTILINE)


def scripted_facts(messages: Sequence[BaseMessage]) -> Mapping[str, Any]:
    """Answers the bundled prompts.

    Every numbered sentence that ends like one is a fact; a fact's question asks how it
    goes on after its first half, and its answer is the other half.
    """
    prompt = messages[0].text
    if found := _FACT.search(prompt):
        words = found.group(1).rstrip(".").split()
        half = len(words) // 2
        return {
            "question": f"How does “{' '.join(words[:half])} …” go on?",
            "answer": " ".join(words[half:]),
        }
    return {
        "facts": [
            {"fact": text, "sentences": [int(number)]}
            for number, text in _SENTENCE.findall(prompt)
            if text.endswith(".") and len(text.split()) > 3
        ]
    }
