"""What decides the rows of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...calibration.scenarios import ScenarioTrainingSettings
from ...guard import InputError
from ._beyond import BEYOND_KINDS
from ._cases import PAPER_KINDS, ContextKind
from ._guard_policy import require_share
from ._knowledge import checked_rule
from ._methods import METHOD_NAMES, OPTIONAL_METHODS

ALL = "all"
_LEAST = {"limit": 1, "questions_per_side": 1, "passages_per_context": 2}


@dataclass(frozen=True, slots=True)
class UniKnowSettings:
    """Settings of a run; they go into its manifest.

    Attributes:
        methods: names of methods, or `all` for those of `METHOD_NAMES` that the model
            allows.
        limit: questions of the data set at most; None for all.
        questions_per_side: known and unknown questions evaluated at most, each; None: all.
        samples: answers of a full estimate of knowledge.
        tau: share of right ones from which on a question is known.
        temperature: of these samples.
        risk: share of the questions that neither side answers which a guard may let
            through, in (0, 1).
        delta: probability in (0, 1) that this promise fails by bad luck.
        ablations: also train `lm_uniknow` with other shares of abstention, and with
            contexts left out.
        beyond: also ask the kinds of contexts beyond the paper.
        passages_per_context: of the kinds with several passages, at least 2.
        training: of trained methods.
        preference_training: of `dpo`.
        seed: of everything that is drawn.

    Raises:
        InputError: a value is out of its range, or a method is unknown.
    """

    methods: tuple[str, ...] = (ALL,)
    limit: int | None = None
    questions_per_side: int | None = None
    samples: int = 10
    tau: float = 0.7
    temperature: float = 1.0
    risk: float = 0.1
    delta: float = 0.1
    ablations: bool = False
    beyond: bool = False
    passages_per_context: int = 4
    training: ScenarioTrainingSettings = field(default_factory=ScenarioTrainingSettings)
    preference_training: ScenarioTrainingSettings = field(default_factory=ScenarioTrainingSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        check_methods(self.methods)
        for name in ("risk", "delta"):
            require_share(name, getattr(self, name))
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(
                    f"must be at least {least}, not {value}", where=name, mend=f"use {least}"
                )
        # Before a run begins, which would leave its folder behind.
        checked_rule(self.samples, self.tau, self.temperature)

    @property
    def asks_for_all(self) -> bool:
        """Whether methods that the model does not allow are left out, not refused."""
        return ALL in self.methods

    @property
    def method_names(self) -> tuple[str, ...]:
        """The methods asked for, each once, in the suite's order."""
        wanted = set(self.methods)
        if ALL in wanted:
            wanted |= set(METHOD_NAMES)
        return tuple(name for name in (*METHOD_NAMES, *OPTIONAL_METHODS) if name in wanted)

    @property
    def kinds(self) -> tuple[ContextKind, ...]:
        """The kinds of contexts that are built."""
        return (*PAPER_KINDS, *BEYOND_KINDS) if self.beyond else PAPER_KINDS


def check_methods(names: Sequence[str]) -> None:
    """Refuse unknown methods.

    Raises:
        InputError: one is unknown, or none is named.
    """
    known = (*METHOD_NAMES, *OPTIONAL_METHODS, ALL)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise InputError(
            f"unknown method {unknown[0]!r}" if unknown else "no method is named",
            where="methods",
            mend=f"one or several of: {', '.join(known)}",
        )
