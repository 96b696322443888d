"""Explanations of terms and marks, each written once and shown wherever it is needed."""

from __future__ import annotations

from ._tables import Text

_EXPLANATIONS: dict[str, Text] = {
    "intervals": (
        "95 % intervals",
        "how far chance alone could have moved a number with this many questions. They take "
        "questions for a fair sample of those that matter, and for independent of each other.",
    ),
    "wilson": (
        "Wilson interval",
        "the interval of a rate over independent questions; it never leaves the range from 0 to 1.",
    ),
    "bootstrap": (
        "bootstrap interval",
        "whole questions are drawn again and again; a question stays together with all its cases.",
    ),
    "best": "★ is the best number of its column.",
    "clear_above": "● marks a difference whose interval lies above zero.",
    "clear": "● marks a difference whose interval excludes zero.",
    "abstention": (
        "abstention",
        "the system gives no answer and says so. Right where the answer is missing, a false "
        "abstention where it was among the passages.",
    ),
    "leak": (
        "leak",
        "a question whose source was left out that passes as covered by the knowledge base.",
    ),
    "retrieval_miss": (
        "retrieval miss",
        "the source is in the knowledge base and was not retrieved. It depends on the retriever, "
        "and is counted apart.",
    ),
    "r_delta": (
        "RΔ",
        "abstentions among the unanswerable minus abstentions among the answerable questions, in "
        "percentage points.",
    ),
    "kpr": (
        "KPR",
        "share of the unanswerable questions for which the model knows all the facts behind them.",
    ),
    "uaqfact_rules": (
        "The rules of the paper, exactly as coded, know English refusals only and count a reply "
        "as right that holds the right answer anywhere, so echoing both options of a dilemma is "
        "right. The strict rules, which all other numbers use, read Chinese and further refusals, "
        "whole words and aliases, and want one option."
    ),
    "abstained_not_in_kb": ("Abstained, answer not in KB", "higher is better. KB: knowledge base."),
    "right_of_answered": (
        "Right of those answered",
        "tiers 1 and 2 among the replies that did not abstain.",
    ),
    "wrong_of_all": (
        "Wrong answers of all",
        "tier 3 among all replies, abstentions included; lower is better.",
    ),
    "acc": ("Acc", "right answers among all cases."),
    "truth": ("Truth", "right answers and abstentions among all cases."),
    "ans": ("Ans", "answers of any kind among all cases, that is, all but abstentions."),
    "rely": (
        "Rely",
        "Ans × Truth + (1 − Ans) × Acc. It rewards an abstention over a wrong answer, less so the "
        "more a method abstains. Without abstentions Rely is Acc. It does not ask whether an "
        "abstention was needed: read it together with the situations.",
    ),
    "context_used_wrongly": (
        "Context used wrongly",
        "a wrong answer although the context held the right one, or a wrong answer taken from a "
        "context that did not hold the right one.",
    ),
    "memory_used_wrongly": (
        "Memory used wrongly",
        "the answer from memory where the context states another, or a wrong answer from memory "
        "to a question that the model knows in part.",
    ),
    "needless_abstention": (
        "False abstention",
        "the context held the answer, or the model knows it.",
    ),
    "krr": (
        "KRR",
        "1 / (1 + exp(−RΔ / KPR)): how far that knowledge shows in abstaining; .5 is not at all.",
    ),
}


def explained(*keys: str) -> tuple[Text, ...]:
    """Look up explanations by their keys.

    Raises:
        KeyError: there is no such explanation.
    """
    return tuple(_EXPLANATIONS[key] for key in keys)
