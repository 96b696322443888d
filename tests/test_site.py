"""The documentation site, built once as `make site` builds it, with every link checked."""

from __future__ import annotations

import gc
import logging
import re
from pathlib import Path

import pytest
import typer
from mkdocs.commands.build import build
from mkdocs.config import load_config

from knowgate.offline_eval.cli import app
from tests.support.paths import ROOT
from tools.site.pages import public_modules as documented

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site; a warning, as of a link that leads nowhere, ends the build."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        # An eighth of the time goes into the index of the search, which nothing here looks at.
        index = "material.plugins.search.plugin.SearchIndex.add_entry_from_context"
        patch.setattr(index, lambda self, page: None)
        said: list[str] = []
        handler = logging.Handler(logging.WARNING)
        handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("mkdocs").addHandler(handler)
        # Collections of garbage find little in what a build makes, and take a sixth of its time.
        gc.disable()
        try:
            build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
        except SystemExit:
            pytest.fail("\n".join(said))
        finally:
            gc.enable()
            logging.getLogger("mkdocs").removeHandler(handler)
    return folder


def test_every_public_name_is_documented_once(site: Path) -> None:
    assert sum(map(len, documented().values())) > 100
    missing = [
        f"{module}.{name}"
        for module, names in documented().items()
        for text in [(site / f"reference/api/{module}.html").read_text(encoding="utf-8")]
        for name in names
        if f'id="{module}.{name}"' not in text
    ]
    assert missing == []


def test_the_options_page_has_every_option_of_every_command(site: Path) -> None:
    text = (site / "reference/options.html").read_text(encoding="utf-8")
    root = typer.main.get_command(app)
    measure = root.get_command(typer.Context(root, **root.context_settings), "measure")  # type: ignore[attr-defined]

    for parameter in measure.params:
        assert f"<code>{parameter.opts[0]}" in text
    assert 'id="knowgate-eval-ookb"' in text


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loading = re.compile(r'<(?:(?:script|img|iframe)[^>]+src|link[^>]+href)="?(?:https?:)?//')
    found = [
        str(page.relative_to(site))
        for page in site.rglob("*.html")
        if loading.search(page.read_text(encoding="utf-8"))
    ]
    assert found == []
    assert "@import" not in (site / "site.css").read_text(encoding="utf-8")
