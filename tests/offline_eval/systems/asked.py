"""A toy knowledge base, a scripted model that reads its passages, and a policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from langchain_core.messages import BaseMessage

from knowgate.calibration.risk import Leak
from knowgate.guard import Policy, Route
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.data.embedding import Encoder
from knowgate.offline_eval.judging.contract import Judge
from knowgate.offline_eval.policies import calibrate_run
from knowgate.offline_eval.run.calls import RunOptions
from knowgate.offline_eval.suites import SuiteSettings, run_suite
from knowgate.offline_eval.suites.ookb import OokbSuite
from tests.offline_eval.suites.ookb.toy import ToyEncoder, run_toy, write_toy_questions
from tests.support.scripted_chat import ScriptedTextChat

_DOOR = re.compile(r"When does the (\w+) open\?")


Comparison = partial(
    SimpleNamespace, models=(), prompts=("basic",), retrievals=("basic_rag",), guards=("off",),
    replay=(), scorer=None, writer=None,
)  # fmt: skip
"""What is compared."""


def read_the_passages(messages: Sequence[BaseMessage]) -> str:
    """Says when the thing asked about opens, if a passage of the prompt says so."""
    prompt = messages[-1].text
    asked = _DOOR.findall(prompt)[-1]
    for number, line in re.findall(r"\[(\d+)\] (.+)", prompt):
        if line.startswith(f"The {asked} opens"):
            return f"{line}\nCitation: {number}"
    return "I do not know.\nCitation: none"


def reader(**settings: Any) -> ScriptedTextChat:
    """A chat model that answers from its passages alone."""
    return ScriptedTextChat(script=read_the_passages, **settings)


class GreedyReader(ScriptedTextChat):
    """The same, and it says that it decodes greedily."""

    temperature: float = 0.0


def write_lexical_policy(path: Path, threshold: float = 1.0) -> Path:
    """A policy by hand on the lexical scorer."""
    Policy(scorer=LexicalScorer().fingerprint, relevance_threshold=threshold).save(path)
    return path


def calibrated_run(folder: Path, questions: int = 40) -> Path:
    """A run of relevance signals with a policy calibrated on it."""
    run = run_toy(write_toy_questions(folder / "kb.jsonl", questions), folder / "run")
    calibrate_run(run, folder / "policy.json", Leak(0.3), delta=0.2, share=0.5, write_anyway=True)
    return run


def run(
    questions: Path | Sequence[Path],
    out: Path,
    comparison: Any,
    *,
    settings: SuiteSettings | None = None,
    encoder: Callable[[], Encoder] = ToyEncoder,
    judges: Sequence[Judge] = (),
    **options: Any,
) -> Any:
    """A run with the toy encoder, judged by nobody unless judges are given."""
    files = (questions,) if isinstance(questions, Path) else tuple(questions)
    models = comparison.models if isinstance(comparison.models, Mapping) else {}
    given: dict[str, Any] = {
        "questions": files,
        "models": () if models else tuple(comparison.models),
        "replay": tuple(map(Path, comparison.replay)),
        "guards": tuple(map(str, comparison.guards)),
        "scorer": comparison.scorer,
        "writer": comparison.writer,
        "judges": (),
    }
    if not comparison.replay or comparison.models:
        given |= {name: tuple(getattr(comparison, name)) for name in ("prompts", "retrievals")}
    more = {} if settings is None else settings.model_dump(exclude_unset=True)
    chosen = OokbSuite.settings(**{**more, **given})
    suite = OokbSuite(models, judges=judges, encoder=encoder)
    return run_suite(suite, chosen, out, (), RunOptions(**options))


def answering_policy(path: Path) -> Path:
    """A policy that answers from memory where the context does not pass, which is always."""
    policy = Policy(
        scorer=LexicalScorer().fingerprint,
        relevance_threshold=1.0,
        confidence_threshold=0.5,
        allowed_routes=tuple(Route),
    )
    policy.save(path)
    return path
