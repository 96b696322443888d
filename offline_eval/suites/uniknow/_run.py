"""Running the suite into a run folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...._version import __version__
from ....adapters.huggingface import HuggingFaceLM
from ....guard.contracts import (
    ConfidenceEstimator,
    LanguageModel,
    RelevanceScorer,
    TextEmbedder,
)
from ....guard.errors import InputError
from ....guard.files import file_sha256
from ....guard.prompts import Prompt
from ....guard.signals.confidence import load_estimator
from ....guard.signals.relevance import default_aggregator, load_scorer
from ...run import SCHEMA_VERSION, open_run
from ._append_log import AppendLog
from ._artefacts import StoredSignal, UniKnowSettings, checked, row_id, row_of
from ._cases import Reply, ScenarioCase
from ._choosing import Chosen, Methods, choose_methods, with_training
from ._contexts import build_contexts
from ._datasets import MICROWORLD, Dataset
from ._fitting_width import fit_contexts
from ._guard_method import SignalMeter, UniKnowSignal, signal_from, signal_row
from ._guard_policy import calibrate_guard
from ._knowledge import KnowledgeStore, estimate_knowledge
from ._methods import reply_from
from ._plan import TRAINING, Plan, make_plan, read_plan, write_plan
from ._questions import read_dataset
from ._trained_methods import Trainer, require_folder

# What is going on, done, and in all.
StageProgress = Callable[[str, int, int], None]

# Training-free, and the best of the bundled scorers on contexts of about 100 words that were
# retrieved wrongly: AUROC .991 on the microworld, where the trained `fused` has .958.
GUARD_SCORER = "late_interaction"

# Cases answered at one time: what a kill can cost.
CASES_AT_ONCE = 64
_REMOTE_CASES_AT_ONCE = 16
_START_AGAIN = "remove the run folder and start again"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is made with, where the defaults are not wanted.

    Attributes:
        scorer: of the guards; `late_interaction`.
        estimator: of the guards; the cascade for a model with weights, sampled
            consistency for others.
        retriever_encoder: of misleading passages; the embedded bi-encoder.
        editor: writes conflicting answers; another answer of the data set is used.
    """

    scorer: RelevanceScorer | None = None
    estimator: ConfidenceEstimator | None = None
    retriever_encoder: TextEmbedder | None = None
    editor: LanguageModel | None = None


def run_uniknow(
    lm: LanguageModel,
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    settings: UniKnowSettings | None = None,
    parts: Parts | None = None,
    model_path: Path | None = None,
    knowledge: str | os.PathLike[str] | None = None,
    on_progress: StageProgress | None = None,
) -> Path:
    """Answer every case of a data set with every method.

    Interrupted at any point and called again with the same arguments, it goes on after
    the last whole row; on the same machine the rows come out byte for byte the same.
    Cases that fail become rows with an error.

    Args:
        lm: what is asked: local, or e.g. a `ChatModelLM`.
        data: `microworld`, or a file, see `read_dataset`.
        out: the run folder.
        settings: methods, sizes, seeds.
        parts: scorer, estimator, retriever and editor.
        model_path: folder of `lm`'s weights; trained methods start from it.
        knowledge: file that keeps what models know, for several runs; one in the folder.
        on_progress: called with what is going on, steps done and steps in all.

    Returns:
        The run folder.

    Raises:
        InputError: data, settings or folder cannot be used.
    """
    run = _Run(
        lm,
        data,
        Path(out),
        settings or UniKnowSettings(),
        parts or Parts(),
        model_path,
        Path(out, "knowledge.jsonl") if knowledge is None else Path(knowledge),
        on_progress or (lambda _what, _done, _total: None),
    )
    return run.go()


class _Run:
    """One run, from the plan to the last row."""

    def __init__(
        self,
        lm: LanguageModel,
        data: str | os.PathLike[str],
        out: Path,
        settings: UniKnowSettings,
        parts: Parts,
        model_path: Path | None,
        knowledge: Path,
        on_progress: StageProgress,
    ) -> None:
        self._lm, self._out, self._settings = lm, out, settings
        self._parts, self._model_path, self._progress = parts, model_path, on_progress
        self._chosen = choose_methods(settings, lm, model_path)
        self._knowledge = knowledge
        self._dataset = read_dataset(data, limit=settings.limit, seed=settings.seed)
        self._meter: SignalMeter | None = None
        self._methods = Methods(lm, self._dataset.prompts)
        if self._chosen.guarded:
            self._meter = self._methods.meter = self._signal_meter()
        self._manifest = _manifest(
            self._dataset, data, lm, settings, parts, self._chosen, self._meter
        )
        local = hasattr(lm, "batch_size")
        self._at_once = CASES_AT_ONCE if local else _REMOTE_CASES_AT_ONCE
        # A local model's reply can hang on its neighbours in the last digit: such batches
        # are repeated whole. A remote one is asked only for what is missing.
        self._whole_batches = local

    def go(self) -> Path:
        """Do what is left to do."""
        stored = [str(row.get("case_id")) for row in self._stored_rows()]
        with open_run(self._out, self._manifest, stored):
            plan = self._plan()
            if self._chosen.guarded:
                self._calibrate(plan)
        if self._chosen.trained:
            self._methods.trainer = self._trainer(plan)
        self._answer(plan)
        return self._out

    # -- the plan -----------------------------------------------------------------

    def _plan(self) -> Plan:
        """As stored, or made now; with it the methods that can be trained."""
        found = read_plan(self._out)
        plan = self._new_plan() if found is None else found[0]
        for_all = self._settings.asks_for_all
        self._chosen = with_training(self._chosen, plan.training, for_all=for_all)
        if found is None:
            rows = len(plan.evaluation) * len(self._chosen.names)
            write_plan(self._out, plan, rows, self._chosen.left_out)
        return plan

    def _new_plan(self) -> Plan:
        """Knowledge, contexts, halves."""
        settings, dataset = self._settings, self._dataset
        estimates = estimate_knowledge(
            self._lm,
            dataset.questions,
            dataset.prompts,
            n=settings.samples,
            tau=settings.tau,
            temperature=settings.temperature,
            seed=settings.seed,
            store=KnowledgeStore(self._knowledge),
            on_progress=self._stage("asking what the model knows"),
        )
        fit = fit_contexts(
            self._lm,
            dataset,
            answer_tokens=getattr(self._lm, "max_new_tokens", 0),
            passages=settings.passages_per_context,
            several=settings.beyond,
        )
        contexts = build_contexts(
            dataset,
            retriever_encoder=self._parts.retriever_encoder,
            editor=self._parts.editor,
            kinds=settings.kinds,
            passages_per_context=fit.passages,
            window_words=fit.words,
            seed=settings.seed,
            on_progress=self._stage("building contexts"),
        )
        plan = make_plan(
            dataset,
            contexts,
            estimates,
            questions_per_side=settings.questions_per_side,
            seed=settings.seed,
        )
        if not plan.evaluation:
            raise InputError(
                "no question is left to evaluate", where=dataset.name, hint="give more questions"
            )
        return plan

    # -- the guards ---------------------------------------------------------------

    def _signal_meter(self) -> SignalMeter:
        scorer = self._parts.scorer or load_scorer(GUARD_SCORER)
        estimator = self._parts.estimator
        if estimator is None:
            prompt = Prompt("uniknow.closed_book", self._dataset.prompts.closed_book)
            # The cascade needs log-probabilities, which a remote model seldom gives.
            local = hasattr(self._lm, "score_options")
            kind = "cascade" if local else "sampled_consistency"
            estimator = load_estimator(kind, self._lm, prompt=prompt)
        aggregator = default_aggregator(scorer.fingerprint.kind)
        return SignalMeter(scorer, estimator, aggregator, self._methods.remembering("naive"))

    def _calibrate(self, plan: Plan) -> None:
        """Measure what is not measured yet, and fit the policy on the training questions."""
        assert self._meter is not None
        signals = self._signals(plan, self._meter)
        self._methods.remembering("naive").remember(
            (signal.case_id, _stored_reply(signal.context_reply, case))
            for signal, case in signals
            if signal.context_reply is not None
        )
        policy = calibrate_guard(
            [signal for signal, _ in signals if signal.part == TRAINING],
            scorer=self._meter.scorer.fingerprint,
            estimator=self._meter.estimator.fingerprint,
            aggregator=self._meter.aggregator,
            risk=self._settings.risk,
            delta=self._settings.delta,
            seed=self._settings.seed,
        )
        policy.save(self._out / "policy.json")
        self._methods.policy = policy

    def _signals(self, plan: Plan, meter: SignalMeter) -> list[tuple[UniKnowSignal, ScenarioCase]]:
        log = AppendLog(self._out / "signals.jsonl")
        cases = plan.cases
        stored = [
            signal_from(
                checked(
                    StoredSignal, row, where=f"{log.path}:{number}", hint=_START_AGAIN
                ).model_dump(mode="json")
            )
            for number, row in log.read()
        ]
        if [one.case_id for one in stored] != [case.case_id for _, case in cases[: len(stored)]]:
            raise InputError(
                "the signals are of other cases", where=str(log.path), hint=_START_AGAIN
            )
        found = list(zip(stored, [case for _, case in cases], strict=False))
        report = self._stage("measuring relevance and confidence")
        start = self._start(len(stored), len(cases))
        meter.remember(found[:start])
        for first in range(start, len(cases), self._at_once):
            batch = cases[first : first + self._at_once]
            by_part = {
                part: meter.measure([case for own, case in batch if own == part], part)
                for part in dict.fromkeys(own for own, _ in batch)
            }
            fresh = [signal for signals in by_part.values() for signal in signals]
            new = fresh[max(0, len(found) - first) :]
            log.append(signal_row(signal) for signal in new)
            found += zip(new, [case for _, case in batch[-len(new) :]] if new else [], strict=True)
            report(len(found), len(cases))
        return found

    # -- training -----------------------------------------------------------------

    def _trainer(self, plan: Plan) -> Trainer:
        assert isinstance(self._lm, HuggingFaceLM)
        return Trainer(
            require_folder(self._model_path),
            self._lm,
            plan.training,
            self._dataset.prompts,
            self._out / "adapters",
            self._settings.training,
            self._settings.preference_training,
            self._settings.seed,
        )

    # -- the rows -----------------------------------------------------------------

    def _answer(self, plan: Plan) -> None:
        cases = plan.evaluation
        names = self._chosen.names
        case_ids = [row_id(name, case) for name in names for case in cases]
        self._take_over_replies(len(cases))
        with open_run(self._out, self._manifest, case_ids) as store:
            for number, name in enumerate(names):
                done = store.done - number * len(cases)
                if done >= len(cases):
                    continue
                method = self._methods.make(name, self._stage(f"training {name}"))
                report = self._stage(f"answering: {name}")
                start = self._start(done, len(cases))
                for first in range(start, len(cases), self._at_once):
                    batch = cases[first : first + self._at_once]
                    replies = method.answer(batch)
                    for case, reply in list(zip(batch, replies, strict=True))[
                        max(0, done - first) :
                    ]:
                        store.append(row_of(name, case, reply))
                    report(first + len(batch), len(cases))

    def _take_over_replies(self, cases: int) -> None:
        """Replies that stand in rows already: a guard over their method uses them again."""
        if "guard_coiecd" not in self._chosen.names:
            return
        rows = [row for row in self._stored_rows() if row.get("method") == "coiecd"]
        self._methods.remembering("coiecd").remember(
            (row["case_id"].partition("|")[2], Reply(row["answer"], abstained=row["abstained"]))
            for row in rows[: self._start(len(rows), cases)]
            if row.get("error") is None
        )

    def _start(self, done: int, total: int) -> int:
        """Where to go on after `done` cases: of a local model's cut batch nothing is used."""
        cut = self._whole_batches and done < total
        return done // self._at_once * self._at_once if cut else done

    def _stored_rows(self) -> list[dict[str, Any]]:
        """Whole rows of an earlier start; broken ones are `open_run`'s to refuse."""
        return [row for _, row in AppendLog(self._out / "rows.jsonl").read()]

    def _stage(self, what: str) -> Callable[[int, int], None]:
        return lambda done, total: self._progress(what, done, total)


def _stored_reply(text: str | None, case: ScenarioCase) -> Reply:
    return reply_from(text or "", case)


def _manifest(
    dataset: Dataset,
    data: str | os.PathLike[str],
    lm: LanguageModel,
    settings: UniKnowSettings,
    parts: Parts,
    chosen: Chosen,
    meter: SignalMeter | None,
) -> dict[str, Any]:
    inputs = []
    if os.fspath(data) != MICROWORLD:
        inputs = [{"name": Path(data).name, "sha256": file_sha256(data)}]
    prompts = {
        name: Prompt(name, text).sha256 for name, text in sorted(asdict(dataset.prompts).items())
    }
    stored = asdict(settings)
    stored["methods"] = list(settings.methods)
    if parts.editor is not None:
        stored["editor"] = parts.editor.fingerprint
    # Settings that no row depends on must not keep a run from going on.
    if not chosen.trained:
        del stored["training"]
    if "dpo" not in chosen.names:
        del stored["preference_training"]
    return {
        "schema_version": SCHEMA_VERSION,
        "suite": "uniknow",
        "created_by": f"knowgate {__version__}",
        "settings": {
            "dataset": dataset.name,
            "model": lm.fingerprint,
            **stored,
            "prompts_sha256": prompts,
            "scorer": None if meter is None else meter.scorer.fingerprint.model_dump(),
            "estimator": None if meter is None else meter.estimator.fingerprint.model_dump(),
            "aggregator": None if meter is None else meter.aggregator,
        },
        "inputs": inputs,
        "methods": list(chosen.names),
        "left_out": chosen.left_out,
    }
