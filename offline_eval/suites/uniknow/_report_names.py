"""Names of methods, situations and kinds of contexts, in the order in which they are shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ._cases import ContextKind


class Family(StrEnum):
    """What a method changes."""

    PROMPT = "prompt only"
    DECODING = "decoding"
    TRAINED = "fine-tuned"
    GUARD = "guarded"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class MethodName:
    """A method as it is shown.

    Attributes:
        name: as in the rows.
        family: what it changes.
        meaning: what it does, in one line.
    """

    name: str
    family: Family
    meaning: str


@dataclass(frozen=True, slots=True)
class Situation:
    """A knowledge scenario as it is shown.

    Attributes:
        name: as in the rows.
        title: short.
        letter: the paper's abbreviation.
        what: what the model and the context know.
        wanted: what a good method does.
    """

    name: str
    title: str
    letter: str
    what: str
    wanted: str


SITUATIONS = (
    Situation(
        "conflict",
        "Context against memory",
        "C",
        "The model knows an answer, and the context states another.",
        "Answer from the context.",
    ),
    Situation(
        "external_only",
        "Only the context knows",
        "E-Only",
        "The model does not know the answer; the context states one.",
        "Answer from the context.",
    ),
    Situation(
        "parametric_only",
        "Only the model knows",
        "P-Only",
        "The model knows the answer; the context is about something else.",
        "Ignore the context, answer from memory.",
    ),
    Situation(
        "unknown",
        "Neither knows",
        "U",
        "The model does not know the answer, and the context does not hold it either.",
        "Abstain.",
    ),
)

METHODS = (
    MethodName("naive", Family.PROMPT, "The context in the prompt, the reply as it comes."),
    MethodName(
        "prompting",
        Family.PROMPT,
        "The prompt allows “unknown” when neither the context nor the model knows.",
    ),
    MethodName(
        "cad",
        Family.DECODING,
        "Context-aware decoding: words that the context makes likelier are favoured.",
    ),
    MethodName(
        "coiecd",
        Family.DECODING,
        "As cad, word by word as far as the context surprises the model.",
    ),
    MethodName("coiecd_prompt", Family.DECODING, "coiecd with the prompts that allow “unknown”."),
    MethodName("retrobust", Family.TRAINED, "Fine-tuned on right and on irrelevant contexts."),
    MethodName(
        "kaft",
        Family.TRAINED,
        "Fine-tuned on right, conflicting and irrelevant contexts.",
    ),
    MethodName(
        "lm_uniknow",
        Family.TRAINED,
        "Fine-tuned on all four situations; replies “unknown” where neither knows.",
    ),
    MethodName(
        "dpo",
        Family.TRAINED,
        "Fine-tuned to prefer the wanted reply of each situation over the others.",
    ),
    MethodName(
        "guard_naive",
        Family.GUARD,
        "The guard of knowgate chooses context, memory or abstention; replies as naive.",
    ),
    MethodName(
        "guard_coiecd",
        Family.GUARD,
        "The same guard; replies from the context as coiecd.",
    ),
)
_BY_NAME = {method.name: method for method in METHODS}
_ORDER = {method.name: position for position, method in enumerate(METHODS)}

KIND_TITLES = {
    ContextKind.ORIGINAL: ("Right context", "The context states the gold answer."),
    ContextKind.CONFLICTING: (
        "Conflicting context",
        "The gold answer in the context was replaced by another of its kind.",
    ),
    ContextKind.RANDOM: (
        "Random context",
        "A context of another question, without the answer.",
    ),
    ContextKind.RETRIEVED: (
        "Wrongly retrieved context",
        "The most similar passage that does not hold the answer.",
    ),
    ContextKind.ONE_OF_K: (
        "One right passage among distractors",
        "Wanted: the answer of the one passage that has it.",
    ),
    ContextKind.TWO_IN_CONFLICT: (
        "Two passages that contradict each other",
        "One states the gold answer, one another; either counts as right.",
    ),
    ContextKind.NONE_OF_K: (
        "Distractors only",
        "Wanted: the answer from memory where the model knows it, otherwise abstain.",
    ),
    ContextKind.UNTRUE: (
        "An untrue passage",
        "It states something false. Wanted: not to believe it.",
    ),
}

# Guard and base first: what the report is mainly about.
PAIRS = (
    ("guard_naive", "naive"),
    ("guard_naive", "prompting"),
    ("guard_coiecd", "coiecd"),
    ("guard_naive", "retrobust"),
    ("guard_naive", "kaft"),
    ("guard_naive", "lm_uniknow"),
    ("guard_naive", "dpo"),
)

_PLAIN = re.compile(r"[A-Za-z0-9_@=.,+-][A-Za-z0-9_@=.,+ -]{0,47}")


def variant_of(method: str) -> tuple[str, str] | None:
    """Split the name of an ablation, as `lm_uniknow@abstention=0.25`; None for others.

    Example:
        >>> variant_of("lm_uniknow@abstention=0.25"), variant_of("naive")
        (('lm_uniknow', 'abstention=0.25'), None)
    """
    base, sign, variant = method.partition("@")
    return (base, variant) if sign and base and variant else None


def method_name(name: str) -> MethodName:
    """Look up how a method is shown; the family of an unknown one is `other`."""
    if (found := _BY_NAME.get(name)) is not None:
        return found
    variant = variant_of(name)
    if variant is not None and variant[0] in _BY_NAME:
        return MethodName(name, _BY_NAME[variant[0]].family, f"{variant[0]}, {variant[1]}.")
    return MethodName(name, Family.OTHER, "")


def in_order(names: Iterable[str]) -> list[str]:
    """Sort the methods: those of the suite in its order, others by name, ablations last."""
    return sorted(
        set(names), key=lambda name: (variant_of(name) is not None, _ORDER.get(name, 99), name)
    )


def plain(name: str, position: int) -> str:
    """Return the name if it can be drawn in a plot, otherwise a number.

    Example:
        >>> plain("naive", 0), plain("<script>", 4)
        ('naive', 'method 5')
    """
    return name if _PLAIN.fullmatch(name) else f"method {position + 1}"
