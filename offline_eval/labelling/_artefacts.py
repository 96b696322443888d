"""What the files in `labels/` hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ._criteria import LabelCriterion

_Name = Annotated[str, Field(min_length=1)]


class _Stored(BaseModel):
    # Unknown fields are left alone: a later writer may add some without a new schema.
    model_config = ConfigDict(frozen=True, extra="ignore")


class HumanLabel(_Stored):
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


class SampledReply(_Stored):
    """One reply that is to be labelled.

    Attributes:
        inclusion_probability: how likely it was to be drawn, in (0, 1]; a mean over the
            labelled replies that is weighted with its inverse speaks for the whole run.
        batch: 0 for those drawn first, 1 for those added when the sample first grew, …
    """

    reply_id: _Name
    inclusion_probability: Annotated[float, Field(gt=0, le=1)]
    batch: Annotated[int, Field(ge=0)] = 0


class LabelSample(_Stored):
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
