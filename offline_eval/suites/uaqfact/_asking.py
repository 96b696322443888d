"""The plan of a run, its prompts, and the replies of a model or a log, batch by batch."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ....guard.contracts import Generation, LanguageModel, ScoringLanguageModel
from ....guard.decision import Route
from ....guard.errors import InputError, KnowgateError, LanguageModelError
from ....guard.prompts import Prompt
from ...data.graph.items import Answerability, ChoiceItem, QuestionType, UaqItem
from ...data.graph.layout import UaqData
from ...judging.multiple_choice import MultipleChoice
from ...run import RowError, Stored
from ...run.calls import each_or_error, generate_each
from ...run.manifest import Manifest
from ...systems.logged_replies import LogEntry, LoggedReplies
from .._prompts import PromptSet, WindowedModel
from ..parts import MODEL_SYSTEM

SUITE = "uaqfact"
# Folder within a run's: the questions that it asked.
QUESTIONS = "questions"

Form = Literal["question", "choice", "clue", "facts", "retrieved"]
"""How a question is put: alone (task 1), with options (task 2), after its reasoning, with
the facts behind it, or with retrieved facts (task 3)."""


class _SettingsRead(Stored):
    """Settings of a run that its readers use."""

    tasks: tuple[int, ...]
    languages: tuple[str, ...]
    shots: int = 0


class UaqManifest(Manifest):
    """`manifest.json`.

    Attributes:
        systems: the model, and guards in front of it.
        quirks: irregularities of the data.
        rows: how many the finished run has.
    """

    settings_read = _SettingsRead

    systems: tuple[str, ...]
    quirks: tuple[str, ...] = ()
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

    @property
    def task(self) -> int:
        """1, 2 or 3."""
        return {"question": 1, "choice": 2}.get(self.form, 3)


def row_id(system: str, form: str, key: str) -> str:
    """How a row is told from others."""
    return f"{system}/{form}/{key}"


TASK3_FORMS: tuple[Form, ...] = ("clue", "facts", "retrieved")


@dataclass(frozen=True, slots=True)
class Case:
    """One question in one form."""

    form: Form
    item: UaqItem | ChoiceItem


def limited(data: UaqData, limit: int | None) -> UaqData:
    """The first questions of each type, kind and language, with what belongs to them."""
    if limit is None:
        return data
    seen: dict[tuple[str, QuestionType, Answerability], int] = {}
    items = []
    for item in data.items:
        group = item.language, item.type, item.kind
        seen[group] = seen.get(group, 0) + 1
        if seen[group] <= limit:
            items.append(item)
    kept = {(item.language, item.qid) for item in items if item.unanswerable}
    choices = [
        choice
        for choice in data.choices
        if any((choice.language, qid) in kept for qid in choice.relevant)
    ]
    return replace(data, items=tuple(items), choices=tuple(choices))


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
    found: dict[str, list[str]] = {key: [] for key in keys.values()}
    for choice in data.choices:
        for qid in choice.relevant:
            key = keys.get((choice.language, qid))
            if key is not None:
                found[key].append(choice.key)
    return {key: facts for key, facts in found.items() if facts}


def batches(plan: Sequence[Case], size: int) -> Iterator[list[Case]]:
    """Runs of equal form, at most `size` long."""
    batch: list[Case] = []
    for planned_item in plan:
        if batch and (len(batch) == size or batch[0].form != planned_item.form):
            yield batch
            batch = []
        batch.append(planned_item)
    if batch:
        yield batch


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


def _entry(line: Mapping[str, Any]) -> LogEntry | None:
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
        return LogEntry((form, "key", line["key"]), response)
    if not isinstance(line.get("qid"), str):
        raise InputError("neither 'key' nor 'qid'")
    fields = {**line, "language": line.get("language", line.get("lan"))}
    return LogEntry((form, "qid", line["qid"]), response, fields, unique=False)


NO_ANSWER = "##None##"
LETTERS = ("A", "B", "C", "D")
# Of a list of answers: Wikidata knows hundreds of translators of one book.
_MOST_ANSWERS = 10
# Without these a model is not asked what it is measured by.
_NEEDED = frozenset(("question", "facts", *(f"option_{letter.lower()}" for letter in LETTERS)))


# A prompt as the model gets it, and the examples in it: as many as fit the model's window.
Asked = tuple[str, int]


def embedded_prompts() -> Prompts:
    """Prompts for the bundled language model, which reads the words that it was taught."""
    with resources.as_file(resources.files(f"{__package__}.embedded_prompts")) as folder:
        return Prompts(folder)


class Prompts(PromptSet):
    """The suite's prompts, each replaceable by a file of the same name, such as `answer_en.txt`.

    Args:
        folder: with the user's own files; see `PromptSet`.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        super().__init__(f"{__package__}.prompts", folder, needed=_NEEDED, only_known=True)

    def of(self, name: str, language: str) -> Prompt:
        """The prompt in a language; one without prompts of its own gets the English ones."""
        return self._prompts.get(f"{name}_{language}", self._prompts[f"{name}_en"])


class Prompter:
    """Makes prompts for one set of questions and one model.

    Args:
        data: with the few-shot examples.
        prompts: texts.
        shots: examples wanted per prompt.
        model: where it states its window, prompts have as many examples as fit.
        answer_tokens: kept free for the answer.
    """

    def __init__(
        self,
        data: UaqData,
        prompts: Prompts,
        *,
        shots: int = 4,
        model: object = None,
        answer_tokens: int = 64,
    ) -> None:
        self._data, self._prompts, self._shots = data, prompts, shots
        self._count: Callable[[str], int] | None = None
        if isinstance(model, WindowedModel) and model.context_window is not None:
            self._room = model.context_window - answer_tokens
            token_ids = model.token_ids
            self._count = lambda text: len(token_ids(text))

    def question(self, item: UaqItem) -> Asked:
        """Task 1: the question after examples."""
        examples = [
            f"{_turn(example.language, example.question)} {_target(example)}\n\n"
            for example in self._examples(self._data.examples, item)
        ]
        return self._fitted(item, examples)

    def with_clue(self, item: UaqItem) -> Asked:
        """Task 3: the question, and the reasoning up to the answer, after examples likewise.

        Raises:
            InputError: the question has no clue.
        """
        examples = [
            f"{_turn(item.language, example.question)} {self.clue(example)} {_target(example)}\n\n"
            for example in self._examples(self._data.clue_examples, item)
            if example.clues
        ]
        return self._fitted(item, examples, f" {self.clue(item)}")

    def with_facts(self, item: UaqItem, facts: Sequence[str]) -> Asked:
        """Task 3: the question after facts, one a line; no examples, as none has facts."""
        prompt = self._prompts.of("facts", item.language)
        lines = "\n".join(f"- {fact}" for fact in facts) or "-"
        return prompt.fill(examples="", facts=lines, question=item.question), 0

    def choice(self, item: ChoiceItem) -> str:
        """Task 2: four options, no examples."""
        options = {
            f"option_{letter.lower()}": option
            for letter, option in zip(LETTERS, item.options, strict=True)
        }
        prompt = self._prompts.of("choice", item.language)
        return prompt.fill(question=item.question, **options)

    def bare_choice(self, item: ChoiceItem) -> str:
        """Task 2 without the options: the question as in task 1, without examples."""
        prompt = self._prompts.of("answer", item.language)
        return prompt.fill(examples="", question=item.question)

    def clue(self, item: UaqItem) -> str:
        """The reasoning that leads to the answer.

        Raises:
            InputError: the question has none, or too few steps for its type.
        """
        steps = 2 if item.type is QuestionType.INTER else 1
        if len(item.clues) < steps:
            raise InputError(f"the question has no clue of {steps} steps", where=item.key)
        stop = "。" if item.language == "zh" else "."
        values = {
            "options": _between(item.language).join(item.options),
            "steps": " ".join(f"{step}{stop}" for step in clue_facts(item)),
        }
        for number, clue in enumerate(item.clues[:2], start=1):
            values[f"question_{number}"] = clue.question
            values[f"answers_{number}"] = ", ".join(clue.answers[:_MOST_ANSWERS])
        return self._prompts.of(f"clue_{item.type.value}", item.language).fill(**values)

    def _examples(
        self, examples: Mapping[tuple[str, QuestionType], tuple[UaqItem, ...]], item: UaqItem
    ) -> tuple[UaqItem, ...]:
        return examples.get((item.language, item.type), ())[: self._shots]

    def _fitted(self, item: UaqItem, examples: Sequence[str], after: str = "") -> Asked:
        """With as many of the examples as fit, the last ones left out first."""
        prompt = self._prompts.of("answer", item.language)
        for shots in range(len(examples), -1, -1):
            shown = "".join(examples[:shots])
            text = f"{prompt.fill(examples=shown, question=item.question)}{after}"
            if not shots or self._count is None or self._count(text) <= self._room:
                break
        return text, shots


def clue_facts(item: UaqItem) -> list[str]:
    """What is known about a question, one fact a line: its triples, or else its clues."""
    if item.triples:
        return [str(triple) for triple in item.triples]
    return [f"{clue.question} {', '.join(clue.answers[:_MOST_ANSWERS])}" for clue in item.clues]


def _turn(language: str, question: str) -> str:
    if language == "zh":
        return f"问题：{question}\n答案："
    return f"Q: {question}\nA:"


def _target(example: UaqItem) -> str:
    return example.answers[0].label if example.answers else NO_ANSWER


def _between(language: str) -> str:
    return "、" if language == "zh" else ", "


# Questions compared at one time: 64 × 12,000 scores are 6 MB.
_AT_ONCE = 64


class FactRetriever:
    """The nearest facts by TF-IDF over letter sequences: any language, no model, the same always.

    Args:
        items: whose facts make up the collection, each language one of its own.
        k: facts per question.
    """

    def __init__(self, items: Iterable[UaqItem], k: int) -> None:
        self._k = k
        facts: dict[str, dict[str, None]] = {}
        for item in items:
            facts.setdefault(item.language, {}).update(dict.fromkeys(clue_facts(item)))
        self._facts = {language: list(found) for language, found in facts.items() if found}
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectorizers = {}
        self._matrices = {}
        for language, found in self._facts.items():
            vectorizer = TfidfVectorizer(
                analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, dtype=np.float32
            )
            # Facts as columns: a row of the product is then one question's scores.
            self._matrices[language] = vectorizer.fit_transform(found).T.tocsr()
            self._vectorizers[language] = vectorizer

    def retrieve(self, items: Sequence[UaqItem]) -> list[list[str]]:
        """The facts for each question, nearest first; ties in the order of the collection."""
        found: list[list[str]] = [[] for _ in items]
        for language in self._facts:
            places = [at for at, item in enumerate(items) if item.language == language]
            for start in range(0, len(places), _AT_ONCE):
                some = places[start : start + _AT_ONCE]
                for at, facts in zip(
                    some, self._nearest(language, [items[at] for at in some]), strict=True
                ):
                    found[at] = facts
        return found

    def _nearest(self, language: str, items: Sequence[UaqItem]) -> list[list[str]]:
        facts = self._facts[language]
        queries = self._vectorizers[language].transform([item.question for item in items])
        scores = (queries @ self._matrices[language]).toarray()
        return [[facts[at] for at in np.argsort(-row, kind="stable")[: self._k]] for row in scores]


_THINKING = re.compile(r"^\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


class ModelAnswerer:
    """A language model, asked as the suite wants it.

    Args:
        lm: one that scores options is not asked for letters.
        prompter: makes the prompts.
        retriever: for the form `retrieved`; None where that is not asked.
        choose_by: see `UaqSettings`.
    """

    def __init__(
        self,
        lm: LanguageModel,
        prompter: Prompter,
        retriever: FactRetriever | None,
        *,
        choose_by: Literal["letter", "text"] = "letter",
    ) -> None:
        self._lm, self._prompter, self._retriever = lm, prompter, retriever
        self._choose_by = choose_by

    def answer(self, batch: Sequence[Case]) -> list[UaqRow]:
        """One row per question of equal form, in order."""
        form = batch[0].form
        if form == "choice":
            return self._choose([p.item for p in batch if isinstance(p.item, ChoiceItem)])
        items = [p.item for p in batch if isinstance(p.item, UaqItem)]
        asked = self._asked(form, items)
        found = generate_each(self._lm, [prompt for prompt, _ in asked])
        return [
            _row(form, item, reply, shots)
            for item, (_, shots), reply in zip(items, asked, found, strict=True)
        ]

    def _asked(self, form: Form, items: Sequence[UaqItem]) -> list[Asked]:
        if form in ("question", "clue"):
            ask = self._prompter.question if form == "question" else self._prompter.with_clue
            return [ask(item) for item in items]
        facts = [clue_facts(item) for item in items]
        if form == "retrieved":
            if self._retriever is None:
                raise InputError("facts are to be retrieved and there is no retriever")
            facts = self._retriever.retrieve(items)
        pairs = zip(items, facts, strict=True)
        return [self._prompter.with_facts(item, some) for item, some in pairs]

    def _choose(self, items: Sequence[ChoiceItem]) -> list[UaqRow]:
        prompts = [self._prompter.choice(item) for item in items]
        if not isinstance(self._lm, ScoringLanguageModel):
            replies = generate_each(self._lm, prompts)
            return [_row("choice", item, reply) for item, reply in zip(items, replies, strict=True)]
        if self._choose_by == "text":
            # The option that is likeliest per character as the answer to the bare question.
            bare = [self._prompter.bare_choice(item) for item in items]
            best = [
                self._likeliest([prompt], item.options, per_character=True)[0]
                for prompt, item in zip(bare, items, strict=True)
            ]
        else:
            best = self._likeliest(prompts, [f"({letter})" for letter in LETTERS])
        return [_scored_row(item, found) for item, found in zip(items, best, strict=True)]

    def _likeliest(
        self, prompts: Sequence[str], options: Sequence[str], *, per_character: bool = False
    ) -> list[int | KnowgateError]:
        """Return the place of the likeliest option after each prompt."""
        scoring, texts = self._lm, [f" {option}" for option in options]
        assert isinstance(scoring, ScoringLanguageModel)
        lengths = [len(text) if per_character else 1 for text in texts]

        def score(some: Sequence[str]) -> list[int | KnowgateError]:
            values = scoring.score_options(some, texts) / lengths
            if not np.isfinite(values).all():
                raise LanguageModelError("the model gave a likelihood that is not finite")
            return [int(best) for best in values.argmax(axis=1)]

        return each_or_error(score, prompts)


class ReplayAnswerer:
    """Logged replies: a question without one is a row with an error.

    Args:
        replies: see there.
    """

    def __init__(self, replies: LoggedReplies) -> None:
        self._replies = replies

    def answer(self, batch: Sequence[Case]) -> list[UaqRow]:
        """One row per question of equal form, in order."""
        return [
            _row(one.form, one.item, self._replies.generation(find_reply(self._replies, one)))
            for one in batch
        ]


def chosen_letter(reply: str, item: ChoiceItem) -> str | None:
    """The one letter that a reply chooses; None for none and for several."""
    found = MultipleChoice.parse(_without_thinking(reply), item.options)
    return found[0] if found is not None and len(found) == 1 else None


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


def case_row(form: Form, item: UaqItem | ChoiceItem, **fields: Any) -> UaqRow:
    """Make the row of the model alone for a question in a form."""
    return UaqRow(
        row_id=row_id(MODEL_SYSTEM, form, item.key),
        system=MODEL_SYSTEM,
        form=form,
        key=item.key,
        language=item.language,
        type=item.type,
        kind=item.kind if isinstance(item, UaqItem) else None,
        **fields,
    )


def _row(
    form: Form, item: UaqItem | ChoiceItem, reply: list[Generation] | KnowgateError, shots: int = 0
) -> UaqRow:
    """Read a reply: its first paragraph, or the letter that it chooses."""
    if isinstance(reply, KnowgateError):
        return case_row(form, item, shots=shots, error=RowError.of(reply))
    if isinstance(item, UaqItem):
        return case_row(form, item, shots=shots, response=first_paragraph(reply[0].text))
    letter = chosen_letter(reply[0].text, item)
    return case_row(
        form, item, response=reply[0].text, letter=letter, right=_is_right(item, letter)
    )


def _scored_row(item: ChoiceItem, best: int | KnowgateError) -> UaqRow:
    if isinstance(best, KnowgateError):
        return case_row("choice", item, error=RowError.of(best))
    letter = LETTERS[best]
    return case_row("choice", item, letter=letter, right=_is_right(item, letter))


def _is_right(item: ChoiceItem, letter: str | None) -> bool:
    # Where the right text is offered twice, either letter names it.
    return letter is not None and item.options[LETTERS.index(letter)] == item.target
