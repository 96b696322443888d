"""Let a language model judge: prompt, verdict in a tag, reminders."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Self

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, model_validator

from ...adapters.langchain import GuardedAnswer
from ...guard.errors import InputError, KnowgateError, in_one_line
from ...guard.files import AnyPath, read_json, read_toml
from ...guard.prompts import Prompt
from ..run.replies import Judgement
from .contract import JudgedReply, Known, Seen, Verdict, sha256_of, shown


class NoVerdictError(KnowgateError):
    """A judge gave no verdict on a reply.

    Args:
        what: why; or the criterion, if no message of a language model held a valid verdict.
        cost: `calls` made all the same, and their `input_tokens` and `output_tokens` where metered.
    """

    def __init__(self, what: str, **cost: int | None) -> None:
        self.cost = cost
        messages = f"no valid <{what}> verdict in {cost.get('calls')} messages"
        super().__init__(messages if cost else what)


# Around an outcome, where a model decorates it: **yes**, `yes`, "yes".
_DECORATION = " \t\r\n*_`\"'“”‘’.。!"
_MOST_REASONING = 8_000
_PROMPTS = Path(__file__).with_name("prompts")


def folded_outcome(outcome: str) -> str:
    """The form in which outcomes are compared.

    Example:
        >>> folded_outcome("Tier 1"), folded_outcome("`over-specification`.")
        ('tier_1', 'over_specification')
    """
    plain = outcome.strip(_DECORATION).casefold()
    return re.sub(r"[\s_-]+", "_", plain.replace("\\_", "_"))


_Word = Annotated[str, Field(min_length=1, max_length=60)]


class LabelCriterion(BaseModel):
    """One question about a reply, with the answers that may be given.

    Attributes:
        name: of the criterion, as in judgements.
        question: what the page asks; made from the name where it is empty.
        outcomes: all answers.
        meanings: one line each; empty where the outcomes speak for themselves.
        ordinal: the outcomes stand in order from one end of a scale to the other.
        only_where: criterion → outcomes: asked where that criterion has one of these;
            always where nobody is asked that criterion.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: _Word
    question: str = ""
    outcomes: Annotated[tuple[_Word, ...], Field(min_length=2, max_length=9)]
    meanings: tuple[str, ...] = ()
    ordinal: bool = False
    only_where: dict[str, tuple[str, ...]] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.outcomes)) != len(self.outcomes):
            raise ValueError("an outcome stands there twice")
        if self.meanings and len(self.meanings) != len(self.outcomes):
            raise ValueError(f"{len(self.meanings)} meanings of {len(self.outcomes)} outcomes")
        return self


class Criterion(LabelCriterion):
    """One question that a language model answers about every reply.

    Attributes:
        name: by which verdicts are stored and reported. That of a bundled criterion
            (`abstention`, `factuality`, `failure`) puts this one in its place.
        prompt: what the judge is told: what each outcome means. How to give the verdict
            is added to it.
        outcomes: what it may answer, at least two.
        tag: around the verdict, as in `<tone>curt</tone>`; the name where it is empty.
        sees: what it is shown: some of question, expected_answer, reply, context,
            citation; the reply always.
        positive: the outcome whose rate is of interest; None where there is none.
        only_where: criterion → outcomes: it is asked only about replies to which the
            same judge gave one of these before. Otherwise the outcome is `otherwise`.
        otherwise: None for no verdict at all.
        needs: fields of `sees` without which it is not asked, such as expected_answer.
        question, meanings, ordinal: for people who label by it.

    Raises:
        InputError: a part is not what it should be.
    """

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
    prompt: Prompt
    outcomes: Annotated[
        tuple[Annotated[str, Field(max_length=80, pattern=r"^[^<>\n\r]*$")], ...],
        Field(min_length=2),
    ]
    tag: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")] = ""
    sees: tuple[Seen, ...] = ("question", "reply")
    positive: str | None = None
    otherwise: str | None = None
    needs: tuple[Seen, ...] = ()

    @model_validator(mode="after")
    def _fits_a_judge(self) -> Self:
        folded = {folded_outcome(outcome) for outcome in self.outcomes}
        if len(folded) < len(self.outcomes) or "" in folded:
            raise ValueError("the outcomes must differ by more than case or hyphens")
        if "reply" not in self.sees or not set(self.needs) <= set(self.sees):
            raise ValueError("must see the reply and what it needs")
        if self.positive is not None and self.positive not in self.outcomes:
            raise ValueError(f"{self.positive!r} is none of the outcomes")
        if not self.prompt.text.strip() or self.name == Judgement.GIVEN:
            raise ValueError("the prompt is empty, or the name is taken")
        return self

    # Around all others, so that what is wrong with any of them is one line.
    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, given: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(given, dict) and not given.get("tag"):
            given = {**given, "tag": given.get("name")}
        found: Self = in_one_line(given, validate)
        return found

    @classmethod
    def read(cls, path: AnyPath) -> Criterion:
        """Read a criterion from a TOML or JSON file.

        Fields as in `Criterion`; `prompt` names a text file beside it. People's labels are read
        from the same file.

        Raises:
            InputError: the file or its prompt cannot be read, or a field is not what it
                should be.
        """
        where, table = os.fspath(path), read_table(path)
        name = table.get("prompt") if isinstance(table, dict) else None
        if not isinstance(name, str) or not name:
            raise InputError("names no prompt", where=where, hint='prompt = "FILE.txt"')
        prompt = Prompt.load(Path(path).parent / name)
        try:
            return cls.model_validate({**table, "prompt": prompt})
        except InputError as error:
            raise InputError(error.what, where=where) from None

    @staticmethod
    def bundled(further: Sequence[Criterion] = ()) -> tuple[Criterion, ...]:
        """Return abstention, factuality in three tiers, kind of failure; then further criteria.

        Args:
            further: one with the name of a bundled criterion replaces it.

        Raises:
            InputError: two further criteria have one name.
        """
        names = [item.name for item in further]
        if len(set(names)) < len(names):
            raise InputError("two criteria have one name", where=", ".join(names))
        return tuple({item.name: item for item in (*_bundled(), *further)}.values())

    @staticmethod
    def parse_tag(text: str, tag: str, outcomes: Sequence[str]) -> Verdict | None:
        """Find the last valid verdict in `text`; None where there is none.

        Tag and outcome are read in any case, with spaces, Markdown and quotes around the
        outcome, with spaces or hyphens for its underscores, and nested tags from the innermost
        out. A tag that is not closed counts where nothing but an outcome follows. A tag whose
        content is anything but one of the outcomes does not count.

        Args:
            text: what the model wrote.
            tag: name of the tag.
            outcomes: those allowed; see `folded_outcome` for when two are alike.

        Example:
            >>> reply = "It abstains.\\n<Abstention> **Yes** </Abstention>"
            >>> found = Criterion.parse_tag(reply, "abstention", ["yes", "no"])
            >>> found.outcome, found.reasoning
            ('yes', 'It abstains.')
        """
        allowed = {folded_outcome(outcome): outcome for outcome in outcomes}
        longest = max(map(len, allowed), default=0) + 64
        # Bounded repeats keep this linear on any text.
        marks = list(
            re.finditer(rf"<\s{{0,8}}(/?)\s{{0,8}}{re.escape(tag)}\s{{0,8}}>", text, re.IGNORECASE)
        )
        for index in range(len(marks) - 1, -1, -1):
            mark = marks[index]
            if mark.group(1):
                continue
            end = marks[index + 1].start() if index + 1 < len(marks) else len(text)
            # What is longer than any outcome cannot be one, and is not worth folding.
            content = text[mark.end() : end].strip()
            outcome = allowed.get(folded_outcome(content)) if len(content) <= longest else None
            if outcome is not None:
                before = text[: mark.start()].strip()
                after = text[marks[index + 1].end() :].strip() if index + 1 < len(marks) else ""
                return Verdict(outcome, reasoning=(before or after)[-_MOST_REASONING:])
        return None


@lru_cache
def _bundled() -> tuple[Criterion, ...]:
    names = (Judgement.ABSTENTION, Judgement.FACTUALITY, Judgement.FAILURE)
    return tuple(Criterion.read(_PROMPTS / f"{name}.toml") for name in names)


def bundled_prompt(name: str) -> Prompt:
    """A prompt that ships with the judges."""
    return Prompt.load(_PROMPTS / f"{name}.txt")


def read_table(path: AnyPath) -> Any:
    """Read a file of TOML or JSON, by its name.

    Raises:
        InputError: the file cannot be read, or is of neither kind.
    """
    kind = Path(path).suffix.lower()
    if kind == ".json":
        return read_json(path)
    if kind != ".toml":
        raise InputError(
            "is not a criterion",
            where=os.fspath(path),
            hint="name a .toml or .json file",
        )
    return read_toml(path)


# Shown of a context; of a longer one what shares most words with reply and expected answer. About
# 6,000 tokens, so that small models can judge too.
MOST_CONTEXT_CHARACTERS = 24_000
_REMINDERS = 2


class LLMJudge:
    """Asks a chat model about every reply, one criterion at a time.

    The criterion's prompt is the system message. What is judged follows as a message of its
    own, escaped so that it cannot end its element; only what the model itself writes is read
    for a verdict. A message without a valid one is answered with a reminder.

    Args:
        model: a chat model, or a runnable from messages to a message or text.
        name: of the model; verdicts are stored under `llm:<name>`.
        criteria: in the order in which they are asked; by default the bundled ones.

    Raises:
        InputError: no criteria, two of one name, or one that depends on a later one or on an
            outcome that the other one has not.
    """

    estimate = False
    prefix = Judgement.LLM_PREFIX

    def __init__(
        self, model: Runnable[Any, Any], *, name: str, criteria: Sequence[Criterion] | None = None
    ) -> None:
        chosen = Criterion.bundled() if criteria is None else tuple(criteria)
        _check_order(chosen)
        self.name = self.prefix + name
        self._model = model
        self._criteria = {criterion.name: criterion for criterion in chosen}

    @property
    def criteria(self) -> tuple[str, ...]:
        """Names, in the order in which they are asked."""
        return tuple(self._criteria)

    def version(self, criterion: str) -> str:
        """Of the model's name and all that it is told."""
        asked = self._criteria[criterion]
        return sha256_of(
            self.name,
            *(message.text for message in self._opening(asked, "")),
            bundled_prompt("reminder").text,
            *asked.outcomes,
            repr((asked.sees, sorted(asked.only_where.items()), asked.otherwise, asked.needs)),
            f"{_REMINDERS} {MOST_CONTEXT_CHARACTERS}",
        )

    def wants(self, criterion: str, material: JudgedReply, known: Known) -> bool:
        """Not without what the criterion needs, nor where it does not apply at all."""
        asked = self._criteria[criterion]
        if not all(_filled(material, field) for field in asked.needs):
            return False
        return asked.otherwise is not None or _applies(asked, known) is not False

    async def judge(self, criterion: str, material: JudgedReply, known: Known) -> Verdict:
        """The verdict of the model.

        Raises:
            NoVerdictError: no message held a valid one, reminders included; or it depends on a
                criterion that the judge failed on.
        """
        asked = self._criteria[criterion]
        applies = _applies(asked, known)
        if applies is None:
            raise NoVerdictError(
                f"{criterion} depends on {', '.join(asked.only_where)}, which has no verdict"
            )
        if not applies and asked.otherwise is not None:
            return Verdict(asked.otherwise)
        messages = self._messages(criterion, material)
        cost: dict[str, Any] = {"calls": 0, "input_tokens": None, "output_tokens": None}
        for _ in range(_REMINDERS + 1):
            output = await self._model.ainvoke(messages)
            cost["calls"] += 1
            _add_tokens(cost, output)
            said = GuardedAnswer.text_of(output)
            found = Criterion.parse_tag(said, asked.tag, asked.outcomes)
            if found is not None:
                return replace(found, **cost)
            # Some providers reject an empty message.
            reply: list[BaseMessage] = [AIMessage(said)] if said.strip() else []
            reminder = bundled_prompt("reminder").fill(**_slots(asked))
            messages = [*messages[:2], *reply, HumanMessage(reminder)]
        raise NoVerdictError(asked.tag, **cost)

    def prompt_characters(self, criterion: str, material: JudgedReply) -> int:
        """Length of the first prompt, to tell the cost beforehand."""
        return sum(len(message.text) for message in self._messages(criterion, material))

    def _messages(self, criterion: str, material: JudgedReply) -> list[BaseMessage]:
        asked = self._criteria[criterion]
        return self._opening(
            asked, shown(material, asked.sees, most_characters=MOST_CONTEXT_CHARACTERS)
        )

    def _opening(self, asked: Criterion, content: str) -> list[BaseMessage]:
        form = bundled_prompt("verdict").fill(**_slots(asked))
        return [SystemMessage(f"{asked.prompt.text}\n\n{form}"), HumanMessage(content)]


def _add_tokens(cost: dict[str, Any], output: object) -> None:
    """Add the tokens of a call; they stay None until one is metered."""
    usage = getattr(output, "usage_metadata", None)
    names = ("input_tokens", "output_tokens")
    if isinstance(usage, dict) and all(isinstance(usage.get(name), int) for name in names):
        for name in names:
            cost[name] = (cost[name] or 0) + usage[name]


def _slots(asked: Criterion) -> dict[str, str]:
    return {"tag": asked.tag, "outcomes": ", ".join(asked.outcomes)}


def _applies(asked: Criterion, known: Known) -> bool | None:
    """Whether all earlier outcomes are as they must be; None where one is missing."""
    verdicts = [
        known[name] in among if name in known else None for name, among in asked.only_where.items()
    ]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _filled(material: JudgedReply, field: str) -> bool:
    value = getattr(material, field)
    return bool(value.strip() if isinstance(value, str) else value)


def _check_order(criteria: Sequence[Criterion]) -> None:
    """Reject criteria one of which would never be asked: replies would silently get `otherwise`."""
    if not criteria:
        raise InputError("a judge needs a criterion", where="criteria")
    earlier: dict[str, set[str | None]] = {}
    for criterion in criteria:
        if criterion.name in earlier:
            raise InputError(f"two criteria are called {criterion.name!r}", where="criteria")
        for name, outcomes in criterion.only_where.items():
            known = earlier.get(name, set())
            if not outcomes or not known.issuperset(outcomes):
                never = next((repr(one) for one in outcomes if one not in known), "nothing")
                there = (
                    ", ".join(sorted(filter(None, known))) or "nothing, as it is not asked before"
                )
                raise InputError(
                    f"waits for an outcome {never} of {name!r}, which has {there}",
                    where=f"criterion {criterion.name!r}",
                    hint="name outcomes of that criterion, or judge without the bundled criteria",
                )
        earlier[criterion.name] = {*criterion.outcomes, criterion.otherwise}
