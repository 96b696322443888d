"""The UniKnow suite: methods, stages, and the object that the driver runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from ....adapters.huggingface import HuggingFaceLM, LoadOptions
from ....calibration.risk.fit import PolicyBinding
from ....calibration.training.scenarios import ScenarioTrainingSettings, train_scenarios
from ....guard.contracts import RelevanceScorer, TextEmbedder
from ....guard.errors import InputError
from ....guard.policy import Policy
from ....guard.prompts import Prompt
from ....guard.signals.confidence import load_estimator
from ....guard.signals.relevance import load_scorer
from ...report.document import Document
from ...run.grouping import batched
from ...run.manifest import START_AGAIN, InputFile
from ...systems.factory import load_language_model, local_model
from ...testbed.check import microworld_model_path
from ..base import Suite, SuiteRun
from ..parts import (
    ModelChoice,
    Overview,
    System,
    Work,
    require_not_tuned_on,
)
from ._bundled import FACTS, FACTS_FILE, MICROWORLD, read_dataset
from ._cases import (
    Case,
    Dataset,
    Knowledge,
    Method,
    Reply,
    UniKnowRow,
    UniKnowSignal,
    row_id,
)
from ._contexts import build_contexts
from ._guard import SignalMeter, calibrate_guard, guarded
from ._knowledge import KnowledgeStore, estimate_knowledge
from ._metrics import UniKnowRun
from ._report import uniknow_document
from .methods import (
    ALL_METHODS,
    GUARDED,
    TrainedMethod,
    UniKnowSettings,
    choose_methods,
    is_trained,
    prompted,
    reply_from,
    training_examples,
    untrained,
)
from .plan import POLICY, ROWS, SIGNALS, Plan, UniKnowManifest, fitting_size, make_plan

_LOCAL_BATCH, _REMOTE_BATCH = 64, 16
# Settings that the manifest holds in another form: as fingerprints, or as those of training.
_STORED_OTHERWISE = {
    *("data", "model", "dtype", "answer_tokens", "knowledge", "scorer", "seed"),
    *("rank", "epochs", "training_steps", "learning_rate"),
}


class UniKnowSuite(Suite[UniKnowSettings, Case, UniKnowRow, UniKnowRun]):
    """Knowledge scenarios: context against memory, only one of them, or neither.

    First the model is asked without contexts what it knows; then every method answers every
    question in its contexts. Trained methods learn, and guards are calibrated, on questions
    of their own. Killed and started again with the same arguments, the run continues.

    Example: `knowgate eval uniknow --model embedded --methods all --out run`
    """

    name = "uniknow"
    settings = UniKnowSettings
    row = UniKnowRow
    rows, key = ROWS, "case_id"
    takes_model = False
    manifest_model = UniKnowManifest

    def __init__(
        self,
        scorer: RelevanceScorer | None = None,
        encoder: TextEmbedder | None = None,
        training: ScenarioTrainingSettings | None = None,
    ) -> None:
        # In the place of what settings and model suggest.
        self._scorer, self._encoder, self._training = scorer, encoder, training
        self._dataset: Dataset
        self._lm: Any = None
        # Methods that were asked for and that the model does not allow, with the reason.
        self._left_out: Mapping[str, str] = {}
        self._meter: SignalMeter | None = None
        self._policy: Policy | None = None
        self._adapters: dict[str, Path] = {}
        self._loaded: tuple[str, Method] | None = None

    def cases(self, settings: UniKnowSettings) -> Sequence[Any]:
        """Read the questions; their contexts are built by `prepare`."""
        if settings.knowledge is not None:
            # Before anything is asked: is it such a file?
            KnowledgeStore(settings.knowledge)
        limit, seed = settings.limit, settings.seed
        self._dataset = read_dataset(settings.data, limit=limit, seed=seed)
        return self._dataset.questions

    def load(self, settings: UniKnowSettings, choice: ModelChoice) -> Sequence[System]:
        """Load the model."""
        name, folder = settings.model, local_model(settings.model)
        if folder is None and ":" in name:
            return [System(name, load_language_model(name, choice.limits))]
        lm = HuggingFaceLM(
            folder or name,
            dtype=settings.dtype,
            max_new_tokens=settings.answer_tokens,
            loading=LoadOptions(chat_template=False if settings.data == FACTS else "auto"),
        )
        return [System(name, lm)]

    def systems(self, work: Work[UniKnowSettings, Any]) -> Sequence[System]:
        """Return a system for each method.

        Raises:
            InputError: a method asked for by name cannot be run on the model, or the scorer of
                the guards was tuned on these questions.
        """
        settings, given = work.settings, work.systems
        lm = self._lm = given[0].model if given else None
        names, self._left_out = choose_methods(settings.methods, lm, ablations=settings.ablations)
        if lm is not None and not set(GUARDED).isdisjoint(names):
            meter = self._meter = self._signal_meter(settings)
            # Its guards are calibrated on some of these questions, and judged on the others.
            asked = {one.id: one.question for one in work.cases}
            require_not_tuned_on(meter.scorer, asked, settings.scorer)
        return [System(name, lm) for name in names]

    def _signal_meter(self, settings: UniKnowSettings) -> SignalMeter:
        """Make what measures the guards' signals.

        Confidence comes from the cascade for a model with weights, sampled consistency for others:
        the cascade needs log-probabilities, which a remote model seldom gives.
        """
        scorer, lm = self._scorer or load_scorer(settings.scorer), self._lm
        prompts = self._dataset.prompts
        kind = "cascade" if hasattr(lm, "score_options") else "sampled_consistency"
        prompt = Prompt("uniknow.closed_book", prompts.closed_book)
        estimator = load_estimator(kind, lm, prompt=prompt)
        return SignalMeter(scorer, estimator, untrained("naive", lm, prompts))

    def _training_of(self, settings: UniKnowSettings, name: str = "") -> ScenarioTrainingSettings:
        """Return the settings of a method's training: preferences or supervised."""
        if self._training is not None and name != TrainedMethod.DPO:
            return self._training
        given: dict[str, Any] = settings.model_dump(include={"rank", "epochs", "learning_rate"})
        given["most_steps"] = settings.training_steps
        usual = ScenarioTrainingSettings()
        if isinstance(lm := self._lm, HuggingFaceLM):
            if Path(lm.name) == microworld_model_path():
                usual = usual.for_embedded(preferences=name == TrainedMethod.DPO)
            else:
                # Trained as it is asked.
                given["chat_template"] = lm.uses_chat_template
                given["dtype"] = None if settings.dtype == "auto" else settings.dtype
        return replace(usual, **{name: value for name, value in given.items() if value is not None})

    def row_id(self, case: Case, system: str) -> str:
        """Return the id of a method's row for a case."""
        return row_id(system, case)

    def batches(self, cases: Sequence[Case], system: System) -> Iterator[Sequence[Case]]:
        """Split the cases into smaller batches for a remote model."""
        return batched(cases, _LOCAL_BATCH if self.asks_whole_batches(system) else _REMOTE_BATCH)

    def inputs(self, settings: UniKnowSettings) -> Sequence[Path]:
        """Return the file of questions; none for the microworld."""
        return {MICROWORLD: [], FACTS: [FACTS_FILE]}.get(settings.data, [Path(settings.data)])

    def manifest(self, work: Work[UniKnowSettings, Any]) -> UniKnowManifest:
        """Name the model, the settings that count, the prompts and what measures the signals."""
        settings, meter = work.settings, self._meter
        names = tuple(system.name for system in work.systems)
        stored: dict[str, Any] = {"dataset": self._dataset.name, "model": self._lm.fingerprint}
        stored |= settings.model_dump(mode="json", exclude=_STORED_OTHERWISE)
        # Settings that no row depends on must not prevent a run from being resumed.
        if any(map(is_trained, names)):
            stored["training"] = asdict(self._training_of(settings))
        if "dpo" in names:
            stored["preference_training"] = asdict(self._training_of(settings, "dpo"))
        stored["seed"] = settings.seed
        prompts = sorted(asdict(self._dataset.prompts).items())
        stored["prompts_sha256"] = {
            name: Prompt(name, text).sha256 for name, text in prompts if text
        }
        stored["scorer"] = meter and meter.scorer.fingerprint.model_dump()
        stored["estimator"] = meter and meter.estimator.fingerprint.model_dump()
        stored["aggregator"] = meter and meter.aggregator
        return UniKnowManifest.new(
            suite=self.name,
            settings=stored,
            inputs=tuple(InputFile.of(path) for path in self.inputs(settings)),
            methods=names,
            left_out=self._left_out,
        )

    def prepare(self, work: Work[UniKnowSettings, Any]) -> None:
        """Plan the cases, calibrate the guards and train the adapters that are missing."""
        if Plan.find(work.run) is None:
            self._plan(work).write(work.run)
        plan = Plan.read(work.run)
        work.cases = plan.evaluation
        work.systems = [one for one in work.systems if one.name not in plan.left_out]
        for name, reason in plan.left_out.items():
            work.note(f"left out: {name} ({reason})")
        if self._meter is not None:
            policy = self._policy = self._calibrate(work, plan, self._meter)
            work.note(f"the guards guarantee: {policy.guarantee and policy.guarantee.statement}")
        # Failed rows are dropped after this, where they are to be asked again.
        again = work.options.retry_failed
        stored = work.run[self.rows].rows()
        done = {row.case_id for row in stored if row.error is None or not again}
        for system in work.systems:
            missing = any(self.row_id(case, system.name) not in done for case in plan.evaluation)
            if is_trained(system.name) and missing:
                self._train(system.name, plan.training, work)

    def _plan(self, work: Work[UniKnowSettings, Any]) -> Plan:
        """Ask the model what it knows, build the contexts and split the questions.

        Raises:
            InputError: no question is left to evaluate, or there is nothing to train on.
        """
        settings, lm, on_progress = work.settings, self._lm, work.options.on_progress
        dataset = self._dataset
        estimates = estimate_knowledge(
            lm,
            dataset.questions,
            dataset.prompts,
            settings=settings,
            store=KnowledgeStore(settings.knowledge or work.run.folder / "knowledge.jsonl"),
            on_progress=on_progress,
        )
        words, passages = fitting_size(lm, dataset, settings)
        built = build_contexts(
            dataset,
            encoder=self._encoder,
            kinds=settings.kinds,
            words=words,
            passages=passages,
            seed=settings.seed,
            on_progress=on_progress,
        )
        plan = make_plan(dataset, built, estimates, settings)
        untrained = _untrainable(plan, work)
        rows = len(plan.evaluation) * (len(work.systems) - len(untrained))
        return plan.model_copy(update={"rows": rows, "left_out": {**self._left_out, **untrained}})

    def _calibrate(
        self, work: Work[UniKnowSettings, Any], plan: Plan, meter: SignalMeter
    ) -> Policy:
        """Measure the missing signals, fit the policy on the training questions and store it."""
        table, system = work.run[SIGNALS], work.systems[0]
        advance = work.progress("measuring relevance and confidence")
        wanted, stored = {case.case_id for case in plan.cases}, dict[str, UniKnowSignal]()
        for where, signal in table.places():
            if signal.case_id not in wanted:
                what = "the row is not the one that belongs here"
                raise InputError(what, where=where, hint=START_AGAIN)
            stored[signal.case_id] = signal
        for batch in self.batches(plan.cases, system):
            known = [stored[case.case_id] for case in batch if case.case_id in stored]
            if self.asks_whole_batches(system) and len(known) < len(batch):
                known = []
            meter.remember(known)
            table.extend(meter.measure([one for one in batch if one.case_id not in meter.found]))
            advance(len(meter.found), len(plan.cases))
        training = [signal for signal in table.rows() if signal.part == "training"]
        binding = PolicyBinding(
            meter.scorer.fingerprint, meter.estimator.fingerprint, meter.aggregator
        )
        settings = work.settings
        policy = calibrate_guard(training, binding, risk=settings.risk, delta=settings.delta)
        policy.save(work.run.folder / POLICY)
        return policy

    def _train(self, name: str, training: Sequence[Case], work: Work[UniKnowSettings, Any]) -> None:
        """Train a method, unless its adapter exists."""
        seed, prompts = work.settings.seed, self._dataset.prompts
        make = partial(training_examples, cases=training, prompts=prompts, seed=seed)
        examples, usual = make(name), TrainedMethod.named(name)
        # An ablation at the usual share is the usual training, and is done once.
        shared = name != usual and examples == make(usual)
        self._adapters[name] = work.run.folder / "adapters" / (usual if shared else name)
        train_scenarios(
            self._lm.name,
            examples,
            self._adapters[name],
            settings=self._training_of(work.settings, name),
            seed=seed,
            on_progress=work.progress(f"training {name}"),
        )

    def answer(self, cases: Sequence[Case], system: System) -> list[UniKnowRow]:
        """Answer a batch with one method; a failure costs one case."""
        name = system.name
        if is_trained(name):
            replies = self._trained(system)(cases)
        elif name not in GUARDED:
            replies = self._once(name, system, cases)
        else:
            assert self._meter is not None
            assert self._policy is not None
            base = partial(self._once, name.removeprefix("guard_"), system)
            replies = guarded(base, self._policy, self._meter)(cases)
        return [UniKnowRow.of(name, case, told) for case, told in zip(cases, replies, strict=True)]

    def _once(self, name: str, system: System, cases: Sequence[Case]) -> list[Reply]:
        """Ask an untrained method for what no stored row or signal holds."""
        earlier = system.earlier if system.name in GUARDED else {}
        known: dict[str, Reply] = {}
        for case in cases:
            row = earlier.get(row_id(name, case))
            signal = self._meter and self._meter.found.get(case.case_id)
            if name == "naive" and signal and signal.context_reply is not None:
                known[case.case_id] = reply_from(signal.context_reply, case)
            elif row is not None and row.error is None:
                known[case.case_id] = Reply(row.answer, abstained=row.abstained)
        new = [case for case in cases if case.case_id not in known]
        fresh = untrained(name, self._lm, self._dataset.prompts)(new) if new else []
        known |= {case.case_id: reply for case, reply in zip(new, fresh, strict=True)}
        return [known[case.case_id] for case in cases]

    def _trained(self, system: System) -> Method:
        """Load a trained method; only the last one is kept."""
        lm, name = self._lm, system.name
        if self._loaded is None or self._loaded[0] != name:
            self._loaded = None
            same = ("device", "dtype", "max_new_tokens", "stop", "batch_size")
            options = {name: getattr(lm, name) for name in same}
            options["loading"] = LoadOptions(chat_template=lm.uses_chat_template)
            adapted = HuggingFaceLM(lm.name, adapter=self._adapters[name], **options)
            template = TrainedMethod.named(name).prompt(self._dataset.prompts)
            self._loaded = name, partial(prompted, adapted, template)
        return self._loaded[1]

    def failed(self, case: Case, system: System, error: Exception) -> UniKnowRow:
        """Return the row of a case without an answer."""
        return UniKnowRow.of(system.name, case, reply_from(error, case))

    def dry_run(self, work: Work[UniKnowSettings, Any]) -> Overview:
        """Count the cases of each method, as if all contexts could be built."""
        questions, settings = len(work.cases), work.settings
        counts = {system.name: questions * len(settings.kinds) for system in work.systems}
        note = (
            f"{questions} questions, each asked up to {settings.samples} times without a context; "
            "up to a quarter of them is for training, and some contexts cannot be built."
        )
        lines = tuple(counts.items())
        return Overview(("method", "cases at most"), lines, (note,), {"cases": counts})

    def score(self, run: SuiteRun[UniKnowRow]) -> UniKnowRun:
        """Compute the metrics of every method."""
        return UniKnowRun(run.run)

    def report(self, summary: UniKnowRun) -> Document:
        """Show which method uses which knowledge when."""
        return uniknow_document(summary)


def _untrainable(plan: Plan, work: Work[UniKnowSettings, Any]) -> dict[str, str]:
    """Return the trained methods if there is nothing to train them on, with the reason.

    Raises:
        InputError: they were asked for by name.
    """
    if {case.knowledge for case in plan.training} >= {Knowledge.KNOWN, Knowledge.UNKNOWN}:
        return {}
    reason = "training needs questions that the model knows and ones that it does not"
    names = [system.name for system in work.systems if is_trained(system.name)]
    if names and ALL_METHODS not in work.settings.methods:
        hint = "give more questions, or leave the trained methods out by --methods"
        raise InputError(reason, where=names[0], hint=hint)
    return dict.fromkeys(names, reason)
