"""Confidence estimators over a real chat model, SmolLM2, on closed-book questions; and two peers.

    python benchmarks/real_confidence.py --nq nq_open --folder runs/confidence

Asks NQ-open's first questions, keeps those that were answered rightly and a sample of the others,
and adds sixty easy facts. Every estimator is judged by the AUROC of "an accepted answer stands in
the greedy reply", with bootstrap intervals, by its calls and by its time. What the model returned
is stored in the folder, so a killed run resumes. The hidden-state probe and fitted bands see one
half of the questions and are judged on the other.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from confidence import estimators_of
from real_confidence_measures import (
    Run,
    by_share,
    fitted_estimators,
    measured,
    other_matchers,
    peers,
    timed,
)
from real_confidence_questions import PROMPT, Asked, chosen, holds, nq_open
from real_confidence_store import LAYERS, StoredLM

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard import Confidence
from knowgate.guard.files import write_json
from knowgate.guard.prompts import Prompt
from knowgate.guard.signals.confidence import Sampling, load_estimator

CHUNK = 24


def select(lm: StoredLM, folder: Path, nq: Path, most: int, wrong: int) -> list[Asked]:
    """The questions of the run; replies of an earlier selection are read from replies.jsonl."""
    questions = nq_open(nq, most)
    file = folder / "replies.jsonl"
    known = {}
    if file.exists():
        rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        known = {f"{row['q']}?": row["reply"] for row in rows}
    left = [asked.question for asked in questions if asked.question not in known]
    drawn = lm.generate([PROMPT.format(question=question) for question in left])
    known |= {question: row[0].text for question, row in zip(left, drawn, strict=True)}
    right = [holds(known[asked.question], asked.answers) for asked in questions]
    return chosen(questions, right, wrong)


def draw(lm: StoredLM, questions: Sequence[Asked], temperature: float) -> None:
    """Ask the model for everything that the estimators need, a few questions at a time."""
    prompt = Prompt("few_words", PROMPT)
    cheap = [
        load_estimator("p_true", lm, prompt=prompt),
        load_estimator("verbalized", lm, prompt=prompt),
    ]
    for part in ("cheap", temperature, "bundled prompt"):
        for start in range(0, len(questions), CHUNK):
            texts = [asked.question for asked in questions[start : start + CHUNK]]
            prompts = [prompt.fill(question=text) for text in texts]
            if isinstance(part, float):
                lm.generate(prompts, n=10, temperature=part, seed=1)
            elif part == "bundled prompt":
                bundled = Prompt.bundled("closed_book")
                easy = [asked.question for asked in questions[start : start + CHUNK] if asked.easy]
                lm.generate([bundled.fill(question=text) for text in easy])
            else:
                for estimator in cheap:
                    estimator.estimate_many(texts, on_error="return")  # type: ignore[attr-defined]
                lm.hidden_states(prompts, LAYERS[0])
            print(f"{part}: {start + len(texts)} of {len(questions)}", flush=True)


def measure(run: Run, temperature: float) -> dict[str, Any]:
    """Every estimator's figures; `rest` marks those that see one half of the questions."""
    sampling = Sampling(temperature=temperature)
    estimators = estimators_of(run.lm, run.prompt, sampling)  # type: ignore[arg-type]
    estimators |= other_matchers(run, temperature)
    found: dict[str, Any] = {}
    estimates: dict[str, list[Confidence]] = {}
    for name, estimator in estimators.items():
        found[name], estimates[name] = measured(estimator, run)
        show(name, found[name])
    fitted, rest = fitted_estimators(run, temperature)
    for name, estimator in fitted.items():
        found[name], _ = measured(estimator, rest)
        show(name, found[name])
    shares = {
        name: by_share(rows, run.right)
        for name, rows in estimates.items()
        if len(rows) == len(run.right)
    }
    print("\nanswers that reach a share, and how many of them are right:")
    for name, table in shares.items():
        cells = (
            f"{row['share']:.1f}: {row['passed']:3d}"
            + (f" {row['right']:.2f}" if row["passed"] else "    –")
            for row in table
        )
        print(f"{name:58}", "  ".join(cells))
    return {"estimators": found, "shares": shares}


def show(name: str, row: dict[str, Any]) -> None:
    """One line of the table."""
    calls = "    –" if row["calls"] is None else f"{row['calls']:5.2f}"
    cells = (
        f"{cell['value']:.3f} [{cell['low']:.3f}, {cell['high']:.3f}]"
        if cell["value"] is not None
        else "–"
        for cell in (row["auroc"], row["auroc_nq"])
    )
    print(f"{name:58}", *cells, calls, f"{row['readable']:.0%}", sep="  ", flush=True)


def take_times(model: HuggingFaceLM, run: Run, count: int, temperature: float) -> dict[str, Any]:
    """CPU milliseconds of every estimator over the bare model, and of the peers' own decoding."""
    few = Run(model, run.prompt, run.questions[:count], run.right[:count])  # type: ignore[arg-type]
    rows: dict[str, Any] = {}
    sampling = Sampling(temperature=temperature)
    for name, estimator in estimators_of(model, run.prompt, sampling).items():
        rows[name] = timed(estimator, few.texts)
        print(f"{name:58}", {key: round(value) for key, value in rows[name].items()}, flush=True)
    return rows


def main() -> None:
    """Draw, measure and time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nq", type=Path, required=True, help="folder of NQ-open's files")
    parser.add_argument("--folder", type=Path, required=True, help="of this run")
    parser.add_argument("--most", type=int, default=1792, help="NQ-open questions to choose from")
    parser.add_argument("--wrong", type=int, default=180, help="questions answered wrongly")
    parser.add_argument("--first", type=int, help="measure on the first of the questions only")
    parser.add_argument("--timed", type=int, default=6, help="questions to take times with")
    parser.add_argument("--temperature", type=float, default=0.5, help="of the samples")
    parser.add_argument(
        "--peers", help="site-packages of an environment with lm-polygraph and uqlm, searched last"
    )
    args = parser.parse_args()
    if args.peers:
        sys.path.append(args.peers)
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    model = HuggingFaceLM.bundled("smollm2", max_new_tokens=20, batch_size=80)
    lm = StoredLM(model, args.folder / "draws.jsonl")
    questions = select(lm, args.folder, args.nq, args.most, args.wrong)[: args.first]
    draw(lm, questions, args.temperature)
    prompt = Prompt("few_words", PROMPT)
    greedy = lm.generate([prompt.fill(question=asked.question) for asked in questions])
    right = [
        holds(row[0].text, asked.answers) for row, asked in zip(greedy, questions, strict=True)
    ]
    run = Run(lm, prompt, questions, right)
    nq = [label for label, asked in zip(right, questions, strict=True) if not asked.easy]
    print(f"{len(questions)} questions, {sum(right)} right; of {len(nq)} NQ-open {sum(nq)}\n")
    content: dict[str, Any] = {"questions": len(questions), "right": sum(right)}
    content |= measure(run, args.temperature)
    content["peers"] = found = peers(run, args.temperature)
    print("\npeers on the same draws:")
    for name, row in found.items():
        print(f"{name:58}", row)
    if args.timed:
        content["times"] = take_times(model, run, args.timed, args.temperature)
    write_json(args.folder / f"results-{args.temperature:g}-{len(questions)}.json", content)


if __name__ == "__main__":
    main()
