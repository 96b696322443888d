"""Viewer, labelling page and playground in Chromium: keys, words that match, accessibility."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from knowgate.offline_eval.judging.labelling.review_session import ReviewSession
from knowgate.offline_eval.judging.labelling.session import LabelSession
from knowgate.offline_eval.run import RepliesRun
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.web import (
    PageServer,
    Playground,
    index_runs,
    label_app,
    play_app,
    view_app,
)
from tests.offline_eval.judging.labelling.reviewing.small_run import write_small_run
from tests.offline_eval.web.runs import replies_run
from tests.offline_eval.web.test_play import TEXTS, chain_of
from tests.support.browser import CHROMIUM, chromium, page_of, serious_findings

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
NARROW = {"width": 380, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replies_run(tmp_path_factory.mktemp("browser") / "run", questions=12)


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    with PageServer(app) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.url
        finally:
            server.stop()
            thread.join()


def is_narrow_enough(page: Any) -> bool:
    root = "document.documentElement"
    return bool(page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth"))


def test_runs_are_looked_through_by_keyboard(run: Path, browser: Any, socket_enabled: None) -> None:
    from playwright.sync_api import expect

    with ExitStack() as stack:
        index = index_runs([run])
        url = stack.enter_context(served(view_app(*index)))
        page = stack.enter_context(page_of(browser, color_scheme="dark", viewport=NARROW))
        page.goto(url)
        expect(page.get_by_text("48 of 48 rows")).to_be_visible()
        assert "token" not in page.url
        assert is_narrow_enough(page)
        page.keyboard.press("/")
        page.keyboard.type('"pool 7"')
        with page.expect_navigation():  # keys count once the page's script has run
            page.keyboard.press("Enter")
        expect(page.get_by_text("4 of 48 rows")).to_be_visible()
        page.keyboard.press("j")
        page.keyboard.press("j")
        expect(page.locator(".row.current")).to_contain_text("plain")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("When does pool 7 open?")
        expect(page.locator("#passages mark").first).to_have_text("pool")
        assert serious_findings(page) == []
        assert is_narrow_enough(page)
        with page.expect_navigation():
            page.keyboard.press("j")
        expect(page.locator(".route")).to_have_text("follow context")
        expect(page.locator("#reply-status")).to_have_text(re.compile("1 of 2 sentences"))
        page.locator("#reply .sentence").first.click()
        expect(page.locator("#passages mark.cited")).to_have_text("The pool 7 opens at 7.")
        assert serious_findings(page) == []
        with page.expect_navigation():
            page.keyboard.press("u")
        expect(page.get_by_text("4 of 48 rows")).to_be_visible()


def test_a_chain_is_tried_and_a_passage_struck_out(
    tmp_path: Path, browser: Any, socket_enabled: None
) -> None:
    from playwright.sync_api import expect

    ground = Playground(chain_of(), "pool", tmp_path / "saved.jsonl")
    with served(play_app(ground)) as url, page_of(browser, viewport=NARROW) as page:
        page.goto(url)
        page.keyboard.type("When does the pool open?")
        page.keyboard.press("Enter")
        expect(page.locator("#reply")).to_contain_text("nine.")
        expect(page.locator("#decision")).to_contain_text("follow context")
        expect(page.locator("#passages mark").first).to_be_visible()
        assert serious_findings(page) == []
        assert is_narrow_enough(page)
        page.keyboard.press("Escape")
        page.keyboard.press("1")
        expect(page.locator("#decision")).to_contain_text("abstain")
        expect(page.get_by_role("button", name="Strike out passage 1")).to_have_attribute(
            "aria-pressed", "true"
        )
        page.get_by_label("Right answer").fill("At nine.")
        page.get_by_label("Passage that holds it").select_option("0")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#saved")).to_have_text("Saved.")
        page.keyboard.press("1")
        expect(page.locator("#decision")).to_contain_text("follow context")
        expect(page.locator("#holder")).to_have_value("0")
        expect(page.locator("#passages mark").first).to_be_visible()
        # A new question starts from an empty page.
        page.keyboard.press("1")
        expect(page.locator("#state")).to_have_text("Decided without 1 passage.")
        page.locator("#search").fill("Is the pool open on Sundays?")
        page.keyboard.press("Enter")
        expect(page.locator("#question")).to_have_text("Is the pool open on Sundays?")
        expect(page.locator("#decision")).to_contain_text("follow context")
        expect(page.get_by_role("button", name="Strike out passage 1")).to_have_attribute(
            "aria-pressed", "false"
        )
        expect(page.get_by_label("Right answer")).to_have_value("")
        expect(page.locator("#holder")).to_have_value("")
        expect(page.locator("#saved")).to_have_text("")
        expect(page.locator("#state")).to_have_text("")
    assert TEXTS[0] in (tmp_path / "saved.jsonl").read_text(encoding="utf-8")


def test_the_labelling_page_is_accessible(
    run: Path, tmp_path: Path, browser: Any, socket_enabled: None
) -> None:
    copy = RepliesRun.read(shutil.copytree(run, tmp_path / "run"))
    session = LabelSession.annotate(copy, "anna", size=2)
    with served(label_app(session)) as url, page_of(browser, viewport=NARROW) as page:
        page.goto(url)
        page.get_by_role("heading", level=1, name="Reply 1 of 2").wait_for()
        assert is_narrow_enough(page)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert serious_findings(page) == []


def test_leaks_are_reviewed_by_keyboard(tmp_path: Path, browser: Any, socket_enabled: None) -> None:
    from playwright.sync_api import expect

    run = write_small_run(tmp_path / "run")
    session = ReviewSession.open(run)
    with served(label_app(session)) as url, page_of(browser, viewport=NARROW) as page:
        page.goto(url)
        expect(page.locator("#question")).to_have_text("What do I pay for an overdue book?")
        expect(page.locator("#facts")).to_have_text("relevance: raw 0.200")
        expect(page.locator("#passages li")).to_have_count(2)
        expect(page.locator("#passages li").first).to_contain_text("Probably answers")
        expect(page.locator("#passages li").first).to_contain_text("charged 20 cents")
        assert serious_findings(page) == []
        assert is_narrow_enough(page)
        steps = (
            ("a", "When does the boat trip begin?", "1 of 3 reviewed"),
            ("u", "May I bring my dog?", "2 of 3 reviewed"),
            ("z", "When does the boat trip begin?", "1 of 3 reviewed"),
            ("n", "May I bring my dog?", "2 of 3 reviewed"),
        )
        for key, question, count in steps:
            expect(page.locator("#work")).to_have_attribute("aria-busy", "false")
            page.keyboard.press(key)
            expect(page.locator("#question")).to_have_text(question)
            expect(page.locator("#count")).to_have_text(count)
        expect(page.locator("#probable")).to_be_hidden()
        expect(page.locator("#work")).to_have_attribute("aria-busy", "false")
        page.keyboard.press("s")
        expect(page.locator("#finished-words")).to_have_text("2 of 3 cases reviewed, 1 skipped.")
    found = {name: str(one.verdict) for name, one in MeasuredRun.read(run).reviews.items()}
    assert found == {"fee/left_out": "answered", "tour/left_out": "not_answered"}
