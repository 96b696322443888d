"""Write the ONNX graph of the embedded encoder, without its weights.

    python -m tools.embedded_graph

The weights come from the safetensors file when the graph is loaded, with or without an adapter.
Initializers have the names of the tensors that belong there; `.T` stands for transposed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from knowgate.guard.engine._onnx_backend import EMBEDDED_GRAPH, TRANSPOSED
from knowgate.guard.engine._torch_backend import load_torch
from knowgate.guard.engine.backends import Runtime
from knowgate.guard.engine.onnx_export import ENCODER_OUTPUTS, write_graph

# Numbers that are no weights, such as those of attention, stay in the graph.
_SMALLEST = 2_000


def main() -> None:
    """Write the graph into the package."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    loaded = load_torch(None, Runtime(device="cpu"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        write_graph(loaded, path, ENCODER_OUTPUTS)
        model = onnx.load(str(path))
    weights = {name: tensor.numpy() for name, tensor in loaded.model.weights.items()}
    renamed = {}
    for constant in model.graph.initializer:
        values = onnx.numpy_helper.to_array(constant)
        found = _names(values, weights)
        if found:
            [name] = found
            renamed[constant.name] = constant.name = name
            onnx.external_data_helper.set_external_data(constant, location="weights")
            constant.ClearField("raw_data")
            constant.data_location = onnx.TensorProto.EXTERNAL
        elif values.nbytes > _SMALLEST:
            raise ValueError(f"{constant.name} is none of the model's weights")
    for node in model.graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    EMBEDDED_GRAPH.write_bytes(model.SerializeToString(deterministic=True))
    print(f"{EMBEDDED_GRAPH}: {EMBEDDED_GRAPH.stat().st_size:,} bytes, {len(renamed)} weights")


def _names(values: Any, weights: dict[str, Any]) -> list[str]:
    plain = [name for name, one in weights.items() if np.array_equal(one, values)]
    if plain or values.ndim != 2:
        return plain
    return [name + TRANSPOSED for name, one in weights.items() if np.array_equal(one.T, values)]


if __name__ == "__main__":
    main()
