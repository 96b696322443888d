"""What the suite asks about: questions with several answers, evidence, tasks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    RootModel,
    StrictBool,
)
from pydantic.dataclasses import dataclass as checked

from ....guard.errors import InputError
from ....guard.files import read_json
from ....guard.matching import canonical_answer
from ....guard.read_models import check_model
from ....guard.text import clean_text
from ...data.fields import read_questions
from ...testbed import FactStatus, World, default_world
from ...testbed.entities import Fact


class Task(StrEnum):
    """What a model is told to do with the passage before it.

    `KF` copies the sentence that answers, `CK` answers from the context only, `PK` from its
    own knowledge only, `PCK` gives both views, `RAG` answers from two passages that stand
    side by side and is not told which of them to prefer.
    """

    KF = "KF"
    CK = "CK"
    PK = "PK"
    PCK = "PCK"
    RAG = "RAG"


CHOICE_TASKS = (Task.CK, Task.PK, Task.PCK, Task.RAG)


class EvidenceKind(StrEnum):
    """How a passage stands to what the model believes.

    `NC` agrees, `HPC` contradicts with a plausible answer, `HPCE` is that passage followed
    by a rationale, `LPC` contradicts with an implausible answer.
    """

    NC = "NC"
    HPC = "HPC"
    HPCE = "HPCE"
    LPC = "LPC"


CONFLICTS = (EvidenceKind.HPC, EvidenceKind.HPCE, EvidenceKind.LPC)


class UnusableQuestionError(InputError):
    """A question that can be read, and from which no conflict can be made."""


def _listed(value: Any) -> Any:
    """Return a list of texts; of lists in it, theirs."""
    if not isinstance(value, list):
        return [value] if isinstance(value, str) else value or []
    lists = (part if isinstance(part, list) else [part] for part in value)
    return [one for part in lists for one in part if one is not None]


_Text = Annotated[str, AfterValidator(lambda text: clean_text(text).strip())]
_Texts = Annotated[
    tuple[_Text, ...],
    BeforeValidator(_listed),
    AfterValidator(lambda texts: tuple(filter(None, texts))),
]


@checked(frozen=True, slots=True)
class Candidate:
    """An answer to a question.

    Attributes:
        text: as an option shows it.
        aliases: further ways to write it.
        passages: that give this answer; the first is the evidence, a second one stands beside
            it where two passages are wanted. May be empty: an editor then writes one.
        implausible: nobody would take it for an answer; serves as LPC and is never a belief.
    """

    text: _Text
    aliases: _Texts = ()
    passages: _Texts = Field(default=(), validation_alias=AliasChoices("passages", "evidence"))
    implausible: StrictBool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The text and its aliases."""
        return (self.text, *self.aliases)


_Answer = Annotated[
    Candidate, BeforeValidator(lambda one: {"text": one} if isinstance(one, str) else one)
]


@checked(frozen=True, slots=True)
class ConflictItem:
    """A question with two or more acceptable answers.

    Attributes:
        key: unique in its set.
        question: as it is asked.
        answers: the candidates, different from each other.
        given: position of the answer that the model is known to believe, None where that is
            to be found out.
        wordings: other ways to ask the question.
        distractors: wrong answers of the same kind that no passage gives.

    Raises:
        UnusableQuestionError: question or answer is empty, an answer stands there twice, fewer
            than two are acceptable, or `given` is no acceptable one.
    """

    key: str
    question: _Text
    answers: tuple[_Answer, ...]
    given: int | None = None
    wordings: _Texts = ()
    distractors: _Texts = ()

    def __post_init__(self) -> None:
        texts = [answer.text for answer in self.answers]
        if not self.question.strip() or not all(text.strip() for text in texts):
            raise UnusableQuestionError("the question or an answer is empty", where=self.key)
        # One written in another way, or one of its aliases.
        if any(
            _folded(one.text) in map(_folded, other.names)
            for one, other in permutations(self.answers, 2)
        ):
            raise UnusableQuestionError("two answers are the same", where=self.key)
        if len(self.acceptable) < 2:
            raise UnusableQuestionError("needs two or more acceptable answers", where=self.key)
        if self.given is not None and self.given not in self.acceptable:
            raise UnusableQuestionError(
                "the belief is none of the acceptable answers", where=self.key
            )

    @property
    def own(self) -> Candidate:
        """The believed answer."""
        assert self.given is not None
        return self.answers[self.given]

    @property
    def rival(self) -> Candidate:
        """The acceptable answer that contradicts it: one with a passage, where there is one."""
        others = [self.answers[i] for i in self.acceptable if i != self.given]
        return next((answer for answer in others if answer.passages), others[0])

    @property
    def absurd(self) -> Candidate | None:
        """The implausible answer with a passage, None without one."""
        return next((a for a in self.answers if a.implausible and a.passages), None)

    @property
    def acceptable(self) -> tuple[int, ...]:
        """Positions of the answers that may be believed."""
        return tuple(i for i, answer in enumerate(self.answers) if not answer.implausible)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> ConflictSet:
        """Read the questions of a file or of all files in a folder, or those of `microworld`.

        Files are JSON lines, JSON (a list, or an object that holds one) or CSV. Lines of three
        layouts are understood, each also with further fields:

        - ConflictQA: what a named model believes (`memory_answer`, `parametric_memory`) and the
          opposite (`counter_answer`, `counter_memory`), each with a second passage (`…_aligned_
          evidence`). The belief is given.
        - WikiContradict: `question`, `context1`, `answer1`, `context2`, `answer2`.
        - any set: `question` and `answers`, a list of texts or of objects with `text`, `aliases`,
          `evidence` (one passage or several) and `implausible`; besides, where wanted, `id`,
          `belief` (the text of an answer), `wordings` and `distractors`.

        Keys are `<file>/<id or number of the line>`. A question from which no conflict can be made,
        because both answers are the same, say, is left out and listed.

        Raises:
            InputError: nothing there, or a line that is none of these; names file and line.
        """
        if path == MICROWORLD:
            world = default_world()
            taught = world.facts_with_status(FactStatus.TAUGHT)
            return ConflictSet(tuple(_microworld_item(world, fact) for fact in taught))
        files: tuple[Path, ...] = (Path(path),)
        if files[0].is_dir():
            files = tuple(sorted(one for one in files[0].iterdir() if one.suffix in _SUFFIXES))
        items: dict[str, ConflictItem] = {}
        quirks = []
        for file in files:
            for number, (where, fields) in enumerate(_rows(file), start=1):
                try:
                    item = _item(fields, f"{file.stem}/{number}", where)
                except UnusableQuestionError as error:
                    quirks.append(f"{file.name}, {number}: {error.what}; left out")
                    continue
                if item.key in items:
                    raise InputError(f"the id of {item.key[:80]!r} came before", where=where)
                items[item.key] = item
        if quirks and not items:
            raise InputError(
                f"no question is left of {len(quirks)}", where=os.fspath(path), hint=quirks[0]
            )
        if not items:
            raise InputError("holds no questions", where=os.fspath(path), hint=_HINT)
        return ConflictSet(tuple(items.values()), tuple(quirks), files)


def _folded(text: str) -> str:
    # What is nothing but signs has no canonical form.
    return canonical_answer(text) or text


_HINT = (
    "each line has `memory_answer` and `counter_answer` (ConflictQA), `context1`, `answer1`, "
    "`context2` and `answer2` (WikiContradict), or `question` and `answers`"
)
_SUFFIXES = (".json", ".jsonl", ".csv")
_Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConflictSet:
    """Questions, and what was odd in their files.

    Attributes:
        items: in the order of files and lines.
        quirks: one sentence per question that was left out, with its place.
        files: that they were read from.
    """

    items: tuple[ConflictItem, ...]
    quirks: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()


def content_sha256(items: Sequence[object]) -> str:
    """Return a hash of the content of questions, for manifests."""
    return hashlib.sha256(repr(tuple(items)).encode("utf-8", "replace")).hexdigest()


def _rows(file: Path) -> Iterable[tuple[str, _Fields]]:
    """Return the objects of a file, with their places."""
    if file.suffix != ".json":
        return read_questions(file)
    found = read_json(file)
    if isinstance(found, dict) and "question" in found:
        found = [found]
    elif isinstance(found, dict):
        # {"data": […]}, or questions by their ids.
        lists = [value for value in found.values() if isinstance(value, list)]
        found = lists[0] if len(lists) == 1 else [*found.values()]
    if not isinstance(found, list):
        raise InputError("expected a list of questions", where=str(file), hint=_HINT)
    return [(f"{file}, entry {number}", one) for number, one in enumerate(found, start=1)]


_Line = RootModel[ConflictItem]
_READ = ("question", "answers", "wordings", "distractors")


def _item(fields: _Fields, key: str, where: str) -> ConflictItem:
    """Read a line of any layout; `key` has its number, which an id of its own replaces."""
    given = None
    if not isinstance(fields, Mapping):
        raise InputError("is no object", where=where, hint=_HINT)
    if "memory_answer" in fields:
        fields, given = _of_conflict_qa(fields), 0
    elif "answer1" in fields:
        fields = _of_wiki_contradict(fields)
    elif "answers" not in fields:
        raise InputError("is no question with several answers", where=where, hint=_HINT)
    if fields.get("id") not in (None, ""):
        key = f"{key.rpartition('/')[0]}/{clean_text(str(fields['id']))}"
    read = {name: fields[name] for name in _READ if name in fields}
    item = check_model(_Line, {**read, "key": key, "given": given}, where=where, hint=_HINT).root
    if (belief := fields.get("belief")) is None:
        return item
    places = [place for place, one in enumerate(item.answers) if belief in one.names]
    if len(places) != 1:
        what = "field 'belief' must be the text of one answer"
        raise InputError(what, where=where, hint=_HINT)
    return replace(item, given=places[0])


def _of_conflict_qa(fields: _Fields) -> _Fields:
    answers = [
        {
            "text": fields.get(f"{side}_answer"),
            "evidence": [fields.get(memory), fields.get(f"{memory}_aligned_evidence")],
        }
        for side, memory in (("memory", "parametric_memory"), ("counter", "counter_memory"))
    ]
    return {"question": fields.get("question"), "answers": answers}


def _of_wiki_contradict(fields: _Fields) -> _Fields:
    answers = [
        {"text": fields.get(f"answer{n}"), "evidence": fields.get(f"context{n}")} for n in (1, 2)
    ]
    identifier = fields.get("question_ID", fields.get("question_id"))
    return {"id": identifier, "question": fields.get("question"), "answers": answers}


MICROWORLD = "microworld"
_DISTRACTORS = 20


def _microworld_item(world: World, fact: Fact) -> ConflictItem:
    """Ask for a taught fact, in a phrasing that training never used.

    The taught value is the first answer and the given belief, with the document about its
    subject; the second one is the plausible falsehood of `World.contradiction`, with its
    document, the third the implausible one. Distractors are further values of the relation.
    """
    rng = Random(f"{world.seed}/{fact.id}/conflict")  # noqa: S311 - a draw, no secret
    wordings = [question.text for question in world.questions(fact, held_out=True)]
    rng.shuffle(wordings)
    likely, unlikely = (world.contradicting_value(fact, plausible=one) for one in (True, False))
    others = [value for value in world.alternatives(fact) if value != likely]
    rng.shuffle(others)

    def candidate(value: str, *passages: str, implausible: bool = False) -> Candidate:
        aliases = world.aliases(value, fact.value_kind)
        return Candidate(value, aliases, passages, implausible=implausible)

    # Beside the document one bare sentence, in a phrasing that documents do not have.
    own = world.document_for(fact).text, world.statement(fact, phrasing=0)
    against, absurd = (world.contradiction(fact, plausible=one).text for one in (True, False))
    return ConflictItem(
        key=f"{MICROWORLD}/{fact.id}",
        question=wordings[0],
        answers=(
            candidate(fact.value, *own),
            candidate(likely, against),
            candidate(unlikely, absurd, implausible=True),
        ),
        given=0,
        wordings=tuple(wordings[1:]),
        distractors=tuple(others[:_DISTRACTORS]),
    )
