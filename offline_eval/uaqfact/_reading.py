"""Reading a set of questions in the published layout, with its quirks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...guard import InputError, clean_text
from ...guard.files import read_json
from ._dilemma import dilemma_options
from ._items import (
    Answer,
    Answerability,
    ChoiceItem,
    Clue,
    QuestionType,
    Triple,
    UaqData,
    UaqItem,
)
from ._layout import Layout
from ._quirks import list_quirks

ALL_TASKS = (1, 2, 3)
_NONE = "None"
# What stands for the end of something that goes on; the step's question then speaks of "None".
_NO_END = "-1"
_MEND = "fetch the file again, or compare it with the published one"

_Raw = tuple[str, Mapping[str, Any]]


def read_layout(
    folder: str | os.PathLike[str],
    *,
    languages: Sequence[str] | None = None,
    tasks: Sequence[int] = ALL_TASKS,
) -> UaqData:
    """The questions of a folder in the published layout, or of one made here.

    Args:
        folder: see `Layout`.
        languages: which ones; all that the folder has by default.
        tasks: whose files are read and must be there; questions of task 1 always are.

    Returns:
        Items in the order of types, kinds and files, with the clues of task 3 where it
        is asked for.

    Raises:
        InputError: a folder that is no such set or lacks files, or a file that is broken;
            names file and item.
    """
    layout = Layout(folder)
    chosen = tuple(sorted(set(tasks)))
    if not chosen or not set(chosen) <= set(ALL_TASKS):
        raise InputError(f"there are tasks 1, 2 and 3, not {list(tasks)}", where="tasks")
    wanted = layout.present_languages() if languages is None else tuple(dict.fromkeys(languages))
    if not wanted:
        raise InputError(
            "no questions in any language", where=str(layout.root), mend="task1 lacks its files"
        )
    for language in wanted:
        layout.require(language, chosen)
    reader = _Reader(layout, chosen)
    return reader.read(wanted)


class _Reader:
    def __init__(self, layout: Layout, tasks: tuple[int, ...]) -> None:
        self._layout, self._tasks = layout, tasks
        # False options by (language, id): they tell where a dilemma's options part.
        self._offered: dict[tuple[str, str], list[str]] = {}

    def read(self, languages: Sequence[str]) -> UaqData:
        choices = [choice for language in languages for choice in self._choices(language)]
        items = [item for language in languages for item in self._items(language)]
        examples, clue_examples = {}, {}
        for language in languages:
            for question_type in QuestionType:
                key = language, question_type
                if 1 in self._tasks:
                    path = self._layout.examples(question_type, language)
                    examples[key] = self._examples(path, language, question_type)
                if 3 in self._tasks:
                    path = self._layout.clue_examples(question_type, language)
                    clue_examples[key] = self._examples(path, language, question_type)
        return UaqData(
            items=tuple(items),
            choices=tuple(choices),
            examples=examples,
            clue_examples=clue_examples,
            quirks=tuple(list_quirks(items, choices, three=3 in self._tasks)),
        )

    def _choices(self, language: str) -> list[ChoiceItem]:
        if 2 not in self._tasks:
            return []
        found = []
        for question_type in QuestionType:
            path = self._layout.choices(question_type, language)
            for where, value in _values(path):
                choice = _choice(where, value, language, question_type)
                found.append(choice)
                for qid in choice.relevant:
                    self._offered.setdefault((language, qid), []).extend(choice.options)
            _unique(path, [choice.qid for choice in found if choice.type is question_type])
        return found

    def _items(self, language: str) -> list[UaqItem]:
        found = []
        for question_type in QuestionType:
            for kind in Answerability:
                path = self._layout.questions(question_type, kind, language)
                clues: dict[str, tuple[Clue, ...]] = {}
                if 3 in self._tasks:
                    clue_path = self._layout.clues(question_type, kind, language)
                    clues = {
                        _text(value, "qid", where): _clues(where, value, question_type)
                        for where, value in _values(clue_path)
                    }
                items = [
                    self._item(where, value, language, question_type, kind, clues)
                    for where, value in _values(path)
                ]
                _unique(path, [item.qid for item in items])
                found.extend(items)
        return found

    def _examples(
        self, path: Path, language: str, question_type: QuestionType
    ) -> tuple[UaqItem, ...]:
        return tuple(
            self._item(where, value, language, question_type, _kind_of(value), None)
            for where, value in _values(path)
        )

    def _item(
        self,
        where: str,
        value: Mapping[str, Any],
        language: str,
        question_type: QuestionType,
        kind: Answerability,
        clues: Mapping[str, tuple[Clue, ...]] | None,
    ) -> UaqItem:
        qid, question = _text(value, "qid", where), _text(value, "question", where)
        answers = _answers(value, where)
        if (kind is Answerability.ANSWERABLE) != bool(answers):
            expected = "an answer" if not answers else "no answer but 'None'"
            raise InputError(f"question {qid!r} must have {expected}", where=where, mend=_MEND)
        if clues is None:
            own = _clues(where, value, question_type) if "sup_questions" in value else ()
        else:
            own = clues.get(qid, ())
        options: tuple[str, ...] = ()
        if question_type is QuestionType.DILEMMA:
            known = [answer.label for answer in answers]
            known += self._offered.get((language, qid), [])
            options = dilemma_options(question, known, stem=own[0].question if own else "")
        return UaqItem(
            qid=qid,
            language=language,
            type=question_type,
            kind=kind,
            question=question,
            answers=answers,
            options=options,
            clues=own,
            triples=_triples(value, where),
        )


def _values(path: Path) -> list[_Raw]:
    """The objects of a JSON list, each with where it stands."""
    found = read_json(path)
    if not isinstance(found, list):
        raise InputError(
            f"expected a list of questions, found {type(found).__name__}",
            where=str(path),
            mend=_MEND,
        )
    values: list[_Raw] = []
    for number, value in enumerate(found, start=1):
        where = f"{path}: item {number}"
        if not isinstance(value, dict):
            raise InputError(
                f"expected an object, found {type(value).__name__}", where=where, mend=_MEND
            )
        values.append((where, value))
    return values


def _unique(path: Path, qids: Sequence[str]) -> None:
    seen: set[str] = set()
    for number, qid in enumerate(qids, start=1):
        if qid in seen:
            raise InputError(
                f"qid {qid[:60]!r} stands here twice", where=f"{path}: item {number}", mend=_MEND
            )
        seen.add(qid)


def _kind_of(value: Mapping[str, Any]) -> Answerability:
    # Ids of examples do not always say it; the answer does.
    labels = [
        answer.get("label") for answer in value.get("answer") or [] if isinstance(answer, dict)
    ]
    return Answerability.UNANSWERABLE if labels == [_NONE] else Answerability.ANSWERABLE


def _answers(value: Mapping[str, Any], where: str) -> tuple[Answer, ...]:
    given = value.get("answer")
    if not isinstance(given, list):
        raise InputError("field 'answer' must be a list", where=where, mend=_MEND)
    found = []
    for answer in given:
        if not isinstance(answer, dict):
            raise InputError("an answer must be an object", where=where, mend=_MEND)
        label = _text(answer, "label", where)
        if label == _NONE and str(answer.get("id")) == _NONE:
            continue
        aliases = answer.get("aliases") or ()
        found.append(
            Answer(str(answer.get("id", "")), label, tuple(clean_text(str(a)) for a in aliases))
        )
    return tuple(found)


def _clues(where: str, value: Mapping[str, Any], question_type: QuestionType) -> tuple[Clue, ...]:
    questions, answers = value.get("sup_questions"), value.get("sup_que_ans")
    if not isinstance(answers, list):
        raise InputError("field 'sup_que_ans' must be a list", where=where, mend=_MEND)
    labels = [_label(answer, where) for answer in answers]
    if isinstance(questions, str):
        # One question, and all its answers: how dilemmas are kept.
        return (Clue(clean_text(questions).strip(), tuple(labels)),)
    if not isinstance(questions, list) or len(questions) != len(labels):
        raise InputError(
            "fields 'sup_questions' and 'sup_que_ans' must be lists of one length",
            where=where,
            mend=_MEND,
        )
    return tuple(
        Clue(clean_text(str(question)).strip(), _split(label, question_type))
        for question, label in zip(questions, labels, strict=True)
        if label != _NO_END
    )


def _label(answer: object, where: str) -> str:
    if isinstance(answer, dict):
        return _text(answer, "label", where)
    if isinstance(answer, str):
        return clean_text(answer).strip()
    raise InputError("a clue's answer must be text or an object", where=where, mend=_MEND)


def _split(label: str, question_type: QuestionType) -> tuple[str, ...]:
    # Intersections keep all answers of a step in one text.
    if question_type is QuestionType.INTER:
        return tuple(part.strip() for part in label.split(", ") if part.strip())
    return (label,)


def _choice(
    where: str, value: Mapping[str, Any], language: str, question_type: QuestionType
) -> ChoiceItem:
    options = value.get("options")
    if not isinstance(options, list) or len(options) != 4:
        raise InputError("field 'options' must list four texts", where=where, mend=_MEND)
    cleaned = tuple(clean_text(str(option)).strip() for option in options)
    target = _text(value, "target_options", where)
    if target not in cleaned:
        raise InputError("'target_options' is none of the options", where=where, mend=_MEND)
    # So spelled in the published files.
    relevant = value.get("relevent_qid_list", value.get("relevant_qid_list"))
    if not isinstance(relevant, list) or not relevant:
        raise InputError("field 'relevent_qid_list' must be a list", where=where, mend=_MEND)
    return ChoiceItem(
        qid=_text(value, "qid", where),
        language=language,
        type=question_type,
        question=_text(value, "question", where),
        options=cleaned,
        target=target,
        relevant=tuple(str(qid) for qid in relevant),
    )


def _triples(value: Mapping[str, Any], where: str) -> tuple[Triple, ...]:
    given = value.get("triples", [])
    if not isinstance(given, list):
        raise InputError("field 'triples' must be a list", where=where, mend=_MEND)
    found = []
    for triple in given:
        if not isinstance(triple, dict):
            raise InputError("a triple must be an object", where=where, mend=_MEND)
        found.append(
            Triple(
                subject=_text(triple, "subject", where),
                relation=_text(triple, "relation", where),
                object=_text(triple, "object", where),
                start=str(triple.get("start") or ""),
                end=str(triple.get("end") or ""),
            )
        )
    return tuple(found)


def _text(value: Mapping[str, Any], name: str, where: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not clean_text(found).strip():
        raise InputError(f"field {name!r} must be text", where=where, mend=_MEND)
    return clean_text(found).strip()
