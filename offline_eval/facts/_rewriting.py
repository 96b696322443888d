"""Sentences that can be turned into a question by moving words about."""

from __future__ import annotations

import re

_SUBJECT = (
    r"(?P<subject>(?:(?:The|An?|Your)\s)?[A-Z0-9(\"“‘][^,;:]{2,70}?|(?:The|An?)\s[^,;:]{2,70}?)"
)
_NOT_IN_SUBJECT = re.compile(
    r"\b(?:that|which|who|if|when|where|while|there|it|this|these|they|must|may|should|can|will|could|would|might|"
    r"is|are|was|were|has|have|if|after|before|to|not|one|some|all|many|most|each|every|only)\b",
    re.IGNORECASE,
)
_CALLED = re.compile(
    rf"^{_SUBJECT}\s(?P<verb>is|are)\s(?:also\s)?(?P<how>called|known as)\s(?P<answer>[^,;:()]+)\.$"
)
_MEANS = re.compile(rf"^{_SUBJECT}\s(?P<verb>means?)\s(?P<that>that\s)?(?P<answer>[^;:]+)\.$")
_INDICATES = re.compile(
    rf"^{_SUBJECT}\s(?P<verb>indicates?|signifies|signify|denotes?)\s(?P<that>that\s)?"
    r"(?P<answer>[^;:]+)\.$"
)
_DEFINED = re.compile(
    rf"^{_SUBJECT}\s(?P<verb>is|are|was|were)\s(?P<answer>(?:the|an?)\s[^;:]+)\.$"
)
_CHINESE_IS = re.compile(
    r"^(?P<subject>(?![它他她这那此其该])[\u3400-\u9fffA-Za-z0-9]{2,16}?)(?:就)?(?<![不也都还只仅便])是"
    r"(?P<answer>[^，；：。]{2,40})。$"
)
# "The white lines": which ones was said before.
_POINTS = re.compile(r"^The(?:\s[a-z-]+){1,2}$")
# "Smoke and noise are a nuisance" tells what is thought of them, not what they are.
_SEVERAL = re.compile(r"\band\b")
_BASE = {"signifies": "signify"}


def rewritten(sentence: str) -> tuple[str, str] | None:
    """A question that a sentence answers, and the answer; None where no rule fits.

    Example:
        >>> rewritten("A broken white line indicates the centre of a two-way road.")
        ('What does a broken white line indicate?', 'the centre of a two-way road')
        >>> rewritten("Keep left.") is None
        True
    """
    if found := _CHINESE_IS.match(sentence):
        if "的是" in found.group(0):
            return None
        return f"{found['subject']}是什么？", found["answer"]
    for pattern in (_CALLED, _MEANS, _INDICATES, _DEFINED):
        found = pattern.match(sentence)
        if found is None or _unfit(found["subject"]):
            continue
        if pattern in (_MEANS, _INDICATES) and _POINTS.match(found["subject"]):
            continue
        if pattern is _DEFINED and _SEVERAL.search(found["subject"]):
            continue
        subject, verb, answer = _lowered(found["subject"]), found["verb"], found["answer"].strip()
        if len(answer.split()) > 30 or not answer:
            continue
        if pattern is _CALLED:
            return f"What {verb} {subject} {found['how']}?", answer
        if pattern is _DEFINED:
            return f"What {verb} {subject}?", answer
        helper = "does" if verb.endswith("s") else "do"
        base = _BASE.get(verb) or verb.removesuffix("s")
        return f"What {helper} {subject} {base}?", answer
    return None


def _unfit(subject: str) -> bool:
    """A subject that is a clause, or that only means something where it stands."""
    return (
        bool(_NOT_IN_SUBJECT.search(subject))
        or len(subject.split()) > 9
        or subject.split(maxsplit=1)[0].endswith("ing")
    )


def _lowered(subject: str) -> str:
    first, space, rest = subject.partition(" ")
    if first in ("The", "A", "An", "Your"):
        return f"{first.lower()}{space}{rest}"
    # A name keeps its capital; of a common noun nobody can tell, and it reads well.
    return subject
