"""The bundled detector of abstentions, and published word lists for reproduction."""

from __future__ import annotations

import hashlib
import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from ..errors import InputError
from ..files import table_beside
from ..fingerprint import Artefact, Fingerprint
from ..read_models import read_model
from ..registry import Registry
from .reading import (
    Citation,
    Role,
    is_whole_abstention,
    opens_with_yes_or_no,
    patterns_sha256,
    read_reply,
    reply_text,
    role_of,
    units,
)


@dataclass(frozen=True, slots=True)
class AbstentionVerdict:
    """Whether one reply abstains.

    Attributes:
        abstained: the reply gives no answer.
        probability: calibrated probability of that, in [0, 1]; 0 or 1 for a rule
            that knows no in between.
    """

    abstained: bool
    probability: float


class AbstentionRule(ABC):
    """Distinguish replies that abstain from replies that answer, without a language model."""

    @property
    @abstractmethod
    def fingerprint(self) -> Fingerprint:
        """What made a verdict, for runs and reports."""

    @abstractmethod
    def detect(
        self, response: str, *, question: str | None = None, citation: object = Citation.UNKNOWN
    ) -> AbstentionVerdict:
        """The verdict on one reply.

        Args:
            response: the reply.
            question: for rules that need it; the bundled ones do not.
            citation: the reply's citation field, read by `read_citation`; leave it out
                where replies have no such field.
        """

    def detect_many(
        self, responses: Sequence[str], *, citations: Sequence[object] | None = None
    ) -> list[AbstentionVerdict]:
        """The verdicts on many replies, in order, equal to `detect` one by one.

        Raises:
            InputError: `citations` are not as many as `responses`.
        """
        fields = [Citation.UNKNOWN] * len(responses) if citations is None else citations
        if len(fields) != len(responses):
            what = f"{len(fields)} citations for {len(responses)} responses"
            raise InputError(what, hint="pass one of citations per response, or none at all")
        pairs = zip(responses, fields, strict=True)
        return [self.detect(response, citation=field) for response, field in pairs]


# What `features` measures, in the order of the weights.
FEATURE_NAMES = (
    "whole_reply_is_no_answer",
    "explicit_first",
    "explicit_later",
    "silent_first",
    "silent_later",
    "hint_first",
    "hint_later",
    "refusal_share",
    "yes_or_no_before_refusal",
    "no_citation",
    "no_citation_and_refusal",
    "citation_and_refusal",
)

# "Contact the registry" answers where nothing was refused yet.
_ANSWERING = (Role.SUBSTANCE, Role.REDIRECT)


def features(clauses: Sequence[str], citation: Citation) -> dict[str, float]:
    """The features of a reply as `read_reply` gives it, by name; all are within [0, 1].

    A refusal that comes before anything of substance is "first", any other "later".
    """
    found = dict.fromkeys(FEATURE_NAMES, 0.0)
    if is_whole_abstention(clauses):
        found.update(whole_reply_is_no_answer=1.0, explicit_first=1.0)
    found["no_citation"] = float(citation is Citation.NONE)
    roles = list(map(role_of, clauses))
    if any(role > Role.SUBSTANCE for role in roles):
        _add_refusals(found, clauses, roles)
    elif found["explicit_first"]:
        found["refusal_share"] = 1.0
    else:
        return found
    found["no_citation_and_refusal"] = float(citation is Citation.NONE)
    found["citation_and_refusal"] = float(citation is Citation.CITED)
    return found


def _add_refusals(found: dict[str, float], clauses: Sequence[str], roles: list[Role]) -> None:
    before = list(takewhile(lambda role: role <= Role.SUBSTANCE, roles))
    after = roles[len(before) :]
    led = not any(role in _ANSWERING for role in before)
    if led:
        found[f"{after[0].name.lower()}_first"] = 1.0
    for role in after[1:] if led else after:
        if role > Role.SUBSTANCE:
            found[f"{role.name.lower()}_later"] = 1.0
    sizes = [len(units(clause)) for clause in clauses]
    found["refusal_share"] = _share(list(zip(roles, sizes, strict=True)), len(before))
    found["yes_or_no_before_refusal"] = float(led and opens_with_yes_or_no(clauses[0]))


def _share(sized: list[tuple[Role, int]], first: int) -> float:
    """Share of words in refusals among those in refusals and substance; hints count half.

    Args:
        sized: the role of each clause, and its words.
        first: index of the first refusal.
    """
    refusing = sum(
        size / (2 if role is Role.HINT else 1)
        for role, size in sized[first:]
        if role > Role.SUBSTANCE
    )
    total = sum(size for role, size in sized[:first] if role in _ANSWERING)
    total += sum(size for role, size in sized[first:] if role >= Role.SUBSTANCE)
    return refusing / total if total else 1.0


class AbstentionModel(Artefact, strict=True):
    """Weights per feature, and the calibration of what they add up to.

    probability = σ(slope · (intercept + Σ weight · feature) + offset).

    Attributes:
        schema_version: of this file.
        fitted_on: the data, in words.
        intercept: of the logistic model.
        weights: by feature; exactly those of `FEATURE_NAMES`.
        slope: of the calibration, fitted on replies of domains left out.
        offset: of the calibration.
        threshold: from this probability on a reply abstains.
    """

    schema_version: Literal[1] = 1
    fitted_on: str = ""
    intercept: FiniteFloat
    weights: dict[str, FiniteFloat]
    slope: Annotated[FiniteFloat, Field(gt=0)] = 1.0
    offset: FiniteFloat = 0.0
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5

    @model_validator(mode="after")
    def _all_features_are_weighed(self) -> Self:
        unlike = set(self.weights) ^ set(FEATURE_NAMES)
        if unlike:
            raise ValueError(f"weights do not fit the features: {', '.join(sorted(unlike))}")
        return self

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> AbstentionModel:
        """The model in the file `path`; by default the one that ships with the package.

        Raises:
            InputError: the file cannot be read or is no such model.
        """
        where = Path(str(resources.files(__package__))) / "weights.json" if path is None else path
        return read_model(
            where, cls, hint="fit it again with benchmarks/abstention.py --fit, or update knowgate"
        )

    def probability(self, features: Mapping[str, float]) -> float:
        """Calibrated probability, in [0, 1], that a reply with these features abstains."""
        total = self.intercept + sum(self.weights[name] * features[name] for name in FEATURE_NAMES)
        logit = self.slope * total + self.offset
        # At most 1, so that nothing overflows.
        part = math.exp(-min(abs(logit), 700.0))
        return (1.0 if logit >= 0 else part) / (1.0 + part)


class AbstentionDetector(AbstentionRule):
    """Detect replies that abstain, in English and Chinese, without a language model.

    Patterns find the clauses that refuse ("I don't know", "the context does not
    mention …", "无法回答"), features say how many there are, where they stand and what
    else the reply says, and a small logistic model makes a calibrated probability
    of that. A reply with nothing to read abstains for certain. Replies of any kind
    and length are taken; of a very long one the first and the last part are read.

    Args:
        model: weights; a file with such, or by default those that ship with the package.

    Raises:
        InputError: the file cannot be read or is no such model.

    Example:
        >>> detector = AbstentionDetector()
        >>> detector.detect("The context does not mention a fee.").abstained
        True
        >>> detector.detect("No, there is no fee.").abstained
        False
    """

    def __init__(self, model: AbstentionModel | str | os.PathLike[str] | None = None) -> None:
        self.model = model if isinstance(model, AbstentionModel) else AbstentionModel.load(model)

    @property
    def fingerprint(self) -> Fingerprint:
        """What made a verdict, for runs and reports."""
        weights = hashlib.sha256(self.model.model_dump_json().encode("utf-8")).hexdigest()
        return Fingerprint(
            kind="abstention_default",
            weights_sha256=weights,
            settings={"patterns_sha256": patterns_sha256()},
        )

    def detect(
        self, response: str, *, question: str | None = None, citation: object = Citation.UNKNOWN
    ) -> AbstentionVerdict:
        """The verdict on one reply."""
        del question
        clauses, read = read_reply(response, citation)
        if not clauses:
            return AbstentionVerdict(abstained=True, probability=1.0)
        probability = self.model.probability(features(clauses, read))
        return AbstentionVerdict(probability >= self.model.threshold, probability)


class PatternRule(AbstentionRule):
    """Abstained where a pattern is found anywhere in the raw reply.

    Args:
        name: of the paper's rule, `uniknow` or `uaqfact`.
    """

    def __init__(self, name: str) -> None:
        patterns = table_beside(__file__, "published.toml")[name]
        self._name = name
        self._pattern = re.compile(patterns["pattern"], re.IGNORECASE)
        self._lowered = re.compile(patterns.get("lowered", "(?!)"))

    @property
    def fingerprint(self) -> Fingerprint:
        """What made a verdict, for runs and reports."""
        return Fingerprint(kind=f"abstention_{self._name}", backend="python")

    def detect(
        self, response: str, *, question: str | None = None, citation: object = Citation.UNKNOWN
    ) -> AbstentionVerdict:
        """The verdict on one reply; `question` and `citation` are not used."""
        del question, citation
        text = reply_text(response)
        found = bool(self._pattern.search(text) or self._lowered.search(text.lower()))
        return AbstentionVerdict(abstained=found, probability=float(found))


_RULES: Registry[Callable[[], AbstentionRule]] = Registry(
    "an abstention rule",
    {
        "default": AbstentionDetector,
        "uaqfact": lambda: PatternRule("uaqfact"),
        "uniknow": lambda: PatternRule("uniknow"),
    },
    group="knowgate.abstention",
)


def load_rule(name: str) -> AbstentionRule:
    """The detector called `name`.

    `default` is the bundled `AbstentionDetector`. `uniknow` looks for the abstention
    words of UniKnow, and `uaqfact` is UAQFact's refusal rule as coded: English only,
    straight apostrophes only, and with many real answers among its findings. Both
    serve to reproduce published numbers.

    Raises:
        InputError: there is none of that name.

    Source: "UniKnow: A Unified Framework for Reliable Language Model Behavior across
    Parametric and External Knowledge"; "UAQFact: Evaluating Factual Knowledge
    Utilization of LLMs on Unanswerable Questions".
    """
    return _RULES.find(name)()
