"""The labelling page in a browser: clicked through, by keyboard, with hostile texts."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from knowgate.offline_eval.judging.labelling import Labels
from knowgate.offline_eval.judging.labelling._criteria import open_sample
from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.judging.llm_judge import LabelCriterion
from knowgate.offline_eval.run import RepliesRun
from knowgate.offline_eval.web import PageServer, label_app
from tests.offline_eval.judging.labelling.conftest import Serve
from tests.offline_eval.judging.labelling.toy_replies import toy_run

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
# Milliseconds until a page shows what it must; a busy machine takes long.
WAIT = 60_000
playwright.expect.set_options(timeout=WAIT)
expect = playwright.expect

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def show(browser: Any, serve: Serve) -> Iterator[Open]:
    """Opens a session's page; at the end nothing may have been complained about."""
    contexts, complaints = [], []

    def opened(session: LabelSession, **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                complaints.append(request.url)
                if not request.url.startswith(("http://127.0.0.1:", "data:"))
                else None
            ),
        )
        page.goto(serve(session))
        page.locator("main:not([hidden])").wait_for()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def session_of(run: RepliesRun, name: str = "anna", size: int = 4) -> LabelSession:
    return LabelSession.annotate(run, name, size=size)


def at(page: Any, words: str) -> None:
    """Wait until the page shows a reply."""
    page.get_by_role("heading", level=1, name=words).wait_for()


def votes(run: RepliesRun, criterion: str) -> list[str]:
    return sorted(
        outcome
        for vote in Labels.read(run.folder).votes(criterion).values()
        for outcome in vote.values()
    )


def test_clicking_through_labels_everything(run: RepliesRun, show: Open) -> None:
    session = session_of(run)
    page = show(session)
    at(page, "Reply 1 of 4")
    page.get_by_role("button", name="yes").click()
    at(page, "Reply 2 of 4")
    session.note(1, "of another tab")
    expect(page.get_by_text("expected answer?")).to_be_hidden()
    page.get_by_role("button", name=re.compile("^no")).click()
    page.get_by_role("button", name="tier_2").click()
    at(page, "Reply 3 of 4")
    page.get_by_role("button", name="Skip").click()
    at(page, "Reply 4 of 4")
    page.get_by_role("textbox", name="Note").fill("half an answer")
    page.get_by_role("button", name=re.compile("^no")).click()
    page.get_by_role("button", name="tier_3").click()
    at(page, "All done")

    expect(page.get_by_text("3 of 4 replies labelled, 1 skipped.")).to_be_visible()
    page.get_by_role("button", name="Go over the skipped ones").click()
    at(page, "Reply 3 of 4, skipped")
    page.get_by_role("button", name="yes").click()
    at(page, "All done")
    assert votes(run, "abstention") == ["no", "no", "yes", "yes"]
    assert votes(run, "factuality") == ["tier_2", "tier_3"]
    labels = Labels.read(run.folder)
    noted = [labels.notes(reply) for reply in labels.votes("abstention")]
    assert noted.count({"anna": "half an answer"}) == 1
    assert noted.count({"anna": "of another tab"}) == 1


def test_the_keyboard_does_everything(run: RepliesRun, show: Open) -> None:
    page = show(session_of(run))
    at(page, "Reply 1 of 4")
    page.keyboard.press("n")
    page.locator("fieldset.active", has_text="expected answer").wait_for()
    page.keyboard.press("1")
    at(page, "Reply 2 of 4")
    page.keyboard.press("2")
    page.locator("fieldset.active", has_text="expected answer").wait_for()
    page.keyboard.press("u")
    page.locator("fieldset.active", has_text="abstain").wait_for()
    page.keyboard.press("s")
    at(page, "Reply 3 of 4")
    page.keyboard.press("e")
    page.keyboard.type("yes no 123 s")
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    at(page, "Reply 2 of 4, skipped")
    page.keyboard.press("ArrowRight")
    at(page, "Reply 3 of 4")
    expect(page.get_by_role("textbox", name="Note")).to_have_value("yes no 123 s")
    page.keyboard.press("y")
    at(page, "Reply 4 of 4")
    page.keyboard.press("Y")
    at(page, "All done")
    page.keyboard.press("u")
    at(page, "Reply 4 of 4")

    assert votes(run, "abstention") == ["no", "yes"]
    assert votes(run, "factuality") == ["tier_1"]


def test_nothing_on_the_page_tells_who_replied_or_what_judges_said(
    run: RepliesRun, show: Open
) -> None:
    seen = []
    page = show(session_of(run, size=8))
    page.on("response", lambda response: seen.append(response.text()))
    for number in range(1, 9):
        at(page, f"Reply {number} of 8")
        page.keyboard.press("y")
    at(page, "All done")
    everything = "".join(seen) + page.content()

    assert "day ticket" in everything
    for secret in ("alpha", "guard", "secret-policy", "hidden-judge", "judged-by", "left_out"):
        assert secret not in everything


HOSTILE = (
    "</script><script>document.title='hacked'</script><img src=x onerror=document.title='hacked'>"
    '" onmouseover="document.title=1" {{ 7 * 7 }} \x00\u202e reversed \u2028 שלום <b>'
)


def test_hostile_texts_stay_texts(tmp_path: Path, show: Open) -> None:
    run = toy_run(
        tmp_path / "run",
        bases={"parks": 1},
        response=lambda *_: HOSTILE,
        citation=HOSTILE,
        question=HOSTILE,
    )
    criterion = LabelCriterion(
        name="<i>tone", question=HOSTILE, outcomes=("<b>kind", "rude"), meanings=(HOSTILE, "")
    )
    open_sample(run, criteria=[criterion])
    page = show(LabelSession.annotate(run, "anna"))
    at(page, "Reply 1 of 2")

    assert page.title() == "Labelling as anna"
    assert page.locator("main img, main script, main b, main i").count() == 0
    for part in ("#response", "#question", "#citation-text", "legend", ".meaning"):
        assert "<script>document.title='hacked'</script>" in page.locator(part).first.inner_text()
    assert "\u202e" not in page.content()
    page.keyboard.press("1")
    at(page, "Reply 2 of 2")
    assert votes(run, "<i>tone") == ["<b>kind"]


def test_a_server_that_went_away_is_said_and_nothing_is_claimed(
    run: RepliesRun, browser: Any, socket_enabled: None
) -> None:
    with PageServer(label_app(session_of(run))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        page = browser.new_page()
        page.set_default_timeout(WAIT)
        page.goto(server.url)
        at(page, "Reply 1 of 4")
        page.route("**/*", lambda route: route.abort())
        # A page goes on by its old way for a moment, so that a request may still get through.
        page.wait_for_function("() => fetch('state').then(() => false, () => true)")
        page.keyboard.press("y")
        expect(page.get_by_role("alert")).to_contain_text("does not answer")
        expect(page.get_by_text("0 of 4 labelled")).to_be_visible()
        page.unroute_all()
        page.wait_for_function("() => fetch('state').then(() => true, () => false)")
        page.keyboard.press("y")
        at(page, "Reply 2 of 4")
        expect(page.get_by_role("alert")).to_be_hidden()
        page.close()
        server.stop()
        thread.join()


def test_a_screen_reader_is_told_what_happens(run: RepliesRun, show: Open) -> None:
    page = show(session_of(run))
    at(page, "Reply 1 of 4")
    expect(page.locator("#heading")).to_be_focused()
    page.keyboard.press("n")
    page.locator("fieldset.active", has_text="expected answer").wait_for()

    expect(page.locator("[aria-live=polite]")).to_have_text("Stored abstention: no.")
    expect(page.locator("fieldset.active")).to_be_focused()
    nameless = page.evaluate(
        """[...document.querySelectorAll('button, input, textarea, progress, fieldset')]
           .filter(e => !(e.textContent.trim() || (e.labels && e.labels.length)
                          || e.getAttribute('aria-labelledby'))).length"""
    )
    assert nameless == 0
    assert page.locator("html").get_attribute("lang") == "en"
