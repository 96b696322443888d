"""LoRA adapters in peft's file format, and the embedded MiniLM with a trainable one."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...guard.engine.embedded import save_embedded
from ...guard.engine.model_folder import quiet_loading
from ...guard.errors import optional_import
from ...guard.files import file_sha256, read_json, write_json
from ...guard.model_files import ADAPTER_CONFIG, ADAPTER_WEIGHTS

if TYPE_CHECKING:
    from torch import Tensor


# Says that the folder is complete, so it comes last.
TRAINING_FILE = "training.json"
SCHEMA = 1


def write_adapter(model: Any, folder: Path, *, base: str | None = None, half: bool = False) -> str:
    """Write peft's two files into an existing folder; returns the sha256 of the weights.

    Args:
        model: peft's.
        folder: to write to.
        base: name of the base model; a path of this machine says nothing elsewhere.
        half: weights in float16.
    """
    # Not "auto", which asks the hub whether the vocabulary is another.
    model.save_pretrained(str(folder), safe_serialization=True, save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)
    config = read_json(folder / ADAPTER_CONFIG)
    config["base_model_name_or_path"] = base
    config["target_modules"] = sorted(config["target_modules"])
    write_json(folder / ADAPTER_CONFIG, config)
    library = optional_import("safetensors.torch")
    weights = folder / ADAPTER_WEIGHTS
    tensors = {
        name: (one.half() if half else one).contiguous()
        for name, one in library.load_file(weights).items()
    }
    # Written again: the library's file is readable by its owner only.
    weights.unlink()
    weights.write_bytes(library.save(tensors, metadata={"format": "pt"}))
    return file_sha256(weights)


def finished_training(folder: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `training.json` says when the folder holds the adapter of just this training.

    Args:
        folder: where the adapter would be written.
        identity: what makes a training this one; compared with the file's `identity`.

    Returns:
        The file's content; None when there is no such file, another training or other weights.
    """
    if not (folder / TRAINING_FILE).is_file() or not (folder / ADAPTER_WEIGHTS).is_file():
        return None
    found = read_json(folder / TRAINING_FILE)
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        return None
    same = found.get("identity") == json.loads(json.dumps(identity))
    whole = found.get("adapter_sha256") == file_sha256(folder / ADAPTER_WEIGHTS)
    return found if same and whole else None


LORA_TARGETS = ("query", "key", "value", "dense")
MAX_QUESTION_PIECES = 64
MAX_PASSAGE_PIECES = 160


# Texts encoded together: last hidden states, float32 of shape (texts, length, dimensions); ids of
# word pieces, 0 where padded; and a mask of the two's shape, False where padded.
Encoded = tuple["Tensor", "Tensor", "Tensor"]


class TrainableEncoder:
    """Frozen weights under a LoRA adapter, in float32.

    Processors without instructions for bfloat16 compute with it ten times slower.

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
        self._torch = optional_import("torch")
        transformers = optional_import("transformers")
        peft = optional_import("peft")
        self._torch.manual_seed(seed)
        with tempfile.TemporaryDirectory() as folder, _quietly(transformers):
            save_embedded(Path(folder))
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            # Plain attention: at these lengths faster on a CPU than the fused kernel.
            base = transformers.AutoModel.from_pretrained(
                folder,
                attn_implementation="eager",
                dtype=self._torch.float32,
                add_pooling_layer=False,
            )
            # Dropout stays off throughout: an epoch or two over many questions needs none.
            base.eval()
            if start is None:
                config = peft.LoraConfig(
                    r=rank,
                    lora_alpha=alpha,
                    target_modules=list(LORA_TARGETS),
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
        mask = tokens["attention_mask"].bool()
        return output.last_hidden_state.float(), tokens["input_ids"], mask

    def save(self, folder: Path) -> None:
        """Write adapter_config.json and adapter_model.safetensors (float16) into a folder."""
        base = "sentence-transformers/all-MiniLM-L6-v2"
        write_adapter(self._model, folder, base=base, half=True)


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


_SPECIAL_PIECES = (0, 101, 102)
_OUT = -1e4
# Passages of one retrieved set: the sufficient one and four others, or five others.
_SET = 5
_FLOOR = -50.0


def similarities(
    questions: Encoded, passages: Encoded, idf: Tensor, length_penalty: float
) -> Tensor:
    """Cosine, IDF match, match and coverage of every question with every passage.

    Returns:
        Shape (questions, passages, 4), the features of the trained scorer.
    """
    torch = optional_import("torch")
    functional = torch.nn.functional

    cosine = mean_embeddings(questions) @ mean_embeddings(passages).T
    (asked, ids, asks), (told, told_ids, tells) = questions, passages
    asked, told = functional.normalize(asked, dim=-1), functional.normalize(told, dim=-1)
    pairs = torch.einsum("aid,bjd->abij", asked, told)
    best = pairs.masked_fill(~tells[None, :, None, :], -1.0).amax(3)
    special = torch.tensor(_SPECIAL_PIECES)
    content = (asks & ~torch.isin(ids, special)).float()
    weights = idf[ids] * content
    weights = weights / weights.sum(1, keepdim=True).clamp_min(1e-6)
    plain = content / content.sum(1, keepdim=True).clamp_min(1.0)
    same = ids[:, None, :, None] == told_ids[None, :, None, :]
    exact = (same & tells[None, :, None, :]).any(3).float()
    penalty = length_penalty * torch.log(tells.sum(1).float() / 100.0)
    matched = [(best * weights[:, None]).sum(2), (best * plain[:, None]).sum(2)]
    matched.append((exact * weights[:, None]).sum(2))
    found: Tensor = torch.stack([cosine, *[one - penalty for one in matched]], dim=-1)
    return found


def mean_embeddings(encoded: Encoded) -> Any:
    """Unit-length mean embeddings of shape (texts, dimensions)."""
    vectors, _, mask = encoded
    summed = (vectors * mask[..., None]).sum(1)
    return optional_import("torch").nn.functional.normalize(summed, dim=-1)


def set_weights() -> tuple[Tensor, Tensor]:
    """What `set_loss` weighs with, trained beside the adapter: four features, a logistic unit."""
    torch = optional_import("torch")
    starts = ([10.0, 5.0, 5.0, 1.0], [0.25, 0.25, -3.0])
    mix, unit = (torch.nn.Parameter(torch.tensor(start)) for start in starts)
    return mix, unit


def set_loss(similarity: Tensor, unusable: Tensor, mix: Tensor, unit: Tensor) -> Tensor:
    """InfoNCE within the batch, and cross-entropy of sets with and without the passage.

    Ranking alone says nothing of questions that no passage answers. So the best score
    and its margin over the rest, in a set with the sufficient passage and in one
    without it, go through a logistic unit of their own.

    Args:
        similarity: as `similarities` returns it; passage i suffices for question i.
        unusable: passages that are neither right nor wrong, of shape (questions, passages).
        mix: weights of the features, of shape (4,).
        unit: of the best score, of its margin, and the bias.

    Returns:
        The mean loss of the batch.

    Source of the ranking loss: van den Oord et al. 2018, InfoNCE.
    """
    torch = optional_import("torch")
    functional = torch.nn.functional
    scores = (similarity * mix).sum(-1).masked_fill(unusable, _OUT)
    n = scores.shape[0]
    own = torch.arange(n)
    ranking = functional.cross_entropy(scores, own)
    others = scores.clone()
    others[own, own] = _OUT
    best = others.topk(min(_SET, others.shape[1]), dim=1).values.clamp_min(_FLOOR)
    answered = torch.cat([scores[own, own][:, None], best[:, : _SET - 1]], dim=1)
    answered = answered.sort(dim=1, descending=True).values
    logits = torch.cat([_set_logit(answered, unit), _set_logit(best, unit)])
    labels = torch.cat([torch.ones(n), torch.zeros(n)])
    total: Tensor = ranking + functional.binary_cross_entropy_with_logits(logits, labels)
    return total


def _set_logit(ordered: Tensor, unit: Tensor) -> Tensor:
    top = ordered[:, 0]
    # A batch of one question against its own passage alone has no rest.
    rest = ordered[:, 1:].mean(1) if ordered.shape[1] > 1 else top
    return unit[0] * top + unit[1] * (top - rest) + unit[2]


def learning_rate(step: int, steps: int, warm_up: int) -> float:
    """Share of the full rate: a linear rise, then half a cosine down to 2 %."""
    rise = min(1.0, (step + 1) / max(1, warm_up))
    return rise * max(0.02, 0.5 * (1.0 + math.cos(math.pi * step / max(1, steps))))
