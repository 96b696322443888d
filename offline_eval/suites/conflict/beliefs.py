"""What a model believes: of all acceptable answers exactly one, in all prompt variants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....guard.contracts import LanguageModel, ScoringLanguageModel
from ....guard.errors import KnowgateError
from ...judging.free_form import parse_yes_no, yes_no_likelihoods
from ...run import RowError
from ...run.calls import each_or_error, generate_each
from ...run.table import TableSpec
from .._prompts import PromptSet
from ..parts import Work
from ._rows import HINT, BeliefRow, BeliefSource, Vote, answers_named
from .items import ConflictItem

BELIEFS = TableSpec("beliefs", BeliefRow, "key", hint=HINT, clean=True)
# Questions asked at one time: what a kill can cost.
_AT_ONCE = 64


def conflict_prompts(folder: Path | None = None) -> PromptSet:
    """Return the suite's prompts, those of a folder in the place of bundled ones."""
    return PromptSet(f"{__package__}.prompts", folder)


_Votes = Sequence[Vote | KnowgateError]


def collect_beliefs(
    lm: LanguageModel,
    prompts: PromptSet,
    source: BeliefSource,
    items: Sequence[ConflictItem],
) -> list[BeliefRow]:
    """Find beliefs out: a row per question, in order; a failed call costs one question.

    Args:
        lm: whose beliefs; not asked where they are given.
        prompts: `belief_*` ask whether an answer is right, `closed_book` for the answer.
        source: `given`: taken from the item. `asked`: every acceptable answer in every
            variant, greedily, for yes or no; by the likelihoods of yes and no where the model
            scores options. `closed_book`: the question in all its wordings, greedily; an
            answer is accepted in a wording where the reply names it.
        items: the questions.
    """
    if source == "given":
        return [
            BeliefRow(
                key=item.key,
                source="given",
                belief=item.given,
                why="none" if item.given is None else "one",
            )
            for item in items
        ]
    asked = _asked if source == "asked" else _named
    votes: dict[str, list[Vote | KnowgateError]] = {item.key: [] for item in items}
    for key, several in asked(lm, prompts, items):
        votes[key] += several
    return [_row(item.key, source, votes[item.key]) for item in items]


def _asked(
    lm: LanguageModel,
    prompts: PromptSet,
    items: Sequence[ConflictItem],
) -> Iterator[tuple[str, _Votes]]:
    """Ask for each answer in each variant whether it is right; yield key and vote."""
    places = [
        (item, variant, answer)
        for item in items
        for variant in prompts.belief_variants
        for answer in item.acceptable
    ]
    asked = [how.fill(question=one.question, answer=one.answers[n].text) for one, how, n in places]
    for (item, variant, answer), found in zip(places, _verdicts(lm, asked), strict=True):
        if isinstance(found, KnowgateError):
            yield item.key, [found]
        else:
            yield item.key, [Vote(variant=variant.name, answer=answer, **found)]


def _named(
    lm: LanguageModel,
    prompts: PromptSet,
    items: Sequence[ConflictItem],
) -> Iterator[tuple[str, _Votes]]:
    """Ask each wording of each question; yield its key, and the votes of the reply."""
    places = [
        (item, f"wording {number}", prompts["closed_book"].fill(question=text))
        for item in items
        for number, text in enumerate((item.question, *item.wordings), start=1)
    ]
    replies = generate_each(lm, [prompt for _, _, prompt in places])
    for (item, variant, _), reply in zip(places, replies, strict=True):
        if isinstance(reply, KnowgateError):
            yield item.key, [reply]
            continue
        named = answers_named(reply[0].text, [answer.names for answer in item.answers])
        yield (
            item.key,
            [Vote(variant=variant, answer=n, accepted=n in named) for n in item.acceptable],
        )


def find_beliefs(
    lm: Any,
    prompts: PromptSet,
    source: BeliefSource,
    work: Work[Any, Any],
    spec: TableSpec[BeliefRow] = BELIEFS,
) -> list[ConflictItem]:
    """Find and store the beliefs that are not stored yet; return the questions with one.

    Args:
        lm: whose beliefs they are.
        prompts: to ask for them.
        source: how they are found.
        work: the run under way; its cases are the questions.
        spec: of their table.
    """
    table, progress, items = work.run[spec], work.progress("finding beliefs"), work.cases
    for begin in range(0, len(items), _AT_ONCE):
        some = items[begin : begin + _AT_ONCE]
        if any(item.key not in table.done for item in some):
            table.extend(collect_beliefs(lm, prompts, source, some))
        progress(begin + len(some), len(items))
    beliefs = {row.key: row.belief for row in table.rows()}
    found = ((item, beliefs.get(item.key)) for item in items)
    return [replace(item, given=belief) for item, belief in found if belief is not None]


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


def _verdicts(lm: LanguageModel, prompts: Sequence[str]) -> list[dict[str, Any] | KnowgateError]:
    """Return the fields of a vote that its verdict sets, in order."""
    if not isinstance(lm, ScoringLanguageModel):
        return [
            reply if isinstance(reply, KnowgateError) else {"accepted": parse_yes_no(reply[0].text)}
            for reply in generate_each(lm, prompts)
        ]

    def score(some: Sequence[str]) -> list[dict[str, Any] | KnowgateError]:
        found = yes_no_likelihoods(lm, some)
        return [{"accepted": yes > no, "yes": yes, "no": no} for yes, no in found]

    return each_or_error(score, prompts)


def _row(key: str, source: BeliefSource, votes: _Votes) -> BeliefRow:
    good = tuple(vote for vote in votes if isinstance(vote, Vote))
    failed = [RowError.of(error) for error in votes if isinstance(error, KnowgateError)]
    belief, why = (None, "error") if failed else believed(good)
    error = failed[0] if failed else None
    fields = {"source": source, "belief": belief, "why": why, "votes": good, "error": error}
    return BeliefRow.model_validate({"key": key, **fields})
