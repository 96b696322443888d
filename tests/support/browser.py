"""Pages in Chromium: one browser, complaints of its console, and what axe-core finds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
# Milliseconds until a page shows what it must; a busy machine takes long.
WAIT = 60_000


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the installed Chromium; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    playwright.expect.set_options(timeout=WAIT)
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page_of(browser: Any, **options: Any) -> Iterator[Any]:
    """Open an empty page of its own context; afterwards nothing may have been complained about.

    Args:
        browser: as `chromium` gives it.
        options: of `new_context`, such as `color_scheme` and `viewport`.
    """
    context = browser.new_context(**options)
    complaints: list[str] = []
    page = context.new_page()
    page.set_default_timeout(WAIT)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        yield page
    finally:
        context.close()
    assert complaints == []


def serious_findings(page: Any) -> list[str]:
    """Run axe-core on the page: its serious and critical findings, with where they are."""
    axe = pytest.importorskip(
        "axe_playwright_python.base", reason="axe-playwright-python is not installed"
    )
    page.evaluate(axe.AXE_SCRIPT)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [
        f"{finding['id']}: {finding['help']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for finding in found
        if finding["impact"] in ("serious", "critical")
        for node in finding["nodes"][:5]
    ]
