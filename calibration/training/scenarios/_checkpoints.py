"""The state of an unfinished training on disk, so that a killed one continues."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....guard.errors import InputError, optional_import
from ....guard.files import file_sha256, read_json, write_json

# Between two checkpoints of a training.
SECONDS = 60.0
_STATE = "state.json"
# A step's summed loss, and what it was divided by.
History = list[tuple[float, float]]


class Checkpoint:
    """Stores weights and optimiser of a training about once a minute, beside its folder.

    Args:
        out: folder that the training will write.
        identity: what makes a training this one; the state of another one is not used.
    """

    def __init__(self, out: Path, identity: Mapping[str, Any]) -> None:
        self._folder = out.with_name(f".{out.name}.unfinished")
        self._identity = json.loads(json.dumps(identity))
        self._saved_at = time.monotonic()

    def restore(self, trained: Sequence[Any], optimiser: Any) -> History:
        """Load what a killed training stored; return its steps, none if it stored nothing."""
        try:
            state = read_json(self._folder / _STATE)
            path = self._folder / state["weights"]
            if state["identity"] != self._identity or file_sha256(path) != state["sha256"]:
                return []
        except (InputError, OSError, KeyError, TypeError):
            return []
        torch = optional_import("torch")
        tensors = optional_import("safetensors.torch").load_file(path)
        history = [(float(loss), float(weight)) for loss, weight in state["history"]]
        slots = {}
        for number, one in enumerate(trained):
            one.data.copy_(tensors[f"{number}.weight"])
            slots[number] = {
                "step": torch.tensor(float(len(history))),
                "exp_avg": tensors[f"{number}.exp_avg"],
                "exp_avg_sq": tensors[f"{number}.exp_avg_sq"],
            }
        groups = optimiser.state_dict()["param_groups"]
        optimiser.load_state_dict({"state": slots, "param_groups": groups})
        return history

    def save_when_due(self, trained: Sequence[Any], optimiser: Any, history: History) -> None:
        """Store the state if the last time was a minute ago."""
        if time.monotonic() - self._saved_at < SECONDS:
            return
        tensors = {}
        for number, one in enumerate(trained):
            slot = optimiser.state[one]
            tensors[f"{number}.weight"] = one.detach()
            tensors |= {f"{number}.{name}": slot[name] for name in ("exp_avg", "exp_avg_sq")}
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"step_{len(history)}.safetensors"
        kept = {name: one.contiguous().cpu() for name, one in tensors.items()}
        path.write_bytes(optional_import("safetensors.torch").save(kept))
        state = {"identity": self._identity, "history": history, "weights": path.name}
        write_json(self._folder / _STATE, {**state, "sha256": file_sha256(path)})
        for other in self._folder.glob("step_*.safetensors"):
            if other != path:
                other.unlink()
        self._saved_at = time.monotonic()

    def remove(self) -> None:
        """Remove the state: the training is finished."""
        shutil.rmtree(self._folder, ignore_errors=True)
