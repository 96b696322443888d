"""What `real_confidence.py` measures from stored draws: AUROC, shares needed, and two peers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from real_confidence_questions import Asked
from real_confidence_store import LAYERS, StoredLM

from knowgate.calibration import Interval, SelectiveCurve, fit_cascade_bands, fit_hidden_state_probe
from knowgate.calibration.hidden_state_probe import ProbeSearch
from knowgate.guard import Confidence
from knowgate.guard.matching import same_answer
from knowgate.guard.prompts import Prompt
from knowgate.guard.signals.confidence import Sampling, StepwiseEstimator, load_estimator
from knowgate.guard.signals.conflict import SameMeaning

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
FULL: dict[str, Any] = {"stopping": "none", "shortcut": None}


@dataclass(frozen=True)
class Run:
    """The questions of a run with the model's greedy answers.

    Attributes:
        lm: the model with its stored draws.
        prompt: closed-book prompt.
        questions: all of them.
        right: whether an accepted answer stands in the greedy reply.
    """

    lm: StoredLM
    prompt: Prompt
    questions: Sequence[Asked]
    right: Sequence[bool]

    def part(self, keep: Callable[[int], bool]) -> Run:
        """The questions at the places that `keep` accepts."""
        places = [at for at in range(len(self.questions)) if keep(at)]
        return Run(
            self.lm,
            self.prompt,
            [self.questions[at] for at in places],
            [self.right[at] for at in places],
        )

    @property
    def texts(self) -> list[str]:
        """The questions' texts."""
        return [asked.question for asked in self.questions]


def auroc(values: Sequence[float], right: Sequence[bool]) -> Interval:
    """AUROC with a bootstrap interval over questions."""
    groups = [
        ([value], []) if label else ([], [value])
        for value, label in zip(values, right, strict=True)
    ]
    return SelectiveCurve.bootstrap_auroc(groups, seed=0)


def other_matchers(run: Run, temperature: float) -> dict[str, StepwiseEstimator]:
    """Estimators that sample, with other rules for equal answers than the default."""
    sampling = Sampling(temperature=temperature)

    def make(name: str, **settings: Any) -> Any:
        return load_estimator(name, run.lm, prompt=run.prompt, sampling=sampling, **settings)

    made: dict[str, StepwiseEstimator] = {}
    rules = (("equal answers", same_answer), ("SameMeaning", SameMeaning()))
    for name, same in rules:
        made[f"sampled_consistency, all ten, {name}"] = make(
            "sampled_consistency", same=same, **FULL
        )
        made[f"semantic_entropy discrete, {name}"] = make("semantic_entropy", clusters=same)
    made["cascade, token_probability mean, .4 to .8"] = load_estimator(  # type: ignore[assignment]
        "cascade",
        run.lm,
        cheap=load_estimator("token_probability", run.lm, prompt=run.prompt, statistic="mean"),
        costly=make("sampled_consistency", stopping="bayesian"),
        reject=0.4,
        accept=0.8,
    )
    return made


def measured(estimator: StepwiseEstimator, run: Run) -> tuple[dict[str, Any], list[Confidence]]:
    """One estimator's figures on all questions and on NQ-open alone, and its estimates."""
    rows = estimator.estimate_many(run.texts, on_error="return")
    read = [(at, row) for at, row in enumerate(rows) if isinstance(row, Confidence)]
    found = {
        "auroc": auroc([row.value for _, row in read], [run.right[at] for at, _ in read]),
        "auroc_nq": auroc(
            [row.value for at, row in read if not run.questions[at].easy],
            [run.right[at] for at, _ in read if not run.questions[at].easy],
        ),
    }
    figures: dict[str, Any] = {name: interval.to_dict() for name, interval in found.items()}
    figures["calls"] = statistics.mean(row.calls for _, row in read) if read else None
    figures["readable"] = len(read) / len(rows)
    return figures, [row for _, row in read]


def fitted_estimators(run: Run, temperature: float) -> tuple[dict[str, StepwiseEstimator], Run]:
    """The probe and a cascade with fitted bands, fitted on every other question; the rest."""
    fitting, rest = run.part(lambda at: at % 2 == 0), run.part(lambda at: at % 2 == 1)
    fit = fit_hidden_state_probe(
        run.lm,  # type: ignore[arg-type]
        fitting.texts,
        list(fitting.right),
        search=ProbeSearch(layers=LAYERS),
        prompt=run.prompt,
    )
    sampling = Sampling(temperature=temperature)
    cheap = load_estimator("token_probability", run.lm, prompt=run.prompt)
    full = load_estimator(
        "sampled_consistency", run.lm, prompt=run.prompt, sampling=sampling, **FULL
    )
    assert isinstance(cheap, StepwiseEstimator)
    assert isinstance(full, StepwiseEstimator)
    known = [row.value >= 0.7 for row in full.estimate_many(fitting.texts)]
    made: dict[str, Any] = {
        f"hidden_state_probe, layer {fit.probe.layer} (other half)": load_estimator(
            "hidden_state_probe", run.lm, probe=fit.probe, prompt=run.prompt
        )
    }
    if any(known):
        values = [row.value for row in cheap.estimate_many(fitting.texts)]
        bands = fit_cascade_bands(values, known)
        made["cascade, fitted bands (other half)"] = load_estimator(
            "cascade",
            run.lm,
            costly=load_estimator(
                "sampled_consistency",
                run.lm,
                prompt=run.prompt,
                sampling=sampling,
                stopping="bayesian",
            ),
            prompt=run.prompt,
            accept=bands.accept,
            reject=bands.reject,
        )
    return made, rest


def by_share(estimates: Sequence[Confidence], right: Sequence[bool]) -> list[dict[str, Any]]:
    """Of the answers whose value reaches a share: how many, and how many of them are right."""
    rows = []
    for share in SHARES:
        passed = [label for row, label in zip(estimates, right, strict=True) if row.value >= share]
        rows.append(
            {
                "share": share,
                "passed": len(passed),
                "right": statistics.mean(passed) if passed else None,
                "of_all_right": sum(passed) / max(1, sum(right)),
            }
        )
    return rows


def peers(run: Run, temperature: float) -> dict[str, Any]:
    """AUROC of what the peers' own classes make of the same draws; empty without them."""
    try:
        from lm_polygraph.estimators import LexicalSimilarity
        from peer_values import polygraph_values, uqlm_values
    except ImportError as error:
        return {"missing": str(error)}
    same = SameMeaning()
    values: dict[str, list[float]] = {}
    for question in run.texts:
        prompt = run.prompt.fill(question=question)
        [[greedy]] = run.lm.generate([prompt])
        [samples] = run.lm.generate([prompt], n=10, temperature=temperature, seed=1)
        texts = [sample.text.strip() for sample in samples]
        case: dict[str, Any] = {
            "question": question,
            "greedy": {"text": greedy.text.strip(), "logprobs": list(greedy.token_logprobs or ())},
            "samples": [
                {"text": text, "logprobs": list(sample.token_logprobs or ())}
                for text, sample in zip(texts, samples, strict=True)
            ],
            "entails": [[a == b or same(a, b) for b in texts] for a in texts],
        }
        found = {
            f"lm-polygraph {name}": -value
            for name, value in polygraph_values(case).items()
            if name != "clusters"
        }
        lexical = LexicalSimilarity(metric="rougeL")({"sample_texts": [texts]})
        found["lm-polygraph LexicalSimilarity rougeL"] = -float(lexical[0])
        for name, value in uqlm_values(case).items():
            if name != "clusters":
                found[f"uqlm {name}"] = -value if "entropy" in name else value
        for name, value in found.items():
            values.setdefault(name, []).append(value)
    return {name: auroc(found, run.right).to_dict() for name, found in values.items()}


def timed(estimator: StepwiseEstimator, texts: Sequence[str]) -> dict[str, float]:
    """CPU milliseconds per question, one by one and together, of one over the bare model."""
    alone = []
    for text in texts:
        start = time.process_time()
        estimator.estimate_many([text], on_error="return")
        alone.append(time.process_time() - start)
    start = time.process_time()
    estimator.estimate_many(texts, on_error="return")
    together = (time.process_time() - start) / len(texts)
    return {"ms_alone": statistics.median(alone) * 1e3, "ms_together": together * 1e3}
