"""The plan of a run, its prompts, and the replies of a model or a log, batch by batch."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import Field

from ....guard.contracts import Generation, ScoringLanguageModel
from ....guard.decision import Route
from ....guard.errors import InputError, KnowgateError
from ...data.graph.items import Answerability, ChoiceItem, QuestionType, UaqItem
from ...data.graph.layout import UaqData
from ...judging.free_form import parse_choices
from ...run import RowError, Stored
from ...run.calls import generate_each
from ...run.grouping import grouped
from ...run.manifest import Manifest
from ...run.table import TableSpec
from ...systems.logged_replies import Entry, LoggedReplies
from .._prompts import PromptSet, fits, option_likelihoods
from ..parts import MODEL_SYSTEM

SUITE = "uaqfact"
# Folder within a run's: the questions that it asked.
QUESTIONS = "questions"

# How a question is put: alone (task 1), with options (task 2), after its reasoning, with the facts
# behind it, or with retrieved facts (task 3).
Form = Literal["question", "choice", "clue", "facts", "retrieved"]


class _SettingsRead(Stored):
    """Settings of a run that its readers use."""

    tasks: tuple[int, ...]
    languages: tuple[str, ...]
    shots: int = 0


class UaqManifest(Manifest):
    """`manifest.json`.

    Attributes:
        systems: the model, and guards in front of it.
        rows: how many the finished run has.
    """

    settings_read = _SettingsRead

    systems: tuple[str, ...]
    rows: Annotated[int, Field(ge=0)]


class UaqRow(Stored):
    """A line of `rows.jsonl`: what one system said to one question in one form.

    Attributes:
        row_id: `<system>/<form>/<key>`.
        key: of the item.
        kind: None for task 2.
        response: None exactly where there is an error, or where options were scored.
        letter: task 2: the chosen option, None where none could be read.
        right: task 2: whether it is the right one.
        shots: few-shot examples in the prompt.
        route: of the guard, None without one.
        reason: of the guard's decision, empty without one.
    """

    row_id: Annotated[str, Field(min_length=1)]
    system: str
    form: Form
    key: str
    language: str
    type: QuestionType
    kind: Answerability | None = None
    response: str | None = None
    letter: str | None = None
    right: bool | None = None
    shots: int = 0
    route: Route | None = None
    reason: str = ""
    error: RowError | None = None


HINT = "run `knowgate eval uaqfact` again into another folder"
ROWS = TableSpec("rows", UaqRow, "row_id", hint=HINT)


def row_id(system: str, form: str, key: str) -> str:
    """How a row is told from others."""
    return f"{system}/{form}/{key}"


FactsForm = Literal["clue", "facts", "retrieved"]
TASK3_FORMS: tuple[FactsForm, ...] = get_args(FactsForm)


@dataclass(frozen=True, slots=True)
class Case:
    """One question in one form."""

    form: Form
    item: UaqItem | ChoiceItem


def limited(data: UaqData, limit: int | None) -> UaqData:
    """The first questions of each type, kind and language, with what belongs to them."""
    if limit is None:
        return data
    groups = grouped(data.items, lambda item: (item.language, item.type, item.kind))
    first = {item.key for some in groups.values() for item in some[:limit]}
    items = tuple(item for item in data.items if item.key in first)
    kept = {(item.language, item.qid) for item in items if item.unanswerable}
    choices = (
        choice
        for choice in data.choices
        if any((choice.language, qid) in kept for qid in choice.relevant)
    )
    return replace(data, items=items, choices=tuple(choices))


def planned(data: UaqData, tasks: Sequence[int], forms: Sequence[Form]) -> Iterator[Case]:
    """Yield everything that a system is asked, in the order of tasks and data."""
    if 1 in tasks:
        for item in data.items:
            yield Case("question", item)
    if 2 in tasks:
        for choice in data.choices:
            yield Case("choice", choice)
    if 3 in tasks:
        for form in forms:
            for item in data.items:
                if item.clues or item.triples:
                    yield Case(form, item)


def links(data: UaqData) -> dict[str, list[str]]:
    """Unanswerable question → the four-option questions on its facts, by their keys."""
    keys = {(item.language, item.qid): item.key for item in data.items if item.unanswerable}
    found: dict[str | None, list[str]] = defaultdict(list)
    for choice in data.choices:
        for qid in choice.relevant:
            found[keys.get((choice.language, qid))].append(choice.key)
    return {key: found[key] for key in keys.values() if key in found}


_HINT = 'each line needs "response" and "key", or "qid" with "form", "language", "type", "kind"'
_FORMS = {1: "question", 2: "choice", 3: "clue"}


def read_replies(path: str | os.PathLike[str]) -> LoggedReplies:
    """Read logged replies, which then take the place of a model.

    Args:
        path: JSON lines with `response`, and either `key` (as in `rows.jsonl`) or `qid` with
            as much of `language`, `type` and `kind` as identifies the question; `form` or `task`
            says how it was asked (task 1 by default, task 3 with its clue). In a run's own
            `rows.jsonl`, failures and the rows of guards are ignored, and a letter chosen by
            scores stands for a reply.

    Raises:
        InputError: a line is broken, or answers a question again in other words.
    """
    return LoggedReplies(path, _entry, hint=_HINT)


def find_reply(replies: LoggedReplies, planned: Case) -> str | None:
    """Return the reply to a question in a form; None where none was logged.

    Raises:
        InputError: several lines may be meant.
    """
    item = planned.item
    by_key = replies.find((planned.form, "key", item.key))
    if by_key is not None:
        return by_key
    fields = {"language": item.language, "type": item.type.value}
    if isinstance(item, UaqItem):
        fields["kind"] = item.kind.value
    return replies.find((planned.form, "qid", item.qid), fields)


def _entry(line: Mapping[str, Any]) -> Entry | None:
    if line.get("system", MODEL_SYSTEM) != MODEL_SYSTEM or line.get("error"):
        return None
    response, form = line.get("response"), line.get("form")
    if response is None and form == "choice":
        response = line.get("letter")
    if form is None:
        task = line.get("task", 1)
        form = _FORMS.get(task) if isinstance(task, int) else None
    if not isinstance(form, str):
        raise InputError("neither 'form' nor 'task' names a form of question")
    if isinstance(line.get("key"), str):
        return (form, "key", line["key"]), response, {}
    if not isinstance(line.get("qid"), str):
        raise InputError("neither 'key' nor 'qid'")
    fields = {**line, "language": line.get("language", line.get("lan"))}
    return (form, "qid", line["qid"]), response, fields


NO_ANSWER = "##None##"
LETTERS = ("A", "B", "C", "D")
# Of a list of answers: Wikidata knows hundreds of translators of one book.
_MOST_ANSWERS = 10
# Without these a model is not asked what it is measured by.
_NEEDED = frozenset(("question", "facts", *(f"option_{letter.lower()}" for letter in LETTERS)))


def uaqfact_prompts(folder: str | os.PathLike[str] | None = None) -> PromptSet:
    """Return the suite's prompts, each replaceable by a file of the same name (`answer_en.txt`).

    Args:
        folder: with the user's own files; see `PromptSet`.
    """
    return PromptSet(f"{__package__}.prompts", folder, needed=_NEEDED, only_known=True)


def embedded_prompts() -> PromptSet:
    """Prompts for the bundled language model, which reads the words that it was taught."""
    with resources.as_file(resources.files(f"{__package__}.embedded_prompts")) as folder:
        return uaqfact_prompts(folder)


def clue_facts(item: UaqItem) -> list[str]:
    """What is known about a question, one fact a line: its triples, or else its clues."""
    if item.triples:
        return [str(triple) for triple in item.triples]
    return [f"{clue.question} {', '.join(clue.answers[:_MOST_ANSWERS])}" for clue in item.clues]


def fact_retriever(items: Iterable[UaqItem], k: int) -> Callable[[UaqItem], list[str]]:
    """Return what finds the nearest facts for a question, by TF-IDF over letter sequences.

    In any language, without a model, the same always; ties in the order of the collection.

    Args:
        items: whose facts make up the collection, each language one of its own.
        k: facts per question.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    collections: dict[str, tuple[list[str], Any, Any]] = {}
    for language, some in grouped(items, lambda item: item.language).items():
        facts = list(dict.fromkeys(fact for item in some for fact in clue_facts(item)))
        if facts:
            vectorizer = TfidfVectorizer(
                analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, dtype=np.float32
            )
            # Facts as columns: a row of the product is then one question's scores.
            collections[language] = facts, vectorizer, vectorizer.fit_transform(facts).T.tocsr()

    def nearest(item: UaqItem) -> list[str]:
        if item.language not in collections:
            return []
        facts, vectorizer, matrix = collections[item.language]
        scores = (vectorizer.transform([item.question]) @ matrix).toarray()[0]
        return [facts[at] for at in np.argsort(-scores, kind="stable")[:k]]

    return nearest


_THINKING = re.compile(r"^\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
# Kept free for the answer in prompts.
_ANSWER_TOKENS = 64
# A prompt as the model gets it, and the examples in it: as many as fit the model's window.
Asked = tuple[str, int]


class Asker:
    """Asks a model as the suite wants it, or looks its replies up in a log.

    Args:
        model: one that scores options is not asked for letters; or logged replies, of which a
            question without one is a row with an error.
        data: with the few-shot examples.
        prompts: texts.
        shots: examples wanted per prompt.
        facts: retrieved per question in the form `retrieved`.
        choose_by: see `UaqSettings`.
    """

    def __init__(
        self,
        model: Any,
        data: UaqData,
        prompts: PromptSet,
        *,
        shots: int,
        facts: int,
        choose_by: str,
    ) -> None:
        self.model, self.prompts, self.choose_by = model, prompts, choose_by
        self._data, self._shots, self._facts = data, shots, facts
        self._fits = fits(model, _ANSWER_TOKENS)

    def answer(self, batch: Sequence[Case]) -> list[UaqRow]:
        """One row per question of equal form, in order."""
        log = self.model
        if isinstance(log, LoggedReplies):
            return [_row(one, log.generation(find_reply(log, one))) for one in batch]
        if batch[0].form == "choice" and isinstance(self.model, ScoringLanguageModel):
            items = [one.item for one in batch if isinstance(one.item, ChoiceItem)]
            return list(map(_row, batch, self._likelihoods(items)))
        asked = [self._asked(one) for one in batch]
        replies = generate_each(self.model, [prompt for prompt, _ in asked])
        return [
            _row(one, reply, shots)
            for one, (_, shots), reply in zip(batch, asked, replies, strict=True)
        ]

    def facts(self, case: Case) -> list[str]:
        """What is handed over with a question of task 3: the facts behind it, or retrieved ones."""
        assert isinstance(case.item, UaqItem)
        return self._retrieve(case.item) if case.form == "retrieved" else clue_facts(case.item)

    @cached_property
    def _retrieve(self) -> Callable[[UaqItem], list[str]]:
        return fact_retriever(self._data.items, self._facts)

    def _asked(self, case: Case) -> Asked:
        item = case.item
        if isinstance(item, ChoiceItem):
            return self._choice(item), 0
        if case.form in ("question", "clue"):
            return self._after_examples(item, with_clue=case.form == "clue")
        # No examples, as none has facts.
        lines = "\n".join(f"- {fact}" for fact in self.facts(case)) or "-"
        prompt = self.prompts.of("facts", item.language)
        return prompt.fill(examples="", facts=lines, question=item.question), 0

    def _after_examples(self, item: UaqItem, *, with_clue: bool) -> Asked:
        """The question after as many examples as fit, the last ones left out first.

        Args:
            item: the question.
            with_clue: with the reasoning up to the answer, as the examples have it.
        """
        source = self._data.clue_examples if with_clue else self._data.examples
        examples = []
        for example in source.get((item.language, item.type), ())[: self._shots]:
            if example.clues or not with_clue:
                question, answer = ("问题：", "答案：") if item.language == "zh" else ("Q: ", "A:")
                clue = f" {self._clue(example)}" if with_clue else ""
                wanted = example.answers[0].label if example.answers else NO_ANSWER
                examples.append(f"{question}{example.question}\n{answer}{clue} {wanted}\n\n")
        prompt = self.prompts.of("answer", item.language)
        after = f" {self._clue(item)}" if with_clue else ""
        for shots in range(len(examples), -1, -1):
            shown = "".join(examples[:shots])
            text = f"{prompt.fill(examples=shown, question=item.question)}{after}"
            if not shots or self._fits(text):
                break
        return text, shots

    def _choice(self, item: ChoiceItem) -> str:
        """Task 2: four options, no examples."""
        options = {
            f"option_{letter.lower()}": option
            for letter, option in zip(LETTERS, item.options, strict=True)
        }
        prompt = self.prompts.of("choice", item.language)
        return prompt.fill(question=item.question, **options)

    def _clue(self, item: UaqItem) -> str:
        """The reasoning that leads to the answer.

        Raises:
            InputError: the question has none, or too few steps for its type.
        """
        steps = 2 if item.type is QuestionType.INTER else 1
        if len(item.clues) < steps:
            raise InputError(f"the question has no clue of {steps} steps", where=item.key)
        comma, stop = ("、", "。") if item.language == "zh" else (", ", ".")
        values = {
            "options": comma.join(item.options),
            "steps": " ".join(f"{step}{stop}" for step in clue_facts(item)),
        }
        for number, clue in enumerate(item.clues[:2], start=1):
            values[f"question_{number}"] = clue.question
            values[f"answers_{number}"] = ", ".join(clue.answers[:_MOST_ANSWERS])
        return self.prompts.of(f"clue_{item.type.value}", item.language).fill(**values)

    def _likelihoods(self, items: Sequence[ChoiceItem]) -> list[list[float] | KnowgateError]:
        """Return the likelihoods of each question's options."""
        if self.choose_by == "letter":
            letters = [f"({letter})" for letter in LETTERS]
            return option_likelihoods(self.model, list(map(self._choice, items)), letters)
        found = []
        for item in items:
            # Per character, as the answer to the bare question.
            prompt = self.prompts.of("answer", item.language)
            asked = [prompt.fill(examples="", question=item.question)]
            lengths = [len(option) + 1 for option in item.options]
            found += option_likelihoods(self.model, asked, item.options, lengths)
        return found


def first_paragraph(text: str) -> str:
    """A reply up to its first blank line, where the published set-up stops.

    What a model thinks aloud before it, in tags, is no part of the reply.

    Example:
        >>> first_paragraph("<think>Let me\\n\\nsee.</think>\\n\\nAnn Li\\n\\nBecause")
        'Ann Li'
    """
    return _without_thinking(text).lstrip().partition("\n\n")[0].rstrip()


def _without_thinking(text: str) -> str:
    return _THINKING.sub("", text, count=1)


def case_row(case: Case, system: str = MODEL_SYSTEM, **fields: Any) -> UaqRow:
    """Make the row of a system for a question in a form."""
    item = case.item
    return UaqRow(
        row_id=row_id(system, case.form, item.key),
        system=system,
        form=case.form,
        key=item.key,
        language=item.language,
        type=item.type,
        kind=item.kind if isinstance(item, UaqItem) else None,
        **fields,
    )


def _row(case: Case, reply: Sequence[Generation | float] | KnowgateError, shots: int = 0) -> UaqRow:
    """Read a reply: its first paragraph, or the one letter that it chooses or is the likeliest."""
    if isinstance(reply, KnowgateError):
        return case_row(case, shots=shots, error=RowError.of(reply))
    item, text = case.item, None if isinstance(reply[0], float) else reply[0].text
    if isinstance(item, UaqItem):
        return case_row(case, shots=shots, response=first_paragraph(text or ""))
    if text is None:
        likelihoods = [one for one in reply if isinstance(one, float)]
        letters: Sequence[str] = LETTERS[int(np.argmax(likelihoods))]
    else:
        letters = parse_choices(_without_thinking(text), item.options) or ()
    letter = letters[0] if len(letters) == 1 else None
    # Where the right text is offered twice, either letter names it.
    right = letter is not None and item.options[LETTERS.index(letter)] == item.target
    return case_row(case, letter=letter, right=right, response=text)
