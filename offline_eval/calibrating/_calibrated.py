"""What calibration on measured cases gives: a policy, and all that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...calibration import CalibratorChoice
from ...guard import Policy
from ._measured import MeasuredCase, MeasuredCases
from ._outcomes import Rates
from ._path_steps import PathStep


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A fitted policy with its evidence.

    Attributes:
        policy: certified, or one that always abstains and says so.
        measured: all cases, with what measured them.
        learn: cases that calibrators and path were fitted on.
        certify: cases that the certificate rests on.
        test: cases kept back for reporting; may be empty.
        choices: signal name → its calibrator and why that one.
        steps: the declared path as it was tested.
        rates: how the policy did on `test`; None where nothing was kept back.
        coverage: the share that was asked to be let through, None where a risk was asked.
        seed: of the split and of all resampling.
        warnings: what to know before trusting the promise; often nothing.
        not_promised: what the guarantee does not speak of, in words.
    """

    policy: Policy
    measured: MeasuredCases
    learn: tuple[MeasuredCase, ...]
    certify: tuple[MeasuredCase, ...]
    test: tuple[MeasuredCase, ...]
    choices: Mapping[str, CalibratorChoice]
    steps: tuple[PathStep, ...]
    rates: Rates | None
    coverage: float | None
    seed: int
    warnings: tuple[str, ...]
    not_promised: tuple[str, ...]

    @property
    def unseen(self) -> tuple[MeasuredCase, ...]:
        """Cases that neither calibrators nor path were fitted on."""
        return (*self.certify, *self.test)
