"""Write a set of questions in the published layout."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ....guard.files import write_text
from ._files import Layout, UaqData
from ._items import Answerability, ChoiceItem, Clue, QuestionType, UaqItem

_NONE = {"label": "None", "id": "None"}
_TARGETS = {"zh": ("是", "否")}


def write_layout(data: UaqData, folder: str | os.PathLike[str]) -> Path:
    """Write `data` so that `UaqData.read`, and code for the published set, can read it.

    Answers' aliases and the triples behind a question stand in further fields. A type of
    question that the set lacks has an empty list: its files are there all the same.

    Args:
        data: in any number of languages.
        folder: made where missing; files of the same names are replaced, one by one.

    Raises:
        InputError: a file cannot be written.
    """
    root = Path(folder)
    (root / "task1").mkdir(parents=True, exist_ok=True)
    layout = Layout(root)
    for language in data.languages:
        for question_type in QuestionType:
            for kind in Answerability:
                chosen = [
                    item
                    for item in data.items
                    if (item.language, item.type, item.kind) == (language, question_type, kind)
                ]
                _write(layout.questions(question_type, kind, language), chosen, _question)
                _write(layout.clues(question_type, kind, language), chosen, _with_clues)
            examples = data.examples.get((language, question_type), ())
            _write(layout.examples(question_type, language), examples, _question)
            examples = data.clue_examples.get((language, question_type), ())
            _write(layout.clue_examples(question_type, language), examples, _with_clues)
            choices = [
                choice
                for choice in data.choices
                if (choice.language, choice.type) == (language, question_type)
            ]
            _write(layout.choices(question_type, language), choices, _choice)
    return root


def _write(path: Path, rows: Iterable[Any], shape: Callable[[Any], dict[str, Any]]) -> None:
    # One object per line: still a JSON list, and a difference between two sets can be read.
    lines = [json.dumps(shape(row), ensure_ascii=False) for row in rows]
    write_text(path, "[\n" + ",\n".join(lines) + "\n]\n" if lines else "[]\n")


def _question(item: UaqItem) -> dict[str, Any]:
    yes, no = _TARGETS.get(item.language, ("Yes", "No"))
    value: dict[str, Any] = {
        "qid": item.qid,
        "question": item.question,
        "answer": [
            {"id": answer.id, "label": answer.label}
            | ({"aliases": list(answer.aliases)} if answer.aliases else {})
            for answer in item.answers
        ]
        or [_NONE],
        "type": "unanswerable" if item.unanswerable else "answerable",
        "cls_target": no if item.unanswerable else yes,
        "lan": item.language,
    }
    if item.triples:
        value["triples"] = [asdict(triple) for triple in item.triples]
    return value


def _with_clues(item: UaqItem) -> dict[str, Any]:
    value = _question(item)
    del value["type"]
    if item.type is QuestionType.DILEMMA:
        # One question with all its answers.
        clue = item.clues[0] if item.clues else Clue(item.question, ())
        value["sup_questions"] = clue.question
        value["sup_que_ans"] = [{"id": label, "label": label} for label in clue.answers]
        return value
    value["sup_questions"] = [clue.question for clue in item.clues]
    if item.type is QuestionType.INTER:
        value["sup_que_ans"] = [", ".join(clue.answers) for clue in item.clues]
    else:
        value["sup_que_ans"] = [
            {"id": label, "label": label} for clue in item.clues for label in clue.answers[:1]
        ]
    return value


def _choice(choice: ChoiceItem) -> dict[str, Any]:
    return {
        "qid": choice.qid,
        "question": choice.question,
        "answer": [{"id": choice.target, "label": choice.target}],
        "options": list(choice.options),
        "target_options": choice.target,
        "lan": choice.language,
        "relevent_qid_list": list(choice.relevant),
    }
