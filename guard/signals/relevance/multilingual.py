"""Relevance in many languages: late interaction over multilingual-e5-small.

Question and passages may be in different languages. The model is not bundled:
`knowgate models multilingual` gets it. What is promised is what `sufficiency` promises.
"""

from __future__ import annotations

from pathlib import Path

from ..._byte_cache import CACHE_BYTES
from ...engine.backends import DtypeName
from ...engine.encoder import TokenEncoder
from ...fingerprint import Fingerprint
from ...model_files import (
    MULTILINGUAL,
    MULTILINGUAL_MIX_SHA256,
    MULTILINGUAL_SHA256,
    downloaded_model,
    require_files,
)
from ._mentions import MENTIONS_SHA256
from .match_model import MatchModel
from .sufficiency import SUFFICIENCY_FILE, SufficiencyScorer

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
            mix_sha256=self._mix_hash(),
            mentions_sha256=MENTIONS_SHA256,
        )

    def _adapter_hash(self) -> str:
        return ""
