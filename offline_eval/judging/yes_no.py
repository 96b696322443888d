"""Read yes or no from a free-form reply, or from a model's likelihoods."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from ...guard.contracts import ScoringLanguageModel
from ...guard.errors import LanguageModelError

_VERDICT = re.compile(
    r"\b(?P<yes>yes|yeah|yep|correct|true|right)\b|\b(?P<no>no|nope|incorrect|false|wrong)\b"
    r"|(?P<是>是的|正确|对)|(?P<否>不是|不对|不正确|错误|否)"
)
_DENIED = re.compile(r"(?:\bnot|n't|\bnever|不)\s*(?:\w+\s){0,2}$")
_ANNOUNCED = re.compile(r"(?:answer|verdict|reply|conclusion|答案)\W{0,4}(?:is\W{0,4})?")
_TAG = re.compile(r"</?\w{1,20}>")
# An apostrophe within a word stays: "isn't".
_MARKUP = re.compile(r"[*_`~#\"“”‘<>()\[\]]+|(?<!\w)'+|'+(?!\w)")


class YesNo:
    """A verdict that is yes or no."""

    @staticmethod
    def parse(reply: str) -> bool | None:
        """Return the verdict of a reply; None where there is none, or both.

        A verdict at the beginning decides, then an announced one ("Answer: no"), then the only
        one that is there.

        Example:
            >>> YesNo.parse("**Yes**, that is right."), YesNo.parse("That is not correct.")
            (True, False)
            >>> YesNo.parse("I cannot say.") is None
            True
        """
        text = unicodedata.normalize("NFKC", reply[:4_000]).replace("’", "'").casefold()
        text = _MARKUP.sub("", _TAG.sub(" ", text))
        # The longer Chinese words hold the shorter ones.
        text = text.replace("不正确", "错误").replace("不对", "错误").strip()
        found = _verdict(_VERDICT.match(text), text)
        if found is not None:
            return found
        for match in reversed(list(_ANNOUNCED.finditer(text))):
            announced = _VERDICT.match(text, match.end())
            if announced is not None:
                return _verdict(announced, text)
        verdicts = {_verdict(match, text) for match in _VERDICT.finditer(text)}
        return verdicts.pop() if len(verdicts) == 1 else None

    @staticmethod
    def likelihoods(lm: ScoringLanguageModel, prompts: Sequence[str]) -> list[tuple[float, float]]:
        """Return the log likelihoods (base e) of yes and no after each prompt, over all spellings.

        Raises:
            LanguageModelError: the model failed, or gave a likelihood that is not finite.
        """
        values = lm.score_options(prompts, [*_YES, *_NO])
        if not np.isfinite(values).all():
            raise LanguageModelError("the model gave a likelihood that is not finite")
        yes = np.logaddexp.reduce(values[:, : len(_YES)], axis=1)
        no = np.logaddexp.reduce(values[:, len(_YES) :], axis=1)
        return list(zip(yes.tolist(), no.tolist(), strict=True))


def _verdict(match: re.Match[str] | None, text: str) -> bool | None:
    if match is None:
        return None
    agrees = match.lastgroup in ("yes", "是")
    return agrees != bool(_DENIED.search(text[: match.start()]))


# After a bare prompt the word comes with a space, in a chat without, and in either case.
_YES = (" yes", " Yes", "yes", "Yes")
_NO = (" no", " No", "no", "No")
