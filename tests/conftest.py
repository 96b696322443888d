"""What all tests share: no hub, no network, calm threads, the optional public data."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import hypothesis
import pytest

from tests.support.paths import SHARED_DATA

if TYPE_CHECKING:
    from knowgate.adapters.huggingface import HuggingFaceLM

# Before anything imports torch or a hub client.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# One process of pytest-xdist per core is enough; the models of the tests are small.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Where a shell started the tests in the background, no program of theirs could be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine must not fail a property that holds.
_PATIENT: dict[str, Any] = {
    "deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow],
}  # fmt: skip
# The same examples in every run, so that more of them find nothing new the next time;
# `--hypothesis-profile explore` draws others, and more.
hypothesis.settings.register_profile("default", **_PATIENT, derandomize=True, max_examples=20)
hypothesis.settings.register_profile("explore", **_PATIENT, max_examples=1000)
hypothesis.settings.register_profile("fast", **_PATIENT, derandomize=True, max_examples=10)
hypothesis.settings.load_profile("default")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without collections of garbage, which later do not go through what is imported."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        # Libraries that tests import later are large too: collect a fiftieth as often.
        gc.set_threshold(35_000, 10, 10)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[Any], list[Any]]:
    """Look for examples in the docstrings of the product alone: tests have none."""
    found = yield
    return [one for one in found if type(one).__name__ != "DoctestModule"]


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Tests kill processes, but nobody cuts the power: what `fsync` is for takes milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        yield


# As it was when the tests began: some of them set another.
_MODEL_CACHE = os.environ.get("KNOWGATE_TEST_CACHE") or os.environ.get("KNOWGATE_CACHE")


@pytest.fixture(scope="session")
def smollm2_cache() -> str | None:
    """What `KNOWGATE_CACHE` must be for `smollm2` to be found; tests skip where it is not.

    It is looked for in `$KNOWGATE_TEST_CACHE`, else where users have it; None is their default.
    """
    import transformers

    from knowgate.adapters.huggingface import model_folder
    from knowgate.guard.errors import ModelFolderError

    if not hasattr(transformers, "GgufConfig"):
        pytest.skip("transformers is too old for GGUF files")
    _wait_for_model()
    with pytest.MonkeyPatch.context() as patch:
        _set_model_cache(patch, _MODEL_CACHE)
        try:
            model_folder("smollm2")
        except ModelFolderError as error:
            pytest.skip(str(error))
    return _MODEL_CACHE


@pytest.fixture(scope="session")
def smollm2(smollm2_cache: str | None) -> HuggingFaceLM:
    """SmolLM2-135M-Instruct, loaded once a process; its answers end at a line end or 16 tokens."""
    from knowgate.adapters.huggingface import HuggingFaceLM

    with pytest.MonkeyPatch.context() as patch:
        _set_model_cache(patch, smollm2_cache)
        return HuggingFaceLM.bundled("smollm2", max_new_tokens=16)


@pytest.fixture
def ms_marco(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scorer `ms-marco` can be loaded; tests skip where it was not downloaded."""
    from knowgate.guard.errors import ModelFolderError
    from knowgate.guard.model_files import reranker_folder

    _wait_for_model()
    _set_model_cache(monkeypatch, _MODEL_CACHE)
    try:
        reranker_folder()
    except ModelFolderError as error:
        pytest.skip(str(error))


def _wait_for_model() -> None:
    """Wait while another process gets the models, as `.ci/run` does beside the first tests."""
    lock = os.environ.get("KNOWGATE_TEST_MODEL_LOCK")
    if lock is not None:
        with contextlib.suppress(filelock.Timeout), filelock.FileLock(lock, timeout=250):
            pass


def _set_model_cache(patch: pytest.MonkeyPatch, folder: str | None) -> None:
    if folder is None:
        patch.delenv("KNOWGATE_CACHE", raising=False)
    else:
        patch.setenv("KNOWGATE_CACHE", folder)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data beside the checkout; tests that need it skip without it."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the public test data is not beside this checkout (../shared/data)")
    return SHARED_DATA
