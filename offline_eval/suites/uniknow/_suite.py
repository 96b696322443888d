"""The UniKnow suite: settings, methods, stages, and the object that the driver runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from ....adapters.huggingface import HuggingFaceLM, LoadOptions
from ....calibration.training.scenarios import ScenarioTrainingSettings
from ....guard.contracts import LanguageModel, RelevanceScorer, TextEmbedder
from ....guard.errors import InputError
from ....guard.fingerprint import default_aggregator
from ....guard.policy import Policy
from ....guard.prompts import Prompt
from ....guard.signals.confidence import load_estimator
from ....guard.signals.relevance import load_scorer
from ...report.document import Document
from ...run.manifest import InputFile
from ...run.table import TableSpec
from ...systems.factory import local_model
from ...testbed.check import microworld_model_path
from ..base import Suite, SuiteRun
from ..parts import (
    DryRun,
    ModelChoice,
    SuiteSettings,
    System,
    Work,
    model_by_name,
    require_not_tuned_on,
)
from ._bundled import FACTS, MICROWORLD, prompts_of
from ._cases import (
    PAPER_KINDS,
    Case,
    ContextKind,
    Knowledge,
    Reply,
    UniKnowRow,
    UniKnowSignal,
    row_id,
)
from ._contexts import PASSAGES, build_contexts, fitting_size
from ._guard import SignalMeter, calibrate_guard, require_share
from ._knowledge import KnowledgeStore, Sampling, estimate_knowledge
from ._questions import dataset_of, question_file, read_dataset
from ._report import uniknow_document
from ._summary import UniKnowSummary
from .methods import (
    ALL_METHODS,
    GUARDED,
    Methods,
    check_methods,
    choose_methods,
    is_trained,
    untrained,
)
from .plan import POLICY, ROWS, SIGNALS, Plan, UniKnowManifest, UniKnowRun, make_plan

# Needs no training, and is the best of the bundled scorers on contexts of about 100 words that
# were retrieved wrongly: AUROC .991 on the microworld.
_GUARD_SCORER = "late_interaction"


class UniKnowSettings(SuiteSettings):
    """Settings of a run of the suite.

    Attributes:
        data: microworld, facts (the bundled list of short questions), or a file of questions (MRQA,
            SQuAD or JSON lines).
        model: embedded, smollm2, a model folder, gguf:FILE, a hub name, provider:model, or
            python:module:attribute.
        methods: all, or names of methods with commas between them.
        knowledge: File that stores what models know, shared by runs; by default in the run folder.
        limit: Use at most that many questions.
        questions_per_side: Evaluate at most that many known and as many unknown questions, evenly
            spaced over the data set.
        defined_only: Leave out questions that the model answers rightly at times; they count in Acc
            and Rely only.
        samples: Closed-book answers that settle what the model knows.
        tau: Share of right answers from which on a question is known.
        temperature: Temperature of these answers.
        risk: Share that guards may let through where neither context nor model has the answer.
        delta: Probability that the guarantee of the guards fails by chance.
        ablations: Also train lm_uniknow on other data.
        beyond: Also use contexts of several passages, and untrue ones.
        passages_per_context: Passages of the contexts with several.
        scorer: Scorer of the guards, by name, folder or judge:MODEL.
        answer_tokens: The most tokens an answer of a local model may have.
        rank: Rank of trained adapters; by default what suits.
        epochs: Epochs of training; by default what suits.
        training_steps: Steps after which each training ends; by default all.
        learning_rate: Peak rate of training; by default what suits.
        dtype: Precision of a local model: auto, or a torch name, e.g. bfloat16.
        seed: Random seed.

    Raises:
        InputError: a method is unknown, or a probability or the sampling is out of range.
    """

    data: str = MICROWORLD
    model: str = "embedded"
    methods: tuple[str, ...] = (ALL_METHODS,)
    knowledge: Path | None = None
    limit: int | None = Field(None, ge=1)
    questions_per_side: int | None = Field(None, ge=1)
    defined_only: bool = False
    samples: int = 10
    tau: float = 0.7
    temperature: float = 1.0
    risk: float = 0.1
    delta: float = 0.1
    ablations: bool = False
    beyond: bool = False
    passages_per_context: int = Field(PASSAGES, ge=2)
    scorer: str = _GUARD_SCORER
    answer_tokens: int = Field(24, ge=1)
    rank: int | None = Field(None, ge=1)
    epochs: int | None = Field(None, ge=1)
    training_steps: int | None = Field(None, ge=1)
    learning_rate: float | None = Field(None, gt=0)
    dtype: str = "auto"
    seed: int = 0

    @field_validator("methods", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = [value]
        return [name.strip() for text in value for name in text.split(",") if name.strip()]

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_methods(self.methods)
        for name in ("risk", "delta"):
            require_share(name, getattr(self, name))
        assert self.sampling  # checks its values
        return self

    @property
    def sampling(self) -> Sampling:
        """How closed-book answers are sampled."""
        return Sampling(self.samples, self.tau, self.temperature, self.seed)

    @property
    def kinds(self) -> tuple[ContextKind, ...]:
        """The kinds of contexts that are built."""
        return tuple(ContextKind) if self.beyond else PAPER_KINDS


_LOCAL_BATCH, _REMOTE_BATCH = 64, 16
# Settings that the manifest holds in another form: as fingerprints, or as those of training.
_STORED_OTHERWISE = {
    *("data", "model", "dtype", "answer_tokens", "knowledge", "scorer", "seed"),
    *("rank", "epochs", "training_steps", "learning_rate"),
}


class UniKnowSuite(Suite[UniKnowSettings, Case, UniKnowRow, UniKnowSummary]):
    """Knowledge scenarios: context against memory, only one of them, or neither.

    First the model is asked without contexts what it knows; then every method answers every
    question in its contexts. Trained methods learn, and guards are calibrated, on questions
    of their own. Killed and started again with the same arguments, the run continues.

    Example: `knowgate eval uniknow --model embedded --methods all --out run`
    """

    name = "uniknow"
    settings = UniKnowSettings
    row = UniKnowRow
    key = "case_id"
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
        self._methods: Methods

    @property
    def rows(self) -> TableSpec[UniKnowRow]:
        """The table of rows."""
        return ROWS

    def cases(self, settings: UniKnowSettings) -> Sequence[Any]:
        """Read the questions; their contexts are built by `prepare`."""
        if settings.knowledge is not None:
            KnowledgeStore(settings.knowledge)  # before anything is asked: is it such a file?
        return read_dataset(settings.data, limit=settings.limit, seed=settings.seed).questions

    def limited(self, cases: Sequence[Case], limit: int | None) -> Sequence[Case]:
        """Return all: the questions were limited when they were read."""
        del limit
        return cases

    def load(self, settings: UniKnowSettings, choice: ModelChoice) -> Sequence[System]:
        """Load the model."""
        name = settings.model
        folder = local_model(name)
        if folder is None and ":" in name:
            lm = model_by_name(name, choice.limits)
        else:
            lm = HuggingFaceLM(
                folder or name,
                dtype=settings.dtype,
                max_new_tokens=settings.answer_tokens,
                loading=LoadOptions(chat_template=False if settings.data == FACTS else "auto"),
            )
        return [System(name, lm)]

    def systems(
        self, settings: UniKnowSettings, cases: Sequence[Any], given: Sequence[System]
    ) -> Sequence[System]:
        """Return a system for each method.

        Raises:
            InputError: a method asked for by name cannot be run on the model, or the scorer of
                the guards was tuned on these questions.
        """
        lm: LanguageModel | None = given[0].model if given else None
        names, left_out = choose_methods(settings.methods, lm, ablations=settings.ablations)
        if lm is not None:
            methods = self._methods = Methods(lm, prompts_of(settings.data), left_out)
            if not set(GUARDED).isdisjoint(names):
                meter = methods.meter = self._signal_meter(methods, settings)
                # Its guards are calibrated on some of these questions, and judged on the others.
                asked = {one.id: one.question for one in cases}
                require_not_tuned_on(meter.scorer, asked, settings.scorer)
        return [System(name, lm) for name in names]

    def _training_of(
        self, settings: UniKnowSettings, *, preferences: bool = False
    ) -> ScenarioTrainingSettings:
        """Return the settings of supervised training, or of preference training."""
        if self._training is not None and not preferences:
            return self._training
        lm = self._methods.lm
        given: dict[str, Any] = {
            "rank": settings.rank,
            "epochs": settings.epochs,
            "most_steps": settings.training_steps,
            "learning_rate": settings.learning_rate,
        }
        usual = ScenarioTrainingSettings()
        if isinstance(lm, HuggingFaceLM):
            if Path(lm.name) == microworld_model_path():
                usual = usual.for_embedded_preferences() if preferences else usual.for_embedded()
            else:
                # Trained as it is asked.
                given["chat_template"] = lm.uses_chat_template
                given["dtype"] = None if settings.dtype == "auto" else settings.dtype
        return replace(usual, **{name: value for name, value in given.items() if value is not None})

    def _signal_meter(self, methods: Methods, settings: UniKnowSettings) -> SignalMeter:
        """Make what measures the guards' signals.

        Confidence comes from the cascade for a model with weights, sampled consistency for others:
        the cascade needs log-probabilities, which a remote model seldom gives.
        """
        scorer, lm = self._scorer or load_scorer(settings.scorer), methods.lm
        prompt = Prompt("uniknow.closed_book", methods.prompts.closed_book)
        kind = "cascade" if hasattr(lm, "score_options") else "sampled_consistency"
        aggregator = default_aggregator(scorer.fingerprint.kind)
        naive = untrained("naive", lm, methods.prompts)
        return SignalMeter(scorer, load_estimator(kind, lm, prompt=prompt), aggregator, naive)

    def row_id(self, case: Case, system: str) -> str:
        """Return the id of a method's row for a case."""
        return row_id(system, case)

    def batches(self, cases: Sequence[Case], system: System) -> Iterator[Sequence[Case]]:
        """Split the cases into smaller batches for a remote model."""
        size = self._batch_size(system)
        for begin in range(0, len(cases), size):
            yield cases[begin : begin + size]

    def _batch_size(self, system: System) -> int:
        return _LOCAL_BATCH if self.asks_whole_batches(system) else _REMOTE_BATCH

    def inputs(self, settings: UniKnowSettings) -> Sequence[Path]:
        """Return the file of questions."""
        path = question_file(settings.data)
        return [] if path is None else [path]

    def manifest(
        self, settings: UniKnowSettings, cases: Sequence[Any], systems: Sequence[System]
    ) -> UniKnowManifest:
        """Name the model, the settings that count, the prompts and what measures the signals."""
        methods, names = self._methods, tuple(system.name for system in systems)
        lm, meter = methods.lm, methods.meter
        stored: dict[str, Any] = {"dataset": cases[0].dataset, "model": lm.fingerprint}
        stored |= settings.model_dump(mode="json", exclude=_STORED_OTHERWISE)
        # Settings that no row depends on must not prevent a run from being resumed.
        if any(map(is_trained, names)):
            stored["training"] = asdict(self._training_of(settings))
        if "dpo" in names:
            found = self._training_of(settings, preferences=True)
            stored["preference_training"] = asdict(found)
        stored["seed"] = settings.seed
        prompts = sorted(asdict(methods.prompts).items())
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
            left_out=methods.left_out,
        )

    def prepare(self, work: Work[UniKnowSettings, Any]) -> None:
        """Plan the cases, calibrate the guards and train the adapters that are missing."""
        methods = self._methods
        settings, run = work.settings, work.run
        if Plan.find(run) is None:
            self._plan(work).write(run)
        plan = Plan.read(run)
        work.cases = plan.evaluation
        work.systems = [one for one in work.systems if one.name not in plan.left_out]
        for name, reason in plan.left_out.items():
            work.note(f"left out: {name} ({reason})")
        if methods.meter is not None:
            methods.policy = self._calibrate(work, plan, methods.meter)
            guarantee = methods.policy.guarantee
            work.note(f"the guards guarantee: {guarantee.statement if guarantee else ''}")
        done = run[self.rows].done
        trained = [one.name for one in work.systems if is_trained(one.name)]
        if trained:
            methods.cases, methods.folder = plan.training, run.folder / "adapters"
            methods.settings, methods.seed = self._training_of(settings), settings.seed
            methods.preference_settings = self._training_of(settings, preferences=True)
        for name in trained:
            if any(self.row_id(case, name) not in done for case in plan.evaluation):
                methods.train(name, work.options.on_progress)

    def _plan(self, work: Work[UniKnowSettings, Any]) -> Plan:
        """Ask the model what it knows, build the contexts and split the questions.

        Raises:
            InputError: no question is left to evaluate, or there is nothing to train on.
        """
        settings, lm = work.settings, self._methods.lm
        dataset = dataset_of(settings.data, work.cases)
        estimates = estimate_knowledge(
            lm,
            dataset.questions,
            dataset.prompts,
            sampling=settings.sampling,
            store=KnowledgeStore(settings.knowledge or work.run.folder / "knowledge.jsonl"),
            on_progress=work.options.on_progress,
        )
        words, passages = fitting_size(
            lm,
            dataset,
            answer_tokens=getattr(lm, "max_new_tokens", 0),
            passages=settings.passages_per_context,
            several=settings.beyond,
        )
        built = build_contexts(
            dataset,
            encoder=self._encoder,
            kinds=settings.kinds,
            words=words,
            passages=passages,
            seed=settings.seed,
            on_progress=work.options.on_progress,
        )
        plan = make_plan(
            dataset,
            built,
            estimates,
            questions_per_side=settings.questions_per_side,
            defined_only=settings.defined_only,
            seed=settings.seed,
        )
        untrained = _untrainable(plan, work)
        rows = len(plan.evaluation) * (len(work.systems) - len(untrained))
        left_out = {**self._methods.left_out, **untrained}
        return plan.model_copy(update={"rows": rows, "left_out": left_out})

    def _calibrate(
        self, work: Work[UniKnowSettings, Any], plan: Plan, meter: SignalMeter
    ) -> Policy:
        """Measure the missing signals, fit the policy on the training questions and store it."""
        signals = self._signals(work, plan.cases, meter)
        policy = calibrate_guard(
            [signal for signal in signals if signal.part == "training"],
            scorer=meter.scorer.fingerprint,
            estimator=meter.estimator.fingerprint,
            aggregator=meter.aggregator,
            risk=work.settings.risk,
            delta=work.settings.delta,
        )
        policy.save(work.run.folder / POLICY)
        return policy

    def _signals(
        self, work: Work[UniKnowSettings, Any], cases: Sequence[Case], meter: SignalMeter
    ) -> list[UniKnowSignal]:
        table = work.run[SIGNALS]
        system = work.systems[0]
        table.require_order([case.case_id for case in cases])
        done, size = len(table.done), self._batch_size(system)
        start = done
        if self.asks_whole_batches(system) and done < len(cases):
            start = done // size * size
        meter.remember(table.rows()[:start])
        advance = work.progress("measuring relevance and confidence")
        for first in range(start, len(cases), size):
            batch = cases[first : first + size]
            for part in dict.fromkeys(case.part for case in batch):
                table.extend(meter.measure([case for case in batch if case.part == part]))
            advance(first + len(batch), len(cases))
        return table.rows()

    def answer(self, cases: Sequence[Case], system: System) -> list[UniKnowRow]:
        """Answer a batch with one method; a failure costs one case."""
        earlier = system.earlier if system.name in GUARDED else {}
        replies = self._methods.answer(system.name, cases, earlier)
        return [
            UniKnowRow.of(system.name, case, reply)
            for case, reply in zip(cases, replies, strict=True)
        ]

    def failed(self, case: Case, system: System, error: Exception) -> UniKnowRow:
        """Return the row of a case without an answer."""
        note = f"{type(error).__name__}: {error}"
        return UniKnowRow.of(system.name, case, Reply("", abstained=False, error=note))

    def dry_run(
        self, settings: UniKnowSettings, cases: Sequence[Any], systems: Sequence[System]
    ) -> DryRun:
        """Count the cases of each method, as if all contexts could be built."""
        most = len(cases) * len(settings.kinds)
        counts = {system.name: most for system in systems}
        note = (
            f"{len(cases)} questions, each asked up to {settings.samples} times without a context; "
            "up to a quarter of them is for training, and some contexts cannot be built."
        )
        lines = tuple((name, str(number)) for name, number in counts.items())
        return DryRun(("method", "cases at most"), lines, (note,), {"cases": counts})

    def check(self, run: SuiteRun[UniKnowRow]) -> None:
        """Check that the run has a plan, and rows of its own cases and methods only."""
        UniKnowRun(run.run)

    def score(self, run: SuiteRun[UniKnowRow]) -> UniKnowSummary:
        """Compute the metrics of every method."""
        return UniKnowSummary(UniKnowRun(run.run))

    def report(self, summary: UniKnowSummary) -> Document:
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
        raise InputError(
            reason,
            where=names[0],
            hint="give more questions, or leave the trained methods out by --methods",
        )
    return dict.fromkeys(names, reason)
