"""Read a set of questions in the published layout, with its irregularities."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from ....guard.abstention import load_rule
from ....guard.errors import InputError
from ....guard.files import read_json
from ....guard.text import clean_text
from ._items import (
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

_HINT = "fetch the data set whole, or name fewer --tasks or --lang"
# In task 1 two of the three types carry another name or a version.
_TASK1_NAMES = {
    QuestionType.INTER: "inter_{kind}_{language}.json",
    QuestionType.TIME: "timeqa_{kind}_{language}_v2.json",
    QuestionType.DILEMMA: "dilemma_{kind}_{language}_v2.json",
}


class Layout:
    """A folder in the published layout.

    Args:
        folder: the one that holds `task1`, or one that holds it as `1.0` or `data/1.0`.

    Raises:
        InputError: there is no such folder, or no `task1` in it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        root = Path(folder)
        if not root.is_dir():
            what = "is a file, not a folder" if root.exists() else "there is no such folder"
            raise InputError(what, where=str(root), hint="name the folder that holds task1")
        for candidate in (root, root / "1.0", root / "data" / "1.0"):
            if (candidate / "task1").is_dir():
                self.root = candidate
                return
        raise InputError(
            "no folder task1 in it",
            where=str(root),
            hint="name the folder that holds task1, task2 and task3 (`1.0` in the published set)",
        )

    def questions(self, question_type: QuestionType, kind: Answerability, language: str) -> Path:
        """Questions of task 1."""
        name = _TASK1_NAMES[question_type].format(kind=kind.value, language=language)
        return self.root / "task1" / name

    def examples(self, question_type: QuestionType, language: str) -> Path:
        """Few-shot examples of task 1."""
        return self.root / "task1" / "dev" / f"{question_type.value}_{language}_dev.json"

    def choices(self, question_type: QuestionType, language: str) -> Path:
        """Questions of task 2."""
        return self.root / "task2" / f"{question_type.value}_task2_{language}_choice.json"

    def clues(self, question_type: QuestionType, kind: Answerability, language: str) -> Path:
        """Questions of task 3."""
        name = question_type.value
        file = f"{name}_sup_logic_{kind.value}_{language}.json"
        return self.root / "task3" / name / file

    def clue_examples(self, question_type: QuestionType, language: str) -> Path:
        """Few-shot examples of task 3."""
        name = f"{question_type.value}_{language}.json"
        return self.root / "task3" / "dev" / "shuffled" / name

    def present_languages(self) -> tuple[str, ...]:
        """Languages of which task 1 has a file; the two published ones first."""
        found = {
            language
            for path in (self.root / "task1").glob("inter_ua_*.json")
            for language in [path.stem.removeprefix("inter_ua_")]
        }
        known = [language for language in LANGUAGES if language in found]
        return (*known, *sorted(found - set(known)))

    def needed(self, language: str, tasks: tuple[int, ...]) -> list[Path]:
        """The files that `tasks` need in one language."""
        paths = []
        for question_type in QuestionType:
            for kind in Answerability:
                paths.append(self.questions(question_type, kind, language))
                if 3 in tasks:
                    paths.append(self.clues(question_type, kind, language))
            if 1 in tasks:
                paths.append(self.examples(question_type, language))
            if 2 in tasks:
                paths.append(self.choices(question_type, language))
            if 3 in tasks:
                paths.append(self.clue_examples(question_type, language))
        return paths

    def require(self, language: str, tasks: tuple[int, ...]) -> None:
        """Reject a partial folder.

        Raises:
            InputError: a file is missing; names the first and says how many.
        """
        needed = self.needed(language, tasks)
        missing = [path for path in needed if not path.is_file()]
        if missing:
            raise InputError(
                f"{len(missing)} of {len(needed)} files for language {language!r} and tasks "
                f"{','.join(map(str, tasks))} are missing, the first is "
                f"{missing[0].relative_to(self.root)}",
                where=str(self.root),
                hint=_HINT,
            )


def list_quirks(
    items: Sequence[UaqItem], choices: Sequence[ChoiceItem], *, three: bool
) -> Iterator[str]:
    """Describe the irregularities of a set, and how each is handled.

    Args:
        items: questions of task 1, with the clues of task 3 where they were read.
        choices: questions of task 2.
        three: whether task 3 was read.
    """
    shared = Counter((item.type, item.kind, item.qid) for item in items)
    number = sum(count - 1 for count in shared.values() if count > 1)
    if number:
        yield (
            f"{number} ids stand for questions in several languages: questions are told apart "
            "by language, type, kind and id."
        )
    refused = _gold_that_refuses(items)
    if refused:
        yield (
            f"{refused} answerable questions have a gold answer that the published refusal rule "
            "takes for a refusal: a right reply to them counts as one."
        )
    echoed = sum(
        any(answer.label.casefold() in item.question.casefold() for answer in item.answers)
        for item in items
        if item.type is QuestionType.DILEMMA and not item.unanswerable
    )
    if echoed:
        yield (
            f"{echoed} answerable dilemmas have a gold answer in the question: a reply that "
            "echoes both options is right by the published rule and wrong by the strict one."
        )
    unsplit = sum(item.type is QuestionType.DILEMMA and not item.options for item in items)
    if unsplit:
        yield f"{unsplit} dilemmas offer options that cannot be told apart."
    twins = sum(len(set(choice.options)) < len(choice.options) for choice in choices)
    if twins:
        yield (
            f"{twins} four-option questions offer the same text twice: either of the two counts."
        )
    if three:
        endless = sum(item.type is QuestionType.TIME and len(item.clues) == 1 for item in items)
        if endless:
            yield (
                f"{endless} questions about a time have a clue about an end that has not come: "
                "that step, which speaks of 'None' and '-1', is left out."
            )
        bare = sum(not item.clues for item in items)
        if bare:
            yield f"{bare} questions have no reasoning clue: task 3 leaves them out."


def _gold_that_refuses(items: Sequence[UaqItem]) -> int:
    labels = [answer.label for item in items if not item.unanswerable for answer in item.answers]
    if not labels:
        return 0
    verdicts = load_rule("uaqfact").detect_many(labels)
    flagged = {label for label, found in zip(labels, verdicts, strict=True) if found.abstained}
    return sum(
        any(answer.label in flagged for answer in item.answers)
        for item in items
        if not item.unanswerable and item.language == "en"
    )


_NONE = "None"
# What stands for the end of something that goes on; the step's question then speaks of "None".
_NO_END = "-1"
_HINT_READING = "fetch the file again, or compare it with the published one"

_Raw = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class UaqData:
    """A set of questions.

    Attributes:
        TASKS: all tasks, by number.
        items: of tasks 1 and 3, in the order of the files.
        choices: of task 2.
        examples: few-shot examples by language and type, in the order of the files; those
            with clues are task 3's.
        quirks: irregularities of the files and how each was handled.
        files: that it was read from; none of a generated set.
    """

    TASKS: ClassVar[tuple[int, ...]] = (1, 2, 3)

    items: tuple[UaqItem, ...]
    choices: tuple[ChoiceItem, ...] = ()
    examples: Mapping[tuple[str, QuestionType], tuple[UaqItem, ...]] = field(default_factory=dict)
    clue_examples: Mapping[tuple[str, QuestionType], tuple[UaqItem, ...]] = field(
        default_factory=dict
    )
    quirks: tuple[str, ...] = ()
    files: tuple[Path, ...] = field(default=(), compare=False)

    @property
    def languages(self) -> tuple[str, ...]:
        """In the order of the items."""
        return tuple(dict.fromkeys(item.language for item in self.items))

    def counts(self) -> Iterator[tuple[str, str, str, str, int]]:
        """(task, type, kind, language, number); kind is empty for task 2."""
        for language in self.languages:
            for kind_of_task in ("task1", "task3"):
                for question_type in QuestionType:
                    for kind in Answerability:
                        number = sum(
                            item.language == language
                            and item.type is question_type
                            and item.kind is kind
                            and (kind_of_task == "task1" or bool(item.clues))
                            for item in self.items
                        )
                        yield kind_of_task, question_type.value, kind.value, language, number
            for question_type in QuestionType:
                number = sum(
                    choice.language == language and choice.type is question_type
                    for choice in self.choices
                )
                yield "task2", question_type.value, "", language, number

    @classmethod
    def read(
        cls,
        folder: str | os.PathLike[str],
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
        layout = Layout(folder)
        chosen = tuple(sorted(set(tasks)))
        if not chosen or not set(chosen) <= set(cls.TASKS):
            raise InputError(f"there are tasks 1, 2 and 3, not {list(tasks)}", where="tasks")
        wanted = (
            layout.present_languages() if languages is None else tuple(dict.fromkeys(languages))
        )
        if not wanted:
            raise InputError(
                "no questions in any language", where=str(layout.root), hint="task1 lacks its files"
            )
        for language in wanted:
            layout.require(language, chosen)
        found = _Reader(layout, chosen).read(wanted)
        files = tuple(path for language in wanted for path in layout.needed(language, chosen))
        return replace(found, files=files)


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
            raise InputError(
                f"question {qid!r} must have {expected}", where=where, hint=_HINT_READING
            )
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
            hint=_HINT_READING,
        )
    values: list[_Raw] = []
    for number, value in enumerate(found, start=1):
        where = f"{path}: item {number}"
        if not isinstance(value, dict):
            raise InputError(
                f"expected an object, found {type(value).__name__}", where=where, hint=_HINT_READING
            )
        values.append((where, value))
    return values


def _unique(path: Path, qids: Sequence[str]) -> None:
    seen: set[str] = set()
    for number, qid in enumerate(qids, start=1):
        if qid in seen:
            raise InputError(
                f"qid {qid[:60]!r} stands here twice",
                where=f"{path}: item {number}",
                hint=_HINT_READING,
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
        raise InputError("field 'answer' must be a list", where=where, hint=_HINT_READING)
    found = []
    for answer in given:
        if not isinstance(answer, dict):
            raise InputError("an answer must be an object", where=where, hint=_HINT_READING)
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
        raise InputError("field 'sup_que_ans' must be a list", where=where, hint=_HINT_READING)
    labels = [_label(answer, where) for answer in answers]
    if isinstance(questions, str):
        # One question, and all its answers: how dilemmas are kept.
        return (Clue(clean_text(questions).strip(), tuple(labels)),)
    if not isinstance(questions, list) or len(questions) != len(labels):
        raise InputError(
            "fields 'sup_questions' and 'sup_que_ans' must be lists of one length",
            where=where,
            hint=_HINT_READING,
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
    raise InputError("a clue's answer must be text or an object", where=where, hint=_HINT_READING)


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
        raise InputError("field 'options' must list four texts", where=where, hint=_HINT_READING)
    cleaned = tuple(clean_text(str(option)).strip() for option in options)
    target = _text(value, "target_options", where)
    if target not in cleaned:
        raise InputError("'target_options' is none of the options", where=where, hint=_HINT_READING)
    # So spelled in the published files.
    relevant = value.get("relevent_qid_list", value.get("relevant_qid_list"))
    if not isinstance(relevant, list) or not relevant:
        raise InputError(
            "field 'relevent_qid_list' must be a list", where=where, hint=_HINT_READING
        )
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
        raise InputError("field 'triples' must be a list", where=where, hint=_HINT_READING)
    found = []
    for triple in given:
        if not isinstance(triple, dict):
            raise InputError("a triple must be an object", where=where, hint=_HINT_READING)
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
        raise InputError(f"field {name!r} must be text", where=where, hint=_HINT_READING)
    return clean_text(found).strip()
