"""Write a scorer as ONNX graphs, and check its scores against torch.

    python -m tools.export_onnx SCORER --out DIR --pairs pairs.jsonl [--dtype int8]

Adapters are merged. The folder is used as `--scorer DIR`, computed by ONNX Runtime
(`pip install 'knowgate[onnx]'`, or `knowgate[onnx-gpu]` for CUDA). It is written only if scores
agree on the pairs that were given: to 1e-5 in float32, with a rank correlation of .99 in int8 and
float16. A policy is bound to the scorer that it was calibrated on: calibrate again with the
exported one. Needs `pip install 'knowgate[onnx-export]'`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from knowgate.guard.files import new_folder, read_jsonl
from knowgate.guard.signals.relevance import export_scorer

# Marks the folder as whole, so it comes last; scorers of several encoders have their folders last.
_LAST_FILE = "exported.json"


def export(scorer: str, out: Path, pairs: Path, dtype: str = "float32") -> str:
    """Write the graphs; return what was written and how its scores compare.

    Args:
        scorer: by name, or a tuned, encoder or reranker folder.
        out: folder to write; new or empty.
        pairs: JSON lines with `question` and `passages`; with int8 half of them give the scales.
        dtype: float32, float16 (for a CUDA device) or int8 (weights and activations).
    """
    texts = [(one["question"], text) for _, one in read_jsonl(pairs) for text in one["passages"]]
    with new_folder(out, last=_LAST_FILE) as work:
        report = export_scorer(scorer, work, texts, dtype=dtype)
    correlation = "—" if report.correlation is None else f"{report.correlation:.4f}"
    return (
        f"{report.kind} in {report.dtype}, {report.bytes / 1e6:.0f} MB → {out}\n"
        f"against torch on {report.pairs} pairs: largest difference {report.difference:.1e}, "
        f"rank correlation {correlation}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scorer")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--dtype", choices=["float32", "float16", "int8"], default="float32")
    given = parser.parse_args()
    print(export(given.scorer, given.out, given.pairs, given.dtype))
