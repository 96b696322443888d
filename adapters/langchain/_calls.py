"""Calling the parts of a chain as children of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import patch_config

RunManager = CallbackManagerForChainRun | AsyncCallbackManagerForChainRun


def child_config(config: RunnableConfig, run_manager: RunManager, part: str) -> RunnableConfig:
    """The config under which `part` runs as a child of the chain's run."""
    return patch_config(config, callbacks=run_manager.get_child(f"guarded_rag:{part}"))


def child_configs(
    configs: Sequence[RunnableConfig],
    run_managers: Sequence[RunManager],
    indices: Iterable[int],
    part: str,
) -> list[RunnableConfig]:
    """As `child_config`, for the inputs of a batch at `indices`."""
    return [child_config(configs[index], run_managers[index], part) for index in indices]


def together(
    runnable: Runnable[Any, Any], inputs: list[Any], configs: list[RunnableConfig], **kwargs: Any
) -> list[Any]:
    """One batch: outputs, or exceptions in their place."""
    try:
        return runnable.batch(inputs, configs, return_exceptions=True, **kwargs)
    except Exception as error:  # noqa: BLE001 - a batch of its own kind failed as a whole
        return [error] * len(inputs)


async def atogether(
    runnable: Runnable[Any, Any], inputs: list[Any], configs: list[RunnableConfig], **kwargs: Any
) -> list[Any]:
    """As `together`, without blocking the event loop."""
    try:
        return await runnable.abatch(inputs, configs, return_exceptions=True, **kwargs)
    except Exception as error:  # noqa: BLE001 - a batch of its own kind failed as a whole
        return [error] * len(inputs)
