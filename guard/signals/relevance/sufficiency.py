"""The trained scorer: late interaction learned for sufficiency; with or without a cross-encoder.

What is promised: scores are log-odds that passages suffice; the score of a question and a
passage depends on these two alone, up to the last bits; `score_sets`, `score_set`,
`score_pairs` and `score` agree.

`sufficiency` compares the vectors of single tokens. A cross-encoder reads question and passage
as one text, and takes some ten times as long.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, groupby
from pathlib import Path

from pydantic import BaseModel

from ..._byte_cache import CACHE_BYTES
from ...contracts import SetScore
from ...engine import CrossEncoderScorer
from ...engine.backends import DtypeName
from ...engine.encoder import TokenEncoder
from ...errors import ModelFolderError
from ...files import write_json
from ...fingerprint import OF_STRICT, Fingerprint, strict_kind
from ...model_files import (
    BUNDLED_SHA256,
    CROSS_ENCODER_SHA256,
    MULTILINGUAL,
    MULTILINGUAL_MIX_SHA256,
    MULTILINGUAL_SHA256,
    adapter_sha256,
    downloaded_model,
    require_files,
    reranker_folder,
)
from ...read_models import read_model
from ._echo import ECHO_VERSION, StatedText
from ._mentions import MENTIONS_SHA256
from .late_interaction import (
    IDF_SHA256,
    PassageMatch,
    QuestionTokens,
    TokenScorer,
    joined,
    match,
    match_values,
    word_piece_idf,
)
from .match_model import TOLD_FEATURES, CrossMix, MatchModel, require_sets

BUNDLED_FOLDER = Path(__file__).parent / "data" / "sufficiency"
SUFFICIENCY_FILE = "sufficiency.json"
TUNED_ON_FILE = "tuned_on.json"
_TEXTS_PER_ROUND = 256


# What the strict reading adds to the log-odds from which on a sentence tells something.
STRICT = 5.0
# Counts up when the strict reading reads the same texts in another way.
STRICT_VERSION = 3
# The matches of a passage, of what it tells, and of what it tells after the question.
PartMatches = tuple[PassageMatch, PassageMatch, PassageMatch]


# Scores; what mostly counts of each passage, empty where it tells nothing; and features in the
# order of the weights, of each passage that tells something and of all as one.
_ReadSet = tuple[SetScore, list[str], list[list[float]], list[float]]


_OWN = TOLD_FEATURES[:4]
_BEYOND = 3


def told_values(tokens: QuestionTokens, told: PassageMatch) -> list[float]:
    """The values of `TOLD_FEATURES` for a passage without others beside it."""
    found = match_values(tokens, told, 0.0)
    return [*(found[name] for name in _OWN), math.log(max(told.pieces, 3)), *[0.0] * _BEYOND]


def beyond(values: Sequence[float], others: Sequence[Sequence[float]]) -> list[float]:
    """The values of `TOLD_FEATURES` for a passage beside others."""
    if not others:
        return list(values)
    best = [max(column) for column in list(zip(*others, strict=True))[:_BEYOND]]
    above = [own - most for own, most in zip(values, best, strict=False)]
    return [*values[:-_BEYOND], *above]


class _TunedOn(BaseModel):
    """Hashes of the questions that a scorer was tuned on."""

    schema_version: int = 1
    questions: tuple[str, ...]


class SufficiencyScorer(TokenScorer):
    """Late interaction and cosine of an encoder trained to tell sufficient passages.

    all-MiniLM-L6-v2 with a LoRA adapter, trained on questions whose answer stands in one
    passage of a document and not in its neighbours. Judges several passages together: by the
    best of them, by how far it stands out, and by what they gain together. Passages are
    encoded once and cached.

    Args:
        folder: adapter and mix, such as `knowgate tune relevance` writes; None for the
            bundled ones.
        device: `cpu`, `cuda`, `cuda:N`; `auto` picks CUDA where there is one.
        dtype: `float32`, or `int8` on a CPU for the bundled model; of Hugging Face also
            `bfloat16` and `float16`; None as the model is.
        cache_bytes: of the encoded texts that are kept in memory.
        encoder: shared with other scorers.
        model: another mix than the folder's.
        strictness: added to the log-odds from which on a sentence with the question's words
            tells something; see `strict`. Above 0, text that asks counts for nothing.

    Attributes:
        folder: where the adapter and the mix lie.
        model: the fitted mix.

    Raises:
        ModelFolderError: a file is missing, damaged or not the expected one.
        DeviceError: the device is not there.
    """

    checks_deadline = TokenScorer.checks_deadline

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        device: str = "auto",
        dtype: DtypeName | None = None,
        cache_bytes: int = CACHE_BYTES,
        encoder: TokenEncoder | None = None,
        model: MatchModel | None = None,
        strictness: float = 0.0,
    ) -> None:
        self._strictness = strictness
        self.folder = BUNDLED_FOLDER if folder is None else Path(folder)
        if folder is None:
            require_files(self.folder, BUNDLED_SHA256)
        self.model = model or MatchModel.load(self.folder / SUFFICIENCY_FILE)
        super().__init__(
            encoder
            or TokenEncoder(
                device=device, dtype=dtype, cache_bytes=cache_bytes, adapter=self.folder
            )
        )
        idf = word_piece_idf(self.encoder)
        if idf is None:
            raise ModelFolderError(
                "the encoder's vocabulary is not the embedded model's",
                where="encoder",
                hint="use the embedded model",
            )
        self._idf = idf
        self._adapter_sha256 = self._adapter_hash()

    @property
    def strict(self) -> SufficiencyScorer | None:
        """The same scorer in a strict reading: only what is surely told counts.

        Doubtful sentences count as mentions of the subject, and no text that asks counts. It
        misses more answers. What passes with the one and not with the other is what a costly scorer
        should read. The encoder, and what it has encoded, are shared. None for further scorers that
        are made of this one.
        """
        if type(self) is not SufficiencyScorer:
            return None
        return SufficiencyScorer(
            self.folder, encoder=self.encoder, model=self.model, strictness=STRICT
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        kind, more = "sufficiency", dict[str, float]()
        if self._strictness:
            kind = strict_kind(kind)
            more = dict(zip(OF_STRICT, (self._strictness, STRICT_VERSION), strict=True))
        return self.encoder.fingerprint(
            kind,
            adapter_sha256=self._adapter_sha256,
            mix_sha256=self.model.sha256,
            idf_sha256=IDF_SHA256,
            mentions_sha256=MENTIONS_SHA256,
            echo=ECHO_VERSION,
            **more,
        )

    def tuned_on(self, question: str) -> bool:
        """Whether the scorer was tuned on this question, and so looks better on it than it is."""
        return _question_key(question) in self._tuned_on

    @staticmethod
    def save_tuned_on(folder: Path, questions: Iterable[str]) -> None:
        """Store in a tuned folder, as hashes, which questions it was tuned on."""
        keys = sorted(map(_question_key, questions))
        write_json(folder / TUNED_ON_FILE, _TunedOn(questions=tuple(keys)).model_dump(mode="json"))

    @staticmethod
    def is_tuned(fingerprint: Fingerprint) -> bool:
        """Whether a fingerprint is that of a tuned scorer, or of a cascade with one."""
        if any(map(SufficiencyScorer.is_tuned, fingerprint.inner)):
            return True
        mix = fingerprint.settings.get("mix_sha256")
        kinds = ("sufficiency", strict_kind("sufficiency"))
        if fingerprint.kind not in kinds or mix is None:
            return False
        bundled = MatchModel.load(BUNDLED_FOLDER / SUFFICIENCY_FILE)
        return bool(mix != bundled.sha256)

    @cached_property
    def _tuned_on(self) -> frozenset[str]:
        path = self.folder / TUNED_ON_FILE
        if not path.is_file():
            return frozenset()
        hint = "tune it again with `knowgate tune relevance`"
        return frozenset(read_model(path, _TunedOn, hint=hint).questions)

    def _adapter_hash(self) -> str:
        return adapter_sha256(self.folder)

    def _judged(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
    ) -> list[SetScore]:
        return [score for score, _ in self.read_sets(questions, passages)]

    def read_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[tuple[SetScore, list[str]]]:
        """Judge the passages of each question, and say what mostly counts of each passage.

        That is all of it, or what it tells beside text that asks; empty where it tells nothing.
        """
        return [(score, texts) for score, texts, _, _ in self._read(questions, passages)]

    def match_features(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
    ) -> list[tuple[list[list[float]], list[float]]]:
        """Per question the features of each passage and of the passages taken as one.

        What a mix is fitted on; in the order of `model.features`. Passages that tell
        nothing are left out, unless none does.
        """
        return [(each, together) for _, _, each, together in self._read(questions, passages)]

    def stated(self, question: str, passages: Sequence[str]) -> list[StatedText]:
        """Part each passage of a question into what it tells and text that asks."""
        return [StatedText.of(question, text, self._strictness) for text in passages]

    def _read(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[_ReadSet]:
        found: list[_ReadSet] = []
        before = accumulate(map(len, passages), initial=0)
        sets = zip(questions, passages, before, strict=False)
        # In rounds, so that a long list of texts is not held encoded all at once.
        for _, part in groupby(sets, key=lambda one: one[2] // _TEXTS_PER_ROUND):
            asked, those, _ = zip(*part, strict=True)
            parts = list(map(self.stated, asked, those))
            matched = self.matched(asked, parts)
            found += [self._counted(one, *of_it) for one, of_it in zip(parts, matched, strict=True)]
        return found

    def _counted(
        self, parts: Sequence[StatedText], tokens: QuestionTokens, matches: list[PartMatches]
    ) -> _ReadSet:
        """Read one question's passages, text that asks counted in part."""
        model = self.model

        def vector(one: PassageMatch) -> list[float]:
            return model.vector(match_values(tokens, one, model.length_penalty))

        alone, among = self._shares(tokens, matches, parts)
        counted = list(map(_counted, matches, among))
        counted = [counted[place] for place, one in enumerate(parts) if one.texts] or counted[:1]
        each, together = list(map(vector, counted)), vector(joined(counted))
        scores = [model.passage_score(vector(one)) for one in map(_counted, matches, alone)]
        texts = [one.read(share) for one, share in zip(parts, among, strict=True)]
        return SetScore(tuple(scores), model.joint_score(each, together)), texts, each, together

    def _shares(
        self,
        tokens: QuestionTokens,
        matches: Sequence[PartMatches],
        parts: Sequence[StatedText],
    ) -> tuple[list[float], list[float]]:
        """How much of the text that asks counts: of each passage by itself, and among others."""
        if all(one.stated is None for one in parts):
            return [1.0] * len(parts), [1.0] * len(parts)
        values = {
            part: told_values(tokens, told)
            for part, (_, told, _) in zip(parts, matches, strict=True)
            if part.texts
        }

        def share(part: StatedText, replied: PassageMatch, others: list[list[float]]) -> float:
            if not part.stated:
                return 1.0
            if self._strictness or part.replied == "":  # the question is the last that it says
                return 0.0
            return self.model.told.share(beyond(told_values(tokens, replied), others))

        replies = [(part, replied) for part, (_, _, replied) in zip(parts, matches, strict=True)]
        return [share(part, replied, []) for part, replied in replies], [
            share(part, replied, [values[one] for one in values if one != part])
            for part, replied in replies
        ]

    def matched(
        self, questions: Sequence[str], parts: Sequence[Sequence[StatedText]]
    ) -> list[tuple[QuestionTokens, list[PartMatches]]]:
        """Per question what is matched: each passage, and what it tells."""
        encoder = self.encoder
        tokens = [QuestionTokens.of(one, self._idf) for one in encoder.encode_first(questions)]
        texts = [text for those in parts for one in those for text in one.texts]
        windows = iter(encoder.encode(texts))

        def parted(asked: QuestionTokens, one: StatedText) -> PartMatches:
            own = [match(asked, next(windows), encoder.stride) for _ in one.texts]
            own = own or [PassageMatch.nothing(len(asked.ids))]
            return own[0], own[min(1, len(own) - 1)], own[-1]

        return [
            (asked, [parted(asked, one) for one in those])
            for asked, those in zip(tokens, parts, strict=True)
        ]


def _counted(matches: PartMatches, share: float) -> PassageMatch:
    """What the passage tells, and so much of the text that asks."""
    kept, told, _ = matches
    return kept if told is kept else told.towards(kept, share)


def _question_key(question: str) -> str:
    """A hash of a question that case and white space do not change."""
    text = " ".join(question.casefold().split())
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


KIND = "sufficiency_cross"
CROSS_FOLDER = Path(__file__).parent / "data" / "cross_encoder"
MIX_FILE = "mix.json"
# Passages of a question that the cross-encoder reads: the best ones by the trained scorer.
MOST_READ = 3


class CrossSufficiencyScorer(SufficiencyScorer):
    """`sufficiency`, and a cross-encoder over the best three passages.

    The cross-encoder is ms-marco-MiniLM-L-12-v2, a public reranker that `knowgate models
    ms-marco` downloads, with changes of low rank and a head, trained on pairs of a question and
    a passage. Of a passage that repeats the question it reads what the
    passage tells, as `sufficiency` does. Scores of single passages are those of `sufficiency`;
    only the joint value needs the cross-encoder.

    Args:
        device: `cpu`, `cuda`, `cuda:N`; `auto` picks CUDA where there is one.
        dtype: `float32`, or `int8` on a CPU.
        cache_bytes: of the encoded texts that are kept in memory.
        cross_folder: adapter, head and mix of the cross-encoder; None for the bundled ones.

    Raises:
        InputError: the dtype is another one.
        ModelFolderError: the reranker was not downloaded, or a file is missing, damaged or not the
            expected one.
        DeviceError: the device is not there.
    """

    def __init__(
        self,
        *,
        device: str = "auto",
        dtype: DtypeName | None = None,
        cache_bytes: int = CACHE_BYTES,
        cross_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        where = CROSS_FOLDER if cross_folder is None else Path(cross_folder)
        if cross_folder is None:
            require_files(where, CROSS_ENCODER_SHA256)
        self._reader = CrossEncoderScorer(
            reranker_folder(), adapter=where, device=device, dtype=dtype
        )
        self._cross_mix = read_model(where / MIX_FILE, CrossMix, hint="use the bundled folder")
        super().__init__(device=device, dtype=dtype, cache_bytes=cache_bytes)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to: both models and both mixes."""
        found, reader = super().fingerprint, self._reader.fingerprint
        cross = {
            f"cross_{name}": value
            for name, value in {**reader.settings, "max_length": reader.max_length}.items()
        }
        mix = self._cross_mix.model_dump_json()
        settings = {**found.settings, **cross, "cross_mix": mix, "cross_passages": MOST_READ}
        return found.model_copy(update={"kind": KIND, "settings": settings})

    def score_sets(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
    ) -> list[SetScore]:
        """Log-odds of each passage alone, and of all together by both models.

        Raises:
            InputError: the lengths differ, or a question has no passage.
        """
        require_sets(questions, passages)
        return [
            SetScore(own.scores, self._cross_mix.joint(own.joint, read))
            for own, read in self.cross_features(questions, passages)
        ]

    def cross_features(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[str]],
    ) -> list[tuple[SetScore, list[float]]]:
        """The scores of the trained scorer, and the log-odds of what the cross-encoder reads.

        A `CrossMix` is fitted on the joint scores and these.
        """
        found = self.read_sets(questions, passages)
        chosen = [best_texts(*one) for one in found]
        pairs = [
            (question, text)
            for question, texts in zip(questions, chosen, strict=True)
            for text in texts
        ]
        read = iter(self._reader.score_pairs(pairs).tolist())
        return [
            (score, [next(read) for _ in texts])
            for (score, _), texts in zip(found, chosen, strict=True)
        ]


def best_texts(score: SetScore, texts: Sequence[str]) -> list[str]:
    """What the cross-encoder reads: the texts of the best passages, each once."""
    order = sorted(range(len(texts)), key=lambda place: -score.scores[place])
    found = dict.fromkeys(texts[place] for place in order if texts[place])
    return list(found)[:MOST_READ] or [""]


MULTILINGUAL_FOLDER = Path(__file__).parent / "data" / "multilingual"


class MultilingualScorer(SufficiencyScorer):
    """As `SufficiencyScorer`, with an encoder that knows a hundred languages.

    The token vectors of multilingual-e5-small, without what tells languages apart; words weigh as
    the encoder's tokenizer knows them to be rare. The mix is fitted on Chinese questions of DRCD
    and on XQuAD in six languages, within a language and across.

    Args:
        device: `cpu`, `cuda`, `cuda:N`; `auto` picks CUDA where there is one.
        dtype: `float32`, or `int8` on a CPU.
        cache_bytes: of the encoded texts that are kept in memory.
        encoder: shared with other scorers.
        model: another mix than the bundled one.

    Raises:
        InputError: the dtype is another one.
        ModelFolderError: the model was not downloaded, or a file is damaged.
        DeviceError: the device is not there.
    """

    def __init__(
        self,
        *,
        device: str = "auto",
        dtype: DtypeName | None = None,
        cache_bytes: int = CACHE_BYTES,
        encoder: TokenEncoder | None = None,
        model: MatchModel | None = None,
    ) -> None:
        if model is None:
            require_files(MULTILINGUAL_FOLDER, {SUFFICIENCY_FILE: MULTILINGUAL_MIX_SHA256})
        encoder = encoder or TokenEncoder(
            downloaded_model(MULTILINGUAL, MULTILINGUAL_SHA256),
            device=device,
            dtype=dtype,
            cache_bytes=cache_bytes,
        )
        super().__init__(MULTILINGUAL_FOLDER, encoder=encoder, model=model)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        return self.encoder.fingerprint(
            MULTILINGUAL,
            mix_sha256=self.model.sha256,
            mentions_sha256=MENTIONS_SHA256,
            echo=ECHO_VERSION,
        )

    def _adapter_hash(self) -> str:
        return ""
