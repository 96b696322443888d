"""What a model believes: of all acceptable answers exactly one, in all prompt variants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....guard.contracts import LanguageModel, ScoringLanguageModel
from ....guard.errors import KnowgateError
from ...judging.yes_no import YesNo
from ...run import RowError
from ...run.calls import each_or_error, generate_each
from ...run.table import TableSpec
from .._prompts import PromptSet
from ..parts import Work
from ._rows import HINT, BeliefRow, BeliefSource, Vote, answers_named
from .evidence import Believed
from .items import ConflictItem

BELIEFS = TableSpec("beliefs", BeliefRow, "key", hint=HINT, clean=True)
# Questions asked at one time: what a kill can cost.
_AT_ONCE = 64


def conflict_prompts(folder: Path | None = None) -> PromptSet:
    """Return the suite's prompts, those of a folder in the place of bundled ones."""
    return PromptSet(f"{__package__}.prompts", folder)


class BeliefCollector:
    """Finds beliefs out.

    Args:
        lm: whose beliefs; may be None where they are given.
        prompts: `belief_*` ask whether an answer is right, `closed_book` for the answer; a
            folder with some of them, or None for the bundled ones.
        source: `given`: taken from the item. `asked`: every acceptable answer in every
            variant, greedily, for yes or no; by the likelihoods of yes and no where the model
            scores options. `closed_book`: the question in all its wordings, greedily; an
            answer is accepted in a wording where the reply names it.
    """

    def __init__(
        self, lm: LanguageModel | None, prompts: PromptSet | Path | None, source: BeliefSource
    ) -> None:
        own = prompts if isinstance(prompts, PromptSet) else conflict_prompts(prompts)
        self._lm, self.prompts, self._source = lm, own, source

    def collect(self, items: Sequence[ConflictItem]) -> list[BeliefRow]:
        """A row per question, in order; a failed call costs one question."""
        if self._source == "given" or self._lm is None:
            return [_given(item) for item in items]
        if self._source == "closed_book":
            return self._closed_book(self._lm, items)
        return self._asked(self._lm, items)

    def _asked(self, lm: LanguageModel, items: Sequence[ConflictItem]) -> list[BeliefRow]:
        places = [
            (number, variant, answer)
            for number, item in enumerate(items)
            for variant in self.prompts.belief_variants
            for answer in item.acceptable
        ]
        prompts = [
            variant.fill(question=items[n].question, answer=items[n].answers[answer].text)
            for n, variant, answer in places
        ]
        verdicts = _verdicts(lm, prompts)
        votes: list[list[Vote | KnowgateError]] = [[] for _ in items]
        for (number, variant, answer), verdict in zip(places, verdicts, strict=True):
            if isinstance(verdict, KnowgateError):
                votes[number].append(verdict)
                continue
            accepted, yes, no = verdict
            votes[number].append(
                Vote(variant=variant.name, answer=answer, accepted=accepted, yes=yes, no=no)
            )
        return [_row(item, "asked", found) for item, found in zip(items, votes, strict=True)]

    def _closed_book(self, lm: LanguageModel, items: Sequence[ConflictItem]) -> list[BeliefRow]:
        prompt = self.prompts["closed_book"]
        places = [
            (number, wording)
            for number, item in enumerate(items)
            for wording in range(1, 2 + len(item.wordings))
        ]
        questions = [(item.question, *item.wordings) for item in items]
        replies = generate_each(
            lm, [prompt.fill(question=questions[number][wording - 1]) for number, wording in places]
        )
        votes: list[list[Vote | KnowgateError]] = [[] for _ in items]
        for (number, wording), reply in zip(places, replies, strict=True):
            if isinstance(reply, KnowgateError):
                votes[number].append(reply)
                continue
            item = items[number]
            named = answers_named(reply[0].text, [answer.names for answer in item.answers])
            votes[number] += [
                Vote(variant=f"wording {wording}", answer=answer, accepted=answer in named)
                for answer in item.acceptable
            ]
        return [_row(item, "closed_book", found) for item, found in zip(items, votes, strict=True)]


def find_beliefs(
    collector: BeliefCollector,
    items: Sequence[ConflictItem],
    work: Work[Any, Any],
    spec: TableSpec[BeliefRow] = BELIEFS,
) -> list[Believed]:
    """Collect and store what is not stored yet; return the questions with a belief.

    Args:
        collector: finds beliefs.
        items: the questions.
        work: the run under way.
        spec: of their table.
    """
    table, progress = work.run[spec], work.progress("finding beliefs")
    for begin in range(0, len(items), _AT_ONCE):
        some = items[begin : begin + _AT_ONCE]
        if any(item.key not in table.done for item in some):
            table.extend(collector.collect(some))
        progress(min(begin + _AT_ONCE, len(items)), len(items))
    beliefs = {row.key: row.belief for row in table.rows()}
    return [
        Believed(item, belief) for item in items if (belief := beliefs.get(item.key)) is not None
    ]


def believed(votes: Sequence[Vote]) -> tuple[int | None, str]:
    """The position of the believed answer, and why there is one or none.

    Exactly one answer must be accepted in all variants, and every other one rejected in all.

    Example:
        >>> believed([Vote(variant="1", answer=0, accepted=True),
        ...           Vote(variant="1", answer=1, accepted=False)])
        (0, 'one')
    """
    by_answer: dict[int, set[bool | None]] = {}
    for vote in votes:
        by_answer.setdefault(vote.answer, set()).add(vote.accepted)
    if any(len(verdicts) > 1 or None in verdicts for verdicts in by_answer.values()):
        return None, "unsteady"
    accepted = [answer for answer, verdicts in by_answer.items() if verdicts == {True}]
    if len(accepted) == 1:
        return accepted[0], "one"
    return None, "several" if accepted else "none"


def _given(item: ConflictItem) -> BeliefRow:
    why = "none" if item.given is None else "one"
    return BeliefRow(key=item.key, source="given", belief=item.given, why=why)


_Verdict = tuple[bool | None, float | None, float | None]


def _verdicts(lm: LanguageModel, prompts: Sequence[str]) -> list[_Verdict | KnowgateError]:
    if not isinstance(lm, ScoringLanguageModel):
        return [
            reply if isinstance(reply, KnowgateError) else (YesNo.parse(reply[0].text), None, None)
            for reply in generate_each(lm, prompts)
        ]

    def score(some: Sequence[str]) -> list[_Verdict | KnowgateError]:
        return [(yes > no, yes, no) for yes, no in YesNo.likelihoods(lm, some)]

    return each_or_error(score, prompts)


def _row(
    item: ConflictItem, source: BeliefSource, votes: Sequence[Vote | KnowgateError]
) -> BeliefRow:
    good = tuple(vote for vote in votes if isinstance(vote, Vote))
    for error in votes:
        if isinstance(error, KnowgateError):
            note = RowError.of(error)
            return BeliefRow(key=item.key, source=source, why="error", votes=good, error=note)
    belief, why = believed(good)
    return BeliefRow.model_validate(
        {"key": item.key, "source": source, "belief": belief, "why": why, "votes": good}
    )
