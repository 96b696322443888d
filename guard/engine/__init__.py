"""Text encoders that the relevance signals share: loading, tokenising, token vectors."""

from __future__ import annotations

from .._model_files import EMBEDDED_SHA256
from ._bi_encoder import BiEncoderScorer
from ._encoder import EncodedText, TokenEncoder
from ._loading import embedded_model_path, quiet_loading
from ._model_folder import configuration_sha256, require_no_code

__all__ = [
    "EMBEDDED_SHA256",
    "BiEncoderScorer",
    "EncodedText",
    "TokenEncoder",
    "configuration_sha256",
    "embedded_model_path",
    "quiet_loading",
    "require_no_code",
]
