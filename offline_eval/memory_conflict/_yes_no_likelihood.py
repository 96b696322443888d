"""Yes or no by likelihood, whichever way a model would write it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...guard import LanguageModelError, ScoringLanguageModel

# After a bare prompt the word comes with a space, in a chat without, and in either case.
_YES = (" yes", " Yes", "yes", "Yes")
_NO = (" no", " No", "no", "No")


def yes_no_likelihoods(
    lm: ScoringLanguageModel, prompts: Sequence[str]
) -> list[tuple[float, float]]:
    """Natural-log likelihoods of yes and of no after each prompt, summed over spellings.

    Raises:
        LanguageModelError: the model failed, or gave a likelihood that is not finite.
    """
    values = lm.score_options(prompts, [*_YES, *_NO])
    if not np.isfinite(values).all():
        raise LanguageModelError("the model gave a likelihood that is not finite")
    yes = np.logaddexp.reduce(values[:, : len(_YES)], axis=1)
    no = np.logaddexp.reduce(values[:, len(_YES) :], axis=1)
    return list(zip(yes.tolist(), no.tolist(), strict=True))
