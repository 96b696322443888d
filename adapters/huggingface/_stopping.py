"""Stop strings: where an answer ends, and how much of a stream is safe to show."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...guard import InputError

# What a tokenizer prints for a token that holds part of a character.
_PART_OF_A_CHARACTER = "\ufffd"


def check_stop(stop: Sequence[str]) -> tuple[str, ...]:
    """The stop strings as a tuple.

    Raises:
        InputError: a bare string, or an empty one among them.
    """
    if isinstance(stop, str):
        raise InputError("is one string", where="stop", mend="give a list of strings")
    if not all(isinstance(entry, str) and entry for entry in stop):
        raise InputError("holds something empty or not text", where="stop", mend="remove it")
    return tuple(stop)


class StopStrings:
    """Finds stop strings in growing answers without decoding every answer at every token.

    Only a token whose own text holds the last character of a stop string can
    complete that string; the answer is decoded at those tokens alone.

    Args:
        strings: the stop strings, none empty.
        pieces: the text of every vocabulary entry on its own.
        text_of: decodes an answer's ids.
    """

    def __init__(
        self,
        strings: Sequence[str],
        pieces: Sequence[str],
        text_of: Callable[[Sequence[int]], str],
    ) -> None:
        self.strings = tuple(strings)
        self._text_of = text_of
        last = {string[-1] for string in self.strings}
        # Decoders drop the space in front of a lone word, so a final space can hide
        # in any token.
        self._always = " " in last
        self._enders = frozenset(
            token
            for token, piece in enumerate(pieces)
            if self.strings and (_PART_OF_A_CHARACTER in piece or not last.isdisjoint(piece))
        )

    def ended_by(self, ids: Sequence[int]) -> bool:
        """True when the last token of `ids` completes a stop string."""
        if not self.strings or not (self._always or ids[-1] in self._enders):
            return False
        text = self._text_of(ids)
        return any(string in text for string in self.strings)

    def cut(self, text: str) -> str:
        """`text` up to the first stop string in it."""
        places = [place for string in self.strings if (place := text.find(string)) >= 0]
        return text[: min(places)] if places else text

    def safe(self, text: str) -> str:
        """The part of an unfinished answer that no further token can take back."""
        text = self.cut(text).rstrip(_PART_OF_A_CHARACTER)
        held = 0
        for string in self.strings:
            for size in range(min(len(string) - 1, len(text)), held, -1):
                if text.endswith(string[:size]):
                    held = size
                    break
        return text[: len(text) - held]
