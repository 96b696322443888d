"""Invented names and numbers, made of syllables that the tokenizer knows."""

from __future__ import annotations

from random import Random

from ._entities import EntityKind, ValueKind
from ._phrasings import value_list

SYLLABLES: tuple[str, ...] = (
    "bal", "bel", "bor", "bun", "dal", "del", "dor", "dun", "fal", "fen", "fir", "fol",
    "gar", "gel", "gor", "gul", "hal", "hes", "hin", "hol", "jas", "jor", "kal", "ken",
    "kir", "kor", "lam", "lin", "lor", "lum", "mar", "mel", "mir", "mon", "nal", "nes",
    "nor", "nur", "pal", "pel", "pir", "por", "ral", "ren", "rin", "rom", "sal", "sel",
    "sin", "sur", "tal", "tam", "tir", "tor", "val", "ven", "vin", "vor", "zan", "zel",
    "zim", "zor", "wes", "yar",
)  # fmt: skip
FIRST_YEAR, LAST_YEAR = 1600, 1989


class NameMaker:
    """Draws names and numbers; the same `rng` state gives the same ones.

    Args:
        rng: source of chance.
        taken: words that no name may hold; grows when `unique` is set.
        unique: whether every drawn word is used once only, so that no name is part of another.
    """

    def __init__(self, rng: Random, taken: set[str] | None = None, *, unique: bool = False) -> None:
        self._rng = rng
        self._taken = taken if taken is not None else set()
        self._unique = unique

    def word(self, syllables: int) -> str:
        """A capitalised word of that many syllables."""
        while True:
            word = "".join(self._rng.choices(SYLLABLES, k=syllables)).capitalize()
            if word in self._taken:
                continue
            if self._unique:
                self._taken.add(word)
            return word

    def entity(self, kind: EntityKind) -> str:
        """A name for an entity of `kind`."""
        if kind is EntityKind.PLACE:
            return self.word(3)
        if kind is EntityKind.PERSON:
            return f"{self.word(2)} {self.word(2)}"
        if kind is EntityKind.ORGANISATION:
            return f"{self.word(2)} {self._rng.choice(value_list('organisation_nouns'))}"
        if kind is EntityKind.WORK:
            return f"{self.word(2)} {self._rng.choice(value_list('work_nouns'))}"
        return self._rng.choice(value_list("materials"))

    def value(self, kind: ValueKind) -> str:
        """A value of `kind` as text."""
        if kind is ValueKind.YEAR:
            return str(self._rng.randint(FIRST_YEAR, LAST_YEAR))
        if kind is ValueKind.AMOUNT:
            return str(self._rng.randint(2001, 9999))
        return self.entity(EntityKind(kind.value))

    def period(self) -> tuple[int, int]:
        """A first and a last year, 2 to 20 years apart."""
        start = self._rng.randint(FIRST_YEAR, LAST_YEAR - 20)
        return start, start + self._rng.randint(2, 20)
