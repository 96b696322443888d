"""Labels made from a word per reply."""

from __future__ import annotations

from knowgate.offline_eval.judging.labelling._criteria import HumanLabel


def human_labels(annotator: str, words: str, reply: str = "r{}") -> tuple[HumanLabel, ...]:
    """What somebody said of replies.

    Args:
        annotator: who said it.
        words: one per reply, `yes` or `no` (it abstains), `-` (not labelled), or a digit, the
            tier of a reply that does not abstain.
        reply: pattern of the reply's id, with its number.
    """
    found = []
    for number, word in enumerate(words.split()):
        values = [("abstention", word)] if word != "-" else []
        if word.isdigit():
            values = [("abstention", "no"), ("factuality", f"tier_{word}")]
        found += [
            HumanLabel(
                reply_id=reply.format(number),
                criterion=criterion,
                outcome=outcome,
                annotator=annotator,
            )
            for criterion, outcome in values
        ]
    return tuple(found)
