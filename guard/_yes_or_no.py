"""Read how a language model answers a question whose answer is yes or no."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence

from .contracts import Generation
from .errors import LanguageModelError

_YES = re.compile(r"\W*(?:(?:yes|true|right|correct)(?![a-z])|是|对|對|正确|正確)", re.IGNORECASE)
_NO = re.compile(r"\W*(?:(?:no|not|false|wrong|incorrect)(?![a-z])|不|否|错|錯)", re.IGNORECASE)


def share_of_yes(yes: Sequence[float], no: Sequence[float]) -> float:
    """P(yes) / (P(yes) + P(no)) from natural-log likelihoods of the spellings of each.

    Raises:
        LanguageModelError: neither has any probability.

    Example:
        >>> round(share_of_yes([-1.0], [-2.0]), 3)
        0.731
    """
    log_yes, log_no = log_sum_exp(yes), log_sum_exp(no)
    if not (math.isfinite(log_yes) or math.isfinite(log_no)):
        raise no_verdict()
    # Written with the larger one in front, so that neither overflows.
    difference = log_no - log_yes
    return 1 / (1 + math.exp(difference)) if difference < 700 else 0.0


def says_yes(reply: str) -> bool | None:
    """Whether a reply begins with yes (or true, right, 是 …) or with no; None for neither.

    Example:
        >>> says_yes(" Yes, it is."), says_yes("不对。"), says_yes("Perhaps")
        (True, False, None)
    """
    text = unicodedata.normalize("NFKC", reply)
    if _NO.match(text):
        return False
    return True if _YES.match(text) else None


def first_token_share(reply: Generation) -> float:
    """P(yes) by the probability p of a reply's first token: p for a yes, 1 − p for a no.

    Raises:
        LanguageModelError: the reply says neither, or has no log-probabilities.
    """
    verdict = says_yes(reply.text)
    if verdict is None or not reply.token_logprobs:
        raise no_verdict()
    probability = math.exp(min(0.0, reply.token_logprobs[0]))
    return probability if verdict else 1 - probability


def spellings(word: str) -> tuple[str, ...]:
    """`word` with and without a capital, and with and without a space before it."""
    forms = (word, word.capitalize())
    return tuple(dict.fromkeys(space + form for space in (" ", "") for form in forms))


def no_verdict() -> LanguageModelError:
    """The failure of a model that replied neither yes nor no."""
    return LanguageModelError("the language model replied neither yes nor no")


def log_sum_exp(values: Sequence[float]) -> float:
    """log Σ exp(value) without overflow; -inf where all values are.

    Example:
        >>> round(log_sum_exp([-1000.0, -1000.0]), 4)
        -999.3069
    """
    highest = max(values)
    if highest == -math.inf:
        return highest
    return highest + math.log(math.fsum(math.exp(value - highest) for value in values))
