"""Words by what they do in a question: ask, help the verb, or say little about the topic."""

from __future__ import annotations

import re

from ...language import listed

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


WH, AUXILIARY = listed("questions", "asking"), listed("questions", "auxiliaries")
ASIDE = WH | AUXILIARY | listed("questions", "aside")
