"""Ways to tell whether two answers are one, beyond their letters."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ._errors import InputError
from ._fingerprint import Fingerprint
from ._matching import canonical_answer, same_answer

_NUMBER = re.compile(r"\d+(?:[.:/]\d+)*")


class AnswerMatcher:
    """Same answer by letters, numbers and dates, or by a name that both go by.

    Args:
        aliases: a name → its other names. A name may stand in several groups; two
            answers are the same when some group has both.

    Example:
        >>> same = AnswerMatcher({"United States": ["USA", "United States of America"]})
        >>> same("the U.S.A.", "united states"), same("USA", "UK")
        (True, False)
    """

    def __init__(self, aliases: Mapping[str, Iterable[str]] | None = None) -> None:
        self._groups: dict[str, frozenset[str]] = {}
        for name, others in (aliases or {}).items():
            if isinstance(others, str):
                raise InputError(
                    "holds one text where a list should be", where="aliases", mend="use lists"
                )
            head = canonical_answer(name)
            for form in (name, *others):
                key = canonical_answer(form)
                if key:
                    self._groups[key] = self._groups.get(key, frozenset()) | {head}

    @property
    def fingerprint(self) -> str:
        """Names the aliases by their hash, for an estimator's own fingerprint."""
        groups = {key: sorted(found) for key, found in self._groups.items()}
        told = json.dumps(groups, sort_keys=True)
        return f"aliases:{hashlib.sha256(told.encode()).hexdigest()[:16]}"

    def __call__(self, first: str, second: str) -> bool:
        """Whether the answers are the same; empty answers never are."""
        if same_answer(first, second):
            return True
        groups = self._groups.get(canonical_answer(first), frozenset())
        return not groups.isdisjoint(self._groups.get(canonical_answer(second), frozenset()))


@runtime_checkable
class TextEmbedder(Protocol):
    """Anything that turns texts into vectors, e.g. a `BiEncoderScorer`."""

    def embed(self, texts: Sequence[str]) -> Any:
        """An array of shape (len(texts), dimensions)."""
        ...


class MeaningMatcher:
    """Same answer by letters, or by vectors that point the same way.

    Vectors hardly see figures, so answers with different numbers are never the same
    by their vectors.

    Args:
        embedder: turns answers into vectors.
        threshold: cosine in (0, 1] from which on two answers have one meaning.
        same: asked first, since it costs nothing.
    """

    def __init__(
        self,
        embedder: TextEmbedder,
        *,
        threshold: float = 0.9,
        same: Callable[[str, str], bool] = same_answer,
    ) -> None:
        if not 0.0 < threshold <= 1.0:
            raise InputError("must be in (0, 1]", where="threshold")
        if not isinstance(embedder, TextEmbedder):
            raise InputError(f"a {type(embedder).__name__} has no embed(texts)", where="embedder")
        self._embedder, self._threshold, self._same = embedder, threshold, same

    @property
    def fingerprint(self) -> str:
        """Names the embedder and the threshold, for an estimator's own fingerprint."""
        found = getattr(self._embedder, "fingerprint", None)
        known = found.weights_sha256 if isinstance(found, Fingerprint) else found
        kind = type(self._embedder).__qualname__
        return f"meaning:{kind}:{known or ''}:{self._threshold}"

    def __call__(self, first: str, second: str) -> bool:
        """Whether the answers are the same; empty answers never are."""
        if self._same(first, second):
            return True
        texts = [canonical_answer(first), canonical_answer(second)]
        if not all(texts) or _numbers(texts[0]) != _numbers(texts[1]):
            return False
        import numpy as np

        # In one order, so that rounding cannot make the relation one-sided.
        one, other = np.asarray(self._embedder.embed(sorted(texts)), dtype=np.float64)
        norms = float(np.linalg.norm(one) * np.linalg.norm(other))
        return norms > 0.0 and float(one @ other) / norms >= self._threshold


def _numbers(text: str) -> Counter[str]:
    return Counter(_NUMBER.findall(text))
