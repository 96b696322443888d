"""Letting a policy answer from memory, by a threshold that nobody certified."""

from __future__ import annotations

from ...guard import Guarantee, Policy, Route


def with_answers_from_memory(policy: Policy, threshold: float) -> Policy:
    """`policy`, also answering from memory where the context does not pass.

    This suite measures relevance, not confidence: the threshold is declared, and the
    guarantee's statement says that it is not certified.

    Args:
        policy: certified or not; its promise about contexts that pass is unchanged.
        threshold: from this confidence on, in (0, 1].
    """
    guarantee = policy.guarantee
    return policy.model_copy(
        update={
            "confidence_threshold": float(threshold),
            "allowed_routes": (Route.FOLLOW_CONTEXT, Route.ANSWER, Route.ABSTAIN),
            "guarantee": None if guarantee is None else _with_exception(guarantee, threshold),
        }
    )


def _with_exception(guarantee: Guarantee, threshold: float) -> Guarantee:
    # Without a certificate the statement says that the policy always abstains.
    lead = "Apart from that" if guarantee.certified else "There is one exception to abstaining"
    statement = (
        f"{guarantee.statement} {lead}: where the context does not pass, the model answers "
        f"from memory, without the context, if its confidence is at least {float(threshold)}. "
        "That threshold was declared and is not certified: nothing is promised about how "
        "often such an answer is right."
    )
    return guarantee.model_copy(update={"statement": statement})
