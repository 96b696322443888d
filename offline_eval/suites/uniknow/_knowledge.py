"""What a language model knows of each question, by sampled closed-book answers."""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....guard.contracts import LanguageModel
from ....guard.errors import InputError, KnowgateError
from ....guard.matching import normalise_answer
from ....guard.signals.confidence import CurtailedSampling
from ...run import error_note, generate_each
from ._append_log import AppendLog
from ._cases import Knowledge, SuiteQuestion
from ._datasets import PromptSet

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def is_right(answer: str, accepted: Sequence[str]) -> bool:
    """Whether an answer equals an accepted one; an empty one never does.

    Compared in lower case, without punctuation and articles, with single spaces.
    Punctuation may stand for nothing, as in "U.S.", or for a space, as in "long-term".

    Example:
        >>> is_right("The U.S.", ["US"]), is_right("long-term", ["Long term"]), is_right("", [""])
        (True, True, False)
    """
    closed, spaced = _closed(answer), normalise_answer(answer)
    return any(
        (bool(closed) and closed == _closed(one))
        or (bool(spaced) and spaced == normalise_answer(one))
        for one in accepted
    )


def _closed(text: str) -> str:
    lowered = unicodedata.normalize("NFKC", text).lower()
    bare = "".join(c for c in lowered if not unicodedata.category(c).startswith("P"))
    return " ".join(_ARTICLE.sub(" ", bare).split())


@dataclass(frozen=True, slots=True)
class KnowledgeEstimate:
    """What sampled answers say of one question.

    Attributes:
        knowledge: known, unknown or undefined.
        right: right answers among those drawn.
        drawn: answers drawn until that was settled.
        error: type and message of what kept the model from answering; None where it did.
    """

    knowledge: Knowledge
    right: int
    drawn: int
    error: str | None = None


class KnowledgeStore:
    """Estimates by model, prompt, settings and question, in a file of JSON lines.

    What is added is on disk before `add` returns; a line that a kill cut off is dropped.
    Several runs may share a file, at the same time too: each takes what was there when it
    began.

    Args:
        path: of the file; it is made when there is something to store.

    Raises:
        InputError: the file cannot be read, or a line of it is no estimate.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._log = AppendLog(path, opening='{"key": "')
        self._found: dict[tuple[str, str], KnowledgeEstimate] = {}
        for number, row in self._log.read():
            entry = _entry(row, f"{self._log.path}:{number}")
            knowledge = Knowledge(row["knowledge"])
            self._found[entry] = KnowledgeEstimate(knowledge, row["right"], row["drawn"])

    def __len__(self) -> int:
        return len(self._found)

    @staticmethod
    def key_for(model: str, prompt: str, settings: Mapping[str, Any]) -> str:
        """What estimates of one model under one prompt and settings are stored under.

        Args:
            model: fingerprint of the language model.
            prompt: the closed-book template.
            settings: numbers of samples, threshold, temperature, seed.
        """
        return _sha256({"model": model, "prompt": prompt, "settings": dict(settings)})

    def get(self, key: str, question: SuiteQuestion) -> KnowledgeEstimate | None:
        """The stored estimate, None where there is none."""
        return self._found.get((key, _question_key(question)))

    def add(self, key: str, estimates: Iterable[tuple[SuiteQuestion, KnowledgeEstimate]]) -> None:
        """Store estimates that are new.

        Raises:
            InputError: the file cannot be written.
        """
        rows = []
        for question, estimate in estimates:
            entry = (key, _question_key(question))
            if entry in self._found:
                continue
            self._found[entry] = estimate
            rows.append(
                {
                    "key": key,
                    "question": entry[1],
                    "question_id": question.id,
                    "knowledge": estimate.knowledge.value,
                    "right": estimate.right,
                    "drawn": estimate.drawn,
                }
            )
        self._log.append(rows)


def _entry(row: Mapping[str, Any], where: str) -> tuple[str, str]:
    texts = [row.get("key"), row.get("question")]
    counts = [row.get("right"), row.get("drawn")]
    whole = all(isinstance(count, int) and not isinstance(count, bool) for count in counts)
    named = row.get("knowledge") in {kind.value for kind in Knowledge}
    if not whole or not named or not all(isinstance(text, str) for text in texts):
        raise InputError(
            "the line is no stored estimate", where=where, hint="remove the line or the file"
        )
    return str(texts[0]), str(texts[1])


def _question_key(question: SuiteQuestion) -> str:
    # The answers belong to it: they decide what counts as known.
    return _sha256({"question": question.question, "answers": list(question.answers)})


def _sha256(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


Progress = Callable[[int, int], None]

# Prompts per call of the model: what a kill can cost, and what one failure can touch.
_PROMPTS_PER_CALL = 64


@dataclass(frozen=True, slots=True)
class KnowledgeRule:
    """When sampled answers settle what a model knows.

    A question is known where at least the share `tau` of `n` answers is right, unknown
    where none is, undefined in between. Sampling stops as soon as that is settled, and
    never draws an answer that no outcome needs.

    Attributes:
        n: answers of a full estimate, at least 1.
        tau: share in (0, 1].

    Raises:
        ValueError: one of them is out of its range.

    Example:
        >>> rule = KnowledgeRule()
        >>> rule.verdict(right=7, drawn=7), rule.verdict(right=1, drawn=5)
        (<Knowledge.KNOWN: 'known'>, <Knowledge.UNDEFINED: 'undefined'>)
        >>> rule.verdict(right=0, drawn=9) is None
        True
    """

    n: int = 10
    tau: float = 0.7

    def __post_init__(self) -> None:
        CurtailedSampling(self.n, self.tau)

    def verdict(self, right: int, drawn: int) -> Knowledge | None:
        """What `drawn` answers settle, `right` of them being right; None while nothing."""
        rule = CurtailedSampling(self.n, self.tau)
        wrong = drawn - right
        if right >= rule.matches_needed:
            return Knowledge.KNOWN
        if right and wrong >= rule.misses_needed:
            return Knowledge.UNDEFINED
        return Knowledge.UNKNOWN if drawn >= self.n else None

    def next_wave(self, right: int, drawn: int) -> int:
        """Answers that every outcome still needs; 0 when it is settled."""
        if self.verdict(right, drawn) is not None:
            return 0
        wrong = drawn - right
        rule = CurtailedSampling(self.n, self.tau)
        still_known = rule.matches_needed - right
        to_undefined = max(0, rule.misses_needed - wrong) + (0 if right else 1)
        waves = [to_undefined] if to_undefined else []
        if wrong < rule.misses_needed:
            waves.append(still_known)
        if not right:
            waves.append(self.n - drawn)
        return min(waves)


def estimate_knowledge(
    lm: LanguageModel,
    questions: Sequence[SuiteQuestion],
    prompts: PromptSet,
    *,
    n: int = 10,
    tau: float = 0.7,
    temperature: float = 1.0,
    seed: int = 0,
    store: KnowledgeStore | None = None,
    on_progress: Progress | None = None,
) -> dict[str, KnowledgeEstimate]:
    """Which questions the model knows, which it does not, and which are neither.

    The questions are asked closed book, in waves over all of them. The k-th answer under
    `seed` is the first one under `seed` + k, so that waves give the answers that one call
    would give. An answer is right when it equals a gold answer after normalisation.

    Args:
        lm: whose knowledge it is.
        questions: ids unique.
        prompts: the closed-book one is asked.
        n: answers of a full estimate, at least 1.
        tau: share of right answers in (0, 1] from which on a question is known.
        temperature: of the samples, above 0.
        seed: of the first sample.
        store: what is found there is not asked again, and what is asked goes there.
        on_progress: called with (questions settled, questions in all).

    Returns:
        One estimate per question id. A question that could not be asked is undefined and
        has an error; it is not stored, so that another estimate asks it again.

    Raises:
        InputError: an argument is out of its range.
    """
    rule = checked_rule(n, tau, temperature)
    settings = {"n": n, "tau": tau, "temperature": temperature, "seed": seed}
    found: dict[str, KnowledgeEstimate] = {}
    key = KnowledgeStore.key_for(lm.fingerprint, prompts.closed_book, settings)
    if store is not None:
        known = {question.id: store.get(key, question) for question in questions}
        found = {name: estimate for name, estimate in known.items() if estimate is not None}
    asked = [_Asked(q, prompts) for q in questions if q.id not in found]
    while open_ones := [one for one in asked if one.question.id not in found]:
        for wave, drawn, part in _calls(rule, open_ones):
            rows = generate_each(
                lm, [one.prompt for one in part], n=wave, temperature=temperature, seed=seed + drawn
            )
            settled = _settled(rule, part, rows)
            found.update((question.id, estimate) for question, estimate in settled)
            if store is not None:
                store.add(key, [pair for pair in settled if pair[1].error is None])
            if on_progress is not None:
                on_progress(len(found), len(questions))
    return {question.id: found[question.id] for question in questions}


class _Asked:
    """One question, and how its samples went so far."""

    def __init__(self, question: SuiteQuestion, prompts: PromptSet) -> None:
        self.question = question
        self.prompt = prompts.closed_book.format(question=question.question)
        self.right = self.drawn = 0
        self._error: str | None = None

    def take(self, row: object) -> None:
        """Count what a wave brought: generations, or the error in their place."""
        if isinstance(row, KnowgateError):
            self._error = error_note(row)
            return
        assert isinstance(row, list)
        self.drawn += len(row)
        self.right += sum(is_right(one.text, self.question.answers) for one in row)

    def estimate(self, rule: KnowledgeRule) -> KnowledgeEstimate | None:
        """The estimate once it is settled, or once the model failed."""
        if self._error is not None:
            return KnowledgeEstimate(Knowledge.UNDEFINED, self.right, self.drawn, self._error)
        verdict = rule.verdict(self.right, self.drawn)
        return None if verdict is None else KnowledgeEstimate(verdict, self.right, self.drawn)


def _settled(
    rule: KnowledgeRule, asked: Sequence[_Asked], rows: Sequence[object]
) -> list[tuple[SuiteQuestion, KnowledgeEstimate]]:
    """Count what a wave brought; the questions that need no other."""
    settled = []
    for one, row in zip(asked, rows, strict=True):
        one.take(row)
        estimate = one.estimate(rule)
        if estimate is not None:
            settled.append((one.question, estimate))
    return settled


def _calls(rule: KnowledgeRule, asked: Sequence[_Asked]) -> list[tuple[int, int, list[_Asked]]]:
    """Wave, samples drawn before it, and the questions that need it, per call of the model."""
    alike: dict[tuple[int, int], list[_Asked]] = defaultdict(list)
    for one in asked:
        alike[rule.next_wave(one.right, one.drawn), one.drawn].append(one)
    return [
        (wave, drawn, some[start : start + _PROMPTS_PER_CALL])
        for (wave, drawn), some in alike.items()
        for start in range(0, len(some), _PROMPTS_PER_CALL)
    ]


def checked_rule(n: int, tau: float, temperature: float) -> KnowledgeRule:
    """The rule, once its settings are in range.

    Raises:
        InputError: one of them is not.
    """
    if not temperature > 0:
        raise InputError("must be above 0, or all samples are one answer", where="temperature")
    try:
        return KnowledgeRule(n, tau)
    except ValueError as error:
        raise InputError(str(error), where="n, tau") from None
