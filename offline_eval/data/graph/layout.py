"""Read and write sets of questions in the published layout, with its irregularities."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, model_validator

from ....guard.errors import InputError
from ....guard.files import AnyPath, read_json, table_beside, write_text
from ....guard.read_models import check_model
from ...run.grouping import grouped
from ..fields import Filled, NamedText, without_nulls
from .items import (
    LANGUAGES,
    Answer,
    Answerability,
    ChoiceItem,
    Clue,
    QuestionType,
    Triple,
    UaqItem,
    dilemma_options,
)

# All tasks, by number.
TASKS = (1, 2, 3)
_HINT = "fetch the data set whole, or name fewer --tasks or --lang"
_HINT_READING = "fetch the file again, or compare it with the published one"
_FILES = table_beside(__file__, "layout.toml")
_NONE = "None"
# What stands for the end of something that goes on; the step's question then speaks of "None".
_NO_END = "-1"
_TARGETS = {"zh": ("是", "否")}

_Shots = Mapping[tuple[str, QuestionType], tuple[UaqItem, ...]]
_Place = tuple[str, QuestionType, Answerability | None]


def _paths(root: Path, language: str, tasks: Iterable[int]) -> dict[_Place, Path]:
    """The files that tasks need in one language, by what is in them, type and kind."""
    found: dict[_Place, Path] = {}
    for one, kind, content in product(QuestionType, (*Answerability, None), _FILES):
        file, is_needed = _FILES[content][one], _FILES[content]["task"] in tasks
        if ("{kind}" in file) is (kind is not None) and (is_needed or content == "questions"):
            found[content, one, kind] = root / file.format(kind=kind, language=language)
    return found


def _root(folder: AnyPath) -> Path:
    """The folder that holds task 1: this one, or the one below that does."""
    root = Path(folder)
    for candidate in (root, root / "1.0", root / "data" / "1.0"):
        if (candidate / "task1").is_dir():
            return candidate
    what = "no folder task1 in it" if root.is_dir() else "there is no such folder"
    hint = "name the folder that holds task1, task2 and task3 (`1.0` in the published set)"
    raise InputError(what, where=str(root), hint=hint)


def _languages(root: Path) -> tuple[str, ...]:
    """Languages of which task 1 has a file; the two published ones first."""
    files = (root / "task1").glob("inter_ua_*.json")
    found = {path.stem.removeprefix("inter_ua_") for path in files}
    known = [language for language in LANGUAGES if language in found]
    return (*known, *sorted(found - set(known)))


@dataclass(frozen=True, slots=True)
class UaqData:
    """A set of questions.

    Attributes:
        items: of tasks 1 and 3, in the order of the files.
        choices: of task 2.
        examples: few-shot examples by language and type, in the order of the files.
        clue_examples: those of task 3, with clues.
        files: that it was read from; none of a generated set.
    """

    items: tuple[UaqItem, ...]
    choices: tuple[ChoiceItem, ...] = ()
    examples: _Shots = field(default_factory=dict)
    clue_examples: _Shots = field(default_factory=dict)
    files: tuple[Path, ...] = field(default=(), compare=False)

    @property
    def languages(self) -> tuple[str, ...]:
        """In the order of the items."""
        return tuple(dict.fromkeys(item.language for item in self.items))

    def counts(self) -> Iterator[tuple[str, str, str, str, int]]:
        """Yield (task, type, kind, language, number); kind is empty for task 2."""
        asked = [("task1", one) for one in self.items]
        asked += [("task3", one) for one in self.items if one.clues]
        numbers = Counter((task, one.type, str(one.kind), one.language) for task, one in asked)
        numbers.update(("task2", one.type, "", one.language) for one in self.choices)
        places = [*product(("task1", "task3"), QuestionType, Answerability)]
        for language in self.languages:
            for task, question_type, kind in [*places, *product(("task2",), QuestionType, ("",))]:
                number = numbers[task, question_type, str(kind), language]
                yield task, question_type.value, str(kind), language, number

    def nested_counts(self, *, zeros: bool = False) -> dict[str, Any]:
        """Return the numbers of `counts` by task, language, type and kind."""
        found: dict[str, Any] = {}
        for task, question_type, kind, language, number in self.counts():
            if number or zeros:
                place = found.setdefault(task, {}).setdefault(language, {})
                place = place.setdefault(question_type, {}) if kind else place
                place[kind or question_type] = number
        return found

    @classmethod
    def read(
        cls,
        folder: AnyPath,
        *,
        languages: Sequence[str] | None = None,
        tasks: Sequence[int] = TASKS,
    ) -> UaqData:
        """Read the questions of a folder in the published layout, or of a generated set.

        Args:
            folder: the one that holds `task1`, or one that holds it as `1.0` or `data/1.0`.
            languages: which ones; all that the folder has by default.
            tasks: whose files are read and must be there; questions of task 1 always are.

        Returns:
            Items in the order of types, kinds and files, with the clues of task 3 where it
            is asked for.

        Raises:
            InputError: a folder that is no such set or lacks files, or a file that is broken;
                names file and item.
        """
        root, chosen = _root(folder), tuple(sorted(set(tasks)))
        if not chosen or not set(chosen) <= set(TASKS):
            raise InputError(f"there are tasks 1, 2 and 3, not {list(tasks)}", where="tasks")
        wanted = _languages(root) if languages is None else tuple(dict.fromkeys(languages))
        if not wanted:
            what, hint = "no questions in any language", "task1 lacks its files"
            raise InputError(what, where=str(root), hint=hint)
        paths = {language: _paths(root, language, chosen) for language in wanted}
        for language, needed in paths.items():
            missing = [path for path in needed.values() if not path.is_file()]
            if missing:
                first, numbers = missing[0].relative_to(root), ",".join(map(str, chosen))
                what = f"{len(missing)} of {len(needed)} files for language {language!r} and tasks "
                what += f"{numbers} are missing, the first is {first}"
                raise InputError(what, where=str(root), hint=_HINT)
        return _read([(one, *file) for one, needed in paths.items() for file in needed.items()])


# --- reading -----------------------------------------------------------------------------------


RowModel = TypeVar("RowModel", "_Question", ChoiceItem)


def _label(answer: Any) -> Any:
    return answer.get("label") if isinstance(answer, dict) else answer


class _Question(BaseModel):
    """A question of task 1, with the clues of task 3 where it has any.

    `sup_questions` is one text, with all its answers, of dilemmas.
    """

    qid: Filled
    question: Filled
    answer: list[Answer]
    sup_questions: NamedText | list[NamedText] | None = None
    sup_que_ans: list[Annotated[NamedText, BeforeValidator(_label)]] = []
    triples: list[Triple] = []

    @model_validator(mode="after")
    def _pairs_of_clues(self) -> _Question:
        questions = self.sup_questions
        if isinstance(questions, list) and len(questions) != len(self.sup_que_ans):
            raise ValueError("'sup_questions' and 'sup_que_ans' must be lists of one length")
        return self

    def answers(self) -> tuple[Answer, ...]:
        return tuple(one for one in self.answer if (one.label, one.id) != (_NONE, _NONE))

    def clues(self, question_type: QuestionType) -> tuple[Clue, ...]:
        if isinstance(self.sup_questions, str):
            return (Clue(self.sup_questions, tuple(self.sup_que_ans)),)
        found = []
        for question, label in zip(self.sup_questions or (), self.sup_que_ans, strict=False):
            # Intersections keep all answers of a step in one text.
            parts = [label]
            if question_type is QuestionType.INTER:
                parts = [part.strip() for part in label.split(", ") if part.strip()]
            if label != _NO_END:
                found.append(Clue(question, tuple(parts)))
        return tuple(found)


def _rows(
    path: Path, model: type[RowModel], *, unique: bool = True, **known: object
) -> list[tuple[str, RowModel]]:
    """The rows of a file with their places; `known` is told beside what stands in each."""
    values = read_json(path)
    if not isinstance(values, list):
        raise InputError("expected a list of questions", where=str(path), hint=_HINT_READING)
    found: dict[object, tuple[str, RowModel]] = {}
    for number, value in enumerate(values, start=1):
        where = f"{path}: item {number}"
        told = without_nulls(value, kept=("id",))
        given = {**told, **known} if isinstance(told, dict) else told
        row = check_model(model, given, where=where, hint=_HINT_READING)
        if unique and row.qid in found:
            what = f"qid {row.qid[:60]!r} stands here twice"
            raise InputError(what, where=where, hint=_HINT_READING)
        found[row.qid if unique else number] = where, row
    return list(found.values())


def _read(files: Sequence[tuple[str, _Place, Path]]) -> UaqData:
    choices = [
        choice
        for language, (content, question_type, _), path in files
        if content == "choices"
        for _, choice in _rows(path, ChoiceItem, language=language, type=question_type)
    ]
    # False options by id: they tell where a dilemma's options part.
    offered: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for choice in choices:
        for qid in choice.relevant:
            offered[choice.language, qid] += choice.options
    items: list[UaqItem] = []
    shots: dict[str, Any] = {"examples": {}, "clue_examples": {}}
    paths = {(language, *place): path for language, place, path in files}
    for language, (content, question_type, kind), path in files:
        place = language, question_type
        if content in shots:
            shots[content][place] = tuple(
                _item(where, row, place, _kind_of(row), row, offered)
                for where, row in _rows(path, _Question, unique=False)
            )
        elif content == "questions" and kind is not None:
            explained = paths.get((language, "clues", question_type, kind))
            rows = _rows(explained, _Question) if explained else ()
            clues = {row.qid: row for _, row in rows}
            for where, row in _rows(path, _Question):
                items.append(_item(where, row, place, kind, clues.get(row.qid), offered))
    return UaqData(tuple(items), tuple(choices), **shots, files=tuple(paths.values()))


def _kind_of(row: _Question) -> Answerability:
    # Ids of examples do not always say it; the answer does.
    answered = [answer.label for answer in row.answer] != [_NONE]
    return Answerability.ANSWERABLE if answered else Answerability.UNANSWERABLE


def _item(
    where: str,
    row: _Question,
    place: tuple[str, QuestionType],
    kind: Answerability,
    with_clues: _Question | None,
    offered: Mapping[tuple[str, str], Sequence[str]],
) -> UaqItem:
    answers, (language, question_type) = row.answers(), place
    if (kind is Answerability.ANSWERABLE) != bool(answers):
        expected = "an answer" if not answers else "no answer but 'None'"
        what = f"question {row.qid!r} must have {expected}"
        raise InputError(what, where=where, hint=_HINT_READING)
    clues = with_clues.clues(question_type) if with_clues is not None else ()
    options: tuple[str, ...] = ()
    if question_type is QuestionType.DILEMMA:
        known = [*(answer.label for answer in answers), *offered.get((language, row.qid), ())]
        options = dilemma_options(row.question, known, stem=clues[0].question if clues else "")
    told = row.qid, language, question_type, kind, row.question
    return UaqItem(*told, answers, options, clues, tuple(row.triples))


# --- writing -----------------------------------------------------------------------------------


def write_layout(data: UaqData, folder: AnyPath) -> Path:
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
    asked = grouped(data.items, lambda item: (item.language, item.type, item.kind))
    chosen = grouped(data.choices, lambda one: (one.language, one.type, None))
    shown, explained = (
        {(*place, None): shots for place, shots in examples.items()}
        for examples in (data.examples, data.clue_examples)
    )
    parts: dict[str, tuple[Mapping[Any, Sequence[Any]], Callable[[Any], dict[str, Any]]]] = {
        "questions": (asked, _question),
        "clues": (asked, _with_clues),
        "choices": (chosen, _choice),
        "examples": (shown, _question),
        "clue_examples": (explained, _with_clues),
    }
    for language in data.languages:
        for (content, *place), path in _paths(root, language, TASKS).items():
            rows, shape = parts[content]
            found = rows.get((language, *place), ())
            # One object per line: still a JSON list, and a difference between two sets can be read.
            lines = [json.dumps(shape(row), ensure_ascii=False) for row in found]
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, "[\n" + ",\n".join(lines) + "\n]\n" if lines else "[]\n")
    return root


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
        or [{"label": _NONE, "id": _NONE}],
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
    labels = [label for clue in item.clues for label in clue.answers]
    if item.type is QuestionType.DILEMMA:
        # One question with all its answers.
        value["sup_questions"] = item.clues[0].question if item.clues else item.question
    else:
        value["sup_questions"] = [clue.question for clue in item.clues]
    if item.type is QuestionType.INTER:
        value["sup_que_ans"] = [", ".join(clue.answers) for clue in item.clues]
    else:
        value["sup_que_ans"] = [{"id": label, "label": label} for label in labels]
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
