"""Every check and benchmark that needs a GPU, in one run of at most nine minutes.

    python benchmarks/gpu.py --out DIR [--device cuda] [--size full] [--minutes 9]
    python benchmarks/gpu.py --out DIR --device cpu --size tiny    # the script itself, in a minute

It needs no network, no test library, and of knowgate's requirements those of `knowgate.guard`
and of `knowgate.adapters.huggingface`. Sections run one after the other, each in a process of
its own and with a limit of time: one that fails or hangs is reported, and the rest goes on. The
embedded model's weights are used where they are installed, random ones of the same shape
elsewhere: parity and speed do not depend on what weights say.

Written to DIR: `gpu.json` with every number, and `gpu.md` with a table, both with device,
versions and date. The exit status is 1 when a check fails.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu_models import Run, installed
from gpu_sections import SECTIONS

LIBRARIES = ("torch", "transformers", "sentence-transformers", "accelerate", "peft")


def run_section(name: str, run: Run) -> dict[str, Any]:
    """Run one section here; what it found, or how it failed."""
    began = time.monotonic()
    try:
        SECTIONS[name][0](run)
        error = None
    except Exception as failure:  # noqa: BLE001 - every failure is reported, and the rest goes on
        error = f"{type(failure).__name__}: {failure}"[:500]
    return {
        "seconds": round(time.monotonic() - began, 1),
        "error": error,
        "checks": run.checks,
        "found": run.found,
    }


def run_apart(name: str, run: Run, seconds: float) -> dict[str, Any]:
    """Run one section in a process of its own, which is ended at the limit.

    It is forked from this one, which has the libraries and has not touched the device.
    """
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    child = fork.Process(target=_send, args=(theirs, name, run))
    child.start()
    theirs.close()
    try:
        if ours.poll(seconds):
            return dict(json.loads(ours.recv()))
        error = f"not done after {seconds:.0f} s"
    except EOFError:
        child.join(10)
        error = f"ended with status {child.exitcode}"
    finally:
        child.kill()
        child.join(10)
    return {"seconds": round(seconds, 1), "error": error, "checks": {}, "found": {}}


def _send(pipe: Any, name: str, run: Run) -> None:
    pipe.send(json.dumps(run_section(name, run)))
    pipe.close()


def import_libraries() -> None:
    """Import what sections need, once for all of them."""
    for name in (
        "sentence_transformers",
        "knowgate.adapters.huggingface._lm",
        "knowgate.guard.engine",
        "knowgate.guard.signals.relevance",
        "knowgate.calibration.training.scenarios",
    ):
        # A section that needs what is missing says so.
        with suppress(ImportError):
            importlib.import_module(name)


def header(device: str) -> dict[str, Any]:
    """Device, versions and date."""
    import torch

    found = {name: metadata.version(name) for name in LIBRARIES if installed(name)}
    cuda = device.startswith("cuda") and torch.cuda.is_available()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "device": torch.cuda.get_device_name(0) if cuda else f"{platform.machine()} CPU",
        "cuda": torch.version.cuda if cuda else None,
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "versions": found,
    }


def markdown(report: dict[str, Any]) -> str:
    """The report as tables."""
    about = report["about"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines = [f"{about['device']}, CUDA {about['cuda']}, {about['date']}; {versions}", ""]
    lines += ["| section | check | value | limit | holds |", "|---|---|---|---|---|"]
    for name, section in report["sections"].items():
        if section["error"]:
            lines.append(f"| {name} | {section['error']} |  |  | **no** |".replace("\n", " "))
        for what, one in section["checks"].items():
            holds = "yes" if one["holds"] else "**no**"
            lines.append(f"| {name} | {what} | {one['value']:.3g} | {one['limit']:g} | {holds} |")
    keys = ("p50_ms", "p99_ms", "pairs_per_s", "questions_per_s", "speed", "of_gemm")
    lines += ["", f"| section | what | {' | '.join(keys)} |", "|---|---|" + "---|" * len(keys)]
    for name, section in report["sections"].items():
        for what, one in section["found"].items():
            if isinstance(one, dict):
                numbers = [f"{one[key]:.3g}" if key in one else "" for key in keys]
                lines.append(f"| {name} | {what} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gpu-report"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", choices=("tiny", "full"), default="full")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--only", nargs="*", choices=tuple(SECTIONS), help="these sections")
    parser.add_argument("--in-process", action="store_true", help="no process per section")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the sections and write the report; 1 when a check fails or a section does."""
    options = arguments(given)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    end = time.monotonic() + options.minutes * 60
    sections: dict[str, Any] = {}
    names = options.only or list(SECTIONS)
    import_libraries()
    with tempfile.TemporaryDirectory() as place:
        for number, name in enumerate(names):
            # What earlier sections did not use goes to the later ones.
            left = sum(SECTIONS[one][1] for one in names[number:])
            seconds = max(1.0, (end - time.monotonic()) * SECTIONS[name][1] / left)
            # A section stops measuring before it is ended.
            until = time.monotonic() + 0.9 * seconds
            run = Run(options.device, options.size == "tiny", Path(place), until)
            if options.in_process:
                sections[name] = run_section(name, run)
            else:
                sections[name] = run_apart(name, run, seconds)
            failed = sections[name]["error"]
            print(f"{name}: {sections[name]['seconds']} s{', ' + failed if failed else ''}")
    report = {"about": header(options.device), "sections": sections}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gpu.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (options.out / "gpu.md").write_text(markdown(report), encoding="utf-8")
    print(markdown(report))
    sound = all(
        one["error"] is None and all(check["holds"] for check in one["checks"].values())
        for one in sections.values()
    )
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
