"""What models that read question and passage together say of a pair, as one number.

    sequence classifier, one label   the logit
    sequence classifier, several     log-odds of the label `entailment` against all others
    extractive reader                best span minus no answer
    instruct reranker                logit of its word for yes minus that of its word for no

All are log-odds of some sort, without bounds; what they are the odds of, differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelFolderError
from ._tokenizing import PairRow

# The last part of an architecture's name, with the class of transformers that loads it.
CLASSIFIER, READER, INSTRUCT = "SequenceClassification", "QuestionAnswering", "CausalLM"
PAIR_MODELS = (CLASSIFIER, READER, INSTRUCT)
# Tokens of the longest answer.
_LONGEST_ANSWER = 30


@dataclass(frozen=True, slots=True)
class PairOutput:
    """How a model's outputs become a number.

    Attributes:
        kind: `logit`, `entailment`, `span` or `answer`.
        label: the number of the label `entailment`.
        passage_first: whether the model is given the passage before the question: for natural
            language inference the passage is the premise. Classifiers of two labels, as for
            QNLI, read the question first.
    """

    kind: Literal["logit", "entailment", "span", "answer"] = "logit"
    label: int = 0
    passage_first: bool = False

    @classmethod
    def of(cls, config: Any, folder: Path) -> PairOutput:
        """Read it off a configuration of transformers; None is an exported reranker.

        Raises:
            ModelFolderError: there are several labels, and none is called entailment.
        """
        kind = None if config is None else pair_model(getattr(config, "architectures", None))
        if kind == READER:
            return cls("span")
        if kind == INSTRUCT:
            return cls("answer")
        labels = (
            {} if config is None else {i: str(n).casefold() for i, n in config.id2label.items()}
        )
        if len(labels) < 2:
            return cls()
        # Exactly so: a model of two classes calls the other one "not_entailment".
        found = [number for number, name in labels.items() if name == "entailment"]
        if len(found) != 1:
            raise ModelFolderError(
                f"the model has {len(labels)} labels, and none is called entailment, only "
                f"{', '.join(config.id2label.values())}",
                where=str(folder),
                hint="name a reranker with one label, or a model of natural language inference",
            )
        return cls("entailment", int(found[0]), "contradiction" in labels.values())

    def score(self, outputs: Sequence[NDArray[np.float32]], row: PairRow) -> float:
        """The number of one row.

        Args:
            outputs: logits of shape (labels,); of a reader those of the start and of the end,
                each of shape (tokens,).
            row: that was run.
        """
        if self.kind == "span":
            # What pads a batch is none of the row's.
            starts, ends = (one[: len(row.ids)] for one in outputs)
            return best_span(starts, ends, *row.second)
        logits = np.asarray(outputs[0], dtype=np.float64)
        if self.kind == "entailment":
            others = np.delete(logits, self.label)
            return float(logits[self.label] - np.logaddexp.reduce(others))
        return float(logits[0])


def best_span(
    starts: NDArray[np.float32], ends: NDArray[np.float32], first: int, beyond: int
) -> float:
    """Logit of the best answer of up to 30 tokens, less that of no answer.

    No answer is a span of the first token alone, as in SQuAD 2.0.

    Args:
        starts: logits of the first token of an answer.
        ends: logits of its last token.
        first: of the passage's tokens.
        beyond: the last of them.

    Returns:
        The difference; below that of every span for a passage without tokens.
    """
    s, e = np.asarray(starts, dtype=np.float64), np.asarray(ends, dtype=np.float64)
    nothing = float(s[0] + e[0])
    if beyond <= first:
        return float(s.min() + e.min()) - nothing
    s, e = s[first:beyond], e[first:beyond]
    longest = min(_LONGEST_ANSWER, len(s))
    return max(float((s[: len(s) - n] + e[n:]).max()) for n in range(longest)) - nothing


def pair_model(architectures: Any) -> str | None:
    """Which of `PAIR_MODELS` the architectures of a configuration name."""
    names = architectures if isinstance(architectures, list) else []
    for name in names:
        for kind in PAIR_MODELS:
            if str(name).endswith(f"For{kind}"):
                return kind
    return None


def reads_pairs(config: Any, modules: Any) -> bool:
    """Whether a model reads question and passage together.

    Args:
        config: the contents of `config.json`.
        modules: those of `modules.json` of sentence-transformers, None without one.
    """
    kinds = config.get("architectures") if isinstance(config, Mapping) else None
    parts = modules if isinstance(modules, list) else []
    named = [one.get("type") for one in parts if isinstance(one, Mapping)]
    # Embedding models are saved with the architecture of the language model that they came from.
    pools = any(str(one).endswith("Pooling") for one in named)
    return not pools and pair_model(kinds) is not None
