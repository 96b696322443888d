"""Self-adaptation: the adapter and the mix trained on a knowledge base's own cases.

Whether it helped is measured on questions that took no part: the questions are split into
folds; one fold is judged by what was trained on the others, of which one more is held out
to choose when to stop. What is shipped is then trained on all of them.
"""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...guard.engine import BiEncoderScorer
from ...guard.errors import InputError, optional_import
from ...guard.signals.relevance.late_interaction import word_piece_idf
from ...guard.signals.relevance.match_model import MatchModel
from ...guard.signals.relevance.sufficiency import BUNDLED_FOLDER, SufficiencyScorer
from .. import Interval, SelectiveCurve
from .cases import (
    MixExample,
    SetCase,
    TopicBatches,
    TrainingQuestion,
    fit_match_model,
    grouped,
    mix_examples,
    retrieval_cases,
)
from .encoder import (
    MAX_PASSAGE_PIECES,
    MAX_QUESTION_PIECES,
    TrainableEncoder,
    learning_rate,
    set_loss,
    set_weights,
    similarities,
)

_CLIP = 1.0
# Peak learning rate of the loss's own seven numbers.
_MIX_RATE = 2e-2

OnStep = Callable[[int, float], bool]


def train_on(
    encoder: TrainableEncoder,
    batches: TopicBatches,
    idf: NDArray[np.float32],
    *,
    steps: int,
    rate: float = 3e-4,
    warm_up: int = 60,
    length_penalty: float = 0.06,
    on_step: OnStep | None = None,
) -> int:
    """Train the encoder's adapter in place; returns the steps taken.

    Args:
        encoder: whose adapter is trained.
        batches: questions that lie close together, each with the passage that suffices.
        idf: weight of each word-piece id.
        steps: batches.
        rate: peak learning rate of the adapter.
        warm_up: steps of the rise.
        length_penalty: of the match features.
        on_step: called after each step with its number (from 1) and loss; training
            stops early when it returns True.
    """
    torch = optional_import("torch")
    weights = set_weights()
    table = torch.from_numpy(np.array(idf, dtype=np.float32))
    groups = [
        {"params": encoder.parameters(), "peak": rate, "weight_decay": 0.01},
        {"params": [*weights], "peak": _MIX_RATE, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=rate)
    trained = [*encoder.parameters(), *weights]
    for step in range(steps):
        share = learning_rate(step, steps, warm_up)
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * share
        questions, passages, unusable = batches.draw()
        asked = encoder.encode(questions, MAX_QUESTION_PIECES)
        told = encoder.encode(passages, MAX_PASSAGE_PIECES)
        found = similarities(asked, told, table, length_penalty)
        loss: Any = set_loss(found, torch.from_numpy(unusable), *weights)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, _CLIP)
        optimizer.step()
        if on_step is not None and on_step(step + 1, float(loss.detach())):
            return step + 1
    return steps


_FOLDS = 4
_DRAWS = 2000
_LEVEL = 0.95

OnProgress = Callable[[int, int], None]
Look = Callable[[TrainableEncoder, int], None]
# Per question id the examples with its passage and without.
Examples = dict[str, list[MixExample]]


# Fewest questions that are enough to tune on.
MIN_QUESTIONS = 20
# Steps after which the held-out questions are looked at; 0, the mix alone, is always a choice.
CHECKPOINTS = (12, 24, 36)
# Peak learning rate of the adapter.
_RATE = 2e-4
# Pull of the mix towards the bundled one, whatever the number of questions: the more there are,
# the less it weighs.
_RIDGE = 2.0


@dataclass(frozen=True, slots=True)
class TuningReport:
    """Whether self-adaptation helped, on questions it was not trained on.

    Attributes:
        BUNDLED: name of the scorer to use where it did not help.
        questions: judged.
        before: AUROC of the bundled scorer, sets with against sets without the passage.
        after: AUROC of tuned scorers, every question judged by one not trained on it.
        gain: after − before, with its 95 % bootstrap interval over questions.
        steps: training steps of the adapter that is shipped; 0 where only the mix was fitted.
        helped: whether the interval of the gain lies above 0.
    """

    BUNDLED: ClassVar = "sufficiency"

    questions: int
    before: float
    after: float
    gain: Interval
    steps: int

    @property
    def helped(self) -> bool:
        """Whether the interval of the gain lies above 0."""
        return self.gain.low is not None and self.gain.low > 0.0

    def as_json(self) -> dict[str, Any]:
        """For `tuning.json`."""
        return {
            "schema_version": 1,
            "questions": self.questions,
            "auroc_before": round(self.before, 6),
            "auroc_after": round(self.after, 6),
            "gain": {
                name: None if value is None else round(value, 6)
                for name, value in self.gain.to_dict().items()
                if name != "n"
            },
            "steps": self.steps,
            "helped": self.helped,
            "use": "tuned" if self.helped else self.BUNDLED,
        }


def tune_relevance(
    questions: Sequence[TrainingQuestion],
    out: Path,
    *,
    checkpoints: Sequence[int] = CHECKPOINTS,
    seed: int = 0,
    judge: bool = True,
    on_progress: OnProgress | None = None,
) -> TuningReport | None:
    """Adapt the scorer `sufficiency` to a knowledge base; write it into the folder `out`.

    Args:
        questions: of one knowledge base, each with its passage; at least 20 in a script
            that the scorer can read, others are left out.
        out: folder to fill, which must exist.
        checkpoints: steps after which the held-out questions are looked at, increasing.
        seed: of splits and draws.
        judge: whether to find out if it helped, which costs four trainings more. Without,
            the middle checkpoint is shipped and None returned.
        on_progress: called with steps done and in all.

    Raises:
        InputError: too few questions or passages.
        MissingDependencyError: peft is not installed.
    """
    _require_enough(questions)
    work = _Work(questions, checkpoints, seed, on_progress, folds=_FOLDS if judge else 0)
    if not judge:
        work.ship(out, checkpoints[len(checkpoints) // 2])
        return None
    report = work.judged()
    work.ship(out, report.steps)
    return report


class _Work:
    """One tuning: its cases, its encoders and its progress."""

    def __init__(
        self,
        questions: Sequence[TrainingQuestion],
        checkpoints: Sequence[int],
        seed: int,
        on_progress: OnProgress | None,
        *,
        folds: int,
    ) -> None:
        self._checkpoints, self._seed = checkpoints, seed
        self._embed = BiEncoderScorer(cache_bytes=200 * 2**20).embed
        self._bundled = SufficiencyScorer()
        pools = {
            topic: [question.passage for question in those]
            for topic, those in grouped(questions, "topic").items()
        }
        # The scorer that comes of it gives other questions no score.
        known = [question for question in questions if self._bundled.supports(question.text)]
        self._cases: dict[str, list[SetCase]] = defaultdict(list)
        for case in retrieval_cases(known, pools, self._embed):
            self._cases[case.question_id].append(case)
        self._questions = [q for q in questions if q.id in self._cases]
        _require_enough(self._questions)
        idf = word_piece_idf(self._bundled.encoder)
        # The embedded model's own table.
        assert idf is not None
        self._idf: NDArray[np.float32] = idf
        self._on_progress = on_progress or (lambda _done, _total: None)
        self._done, self._total = 0, (folds + 1) * max(checkpoints)
        # The first step is long in coming: the bundled scorer is looked at before it.
        self._on_progress(0, self._total)

    def judged(self) -> TuningReport:
        """Cross-validate, and choose the number of steps."""
        folds = _folds(self._questions, self._seed)
        untuned = self._examples(self._bundled, self._questions)
        before = _scored(self._bundled.model, untuned, self._questions)
        after: dict[str, tuple[float, float]] = {}
        best: list[int] = []
        for turn in range(_FOLDS):
            steps, scores = self._fold(folds, turn, untuned)
            best.append(steps)
            after |= scores
        first, second = ([one[q.id] for q in self._questions] for one in (before, after))
        return TuningReport(
            questions=len(first),
            before=_auroc(first),
            after=_auroc(second),
            gain=_gain(first, second, self._seed),
            steps=median_low(best),
        )

    def ship(self, out: Path, steps: int) -> None:
        """Train on all questions and write the scorer."""
        encoder = self._trained(self._questions, steps)
        encoder.save(out)
        scorer = self._scorer(out)
        note = f"tuned on {len(self._questions)} questions of one knowledge base"
        examples = self._examples(scorer, self._questions)
        # Calibrated on these, it would look better than it is.
        SufficiencyScorer.save_tuned_on(out, [question.text for question in self._questions])
        self._mix(examples, self._questions, note).save(out / "sufficiency.json")
        self._on_progress(self._total, self._total)

    def _fold(
        self, folds: Sequence[Sequence[TrainingQuestion]], turn: int, untuned: Examples
    ) -> tuple[int, dict[str, tuple[float, float]]]:
        """The best number of steps by the fold after this one, and this one's scores after them."""
        test, held = folds[turn], folds[(turn + 1) % _FOLDS]
        rest = [q for i, fold in enumerate(folds) for q in fold if i != turn]
        train = [q for q in rest if q not in held]
        candidates: list[tuple[float, int, dict[str, tuple[float, float]]]] = []

        def judge(examples: Examples, steps: int) -> None:
            mix = self._mix(examples, train)
            loss = _log_loss(list(_scored(mix, examples, held).values()))
            # Held-out questions have chosen; the mix may use them for the rest.
            scores = _scored(self._mix(examples, rest), examples, test)
            candidates.append((loss, steps, scores))

        def look(encoder: TrainableEncoder, steps: int) -> None:
            with tempfile.TemporaryDirectory() as folder:
                encoder.save(Path(folder))
                judge(self._examples(self._scorer(Path(folder)), [*rest, *test]), steps)

        judge(untuned, 0)
        self._trained(train, max(self._checkpoints), look)
        _, steps, scores = min(candidates, key=lambda one: (one[0], one[1]))
        return steps, scores

    def _trained(
        self, questions: Sequence[TrainingQuestion], steps: int, look: Look | None = None
    ) -> TrainableEncoder:
        """The bundled adapter, `steps` further; `look` is called at every checkpoint."""
        encoder = TrainableEncoder(BUNDLED_FOLDER, seed=self._seed)
        if steps == 0:
            return encoder
        last = max(self._checkpoints)
        batches = TopicBatches(questions, self._embed, seed=self._seed)

        def step_done(step: int, _loss: float) -> bool:
            self._done += 1
            self._on_progress(self._done, self._total)
            if look is not None and step in self._checkpoints:
                look(encoder, step)
            return step == steps

        # The same schedule whenever it ends, so that a checkpoint is what was judged.
        train_on(
            encoder,
            batches,
            self._idf,
            steps=last,
            rate=_RATE,
            warm_up=6,
            length_penalty=self._bundled.model.length_penalty,
            on_step=step_done,
        )
        return encoder

    def _scorer(self, folder: Path) -> SufficiencyScorer:
        return SufficiencyScorer(folder, model=self._bundled.model)

    def _mix(
        self, examples: Examples, questions: Sequence[TrainingQuestion], note: str = ""
    ) -> MatchModel:
        prior = self._bundled.model
        chosen = [example for question in questions for example in examples[question.id]]
        return fit_match_model(
            chosen,
            features=prior.features,
            length_penalty=prior.length_penalty,
            told=prior.told,
            prior=prior,
            ridge=_RIDGE / len(chosen),
            fitted_on=note,
        )

    def _examples(
        self, scorer: SufficiencyScorer, questions: Sequence[TrainingQuestion]
    ) -> Examples:
        cases = [case for question in questions for case in self._cases[question.id]]
        examples = iter(mix_examples(scorer, cases))
        return {one.id: [next(examples) for _ in self._cases[one.id]] for one in questions}


def _scored(
    mix: MatchModel, examples: Examples, questions: Sequence[TrainingQuestion]
) -> dict[str, tuple[float, float]]:
    """Per question the joint score with its passage, and without."""

    def scores(one: MixExample) -> float:
        return mix.joint_score(one.vectors, one.joined)

    pairs = ((one.id, map(scores, examples[one.id])) for one in questions)
    return {name: (with_it, without) for name, (with_it, without) in pairs}


def _folds(questions: Sequence[TrainingQuestion], seed: int) -> list[list[TrainingQuestion]]:
    """Questions in folds; those that share a passage stay together."""
    groups = list(grouped(questions, "passage").values())
    random.Random(seed).shuffle(groups)
    folds: list[list[TrainingQuestion]] = [[] for _ in range(_FOLDS)]
    for group in groups:
        min(folds, key=len).extend(group)
    return folds


def _require_enough(questions: Sequence[TrainingQuestion]) -> None:
    if len({question.id for question in questions}) != len(questions):
        raise InputError("two questions have the same id", hint="give each its own")
    if len(questions) < MIN_QUESTIONS:
        raise InputError(
            f"{len(questions)} usable questions are too few to tune on",
            hint=f"at least {MIN_QUESTIONS} in English, with six passages or more among them",
        )


def _auroc(pairs: Sequence[tuple[float, float]]) -> float:
    found = SelectiveCurve.auroc([one[0] for one in pairs], [one[1] for one in pairs])
    # There are at least 20 pairs.
    assert found is not None
    return found


def _gain(
    before: Sequence[tuple[float, float]], after: Sequence[tuple[float, float]], seed: int
) -> Interval:
    """The gain in AUROC with a paired bootstrap interval over questions."""
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(_DRAWS):
        places = rng.integers(0, len(before), len(before)).tolist()
        drawn.append(_auroc([after[i] for i in places]) - _auroc([before[i] for i in places]))
    low, high = np.quantile(drawn, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]).tolist()
    return Interval(_auroc(after) - _auroc(before), low, high, len(before))


def _log_loss(pairs: Sequence[tuple[float, float]]) -> float:
    losses = [float(np.logaddexp(0.0, -a) + np.logaddexp(0.0, b)) for a, b in pairs]
    return sum(losses) / len(losses)
