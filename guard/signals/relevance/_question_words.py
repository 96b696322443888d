"""Words by what they do in a question: ask, help the verb, or say little about the topic."""

from __future__ import annotations

import re

# "snake_case" is two words, as it is for the encoder; so are longer names in camel case.
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_CAMEL = re.compile(r"\b[^\W_]*(?:[a-z][A-Z][^\W_]*?){2,}\b")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def without_camel_case(text: str) -> str:
    """The text with names of three words and more in camel case as words.

    Example:
        >>> without_camel_case("RefundForPlans by PayPal")
        'Refund For Plans by PayPal'
    """
    return _CAMEL.sub(lambda found: _HUMP.sub(" ", found.group()), text)


PRONOUNS = {"i": "you", "we": "you", "one": "you", "my": "your", "our": "your", "me": "you"}


def listed(words: str) -> frozenset[str]:
    """Words from a text."""
    return frozenset(words.split())


WH = listed("what which who whom whose when where why how")
AUXILIARY = listed(
    "am are can could did do does had has have is may might must shall should was were will would"
)
# Words that say little about what a text is about.
ASIDE = (
    WH
    | AUXILIARY
    | listed(
        "a about all also an and any as at be been but by can't don't doesn't for from he her his "
        "i i'm if in into it it's its just me more most my no not of on one or our please she so "
        "some than that the their there these they this those to us we what's with yes you your"
    )
)
