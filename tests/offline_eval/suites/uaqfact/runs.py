"""Run the suite on a model that is at hand, and read what was stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from knowgate.offline_eval.suites import read_suite_run, run_suite
from knowgate.offline_eval.suites._prompts import PromptSet
from knowgate.offline_eval.suites.parts import System
from knowgate.offline_eval.suites.uaqfact._scoring import UaqRun
from knowgate.offline_eval.suites.uaqfact._suite import UaqFact, UaqSettings


def run_uaqfact(
    model: Any,
    folder: Path,
    out: Path,
    *,
    guards: Mapping[str, Any] | None = None,
    prompts: PromptSet | None = None,
    **settings: Any,
) -> Path:
    """Run the suite; `settings` are its own but for the data."""
    chosen = UaqSettings(data=folder, **settings)
    given = [System("model", model)]
    given += [System(name, model, guard) for name, guard in (guards or {}).items()]
    return run_suite(UaqFact(prompts), chosen, out, given).folder


def read_uaqfact_run(folder: Path) -> UaqRun:
    """Read a run, finished or not."""
    suite = UaqFact()
    return suite.score(read_suite_run(folder, suite))
