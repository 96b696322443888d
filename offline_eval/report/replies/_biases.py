"""What was found out about the judges of a run before they judged it."""

from __future__ import annotations

from ...judge_bias import bias_warnings
from ...replies import RepliesRun


def judge_warnings(run: RepliesRun) -> dict[str, tuple[str, ...]]:
    """Sentences by judge, of those that gave a verdict; often none.

    Raises:
        InputError: the run's `judge_bias.json` is broken.
    """
    judges = {judgement.judge for judgement in run.judgements.values()}
    return bias_warnings(run.folder, judges)
