"""`knowgate export-onnx`: a scorer as ONNX graphs, checked against torch."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ...guard.errors import InputError
from ...guard.files import new_folder, read_jsonl, require_new_folder
from ...guard.signals.relevance import export_scorer
from ._app import app
from ._console import out, print_figures, prints_figures

# Marks the folder as whole, so it comes last; scorers of several encoders have their folders last.
_LAST_FILE = "exported.json"
_HINT = 'each line needs "question" (text) and "passages" (a list of texts)'


@app.command("export-onnx")
@prints_figures
def export_onnx(
    scorer: Annotated[
        str,
        typer.Argument(help="Scorer by name, or a tuned, encoder or reranker folder."),
    ],
    out_dir: Annotated[Path, typer.Option("--out", help="Folder to write; new or empty.")],
    calibration_data: Annotated[
        Path,
        typer.Option(
            help='Pairs to check the scores on, JSON lines: {"question", "passages"}; with '
            "--int8 half of them give the scales."
        ),
    ],
    int8: Annotated[bool, typer.Option("--int8", help="Quantise weights and activations.")] = False,
    float16: Annotated[
        bool, typer.Option("--float16", help="Half precision, for a CUDA device.")
    ] = False,
) -> None:
    """Write a scorer as ONNX graphs, and check its scores against torch.

    Adapters are merged. The folder is used as `--scorer DIR`, computed by ONNX Runtime
    (`pip install 'knowgate[onnx]'`, or `knowgate[onnx-gpu]` for CUDA). A folder is written
    only if scores agree on the pairs that were given: to 1e-5 in float32, with a rank
    correlation of .99 in int8 and float16. A policy is bound to the scorer that it was
    calibrated on: calibrate again with the exported one.

    Example: `knowgate export-onnx sufficiency --out DIR --int8 --calibration-data pairs.jsonl`
    """
    if int8 and float16:
        raise InputError("--int8 and --float16 are mutually exclusive")
    pairs = _pairs(calibration_data)
    dtype = "int8" if int8 else "float16" if float16 else "float32"
    require_new_folder(out_dir)
    with new_folder(out_dir, last=_LAST_FILE) as work:
        report = export_scorer(scorer, work, pairs, dtype=dtype)
    print_figures({**asdict(report), "folder": out_dir})
    correlation = "—" if report.correlation is None else f"{report.correlation:.4f}"
    out.print(
        f"{report.kind} in {report.dtype}, {report.bytes / 1e6:.0f} MB → {out_dir}", markup=False
    )
    out.print(
        f"against torch on {report.pairs} pairs: largest difference {report.difference:.1e}, "
        f"rank correlation {correlation}",
        markup=False,
    )


def _pairs(path: Path) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for number, value in read_jsonl(path):
        question, passages = value.get("question"), value.get("passages")
        listed = passages if isinstance(passages, list) else []
        texts = [text for text in listed if isinstance(text, str)]
        if not isinstance(question, str) or passages != texts:
            raise InputError(
                "is not a question with passages", where=f"{path}:{number}", hint=_HINT
            )
        found += [(question, text) for text in texts]
    return found
