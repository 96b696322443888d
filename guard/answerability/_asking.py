"""What a question asks for: one thing, or a place, a time, a manner, a yes or no."""

from __future__ import annotations

import re

_WORDS_EN = "who|whom|whose|what|which|where|when|why|how"
_WORDS_ZH = "[谁誰]|哪|什[么麼]|怎|是否"
# "Who" within a sentence is of a title, "the place where" asks nothing.
_WORD = re.compile(rf"(?<!place )(?<!person )\b(?:{_WORDS_EN})\b|^(?i:{_WORDS_EN})\b|{_WORDS_ZH}")
_THING = re.compile(r"\b(?:who|whom|whose|what|which)\b|[谁誰]|哪|什[么麼]", re.IGNORECASE)
_ANOTHER_KIND = re.compile(
    r"^(?:when|where|why|how|is|are|was|were|am|do|does|did|can|could|will|would|shall|should|may|"
    r"might|must|has|have|had|if)\b|多[少久长長大远遠高重]|怎|何时|何時|什[么麼]时候|什[么麼]時候|"
    r"为什[么麼]|為什[么麼]|吗|嗎|[几幾][个個]|是否",
    re.IGNORECASE,
)
# Kinds of which one lies in another, or that have many names.
_NESTED = re.compile(
    r"\b(?:where|countr(?:y|ies)|continent|region|nationality|citizenship|languages?|religions?|"
    r"colou?rs?|kinds?|types?|sorts?|genres?|species|race|ethnic|material)\b"
    r"|哪[里裡儿兒]|何处|何處|什[么麼]地方|位于|位於|在什[么麼]|国家|國家|大洲|国籍|國籍|语言|語言|"
    r"宗教|颜色|顏色|种类|種類|类型|類型|物种|民族",
    re.IGNORECASE,
)
_WHERE = re.compile(r"^where\b|哪[里裡儿兒]|何处|何處|什[么麼]地方", re.IGNORECASE)
_HOW = re.compile(r"^(?:how|why)\b|怎[么麼]|如何|为什[么麼]|為什[么麼]", re.IGNORECASE)
# Surnames too, or parts of other words: enough to leave a question open, no more.
_MORE_ZH = ("何", "几", "幾", "多少")
_ITS_VALUE = re.compile(r"^what(?:'s| is| are| was| were)\b", re.IGNORECASE)


def question_words(text: str) -> int:
    """How many question words a folded text has.

    Example:
        >>> question_words("Who wrote A and who wrote B?")
        2
    """
    return len(_WORD.findall(text.strip()))


def asks_for_a_thing(text: str) -> bool:
    """Whether a folded question wants someone or something, not a yes, a time or a quantity.

    Example:
        >>> asks_for_a_thing("Which award did Ann win?"), asks_for_a_thing("How long is it?")
        (True, False)
    """
    text = text.strip()
    return _THING.search(text) is not None and _ANOTHER_KIND.search(text) is None


def asks_for_what_nests(text: str) -> bool:
    """Whether answers name what a folded question wants more or less closely, as places are."""
    return _NESTED.search(text) is not None


def asks_where(text: str) -> bool:
    """Whether a folded question begins with "where", or asks so in Chinese."""
    return _WHERE.search(text.strip()) is not None


def asks_how(text: str) -> bool:
    """Whether a folded question wants a manner or a cause, or, in English, a quantity."""
    return _HOW.search(text.strip()) is not None


def asks_openly(text: str) -> bool:
    """Whether a folded text has a question word or ends in 是, so that it wants more than a yes.

    Example:
        >>> asks_openly("Where is Rill"), asks_openly("Is Rill open")
        (True, False)
    """
    text = text.strip()
    return _WORD.search(text) is not None or text.endswith("是") or any(w in text for w in _MORE_ZH)


def asks_for_a_value(text: str) -> bool:
    """Whether a folded question is of the form "what is …", of which there may be one for each."""
    return _ITS_VALUE.search(text.strip()) is not None
