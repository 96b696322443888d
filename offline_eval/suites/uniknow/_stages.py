"""The stages of a run before the methods answer: plan, signals, policy and training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ....adapters.huggingface import HuggingFaceLM
from ....calibration.training.scenarios import ScenarioTrainingSettings
from ....guard.contracts import (
    ConfidenceEstimator,
    LanguageModel,
    RelevanceScorer,
    TextEmbedder,
)
from ....guard.policy import Policy
from ....guard.prompts import Prompt
from ....guard.signals.confidence import load_estimator
from ....guard.signals.relevance import default_aggregator
from ...run import OnProgress, Progress, Run
from ...testbed import microworld_model_path
from ._cases import Reply, ScenarioCase
from ._choosing import Chosen, Methods, with_training
from ._contexts import build_contexts, fitting_size
from ._datasets import Dataset, PromptSet
from ._guard_method import SignalMeter
from ._guard_policy import calibrate_guard
from ._knowledge import KnowledgeStore, estimate_knowledge
from ._methods import reply_from
from ._plan import Plan, make_plan
from ._reading import POLICY, ROWS, SIGNALS
from ._rows import UniKnowSignal, row_id
from ._settings import UniKnowSettings
from ._trained_methods import Trainer


@dataclass(frozen=True, slots=True)
class Parts:
    """Objects that a run is made with; None for the defaults.

    Attributes:
        scorer: of the guards; by default the one that the settings name.
        estimator: of the guards; by default the cascade for a model with weights, sampled
            consistency for others.
        encoder: retrieves misleading passages; by default the embedded bi-encoder.
        editor: writes conflicting answers; by default another answer of the data set is used.
        training: of trained methods; by default what suits the model.
        preference_training: of `dpo`; by default what suits the model.
    """

    scorer: RelevanceScorer | None = None
    estimator: ConfidenceEstimator | None = None
    encoder: TextEmbedder | None = None
    editor: LanguageModel | None = None
    training: ScenarioTrainingSettings | None = None
    preference_training: ScenarioTrainingSettings | None = None

    def training_of(self, lm: LanguageModel, settings: UniKnowSettings) -> ScenarioTrainingSettings:
        """Return the settings of supervised training."""
        if self.training is not None:
            return self.training
        return _training_of(lm, settings, ScenarioTrainingSettings.for_embedded)

    def preference_training_of(
        self, lm: LanguageModel, settings: UniKnowSettings
    ) -> ScenarioTrainingSettings:
        """Return the settings of preference training."""
        if self.preference_training is not None:
            return self.preference_training
        return _training_of(lm, settings, ScenarioTrainingSettings.for_embedded_preferences)


def _training_of(
    lm: LanguageModel,
    settings: UniKnowSettings,
    for_embedded: Callable[[], ScenarioTrainingSettings],
) -> ScenarioTrainingSettings:
    """Return what suits the model, with what the run's settings say."""
    given = {
        "rank": settings.rank,
        "epochs": settings.epochs,
        "most_steps": settings.training_steps,
        "learning_rate": settings.learning_rate,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not isinstance(lm, HuggingFaceLM):
        return replace(ScenarioTrainingSettings(), **changes)
    if Path(lm.name) == microworld_model_path():
        return replace(for_embedded(), **changes)
    if settings.dtype != "auto":
        changes["dtype"] = settings.dtype
    # Trained as it is asked.
    return replace(ScenarioTrainingSettings(), chat_template=lm.uses_chat_template, **changes)


def signal_meter(
    methods: Methods, scorer: RelevanceScorer, estimator: ConfidenceEstimator | None
) -> SignalMeter:
    """Make what measures the guards' signals.

    Args:
        methods: of the run.
        scorer: measures relevance.
        estimator: measures confidence; None for one that suits the model.
    """
    if estimator is None:
        prompt = Prompt("uniknow.closed_book", methods.prompts.closed_book)
        # The cascade needs log-probabilities, which a remote model seldom gives.
        kind = "cascade" if hasattr(methods.lm, "score_options") else "sampled_consistency"
        estimator = load_estimator(kind, methods.lm, prompt=prompt)
    aggregator = default_aggregator(scorer.fingerprint.kind)
    return SignalMeter(scorer, estimator, aggregator, methods.remembering("naive"))


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of one run.

    Attributes:
        run: open for writing.
        settings: of the suite.
        parts: objects that the run is made with.
        methods: of the run.
        at_once: cases per batch.
        whole_batches: whether a batch that a kill cut is asked again as a whole.
        on_progress: called with the state of each stage; may be None.
    """

    run: Run
    settings: UniKnowSettings
    parts: Parts
    methods: Methods
    at_once: int
    whole_batches: bool
    on_progress: OnProgress | None = None

    def plan(self, dataset: Dataset, chosen: Chosen) -> Plan:
        """Return the stored plan, or make and store it.

        Raises:
            InputError: no question is left to evaluate, or there is nothing to train on.
        """
        stored = Plan.read(self.run)
        if stored is not None:
            return stored
        plan = self._new_plan(dataset)
        chosen = with_training(chosen, plan.training, for_all=self.settings.asks_for_all)
        rows = len(plan.evaluation) * len(chosen.names)
        file = plan.file.model_copy(update={"rows": rows, "left_out": chosen.left_out})
        plan = replace(plan, file=file)
        plan.write(self.run)
        return plan

    def _new_plan(self, dataset: Dataset) -> Plan:
        settings, lm = self.settings, self.methods.lm
        estimates = estimate_knowledge(
            lm,
            dataset.questions,
            dataset.prompts,
            sampling=settings.sampling,
            store=KnowledgeStore(settings.knowledge or self.run.folder / "knowledge.jsonl"),
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
            defined_only=settings.defined_only,
            seed=settings.seed,
        )

    def calibrate(self, plan: Plan, meter: SignalMeter) -> Policy:
        """Measure the missing signals, fit the policy on the training questions and store it."""
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
        )
        policy.save(self.run.folder / POLICY)
        return policy

    def _signals(self, plan: Plan, meter: SignalMeter) -> list[UniKnowSignal]:
        table, rows = self.run[SIGNALS], plan.rows
        table.require_order([row.case_id for row in rows])
        done = len(table.done)
        start = done // self.at_once * self.at_once if self.whole_batches else done
        start = done if done == len(rows) else start
        meter.remember(
            (signal, row.case) for signal, row in zip(table.rows()[:start], rows, strict=False)
        )
        for first in range(start, len(rows), self.at_once):
            batch = rows[first : first + self.at_once]
            for part in dict.fromkeys(row.part for row in batch):
                cases = [row.case for row in batch if row.part == part]
                table.extend(meter.measure(cases, part))
            if self.on_progress is not None:
                done = first + len(batch)
                self.on_progress(Progress("measuring relevance and confidence", done, len(rows)))
        return table.rows()

    def trainer(self, cases: Sequence[ScenarioCase], prompts: PromptSet) -> Trainer:
        """Return what trains the methods of the run."""
        lm = self.methods.lm
        assert isinstance(lm, HuggingFaceLM)
        return Trainer(
            lm,
            cases,
            prompts,
            self.run.folder / "adapters",
            self.parts.training_of(lm, self.settings),
            self.parts.preference_training_of(lm, self.settings),
            self.settings.seed,
        )

    def reuse_replies(self, name: str, cases: Sequence[ScenarioCase]) -> None:
        """Let a guard over a method reuse the replies of that method's rows."""
        stored = {row.case_id: row for row in self.run[ROWS].rows() if row.method == name}
        for first in range(0, len(cases), self.at_once):
            batch = cases[first : first + self.at_once]
            rows = {case.case_id: stored.get(row_id(name, case)) for case in batch}
            if self.whole_batches and None in rows.values():
                continue
            self.methods.remembering(name).remember(
                (case_id, Reply(row.answer, abstained=row.abstained))
                for case_id, row in rows.items()
                if row is not None and row.error is None
            )
