"""Models that the relevance signals share: loading, tokenising, computing."""

from __future__ import annotations

from .._model_files import EMBEDDED_SHA256
from ._backends import BackendName, DtypeName, LoadedEncoder, ScorerOptions
from ._bi_encoder import BiEncoderScorer
from ._checked_folder import ModelFolder
from ._cross_encoder import CrossEncoderScorer
from ._device_batches import best_on_device
from ._encoded_text import EncodedText
from ._encoder import TokenEncoder
from ._load_encoder import exported_as
from ._loading import embedded_model_path, quiet_loading
from ._onnx_export import export_encoder

__all__ = [
    "EMBEDDED_SHA256",
    "BackendName",
    "BiEncoderScorer",
    "CrossEncoderScorer",
    "DtypeName",
    "EncodedText",
    "LoadedEncoder",
    "ModelFolder",
    "ScorerOptions",
    "TokenEncoder",
    "best_on_device",
    "embedded_model_path",
    "export_encoder",
    "exported_as",
    "quiet_loading",
]
