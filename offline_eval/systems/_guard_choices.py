"""Which guards stand in front of the systems, and which questions their policies have seen."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...guard import InputError, Policy
from ...guard.files import file_sha256
from ..ookb import read_ookb_run
from ..runs import read_manifest

OFF = "off"
_CALIBRATION = "calibration.json"


@dataclass(frozen=True, slots=True)
class GuardChoice:
    """One guard, or none.

    Attributes:
        name: `off`, or the name of the policy's file or of the run's folder.
        policy: None for `off`.
        sha256: of the file with the policy; empty for `off`.
        fitted_on: normalised texts of the questions that the policy was fitted on; None
            where nobody can tell.
    """

    name: str = OFF
    policy: Policy | None = None
    sha256: str = ""
    fitted_on: frozenset[str] | None = None

    def held_out(self, question: str) -> bool | None:
        """Whether the policy has not seen the question; None where nobody can tell."""
        if self.fitted_on is None:
            return None
        return normalised(question) not in self.fitted_on


def normalised(question: str) -> str:
    """A question's text without what does not tell two questions apart."""
    return " ".join(question.split()).casefold()


def load_guard_choices(specs: Sequence[str | os.PathLike[str]]) -> tuple[GuardChoice, ...]:
    """Guards by `off`, the file of a policy, or the folder of a calibrated run.

    Args:
        specs: a calibrated run of this suite also tells which questions its policy was
            fitted on; they are known again by their text.

    Raises:
        InputError: a policy that cannot be read, a run without one, or one guard twice.
    """
    found: list[GuardChoice] = []
    for spec in specs or (OFF,):
        choice = GuardChoice() if os.fspath(spec) == OFF else _loaded(Path(spec))
        same = [other for other in found if other.sha256 == choice.sha256]
        if same:
            raise InputError(
                "is named twice" if choice.policy else "stands there twice",
                where=f"--guard {os.fspath(spec)}",
                mend="name each guard once",
            )
        taken = {other.name for other in found}
        if choice.name in taken:
            # Two policies of one file name, from two folders.
            parent = Path(spec).absolute().parent.name
            choice = _renamed(choice, f"{parent}/{choice.name}", taken)
        found.append(choice)
    return tuple(found)


def held_out_of(choices: Sequence[GuardChoice], question: str) -> bool | None:
    """Whether no policy among `choices` has seen a question.

    Returns:
        False where one has; None where one cannot tell, or there is no policy at all.
    """
    told = [choice.held_out(question) for choice in choices if choice.policy is not None]
    if False in told:
        return False
    return None if None in told or not told else True


def _loaded(path: Path) -> GuardChoice:
    if not path.is_dir():
        policy = Policy.load(path)
        return GuardChoice(path.stem, policy, file_sha256(path))
    manifest = read_manifest(path)
    if manifest.get("suite") != "ookb" or manifest.get("holds") is not None:
        raise InputError(
            "is no run that a policy of this suite is calibrated on",
            where=str(path),
            mend="name its policy.json, or a run of `knowgate eval ookb --scorer …`",
        )
    if not (path / _CALIBRATION).is_file():
        raise InputError(
            "no policy was calibrated on this run",
            where=str(path),
            mend=f"do so with `knowgate calibrate --run {path} --out policy.json`",
        )
    run = read_ookb_run(path)
    assert run.calibration is not None
    return GuardChoice(
        name=path.resolve().name,
        policy=run.calibration.policy,
        sha256=file_sha256(path / _CALIBRATION),
        fitted_on=frozenset(
            normalised(run.questions[name].question)
            for name in run.calibration.calibration_questions
        ),
    )


def _renamed(choice: GuardChoice, name: str, taken: set[str]) -> GuardChoice:
    number, found = 2, name
    while found in taken:
        found, number = f"{name}-{number}", number + 1
    return GuardChoice(found, choice.policy, choice.sha256, choice.fitted_on)
