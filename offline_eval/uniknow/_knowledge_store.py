"""Stored estimates of what models know, so that no question is sampled twice."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...guard import InputError
from ._append_log import AppendLog
from ._cases import Knowledge, SuiteQuestion


@dataclass(frozen=True, slots=True)
class KnowledgeEstimate:
    """What sampled answers say of one question.

    Attributes:
        knowledge: known, unknown or undefined.
        right: right answers among those drawn.
        drawn: answers drawn until that was settled.
        error: type and message of what kept the model from answering; None where it did.
    """

    knowledge: Knowledge
    right: int
    drawn: int
    error: str | None = None


class KnowledgeStore:
    """Estimates by model, prompt, settings and question, in a file of JSON lines.

    What is added is on disk before `add` returns; a line that a kill cut off is dropped.
    Several runs may share a file, at the same time too: each takes what was there when it
    began.

    Args:
        path: of the file; it is made when there is something to store.

    Raises:
        InputError: the file cannot be read, or a line of it is no estimate.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._log = AppendLog(path, opening='{"key": "')
        self._found: dict[tuple[str, str], KnowledgeEstimate] = {}
        for number, row in self._log.read():
            entry = _entry(row, f"{self._log.path}:{number}")
            knowledge = Knowledge(row["knowledge"])
            self._found[entry] = KnowledgeEstimate(knowledge, row["right"], row["drawn"])

    def __len__(self) -> int:
        return len(self._found)

    @staticmethod
    def key_for(model: str, prompt: str, settings: Mapping[str, Any]) -> str:
        """What estimates of one model under one prompt and settings are stored under.

        Args:
            model: fingerprint of the language model.
            prompt: the closed-book template.
            settings: numbers of samples, threshold, temperature, seed.
        """
        return _sha256({"model": model, "prompt": prompt, "settings": dict(settings)})

    def get(self, key: str, question: SuiteQuestion) -> KnowledgeEstimate | None:
        """The stored estimate, None where there is none."""
        return self._found.get((key, _question_key(question)))

    def add(self, key: str, estimates: Iterable[tuple[SuiteQuestion, KnowledgeEstimate]]) -> None:
        """Store estimates that are new.

        Raises:
            InputError: the file cannot be written.
        """
        rows = []
        for question, estimate in estimates:
            entry = (key, _question_key(question))
            if entry in self._found:
                continue
            self._found[entry] = estimate
            rows.append(
                {
                    "key": key,
                    "question": entry[1],
                    "question_id": question.id,
                    "knowledge": estimate.knowledge.value,
                    "right": estimate.right,
                    "drawn": estimate.drawn,
                }
            )
        self._log.append(rows)


def _entry(row: Mapping[str, Any], where: str) -> tuple[str, str]:
    texts = [row.get("key"), row.get("question")]
    counts = [row.get("right"), row.get("drawn")]
    whole = all(isinstance(count, int) and not isinstance(count, bool) for count in counts)
    named = row.get("knowledge") in {kind.value for kind in Knowledge}
    if not whole or not named or not all(isinstance(text, str) for text in texts):
        raise InputError(
            "the line is no stored estimate", where=where, mend="remove the line or the file"
        )
    return str(texts[0]), str(texts[1])


def _question_key(question: SuiteQuestion) -> str:
    # The answers belong to it: they decide what counts as known.
    return _sha256({"question": question.question, "answers": list(question.answers)})


def _sha256(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
