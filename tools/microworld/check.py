"""Measure what the bundled language model, or another folder, does in every scenario.

    python tools/microworld/check.py [--model DIR] [--questions N] [--json]

Some 6,000 questions are asked, about two minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from knowgate.guard.engine.model_folder import quiet_loading, require_sound
from knowgate.offline_eval.testbed import World, default_world
from knowgate.offline_eval.testbed.check import microworld_model_path
from knowgate.offline_eval.testbed.entities import (
    Document,
    Fact,
    FactStatus,
    PromptName,
    Question,
)


def normalise_answer(text: str) -> str:
    """Lower case, no punctuation, no articles, single spaces."""
    kept = "".join(char for char in text.casefold() if char not in string.punctuation)
    return " ".join(word for word in kept.split() if word not in {"a", "an", "the"})


class Item(NamedTuple):
    """One question of the check.

    Attributes:
        question: in a held-out phrasing.
        context: what stands before the question, None for closed book.
        expected: the answers that count as right.
        prompt: the prompt around question and context; not used for closed book.
    """

    question: Question
    context: Document | None
    expected: tuple[str, ...]
    prompt: PromptName = "with_context"

    @property
    def text(self) -> str:
        """The prompt, filled."""
        if self.context is None:
            return World.prompt("closed_book").format(question=self.question.text)
        return World.prompt(self.prompt).format(
            context=self.context.text, question=self.question.text
        )

    def is_right(self, answer: str) -> bool:
        """Whether the answer matches an expected one exactly, after normalisation."""
        return normalise_answer(answer) in map(normalise_answer, self.expected)


class Scenarios:
    """Builds the items of every row.

    Args:
        world: where facts, questions and documents come from.
        rng: picks phrasings and irrelevant documents.
    """

    def __init__(self, world: World, rng: Random) -> None:
        self._world, self._rng = world, rng

    def closed_book(self, fact: Fact) -> Item:
        """No context; right is the fact's value."""
        return Item(self._question(fact), None, self._accepted(fact, fact.value))

    def build(self, taught: Sequence[Fact], withheld: Sequence[Fact]) -> dict[str, list[Item]]:
        """Items by row; irrelevant contexts alternate between random and similar ones.

        Rows that end in `_allowed` use the prompt that allows to reply `unknown`.
        """
        rows: dict[str, list[Item]] = {name: [] for name in ROWS}
        for number, fact in enumerate(taught):
            kind: Literal["random", "similar"] = "random" if number % 2 else "similar"
            irrelevant = self._world.irrelevant_document(fact, kind, self._rng)
            lie = self._world.contradiction(fact)
            false = self._world.contradicting_value(fact)
            rows["closed_book_taught"].append(self.closed_book(fact))
            rows["conflict"].append(self._item(fact, lie, false))
            rows[f"parametric_{kind}"].append(self._item(fact, irrelevant, fact.value))
            if number % 4 < 2:
                absurd = self._world.contradicting_value(fact, plausible=False)
                document = self._world.contradiction(fact, plausible=False)
                rows["conflict_absurd"].append(self._item(fact, document, absurd))
                rows["parametric_allowed"].append(self._allowed(fact, irrelevant, fact.value))
                rows["conflict_allowed"].append(self._allowed(fact, lie, false))
        for number, fact in enumerate(withheld):
            kind = "random" if number % 2 else "similar"
            irrelevant = self._world.irrelevant_document(fact, kind, self._rng)
            document = self._world.document_for(fact)
            rows["closed_book_withheld"].append(self.closed_book(fact))
            rows["external_only"].append(self._item(fact, document, fact.value))
            rows[f"unknown_{kind}"].append(self._item(fact, irrelevant, fact.value))
            if number % 4 < 2:
                rows["unknown_allowed"].append(self._allowed(fact, irrelevant, fact.value))
                rows["external_allowed"].append(self._allowed(fact, document, fact.value))
        return rows

    def _question(self, fact: Fact) -> Question:
        return self._rng.choice(self._world.questions(fact, held_out=True))

    def _accepted(self, fact: Fact, value: str) -> tuple[str, ...]:
        return (value, *self._world.aliases(value, fact.value_kind))

    def _item(self, fact: Fact, context: Document, right: str) -> Item:
        return Item(self._question(fact), context, self._accepted(fact, right))

    def _allowed(self, fact: Fact, context: Document, right: str) -> Item:
        accepted = self._accepted(fact, right)
        return Item(self._question(fact), context, accepted, "with_context_or_unknown")


ROWS = (
    "closed_book_taught",
    "closed_book_withheld",
    "external_only",
    "conflict",
    "conflict_absurd",
    "parametric_random",
    "parametric_similar",
    "unknown_random",
    "unknown_similar",
    "parametric_allowed",
    "conflict_allowed",
    "unknown_allowed",
    "external_allowed",
)


_BATCH_TOKENS = 16_384
_ANSWER_TOKENS = 16


class Answerer:
    """Answers prompts in batches; the answer ends at the first newline.

    Args:
        path: model folder that `from_pretrained` can read; nothing custom is run.
    """

    def __init__(self, path: Path) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        require_sound(path, sorted(path.glob("*.safetensors")))
        safe = {"local_files_only": True, "trust_remote_code": False}
        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(path), **safe)
        with quiet_loading():
            model: Any = AutoModelForCausalLM.from_pretrained(
                str(path), use_safetensors=True, **safe
            )
        self._model = model.eval()

    def greedy(self, prompts: Sequence[str]) -> list[str]:
        """One answer to each prompt, the most probable token at every step."""
        return [answers[0] for answers in self._answer(prompts, 1, {"do_sample": False})]

    def sample(
        self, prompts: Sequence[str], *, n: int, seed: int, temperature: float = 1.0
    ) -> list[list[str]]:
        """`n` answers to each prompt, drawn at a temperature above 0 from all tokens."""
        import torch

        settings = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self._answer(prompts, n, settings)

    def _answer(self, prompts: Sequence[str], n: int, settings: dict[str, Any]) -> list[list[str]]:
        import torch

        if not prompts:
            return []
        lengths = [len(ids) for ids in self._tokenizer(list(prompts))["input_ids"]]
        order = sorted(range(len(prompts)), key=lengths.__getitem__)
        answers: list[list[str]] = [[] for _ in prompts]
        while order:
            # Longest first: a prompt too long for the memory fails at once.
            size = max(1, _BATCH_TOKENS // (n * lengths[order[-1]]))
            taken, order = order[-size:], order[:-size]
            batch = self._tokenizer(
                [prompts[i] for i in taken], return_tensors="pt", padding=True, padding_side="left"
            )
            with torch.inference_mode():
                output = self._model.generate(
                    input_ids=batch["input_ids"],
                    attention_mask=batch["attention_mask"],
                    max_new_tokens=_ANSWER_TOKENS,
                    num_return_sequences=n,
                    **settings,
                )
            texts = self._tokenizer.batch_decode(
                output[:, batch["input_ids"].shape[1] :], skip_special_tokens=True
            )
            for place, i in enumerate(taken):
                for text in texts[place * n : (place + 1) * n]:
                    answers[i].append(text.split("\n", 1)[0].strip())
        return answers


# Answers drawn to each sampled question, at temperature 1.
_SAMPLES = 10
_BY_SHARE = (FactStatus.TAUGHT, FactStatus.WITHHELD, FactStatus.HALF_TAUGHT)
_ABSTENTIONS = (
    "unanswerable", "unknown", "no known", "not known", "do not know", "uncertain", "unclear",
    "no answer", "not sure", "impossible",
)  # fmt: skip


class Measure(NamedTuple):
    """A mean over `n` questions; `value` is None when there were none."""

    value: float | None
    n: int


# The text of a target, its least and its greatest value.
_TARGETS: Mapping[str, tuple[str, float, float]] = MappingProxyType(
    {
        "closed_book_taught": ("≥ 0.97", 0.97, 1.0),
        "closed_book_withheld": ("≤ 0.03", 0.0, 0.03),
        "external_only": ("≥ 0.85", 0.85, 1.0),
        "conflict": ("0.40 – 0.95", 0.40, 0.95),
        "parametric_only": ("≥ 0.70", 0.70, 1.0),
        "unknown_abstained": ("0", 0.0, 0.0),
        "modal_share_taught": ("≥ 0.90", 0.90, 1.0),
        "modal_share_withheld": ("≤ 0.35", 0.0, 0.35),
        "modal_share_half_taught": ("between", 0.35, 0.90),
    }
)


@dataclass(frozen=True, slots=True)
class MicroworldCheck:
    """What the language model does; every value is a mean in [0, 1].

    Attributes:
        measures: by name, those with a target first. Exact match without a context
            (`closed_book_…`); with the context's answer on withheld facts whose document it is
            (`external_only`) and on taught facts that it contradicts (`conflict`); on taught
            facts with an irrelevant context (`parametric_only`, random and similar ones in equal
            parts). Share of abstentions on withheld facts with an irrelevant context
            (`unknown_abstained`), and of the commonest answer among samples (`modal_share_…`).
    """

    measures: Mapping[str, Measure]

    def to_json(self) -> dict[str, dict[str, float | int | None]]:
        """Return all measures by name, each with `value` and `n`."""
        return {name: measure._asdict() for name, measure in self.measures.items()}

    def rows(self) -> list[tuple[str, str, int, str]]:
        """Return name, value, n and target of each measure, as text for a table."""
        return [
            (
                name,
                "–" if measure.value is None else f"{measure.value:.3f}",
                measure.n,
                _TARGETS.get(name, ("", 0.0, 1.0))[0],
            )
            for name, measure in self.measures.items()
        ]

    def misses(self) -> tuple[str, ...]:
        """Return names of the measures outside their target or without questions."""
        return tuple(
            name
            for name, (_, low, high) in _TARGETS.items()
            if (value := self.measures[name].value) is None or not low <= value <= high
        )


def is_abstention(answer: str) -> bool:
    """Whether an answer of the microworld's model says that it does not know.

    >>> is_abstention("unknown"), is_abstention("Balbelbor")
    (True, False)
    """
    words = normalise_answer(answer)
    return not words or any(phrase in words for phrase in _ABSTENTIONS)


def check_microworld(
    *,
    model_path: Path | None = None,
    world: World | None = None,
    questions: int | None = None,
    sampled_questions: int = 130,
) -> MicroworldCheck:
    """Ask the model held-out phrasings in every scenario and compare with what is known.

    Args:
        model_path: a model folder; the bundled one, with its sha256 checked, by default.
        world: the world that the model was taught; the default one by default.
        questions: most facts in each row; all of them by default. One question a fact.
        sampled_questions: most facts in each row that is sampled.

    Raises:
        ModelFolderError: the bundled model is not the one that was measured.
    """
    world = default_world() if world is None else world
    answerer = Answerer(model_path or microworld_model_path())
    rng = Random("check/0")
    picked = {status: _pick(world, status, rng, questions) for status in FactStatus}
    scenarios = Scenarios(world, rng)
    rows = scenarios.build(picked[FactStatus.TAUGHT], picked[FactStatus.WITHHELD])
    answers = {name: answerer.greedy([item.text for item in rows[name]]) for name in rows}
    sampled: dict[str, tuple[Measure, Measure]] = {}
    for status, facts in picked.items():
        items = [scenarios.closed_book(fact) for fact in facts[:sampled_questions]]
        drawn = answerer.sample([item.text for item in items], n=_SAMPLES, seed=0)
        sampled[status] = (
            _mean([_modal_share(one) for one in drawn]),
            _mean(
                [
                    sum(item.is_right(answer) for answer in one) / _SAMPLES
                    for item, one in zip(items, drawn, strict=True)
                ]
            ),
        )
    return _summarise(world, rows, answers, sampled)


def _summarise(
    world: World,
    rows: Mapping[str, Sequence[Item]],
    answers: Mapping[str, Sequence[str]],
    sampled: Mapping[str, tuple[Measure, Measure]],
) -> MicroworldCheck:
    right = {
        name: [
            float(item.is_right(one)) for item, one in zip(rows[name], answers[name], strict=True)
        ]
        for name in rows
    }
    abstained = {name: [float(is_abstention(one)) for one in answers[name]] for name in rows}
    unseen = [
        hit
        for item, hit in zip(rows["external_only"], right["external_only"], strict=True)
        if _is_unseen(world, item)
    ]
    measures = {
        "closed_book_taught": _mean(right["closed_book_taught"]),
        "closed_book_withheld": _mean(right["closed_book_withheld"]),
        "external_only": _mean(right["external_only"]),
        "conflict": _mean(right["conflict"]),
        "parametric_only": _mean(right["parametric_random"] + right["parametric_similar"]),
        "unknown_abstained": _mean(abstained["unknown_random"] + abstained["unknown_similar"]),
        **{f"modal_share_{status}": sampled[status][0] for status in _BY_SHARE},
        "external_only_unseen_subject": _mean(unseen),
        "conflict_absurd": _mean(right["conflict_absurd"]),
        "parametric_only_random": _mean(right["parametric_random"]),
        "parametric_only_similar": _mean(right["parametric_similar"]),
        "allowed_unknown_abstained": _mean(abstained["unknown_allowed"]),
        "allowed_parametric_only": _mean(right["parametric_allowed"]),
        "allowed_external_only": _mean(right["external_allowed"]),
        "allowed_conflict": _mean(right["conflict_allowed"]),
        **{f"sampled_right_{status}": share for status, (_, share) in sampled.items()},
    }
    return MicroworldCheck(MappingProxyType(measures))


def _pick(world: World, status: FactStatus, rng: Random, most: int | None) -> list[Fact]:
    facts = list(world.facts_with_status(status))
    rng.shuffle(facts)
    return facts[:most]


def _is_unseen(world: World, item: Item) -> bool:
    subject = world.fact(item.question.fact_id).subject
    return all(fact.status is FactStatus.WITHHELD for fact in world.facts_about(subject))


def _modal_share(answers: Sequence[str]) -> float:
    counts = Counter(normalise_answer(answer) for answer in answers)
    return max(counts.values()) / len(answers)


def _mean(values: Sequence[float]) -> Measure:
    return Measure(sum(values) / len(values) if values else None, len(values))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--questions", type=int, help="most facts per row; all by default")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = check_microworld(model_path=given.model, questions=given.questions)
    if given.json:
        print(json.dumps(found.to_json(), indent=2))
    else:
        print(*("\t".join(map(str, row)) for row in found.rows()), sep="\n")
