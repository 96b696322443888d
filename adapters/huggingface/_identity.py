"""What identifies a model: its weights, its tokenizer and how it is asked."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import Any

from ._loading import state_sha256, tokenizer_sha256, weights_sha256
from ._lora import AdapterFolder


class ModelIdentity:
    """Hashes of a model, each computed on first use.

    Args:
        model: the model, hashed itself when it came from no files.
        tokenizer: its tokenizer.
        weight_files: where the weights came from, in name order.
        known_sha256: their sha256 where it was computed already.
        adapter: what was merged into the weights, None without one.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        weight_files: list[Path] | None,
        known_sha256: str | None,
        *,
        adapter: AdapterFolder | None = None,
    ) -> None:
        # Hashed at once: the folder may hold another adapter by the time it is asked for.
        self._adapter = None if adapter is None else adapter.sha256()
        self._model, self._tokenizer, self._files = model, tokenizer, weight_files
        self._weights, self._rules = known_sha256, ""
        self._lock = threading.Lock()

    def weights_sha256(self) -> str:
        """sha256 of the weight files, or of the tensors where there are no files."""
        with self._lock:
            if self._weights is None:
                self._weights = (
                    weights_sha256(self._files) if self._files else state_sha256(self._model)
                )
            return self._weights

    def fingerprint(self, settings: dict[str, Any]) -> str:
        """One line that changes with the weights, an adapter, the tokenizer or `settings`."""
        weights = self.weights_sha256()
        with self._lock:
            self._rules = self._rules or tokenizer_sha256(self._tokenizer)
        parts = {"weights": weights, "tokenizer": self._rules, **settings}
        if self._adapter is not None:
            parts["adapter"] = self._adapter
        text = json.dumps(parts, sort_keys=True)
        return f"huggingface:{hashlib.sha256(text.encode()).hexdigest()}"


def context_window(config: Any) -> int | None:
    """Tokens that prompt and answer may have together, None when the model states none."""
    text_config = config.get_text_config() if hasattr(config, "get_text_config") else config
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"):
        value = getattr(text_config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None


def end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end an answer, by the generation settings, the config or the tokenizer."""
    found: set[int] = set()
    holders = (getattr(model, "generation_config", None), model.config, tokenizer)
    for holder in holders:
        value = getattr(holder, "eos_token_id", None)
        if isinstance(value, int):
            found.add(value)
        elif value is not None:
            found.update(int(token) for token in value)
    return frozenset(found)
