"""Confidence estimators on the microworld: how well, how many calls, how fast; and two peers.

    python benchmarks/confidence.py --json confidence.json

Asks the microworld's language model every question in its held-out phrasings. An estimator is
judged by the AUROC of "the greedy closed-book answer is right", with a bootstrap interval over
facts (two phrasings of one fact are no independent evidence), by its calls of the language model
and by its time per decision, alone and in `estimate_many`. Rules that stop sampling are compared
with the decision of all ten samples. Where lm-polygraph and uqlm are installed, they estimate the
same things with the same weights, turn by turn in the same process (`confidence_peers.py`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.calibration import Interval, SelectiveCurve, fit_cascade_bands, fit_hidden_state_probe
from knowgate.guard import Confidence, KnowgateError
from knowgate.guard.matching import same_answer
from knowgate.guard.prompts import Prompt
from knowgate.guard.signals.confidence import Sampling, StepwiseEstimator, load_estimator
from knowgate.offline_eval.testbed import World, default_world
from knowgate.offline_eval.testbed.check import microworld_model_path

SAMPLES, THRESHOLD = 10, 0.7
# A base model of this size cannot judge itself; a few questions are enough to show it.
HOPELESS, FEW = ("p_true", "verbalized"), 300
CLOCK = [time.perf_counter]


@dataclass(frozen=True)
class Case:
    """One question.

    Attributes:
        question: its text.
        fact: the fact it asks for.
        subject: the entity that the fact is about.
        answers: the right answer and its aliases.
    """

    question: str
    fact: str
    subject: str
    answers: tuple[str, ...]


def all_cases(most: int | None) -> list[Case]:
    world = default_world()
    facts = list(world.facts)
    Random(1).shuffle(facts)
    found = [
        Case(question.text, fact.id, fact.subject, (question.answer, *question.aliases))
        for fact in facts
        for question in world.questions(fact, held_out=True)
    ]
    return found[:most]


def is_right(answer: str, case: Case) -> bool:
    return any(same_answer(answer, right) for right in case.answers)


def auroc_of(values: Sequence[float], right: Sequence[bool], cases: Sequence[Case]) -> Interval:
    facts: dict[str, tuple[list[float], list[float]]] = {}
    for value, label, case in zip(values, right, cases, strict=True):
        facts.setdefault(case.fact, ([], []))[0 if label else 1].append(value)
    return SelectiveCurve.bootstrap_auroc(list(facts.values()), seed=0)


def shown(interval: Interval) -> str:
    if interval.value is None:
        return "      –              "
    return f"{interval.value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"


class Measured:
    """What one estimator did with the questions it could answer."""

    def __init__(
        self, estimator: StepwiseEstimator, cases: Sequence[Case], right: Sequence[bool]
    ) -> None:
        start = CLOCK[0]()
        rows = estimator.estimate_many([case.question for case in cases], on_error="return")
        self.together = (CLOCK[0]() - start) / len(cases) * 1e3
        kept = [at for at, row in enumerate(rows) if isinstance(row, Confidence)]
        self.found = [row for row in rows if isinstance(row, Confidence)]
        self.readable = len(kept) / len(cases)
        self.auroc = auroc_of(
            [row.value for row in self.found],
            [right[at] for at in kept],
            [cases[at] for at in kept],
        )
        self.calls = statistics.mean(row.calls for row in self.found) if self.found else None

    def alone(self, estimator: StepwiseEstimator, cases: Sequence[Case]) -> None:
        times = []
        for case in cases:
            start = CLOCK[0]()
            estimator.estimate_many([case.question], on_error="return")
            times.append(CLOCK[0]() - start)
        self.single = statistics.median(times) * 1e3

    def row(self) -> dict[str, Any]:
        return {
            "auroc": self.auroc.to_dict(),
            "calls": self.calls,
            "ms_together": self.together,
            "ms_alone": self.single,
            "readable": self.readable,
        }


def estimators_of(
    lm: HuggingFaceLM, prompt: Prompt, sampling: Sampling | None = None
) -> dict[str, StepwiseEstimator]:
    def make(name: str, **settings: Any) -> Any:
        if name in ("sampled_consistency", "semantic_entropy"):
            settings["sampling"] = sampling
        if name == "cascade" and sampling is not None:
            settings["costly"] = make("sampled_consistency", stopping="bayesian")
        return load_estimator(name, lm, prompt=prompt, **settings)

    full = {"stopping": "none", "shortcut": None}
    return {
        "token_probability sequence": make("token_probability"),
        "token_probability mean": make("token_probability", statistic="mean"),
        "token_probability minimum": make("token_probability", statistic="minimum"),
        "p_true options": make("p_true"),
        "verbalized": make("verbalized"),
        "sampled_consistency, all ten": make("sampled_consistency", **full),
        "sampled_consistency curtailed": make("sampled_consistency", shortcut=None),
        "sampled_consistency bayesian": make(
            "sampled_consistency", stopping="bayesian", shortcut=None
        ),
        "sampled_consistency curtailed, greedy >= .9": make("sampled_consistency"),
        "sampled_consistency bayesian, greedy >= .9": make(
            "sampled_consistency", stopping="bayesian"
        ),
        "semantic_entropy discrete": make("semantic_entropy"),
        "semantic_entropy likelihood": make("semantic_entropy", variant="likelihood"),
        "cascade": make("cascade"),
    }


def measure_ours(
    lm: HuggingFaceLM, prompt: Prompt, cases: Sequence[Case], right: Sequence[bool], alone: int
) -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    for name, estimator in estimators_of(lm, prompt).items():
        most = FEW if name.startswith(HOPELESS) else None
        found[name] = Measured(estimator, cases[:most], right[:most])
        found[name].alone(estimator, cases[:alone])
        print_row(name, found[name])
    # Half of the subjects to fit on, the other half to try it on.
    subjects = sorted({case.subject for case in cases})
    fitting = set(subjects[::2])
    inside = [at for at, case in enumerate(cases) if case.subject in fitting]
    outside = [at for at, case in enumerate(cases) if case.subject not in fitting]
    fit = fit_hidden_state_probe(
        lm,
        [cases[at].question for at in inside],
        [right[at] for at in inside],
        [cases[at].subject for at in inside],
        prompt=prompt,
    )
    probe = load_estimator("hidden_state_probe", lm, probe=fit.probe, prompt=prompt)
    assert isinstance(probe, StepwiseEstimator)
    name = f"hidden_state_probe, layer {fit.probe.layer} (other half)"
    rest = [cases[at] for at in outside]
    found[name] = Measured(probe, rest, [right[at] for at in outside])
    found[name].alone(probe, rest[:alone])
    print_row(name, found[name])
    cheap = found["token_probability sequence"].found
    full = found["sampled_consistency, all ten"].found
    bands = fit_cascade_bands(
        [cheap[at].value for at in inside], [full[at].value >= THRESHOLD for at in inside]
    )
    cascade = load_estimator("cascade", lm, prompt=prompt, accept=bands.accept, reject=bands.reject)
    assert isinstance(cascade, StepwiseEstimator)
    ends = " to ".join(
        "none" if end is None else f"{end:.3f}" for end in (bands.reject, bands.accept)
    )
    name = f"cascade, fitted bands {ends} (other half)"
    found[name] = Measured(cascade, rest, [right[at] for at in outside])
    found[name].alone(cascade, rest[:alone])
    print_row(name, found[name])
    return found


def print_row(name: str, measured: Measured) -> None:
    calls = "    –" if measured.calls is None else f"{measured.calls:5.2f}"
    print(
        f"{name:50}  {shown(measured.auroc)}  {calls} calls  {measured.together:7.2f} ms together  "
        f"{measured.single:7.2f} ms alone"
        + ("" if measured.readable == 1 else f"  ({measured.readable:.1%} readable)"),
        flush=True,
    )


def agreement(found: dict[str, Measured]) -> dict[str, dict[str, float]]:
    """How often a rule that stops decides as all ten samples do, and what it draws."""
    full = [row.value >= THRESHOLD for row in found["sampled_consistency, all ten"].found]
    table = {}
    for name, measured in found.items():
        if len(measured.found) != len(full) or not name.startswith(("sampled", "cascade")):
            continue
        same = [
            (row.value >= THRESHOLD) == known
            for row, known in zip(measured.found, full, strict=True)
        ]
        table[name] = {
            "agreement": statistics.mean(same),
            "samples": statistics.mean(row.samples_drawn for row in measured.found),
        }
        print(f"{name:50}  {table[name]['agreement']:8.3%}  {table[name]['samples']:5.2f} samples")
    return table


def compare_with_peers(
    lm: HuggingFaceLM, prompt: Prompt, cases: Sequence[Case], right: Sequence[bool], args: Any
) -> list[dict[str, Any]]:
    from confidence_peers import installed_peers

    ours = estimators_of(lm, prompt)
    rows = []
    for peer in installed_peers(lm, SAMPLES):
        for name, ours_name, estimate in peer.estimators:
            row = {"peer": f"{peer.name} {peer.version}", "estimator": name, "ours": ours_name}
            row |= side_by_side(estimate, ours[ours_name], prompt, cases, right, args)
            rows.append(row)
            print(
                f"{row['peer']:18} {name:33} AUROC {row['auroc_peer']['value']:.3f} against "
                f"{row['auroc_ours']['value']:.3f}  together {row['ms_together_peer']:7.2f} "
                f"against {row['ms_together_ours']:6.2f} ms: {row['times_faster_together']:5.1f}x  "
                f"alone {row['ms_alone_peer']:7.1f} against {row['ms_alone_ours']:6.1f} ms: "
                f"{row['times_faster_alone']:5.1f}x",
                flush=True,
            )
    return rows


def side_by_side(
    estimate: Callable[[Sequence[str]], list[float]],
    ours: StepwiseEstimator,
    prompt: Prompt,
    cases: Sequence[Case],
    right: Sequence[bool],
    args: Any,
) -> dict[str, Any]:
    """One peer's estimator and ours on the same questions, together and one by one."""
    questions = [case.question for case in cases]
    filled = [prompt.fill(question=question) for question in questions]
    values: dict[str, list[float]] = {}

    def peer() -> None:
        values["peer"] = estimate(filled)

    def mine() -> None:
        values["ours"] = [found.value for found in ours.estimate_many(questions)]

    few = args.peer_alone
    together = timed({"peer": peer, "ours": mine}, args.rounds)
    alone = timed(
        {
            "peer": lambda: [estimate([text]) for text in filled[:few]],
            "ours": lambda: [ours.estimate(question) for question in questions[:few]],
        },
        args.rounds,
    )
    return {
        "auroc_peer": auroc_of(values["peer"], right, cases).to_dict(),
        "auroc_ours": auroc_of(values["ours"], right, cases).to_dict(),
        "ms_together_peer": together["peer"] / len(cases) * 1e3,
        "ms_together_ours": together["ours"] / len(cases) * 1e3,
        "times_faster_together": together["peer"] / together["ours"],
        "ms_alone_peer": alone["peer"] / few * 1e3,
        "ms_alone_ours": alone["ours"] / few * 1e3,
        "times_faster_alone": alone["peer"] / alone["ours"],
    }


def timed(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each, turn by turn."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = CLOCK[0]()
            run()
            seconds[name].append(CLOCK[0]() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, help="the first of them; all by default")
    parser.add_argument("--alone", type=int, default=32, help="questions timed one by one")
    parser.add_argument("--peer-questions", type=int, default=256)
    parser.add_argument("--peer-alone", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="of the comparison with peers")
    parser.add_argument("--batch", type=int, default=80, help="rows decoded at one time")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu counts this process's own seconds: for busy machines, with one thread",
    )
    parser.add_argument("--only", choices=("ours", "peers"), help="one half of it")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    return parser.parse_args()


def main() -> None:
    args = _options()
    torch.set_num_threads(args.threads)
    if args.clock == "cpu":
        CLOCK[0] = time.process_time
    try:
        lm = HuggingFaceLM(
            microworld_model_path(), device=args.device, batch_size=args.batch, max_new_tokens=16
        )
    except KnowgateError as error:
        sys.exit(str(error))
    prompt = Prompt("microworld_closed_book", World.prompt("closed_book"))
    cases = all_cases(args.questions)
    greedy = lm.generate([prompt.fill(question=case.question) for case in cases])
    right = [is_right(row[0].text, case) for row, case in zip(greedy, cases, strict=True)]
    facts = len({case.fact for case in cases})
    print(
        f"{lm.name} on {lm.device}, {args.threads} thread(s), {args.clock} clock: "
        f"{len(cases)} questions about {facts} facts, "
        f"{statistics.mean(right):.1%} answered rightly\n"
    )
    ours: dict[str, Measured] = {}
    agreed: dict[str, dict[str, float]] = {}
    peers: list[dict[str, Any]] = []
    if args.only != "peers":
        ours = measure_ours(lm, prompt, cases, right, args.alone)
        print(f"\nagreement with the decision of all {SAMPLES} samples at {THRESHOLD}:")
        agreed = agreement(ours)
    if args.only != "ours":
        print(f"\npeers, same weights, n = {SAMPLES}:")
        most = args.peer_questions
        peers = compare_with_peers(lm, prompt, cases[:most], right[:most], args)
        if not peers:
            print("neither lm-polygraph nor uqlm is installed")
    if args.json:
        content = {
            "questions": len(cases),
            "facts": facts,
            "right": statistics.mean(right),
            "clock": args.clock,
            "estimators": {name: measured.row() for name, measured in ours.items()},
            "agreement": agreed,
            "peers": peers,
        }
        args.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
