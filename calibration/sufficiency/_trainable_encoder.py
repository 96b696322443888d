"""The embedded MiniLM with a trainable LoRA adapter."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...guard._optional_imports import optional_import
from ...guard._quiet_loading import quiet_loading
from ...guard.relevance import embedded_model_path

if TYPE_CHECKING:
    from torch import Tensor

LORA_TARGETS = ("query", "key", "value", "dense")
MAX_QUESTION_PIECES = 64
MAX_PASSAGE_PIECES = 160


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Texts encoded together.

    Attributes:
        vectors: last hidden states, float32 of shape (texts, length, dimensions).
        ids: word-piece ids of shape (texts, length), 0 where padded.
        mask: bool of shape (texts, length), False where padded.
    """

    vectors: Tensor
    ids: Tensor
    mask: Tensor


class TrainableEncoder:
    """Frozen bfloat16 weights under a float32 LoRA adapter.

    Args:
        start: folder of an adapter to go on from; None for a fresh one.
        rank: of a fresh adapter.
        alpha: `lora_alpha` of a fresh adapter.
        seed: of a fresh adapter's weights.

    Raises:
        MissingDependencyError: torch, transformers or peft is not installed.
    """

    def __init__(
        self, start: Path | None = None, *, rank: int = 8, alpha: int = 16, seed: int = 0
    ) -> None:
        self._torch: Any = optional_import("torch")
        transformers: Any = optional_import("transformers")
        peft: Any = optional_import("peft")
        self._torch.manual_seed(seed)
        folder = str(embedded_model_path())
        with _quietly(transformers):
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            # Plain attention: at these lengths faster on a CPU than the fused kernel.
            base = transformers.AutoModel.from_pretrained(
                folder,
                attn_implementation="eager",
                dtype=self._torch.bfloat16,
                add_pooling_layer=False,
            )
            # Dropout stays off throughout: an epoch or two over many questions needs none.
            base.eval()
            if start is None:
                config = peft.LoraConfig(
                    r=rank, lora_alpha=alpha, target_modules=list(LORA_TARGETS)
                )
                self._model = peft.get_peft_model(base, config)
            else:
                self._model = peft.PeftModel.from_pretrained(base, str(start), is_trainable=True)
        self._model.eval()

    def parameters(self) -> list[Any]:
        """What is trained."""
        return [p for p in self._model.parameters() if p.requires_grad]

    def encode(self, texts: Sequence[str], max_pieces: int) -> Encoded:
        """Encode texts together, cut to `max_pieces`; gradients flow to the adapter."""
        tokens = self._tokenizer(
            list(texts), truncation=True, max_length=max_pieces, padding=True, return_tensors="pt"
        )
        output = self._model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])
        return Encoded(
            output.last_hidden_state.float(), tokens["input_ids"], tokens["attention_mask"].bool()
        )

    def embed(self, texts: Sequence[str], *, batch_size: int = 32) -> NDArray[np.float32]:
        """Unit-length mean embeddings of shape (len(texts), dimensions), for neighbours."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found: NDArray[np.float32] | None = None
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            with self._torch.no_grad():
                encoded = self.encode([texts[i] for i in places], MAX_PASSAGE_PIECES)
                summed = (encoded.vectors * encoded.mask[..., None]).sum(1)
                rows = self._torch.nn.functional.normalize(summed, dim=1).numpy()
            if found is None:
                found = np.zeros((len(texts), rows.shape[1]), dtype=np.float32)
            found[places] = rows
        return np.zeros((0, 1), dtype=np.float32) if found is None else found

    def save(self, folder: Path) -> None:
        """Write adapter_config.json and adapter_model.safetensors (float16) into a folder."""
        import json

        from ...guard.files import write_json

        # Not "auto", which asks the hub whether the vocabulary is another.
        self._model.save_pretrained(str(folder), save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)
        config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        # A path of this machine says nothing elsewhere.
        config["base_model_name_or_path"] = "sentence-transformers/all-MiniLM-L6-v2"
        write_json(folder / "adapter_config.json", config)
        library: Any = optional_import("safetensors.torch")
        weights = folder / "adapter_model.safetensors"
        halves = {name: t.half().contiguous() for name, t in library.load_file(weights).items()}
        # Written anew: what the library writes nobody but the owner may read.
        weights.unlink()
        weights.write_bytes(library.save(halves, metadata={"format": "pt"}))


@contextlib.contextmanager
def _quietly(transformers: Any) -> Iterator[None]:
    """Without the report on the unused pooler, and without warnings between the libraries."""
    logging = transformers.utils.logging
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with quiet_loading(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logging.set_verbosity(verbosity)
