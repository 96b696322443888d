"""Ask a language model about many cases, so that a failure costs one case only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ...guard.contracts import Generation, LanguageModel, PartialGenerationsError
from ...guard.errors import InputError, KnowgateError, LanguageModelError

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


def generate_each(
    lm: LanguageModel,
    prompts: Sequence[str],
    *,
    n: int = 1,
    temperature: float = 0.0,
    seed: int | None = None,
) -> list[list[Generation] | KnowgateError]:
    """Generate `n` texts for each prompt; an error in the place of those that failed.

    Equal prompts are asked once. If a call fails for some prompts, the others' texts are
    kept and the failed ones are not asked again: such a model has retried them itself. If a
    call fails as a whole, its prompts are asked one by one.

    Args:
        lm: the model.
        prompts: any number.
        n: generations per prompt.
        temperature: 0 for greedy answers.
        seed: of the first generation to each prompt.

    Raises:
        InputError: an argument is out of the model's range.
    """

    def call(some: Sequence[str]) -> list[list[Generation] | KnowgateError]:
        try:
            rows = lm.generate(some, n=n, temperature=temperature, seed=seed)
        except PartialGenerationsError as error:
            return [
                list(row) if len(row) == n else cause or error
                for row, cause in zip(error.generations, error.errors, strict=True)
            ]
        if any(len(row) != n for row in rows):
            raise LanguageModelError(f"the model gave another number of answers than {n}")
        return list(rows)

    different = list(dict.fromkeys(prompts))
    found = dict(zip(different, each_or_error(call, different), strict=True))
    return [found[prompt] for prompt in prompts]


def each_or_error(
    call: Callable[[Sequence[_Item]], Sequence[_Found | KnowgateError]], items: Sequence[_Item]
) -> list[_Found | KnowgateError]:
    """Call for all items together; if that fails, for each item by itself.

    Args:
        call: gives one value, or an error, per item, in order.
        items: any number.

    Returns:
        For each item its value, or the error that its own call raised.

    Raises:
        InputError: an argument is out of the model's range.
    """
    if not items:
        return []
    try:
        found = list(call(items))
        if len(found) != len(items):
            raise LanguageModelError(f"the model gave {len(found)} answers to {len(items)} prompts")
        return found
    except InputError:
        raise  # of the arguments, not of one prompt
    except KnowgateError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 - a foreign model may raise anything
        # The message of a foreign error may quote the prompt: only its type is kept.
        failure = LanguageModelError(f"the model raised {type(error).__name__}")
        failure.__cause__ = error
    if len(items) == 1:
        return [failure]
    return [found for item in items for found in each_or_error(call, [item])]
