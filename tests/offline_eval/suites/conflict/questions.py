"""A small set of questions, made by hand, and models that answer it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.run.calls import RunOptions
from knowgate.offline_eval.suites import read_suite_run, run_suite
from knowgate.offline_eval.suites.conflict._scoring import ConflictRun, conflict_run
from knowgate.offline_eval.suites.conflict._suite import (
    ConflictSettings,
    ConflictSuite,
)
from knowgate.offline_eval.suites.conflict.evidence import PassageJudge
from knowgate.offline_eval.suites.conflict.items import Candidate, ConflictItem, ConflictSet
from knowgate.offline_eval.suites.parts import System

TOWNS = ("Rill", "Bovar", "Cindel", "Dorn", "Esk", "Fallow", "Gant", "Hythe")


def item(number: int = 0, *, given: int | None = 0, absurd: bool = True) -> ConflictItem:
    """Who runs a town: Ann (believed), Bo (plausible) or a teapot (implausible)."""
    town = TOWNS[number]
    answers = [
        Candidate(f"Ann {town}", (f"Annie {town}",), (_passage(town, f"Ann {town}"),)),
        Candidate(f"Bo {town}", (), (_passage(town, f"Bo {town}"),)),
    ]
    if absurd:
        answers.append(
            Candidate(f"teapot {number}", (), (_passage(town, f"teapot {number}"),), True)
        )
    return ConflictItem(
        key=f"set/{number}",
        question=f"Who runs {town}?",
        answers=tuple(answers),
        given=given,
        distractors=(f"Cy {town}", f"Di {town}"),
    )


def plain_item(passages: Mapping[str, Sequence[str]], key: str = "k") -> ConflictItem:
    """A question with these answers and their passages, the first of which is believed."""
    answers = tuple(Candidate(name, (), tuple(texts)) for name, texts in passages.items())
    return ConflictItem(key, f"Who runs town {key}?", answers, 0)


def small_set(size: int = 8) -> tuple[ConflictItem, ...]:
    """Questions whose beliefs are given."""
    return tuple(item(number) for number in range(size))


def _passage(town: str, name: str) -> str:
    return f"{town} lies by the sea. {name} runs {town} these days. Boats come and go."


class ScoringModel(ScriptedLanguageModel):
    """Follows the last name in the prompt's passages; without one it knows all Anns.

    It has a window and tokens: words.
    """

    context_window = 400

    def token_ids(self, text: str) -> list[int]:
        return list(range(len(text.split())))

    def score_options(self, prompts: Sequence[str], options: Sequence[str]) -> NDArray[np.float64]:
        found = np.full((len(prompts), len(options)), -9.0)
        for row, prompt in enumerate(prompts):
            self.prompts.append(prompt)
            named = [prompt.rfind(f"{option.strip()} runs") for option in options]
            for column, option in enumerate(options):
                if max(named) >= 0:
                    found[row, column] = -0.1 if named[column] == max(named) else -5.0
                elif option.startswith(" Ann"):
                    found[row, column] = -0.1
                elif "teapot" not in option:
                    found[row, column] = -4.0
        return found


def run_conflict(
    model: Any,
    items: Sequence[ConflictItem],
    out: Path,
    *,
    settings: ConflictSettings | None = None,
    judges: Sequence[PassageJudge] | None = None,
    guards: Mapping[str, Any] | None = None,
    quirks: Sequence[str] = (),
    retry_failed: bool = False,
) -> Path:
    """Run the suite on questions, with a model alone and behind guards."""
    data = ConflictSet(tuple(items), tuple(quirks))
    suite = ConflictSuite(data, judges)
    systems = [System("model", model)]
    systems += [System(name, model, guard) for name, guard in (guards or {}).items()]
    options = RunOptions(retry_failed=retry_failed)
    return run_suite(suite, settings or ConflictSettings(), out, systems, options).folder


def read_conflict_run(folder: Path) -> ConflictRun:
    """Read a run, finished or not."""
    return conflict_run(read_suite_run(folder, ConflictSuite()).run)
