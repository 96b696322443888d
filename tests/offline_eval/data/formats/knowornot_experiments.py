"""Small documents in KnowOrNot's format, as plain JSON values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

QUESTIONS = [
    {"identifier": "kb_0", "question": "Colour of the bus?", "answer": "Red."},
    {"identifier": "kb_1", "question": "Colour of the tram?", "answer": "Blue."},
    {"identifier": "kb_2", "question": "Colour of the ferry?", "answer": "Green."},
]


def metadata(**changes: Any) -> dict[str, Any]:
    """How an experiment was made."""
    return {
        "experiment_type": "removal",
        "system_prompt": {"identifier": "careful", "content": "Use the context. "},
        "input_path": "in.json",
        "output_path": "out.json",
        "retrieval_type": "BASIC_RAG",
        "creation_timestamp": "2025-05-05T18:28:06.410087",
        "client_enum": "OPENAI",
        "ai_model_used": "gpt-x",
        "knowledge_base_identifier": "kb",
        **changes,
    }


def asked(number: int, context: list[int] | None, **changes: Any) -> dict[str, Any]:
    """One question with the entries that stood in its context."""
    entry = QUESTIONS[number]
    pairs = None if context is None else [QUESTIONS[one] for one in context]
    return {
        "prompt_to_llm": "…",
        "source_context_qa": {
            "identifier": entry["identifier"],
            "question": entry["question"],
            "expected_answer": entry["answer"],
            "context_questions": pairs,
            **changes,
        },
    }


def replied(question: dict[str, Any], response: str, citation: Any = "no citation") -> Any:
    """A reply to a question of `asked`."""
    return {
        "identifier": f"{question['source_context_qa']['identifier']}_1",
        "experiment_input": question,
        "llm_response": {"response": response, "citation": citation},
        "cited_QA": None,
    }


def spec(name: str, **changes: Any) -> dict[str, Any]:
    """How a criterion was judged."""
    return {
        "evaluation_name": name,
        "evaluator_client_enum": "OPENAI",
        "evaluator_model": "judge-x",
        "evaluation_prompt": {"identifier": f"{name}_prompt", "content": f"Judge {name}."},
        "tag_name": name,
        "evaluation_outcomes_list": ["yes", "no"],
        "in_context": ["question"],
        "use_default_xml_prompting": True,
        "additional_tags": [],
        **changes,
    }


def verdict(name: str, outcome: str, **tags: list[str]) -> dict[str, Any]:
    """What a criterion came to."""
    return {
        "evaluation_id": f"{name}_1",
        "evaluation_timestamp": "2025-05-08T15:55:40",
        "evaluation_name": name,
        "evaluation_outcome": outcome,
        "additional_tags_info": tags,
    }


def store(path: Path, value: Any) -> Path:
    """Write a document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path
