"""Criteria, labels and samples of labelling."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ....guard.errors import InputError
from ....guard.files import read_text
from ...run import (
    Judgement,
    Stored,
)

_Word = Annotated[str, Field(min_length=1, max_length=60)]
_HINT = (
    'the file needs "name" (text) and "outcomes" (2 to 9 different texts); "question", '
    '"meanings" (one per outcome) and "ordinal" (true or false) may be there'
)


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
    only_where: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> LabelCriterion:
        if len(set(self.outcomes)) != len(self.outcomes):
            raise ValueError("an outcome stands there twice")
        if self.meanings and len(self.meanings) != len(self.outcomes):
            raise ValueError(f"{len(self.meanings)} meanings of {len(self.outcomes)} outcomes")
        return self


ABSTENTION_CRITERION = LabelCriterion(
    name=Judgement.ABSTENTION,
    question="Does the reply abstain?",
    outcomes=("yes", "no"),
    meanings=(
        "it abstains: says that it does not know, or that the context does not tell",
        "it answers, even if in part, hedged or wrongly",
    ),
)
FACTUALITY_CRITERION = LabelCriterion(
    name=Judgement.FACTUALITY,
    question="How does the reply stand to the expected answer?",
    outcomes=Judgement.TIERS,
    meanings=(
        "equivalent: says the same in all that matters",
        "minor deviations that would not mislead who acts on it",
        "unacceptable: wrong, misleading, or an essential part is missing",
    ),
    ordinal=True,
    only_where={Judgement.ABSTENTION: ("no",)},
)
_BUILT_IN = {found.name: found for found in (ABSTENTION_CRITERION, FACTUALITY_CRITERION)}


def load_criterion(name: str | os.PathLike[str]) -> LabelCriterion:
    """Load a criterion by name (`abstention`, `factuality`), or from a TOML or JSON file.

    A file that defines a criterion for judges serves for people too.

    Raises:
        InputError: neither a name nor such a file.
    """
    text = os.fspath(name)
    if text in _BUILT_IN:
        return _BUILT_IN[text]
    if Path(text).suffix.lower() not in (".toml", ".json"):
        raise InputError(
            f"no such criterion: {text[:80]!r}",
            where="--criterion",
            hint=f"choose {' or '.join(_BUILT_IN)}, or name a .toml or .json file",
        )
    value = _parsed(text)
    try:
        found = LabelCriterion.model_validate(value)
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(str(part) for part in fault["loc"]) or "criterion"
        raise InputError(f"field {field!r}: {fault['msg']}", where=text, hint=_HINT) from None
    if found.name in _BUILT_IN:
        raise InputError(
            f"the name {found.name!r} is taken by a criterion of its own",
            where=text,
            hint="choose another name",
        )
    return found


def in_asking_order(criteria: Iterable[LabelCriterion]) -> tuple[LabelCriterion, ...]:
    """The criteria, each after those that decide whether it is asked; otherwise as given.

    Raises:
        InputError: two of them wait for each other.
    """
    waiting = {criterion.name: criterion for criterion in criteria}
    ordered: list[LabelCriterion] = []
    while waiting:
        free = [c for c in waiting.values() if not waiting.keys() & c.only_where.keys()]
        if not free:
            raise InputError(
                f"{min(waiting)!r} waits for an outcome that waits for it",
                where="--criterion",
                hint='change "only_where" in its file',
            )
        ordered.append(waiting.pop(free[0].name))
    return tuple(ordered)


def _parsed(path: str) -> Any:
    text = read_text(path)
    try:
        return json.loads(text) if path.lower().endswith(".json") else tomllib.loads(text)
    except (ValueError, RecursionError):
        raise InputError("is neither TOML nor JSON", where=path, hint=_HINT) from None


_Name = Annotated[str, Field(min_length=1)]


class HumanLabel(Stored):
    """A line of `labels/NAME.jsonl`. Of one reply and criterion the last line counts.

    Attributes:
        criterion: name of the criterion.
        outcome: one of the criterion's; None where the reply was skipped, or a label was
            taken back.
        annotator: who said so.
        note: on the reply, as it stood when this was said.
        at: UTC time in ISO format.
        skipped: the annotator looked at it and did not want to decide.
    """

    reply_id: _Name
    criterion: _Name
    outcome: str | None = None
    annotator: _Name
    note: str = ""
    at: str = ""
    skipped: bool = False


class SampledReply(Stored):
    """One reply that is to be labelled.

    Attributes:
        inclusion_probability: how likely it was to be drawn, in (0, 1]; a mean over the
            labelled replies that is weighted with its inverse speaks for the whole run.
        batch: 0 for those drawn first, 1 for those added when the sample first grew, …
    """

    reply_id: _Name
    inclusion_probability: Annotated[float, Field(gt=0, le=1)]
    batch: Annotated[int, Field(ge=0)] = 0


class LabelSample(Stored):
    """`labels/_sample.json`: the same for all annotators.

    Attributes:
        seed: of the draw, and of each annotator's order.
        replies_sha256: of all replies with a text that it was drawn from.
        population: how many those were.
        criteria: all that somebody was asked to label by.
        replies: in the order in which they were drawn.
    """

    seed: Annotated[int, Field(ge=0)]
    replies_sha256: str
    population: Annotated[int, Field(ge=0)]
    criteria: tuple[LabelCriterion, ...] = ()
    replies: tuple[SampledReply, ...] = ()
