"""Run the suite into a run folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ....adapters.huggingface import HuggingFaceLM
from ....guard.contracts import ConfidenceEstimator, LanguageModel, RelevanceScorer, TextEmbedder
from ....guard.prompts import Prompt
from ....guard.signals.confidence import load_estimator
from ....guard.signals.relevance import default_aggregator, load_scorer
from ...run import InputFile, OnProgress, Progress, Run
from ._cases import Reply, ScenarioCase
from ._choosing import GUARDED, Chosen, Methods, choose_methods, with_training
from ._contexts import build_contexts, fitting_size
from ._datasets import Dataset
from ._guard_method import SignalMeter
from ._guard_policy import calibrate_guard
from ._knowledge import KnowledgeStore, estimate_knowledge
from ._methods import reply_from
from ._microworld import MICROWORLD
from ._plan import Plan, make_plan
from ._questions import read_dataset
from ._reading import POLICY, ROWS, SIGNALS, UniKnowManifest
from ._rows import UniKnowRow, UniKnowSignal, row_id
from ._settings import UniKnowSettings
from ._trained_methods import Trainer

# Needs no training, and is the best of the bundled scorers on contexts of about 100 words that
# were retrieved wrongly: AUROC .991 on the microworld, where the trained `fused` has .958.
GUARD_SCORER = "late_interaction"

# Cases answered together: what a kill can cost.
CASES_AT_ONCE = 64
_REMOTE_CASES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Parts:
    """What a run is made with, if not with the defaults.

    Attributes:
        scorer: of the guards; `late_interaction`.
        estimator: of the guards; the cascade for a model with weights, sampled
            consistency for others.
        encoder: retrieves misleading passages; the embedded bi-encoder.
        editor: writes conflicting answers; another answer of the data set is used.
    """

    scorer: RelevanceScorer | None = None
    estimator: ConfidenceEstimator | None = None
    encoder: TextEmbedder | None = None
    editor: LanguageModel | None = None


def run_uniknow(
    lm: LanguageModel,
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    settings: UniKnowSettings | None = None,
    parts: Parts | None = None,
    knowledge: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
) -> Path:
    """Answer every case of a data set with every method.

    Interrupted at any point and called again with the same arguments, it continues after
    the last whole row; on the same machine the rows are byte for byte the same. Cases that
    fail become rows with an error.

    Args:
        lm: what is asked: local, or e.g. a `ChatModelLM`.
        data: `microworld`, or a file, see `read_dataset`.
        out: the run folder.
        settings: methods, sizes, seeds.
        parts: scorer, estimator, encoder and editor.
        knowledge: file that keeps what models know, for several runs; by default in the
            run folder.
        on_progress: called with the state of each stage.

    Returns:
        The run folder.

    Raises:
        InputError: data, settings or folder cannot be used.
    """
    settings, parts = settings or UniKnowSettings(), parts or Parts()
    dataset = read_dataset(data, limit=settings.limit, seed=settings.seed)
    chosen = choose_methods(settings.methods, lm, ablations=settings.ablations)
    methods = Methods(lm, dataset.prompts)
    if chosen.guarded:
        methods.meter = _signal_meter(lm, dataset, parts, methods)
    store = KnowledgeStore(knowledge or Path(out, "knowledge.jsonl"))
    manifest = _manifest(dataset, data, settings, parts, chosen, methods)
    with Run.create_or_resume(out, manifest) as run:
        work = _Work(run, settings, parts, dataset, methods, on_progress)
        plan = work.plan(chosen, store)
        names = tuple(name for name in chosen.names if name not in plan.file.left_out)
        run[ROWS].require_order([row_id(name, case) for name in names for case in plan.evaluation])
        if chosen.guarded:
            work.calibrate(plan)
        if any(name not in GUARDED for name in names) and isinstance(lm, HuggingFaceLM):
            methods.trainer = Trainer(
                lm,
                plan.training,
                dataset.prompts,
                run.folder / "adapters",
                settings.training,
                settings.preference_training,
                settings.seed,
            )
        work.answer(names, plan.evaluation)
    return Path(out)


def _signal_meter(
    lm: LanguageModel, dataset: Dataset, parts: Parts, methods: Methods
) -> SignalMeter:
    scorer = parts.scorer or load_scorer(GUARD_SCORER)
    estimator = parts.estimator
    if estimator is None:
        prompt = Prompt("uniknow.closed_book", dataset.prompts.closed_book)
        # The cascade needs log-probabilities, which a remote model seldom gives.
        kind = "cascade" if hasattr(lm, "score_options") else "sampled_consistency"
        estimator = load_estimator(kind, lm, prompt=prompt)
    aggregator = default_aggregator(scorer.fingerprint.kind)
    return SignalMeter(scorer, estimator, aggregator, methods.remembering("naive"))


def _manifest(
    dataset: Dataset,
    data: str | os.PathLike[str],
    settings: UniKnowSettings,
    parts: Parts,
    chosen: Chosen,
    methods: Methods,
) -> UniKnowManifest:
    # Settings that no row depends on must not prevent a run from being resumed.
    unused = {
        name
        for name, used in {
            "training": chosen.trained,
            "preference_training": "dpo" in chosen.names,
        }.items()
        if not used
    }
    stored = settings.model_dump(mode="json", exclude=unused)
    if parts.editor is not None:
        stored["editor"] = parts.editor.fingerprint
    meter = methods.meter
    return UniKnowManifest.new(
        suite="uniknow",
        settings={
            "dataset": dataset.name,
            "model": methods.lm.fingerprint,
            **stored,
            "prompts_sha256": {
                name: Prompt(name, text).sha256
                for name, text in sorted(asdict(dataset.prompts).items())
            },
            "scorer": None if meter is None else meter.scorer.fingerprint.model_dump(),
            "estimator": None if meter is None else meter.estimator.fingerprint.model_dump(),
            "aggregator": None if meter is None else meter.aggregator,
        },
        inputs=() if os.fspath(data) == MICROWORLD else (InputFile.of(data),),
        methods=chosen.names,
        left_out=chosen.left_out,
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """The stages of a run."""

    run: Run
    settings: UniKnowSettings
    parts: Parts
    dataset: Dataset
    methods: Methods
    on_progress: OnProgress | None

    def plan(self, chosen: Chosen, store: KnowledgeStore) -> Plan:
        """Return the stored plan, or make and store it."""
        stored = Plan.read(self.run)
        if stored is not None:
            return stored
        plan = self._new_plan(store)
        chosen = with_training(chosen, plan.training, for_all=self.settings.asks_for_all)
        rows = len(plan.evaluation) * len(chosen.names)
        plan = replace(
            plan, file=plan.file.model_copy(update={"rows": rows, "left_out": chosen.left_out})
        )
        plan.write(self.run)
        return plan

    def _new_plan(self, store: KnowledgeStore) -> Plan:
        settings, dataset, lm = self.settings, self.dataset, self.methods.lm
        estimates = estimate_knowledge(
            lm,
            dataset.questions,
            dataset.prompts,
            sampling=settings.sampling,
            store=store,
            on_progress=self.on_progress,
        )
        size = fitting_size(
            lm,
            dataset,
            answer_tokens=getattr(lm, "max_new_tokens", 0),
            passages=settings.passages_per_context,
            several=settings.beyond,
        )
        contexts = build_contexts(
            dataset,
            encoder=self.parts.encoder,
            editor=self.parts.editor,
            kinds=settings.kinds,
            size=size,
            seed=settings.seed,
            on_progress=self.on_progress,
        )
        return make_plan(
            dataset,
            contexts,
            estimates,
            questions_per_side=settings.questions_per_side,
            seed=settings.seed,
        )

    def calibrate(self, plan: Plan) -> None:
        """Measure the missing signals, and fit the policy on the training questions."""
        meter = self.methods.meter
        assert meter is not None
        signals = self._signals(plan, meter)
        self.methods.remembering("naive").remember(
            (signal.case_id, reply_from(signal.context_reply, row.case))
            for signal, row in zip(signals, plan.rows, strict=True)
            if signal.context_reply is not None
        )
        policy = calibrate_guard(
            [signal for signal in signals if signal.part == "training"],
            scorer=meter.scorer.fingerprint,
            estimator=meter.estimator.fingerprint,
            aggregator=meter.aggregator,
            risk=self.settings.risk,
            delta=self.settings.delta,
            seed=self.settings.seed,
        )
        policy.save(self.run.folder / POLICY)
        self.methods.policy = policy

    def _signals(self, plan: Plan, meter: SignalMeter) -> list[UniKnowSignal]:
        table, rows = self.run[SIGNALS], plan.rows
        table.require_order([row.case_id for row in rows])
        done = len(table.done)
        start = self._start(done, len(rows))
        meter.remember(
            (signal, row.case) for signal, row in zip(table.rows()[:start], rows, strict=False)
        )
        for first in range(start, len(rows), self._at_once):
            batch = rows[first : first + self._at_once]
            for part in dict.fromkeys(row.part for row in batch):
                cases = [row.case for row in batch if row.part == part]
                table.extend(meter.measure(cases, part))
            self._report("measuring relevance and confidence", first + len(batch), len(rows))
        return table.rows()

    def answer(self, names: Sequence[str], cases: Sequence[ScenarioCase]) -> None:
        """Answer the cases with each method, from where the run was interrupted."""
        table = self.run[ROWS]
        self._reuse_replies(len(cases))
        for number, name in enumerate(names):
            done = len(table.done) - number * len(cases)
            if done >= len(cases):
                continue
            method = self.methods.make(name, self.on_progress)
            for first in range(self._start(done, len(cases)), len(cases), self._at_once):
                batch = cases[first : first + self._at_once]
                table.extend(
                    UniKnowRow.of(name, case, reply)
                    for case, reply in zip(batch, method.answer(batch), strict=True)
                )
                self._report(f"answering: {name}", first + len(batch), len(cases))

    def _reuse_replies(self, cases: int) -> None:
        """Let a guard over a method reuse the replies of that method's rows."""
        rows = [row for row in self.run[ROWS].rows() if row.method == "coiecd"]
        if rows:
            self.methods.remembering("coiecd").remember(
                (row.case_key, Reply(row.answer, abstained=row.abstained))
                for row in rows[: self._start(len(rows), cases)]
                if row.error is None
            )

    @property
    def _local(self) -> bool:
        return hasattr(self.methods.lm, "batch_size")

    @property
    def _at_once(self) -> int:
        return CASES_AT_ONCE if self._local else _REMOTE_CASES_AT_ONCE

    def _start(self, done: int, total: int) -> int:
        """Return the case to continue with after `done` of them.

        A local model's reply can depend on its batch in the last digit: a batch that was cut
        is asked again as a whole. A remote model is only asked for what is missing.
        """
        cut = self._local and done < total
        return done // self._at_once * self._at_once if cut else done

    def _report(self, stage: str, done: int, total: int) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress(stage, done, total))
