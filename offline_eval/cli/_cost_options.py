"""Options of `knowgate calibrate` that choose a threshold by costs, without a guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ...calibration.risk import Costs, MaxAbstention
from ...guard.errors import InputError
from ...guard.policy import Missing

_PANEL = "Without a guarantee"
CostLeak = Annotated[
    float | None,
    typer.Option(
        help="Instead of a promise: what it costs where a question whose answer is missing "
        "passes. The threshold is the one that costs least.",
        rich_help_panel=_PANEL,
    ),
]
CostAbstention = Annotated[
    float | None,
    typer.Option(
        help="With --cost-leak: what it costs to abstain from a question that could be answered.  "
        "[default: 1]",
        rich_help_panel=_PANEL,
    ),
]
MissingShare = Annotated[
    float | None,
    typer.Option(
        help="With --cost-leak: share of your users' questions whose answer is missing.  "
        "[default: 0.5]",
        rich_help_panel=_PANEL,
    ),
]
MostAbstained = Annotated[
    float | None,
    typer.Option(
        "--max-abstention",
        help="Instead of a promise: the strictest threshold that abstains from at most this share "
        "of the questions that could be answered.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class CostOptions:
    """What was given of them."""

    leak: float | None = None
    abstention: float | None = None
    missing_share: float | None = None
    max_abstention: float | None = None

    def risk(self, missing: Missing | None) -> Costs | MaxAbstention | None:
        """How the threshold is chosen; None where something is promised.

        Args:
            missing: which questions must not pass.

        Raises:
            InputError: options that do not go together, or are out of range.
        """
        further = {"--cost-abstention": self.abstention, "--missing-share": self.missing_share}
        given = [name for name, value in further.items() if value is not None]
        if given and self.leak is None:
            raise InputError(
                "weighs against what a leak costs", where=given[0], hint="add --cost-leak 5"
            )
        if self.leak is not None and self.max_abstention is not None:
            raise InputError(
                "are mutually exclusive",
                where="--cost-leak, --max-abstention",
                hint="name one of both",
            )
        try:
            if self.max_abstention is not None:
                return MaxAbstention(self.max_abstention, missing)
            if self.leak is None:
                return None
            abstention = 1.0 if self.abstention is None else self.abstention
            share = 0.5 if self.missing_share is None else self.missing_share
            return Costs(self.leak, abstention, share, missing)
        except ValueError as error:
            where = "--cost-leak" if self.max_abstention is None else "--max-abstention"
            where = ", ".join([where, *given])
            raise InputError(str(error), where=where, hint="see --help") from None
