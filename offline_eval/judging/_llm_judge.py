"""Let a language model judge: prompt, verdict in a tag, reminders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable

from ...adapters.langchain import GuardedAnswer
from ...guard.errors import InputError
from ._contract import JudgedReply, Known, Verdict, sha256_of, shown
from ._criterion import Criterion, EarlierVerdictError, NoVerdictError, bundled_prompt

# About 6,000 tokens, so that small models can judge too.
MOST_CONTEXT_CHARACTERS = 24_000


class LLMJudge:
    """Asks a chat model about every reply, one criterion at a time.

    The criterion's prompt is the system message. What is judged follows as a message of its
    own, escaped so that it cannot end its element; only what the model itself writes is read
    for a verdict. A message without a valid one is answered with a reminder.

    Args:
        model: a chat model, or a runnable from messages to a message or text.
        name: of the model; verdicts are stored under `llm:<name>`.
        criteria: in the order in which they are asked; by default the bundled ones.
        reminders: most of them per verdict, at least 0.
        most_context_characters: shown of a context; of a longer one the passages that share
            most words with reply and expected answer.

    Raises:
        InputError: no criteria, two of one name, or one that depends on a later one or on an
            outcome that the other one has not.
    """

    estimate = False
    prefix = "llm:"

    def __init__(
        self,
        model: Runnable[Any, Any],
        *,
        name: str,
        criteria: Sequence[Criterion] | None = None,
        reminders: int = 2,
        most_context_characters: int = MOST_CONTEXT_CHARACTERS,
    ) -> None:
        chosen = Criterion.bundled() if criteria is None else tuple(criteria)
        _check_order(chosen)
        if reminders < 0:
            raise InputError("must not be negative", where="reminders")
        self.name = self.prefix + name
        self._model = model
        self._criteria = {criterion.name: criterion for criterion in chosen}
        self._reminders = reminders
        self._most_context = most_context_characters

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
            f"{self._reminders} {self._most_context}",
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
            NoVerdictError: no message held a valid one, reminders included.
            EarlierVerdictError: it depends on a criterion that the judge failed on.
        """
        asked = self._criteria[criterion]
        applies = _applies(asked, known)
        if applies is None:
            raise EarlierVerdictError(
                f"{criterion} depends on {', '.join(asked.only_where)}, which has no verdict"
            )
        if not applies and asked.otherwise is not None:
            return Verdict(asked.otherwise)
        return await self._asked(asked, material)

    def prompt_characters(self, criterion: str, material: JudgedReply) -> int:
        """Length of the first prompt, to tell the cost beforehand."""
        return sum(len(message.text) for message in self._messages(criterion, material))

    def _messages(self, criterion: str, material: JudgedReply) -> list[BaseMessage]:
        asked = self._criteria[criterion]
        return self._opening(asked, shown(material, asked.sees, most_characters=self._most_context))

    def _opening(self, asked: Criterion, content: str) -> list[BaseMessage]:
        form = bundled_prompt("verdict").fill(**_slots(asked))
        return [SystemMessage(f"{asked.prompt.text}\n\n{form}"), HumanMessage(content)]

    async def _asked(self, asked: Criterion, material: JudgedReply) -> Verdict:
        messages, calls = self._messages(asked.name, material), 0
        spent = _Spent()
        for _ in range(self._reminders + 1):
            output = await self._model.ainvoke(messages)
            calls += 1
            spent.add(output)
            said = GuardedAnswer.text_of(output)
            found = Criterion.parse_tag(said, asked.tag, asked.outcomes)
            if found is not None:
                return Verdict(
                    found.outcome,
                    reasoning=found.reasoning,
                    input_tokens=spent.input_tokens,
                    output_tokens=spent.output_tokens,
                    calls=calls,
                )
            # Some providers reject an empty message.
            reply: list[BaseMessage] = [AIMessage(said)] if said.strip() else []
            reminder = bundled_prompt("reminder").fill(**_slots(asked))
            messages = [*messages[:2], *reply, HumanMessage(reminder)]
        raise NoVerdictError(
            asked.tag,
            calls=calls,
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
        )


class _Spent:
    """Tokens of several calls; None until one is metered."""

    def __init__(self) -> None:
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None

    def add(self, output: object) -> None:
        usage = getattr(output, "usage_metadata", None)
        if not isinstance(usage, dict):
            return
        read, written = usage.get("input_tokens"), usage.get("output_tokens")
        if isinstance(read, int) and isinstance(written, int):
            self.input_tokens = (self.input_tokens or 0) + read
            self.output_tokens = (self.output_tokens or 0) + written


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
    if not criteria:
        raise InputError("a judge needs a criterion", where="criteria")
    earlier: dict[str, set[str]] = {}
    for criterion in criteria:
        if criterion.name in earlier:
            raise InputError(f"two criteria are called {criterion.name!r}", where="criteria")
        missing = sorted(criterion.only_where.keys() - earlier.keys())
        if missing:
            raise InputError(
                f"depends on {missing[0]!r}, which is not asked before it",
                where=f"criterion {criterion.name!r}",
                hint="judge by that one too",
            )
        for name, outcomes in criterion.only_where.items():
            # It would never be asked, and every reply would silently get `otherwise`.
            strangers = sorted(set(outcomes) - earlier[name])
            if strangers or not outcomes:
                never = f"an outcome {strangers[0]!r} of" if strangers else "no outcome of"
                raise InputError(
                    f"waits for {never} {name!r}, which has {', '.join(sorted(earlier[name]))}",
                    where=f"criterion {criterion.name!r}",
                    hint="name outcomes of that criterion, or judge without the bundled criteria",
                )
        otherwise = () if criterion.otherwise is None else (criterion.otherwise,)
        earlier[criterion.name] = {*criterion.outcomes, *otherwise}
