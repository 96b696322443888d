"""Sample logs of the lm-evaluation-harness (`--log_samples`), read."""

from __future__ import annotations

from ._samples import Sample, SampleLog, read_samples

__all__ = ["Sample", "SampleLog", "read_samples"]
