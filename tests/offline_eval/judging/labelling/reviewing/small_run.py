"""A run of relevance signals with three questions, written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.offline_eval.cli.commands import write_lines
from tests.offline_eval.suites.ookb.written_rows import SCORER

PASSAGES = {
    "fees#1": "Late books cost 20 cents a day.",
    "tour#1": "The harbour tour starts at noon.",
    "news#1": "Whoever brings a book back late is charged 20 cents for each day.",
    "news#2": "The harbour is closed in winter.",
    "kids#1": "Children play in the garden.",
}
# Question → answer, source, and what is retrieved without it, with the raw scores.
QUESTIONS: dict[str, tuple[str, str, str, list[tuple[str, float]]]] = {
    "fee": ("What do I pay for an overdue book?", "20 cents a day", "fees.html",
            [("kids#1", 0.1), ("news#1", 0.2)]),
    "tour": ("When does the boat trip begin?", "at noon", "tour.html",
             [("news#2", 0.7), ("kids#1", 0.3)]),
    "dogs": ("May I bring my dog?", "Yes, on a lead", "dogs.html", [("kids#1", 0.4)]),
}  # fmt: skip


def write_small_run(folder: Path) -> Path:
    """Write the run; `fee` is answered by `news#1` after all, and has the lowest relevance."""
    folder.mkdir()
    manifest = {
        "schema_version": 1,
        "suite": "ookb",
        "created_by": "knowgate 0.1.0",
        "settings": {
            "scorer": SCORER.model_dump(), "aggregator": "max", "retrieval": "served",
            "top_k": 2, "passage": "chunk",
        },
        "inputs": [],
        "questions": len(QUESTIONS),
        "cases": 2 * len(QUESTIONS),
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    questions, rows = [], []
    for name, (question, answer, source, without) in QUESTIONS.items():
        questions.append(
            {"question_id": name, "question": question, "answer": answer, "source": source}
            | {"passage_id": source}
        )
        own = [(f"{source}#1", 0.9)]
        rows += [_row(name, "in_kb", own), _row(name, "left_out", without)]
    write_lines(folder / "questions.jsonl", questions)
    write_lines(folder / "rows.jsonl", rows)
    write_lines(
        folder / "passages.jsonl",
        [{"passage_id": name, "text": text, "source": name.split("#")[0] + ".html"}
         for name, text in PASSAGES.items()],
    )  # fmt: skip
    return folder


def _row(name: str, kind: str, found: list[tuple[str, float]]) -> dict[str, Any]:
    return {
        "case_id": f"{name}/{kind}",
        "question_id": name,
        "kind": kind,
        "retrieved": [passage for passage, _ in found],
        "scores": [score for _, score in found],
        "raw_relevance": max(score for _, score in found),
        "retrieval_miss": False,
        "error": None,
    }
