"""Hook of mkdocs: navigation, links and the pages that are made at build time.

The navigation is the index of `docs/README.md`. Markdown files outside `docs/` that the
documentation links to become pages of the site, and links to them are rewritten, so that the
same files read well where no site is built.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

from markdown import Extension, Markdown
from markdown.blockprocessors import build_block_parser
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
# mkdocs runs a hook as a lone file; its neighbours are found from the root.
sys.path.insert(0, str(ROOT))

from tools.site import pages  # noqa: E402

# Files outside docs/ → pages of the site; docs/README.md would otherwise be the first page.
PAGES = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/RESULTS.md": "results.md",
    "examples/README.md": "examples/index.md",
    "examples/notebooks/README.md": "examples/notebooks/index.md",
}
# Files of examples/ that become pages.
_LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}
_LINK = re.compile(
    r"(?:(?<=\]\()|(?<=src=\")|(?<=srcset=\"))(?!https?:|#)(?P<path>[^)#\s\"]+)(?P<anchor>#[^)\s]*)?"
    r"(?=[)\"])"
)
_FENCED = re.compile(r"^( *)```.*?^\1```", re.M | re.S)
_ENTRY = re.compile(r"\[([^\]]+)\]\((?!\.\.|http)([^)#]+\.md)\)")


def sources() -> dict[str, str]:
    """Map paths in the repository to those of the site's pages."""
    examples = {
        f"examples/{path.relative_to(ROOT / 'examples').as_posix()}": f"examples/{path.stem}.md"
        for path in (ROOT / "examples").rglob("*.*")
        if path.suffix in _LANGUAGES and path.name != "__init__.py"
    }
    return PAGES | examples


def navigation(index: str) -> list[Any]:
    """Read the navigation from the headings and links of the index of the documentation.

    Args:
        index: its text; a heading of the third level is a group in the section above.
    """
    tree: list[Any] = [{"Overview": "index.md"}]
    section: list[Any] = tree
    group: list[Any] = tree
    for line in index.splitlines():
        if line.startswith("## "):
            section = group = []
            tree.append({line[3:]: section})
        elif line.startswith("### "):
            group = []
            section.append({line[4:]: group})
        elif section is not tree:
            group += [{title: path} for title, path in _ENTRY.findall(line)]
    return tree


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation, and anchors and lists as on GitHub."""
    tree = navigation((ROOT / "docs/README.md").read_text(encoding="utf-8"))
    for entry in tree:
        if "Reference" in entry:
            entry["Reference"] += pages.navigation()
    tree.append(
        {
            "Project": [
                {"All pages": "contents.md"},
                {
                    "Examples": [
                        "examples/index.md",
                        *sorted(
                            path
                            for path in sources().values()
                            if path.startswith("examples/") and path != "examples/index.md"
                        ),
                    ]
                },
                {"Results of the benchmarks": "results.md"},
                {"Contributing": "contributing.md"},
                {"Changes": "changes.md"},
            ]
        }
    )
    config.nav = tree
    # First of all: it makes the parser anew.
    config.markdown_extensions.insert(0, _AsOnGitHub())
    config.mdx_configs["toc"] = {**config.mdx_configs.get("toc", {}), "slugify": github_anchor}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/."""
    readme = files.get_file_from_path("README.md")
    if readme is not None:
        files.remove(readme)
    texts = {target: _text_of(source) for source, target in sources().items()}
    for target, text in (texts | pages.generated()).items():
        files.append(File.generated(config, target, content=text))
    return files


def _text_of(source: str) -> str:
    """Return a Markdown file as it is, a program as a page."""
    text = (ROOT / source).read_text(encoding="utf-8")
    if source.endswith(".md"):
        return text
    language = _LANGUAGES[Path(source).suffix]
    return f"# {source.removeprefix('examples/')}\n\n```{language}\n{text}```\n"


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrite links between files of the repository as links between pages of the site."""
    targets = sources()
    origins = {target: source for source, target in targets.items()}
    here = page.file.src_uri
    origin = origins.get(here, f"docs/{here}")
    if here == "index.md":
        page.meta["hide"] = ["navigation"]

    def rewritten(link: re.Match[str]) -> str:
        path = normpath(f"{dirname(origin)}/{link['path']}") if dirname(origin) else link["path"]
        target = targets.get(path, path.removeprefix("docs/"))
        return relpath(target, dirname(here) or ".") + (link["anchor"] or "")

    parts = []
    end = 0
    for fence in _FENCED.finditer(markdown):
        parts += [_LINK.sub(rewritten, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(rewritten, markdown[end:])])


def github_anchor(heading: str, separator: str) -> str:
    """Return the fragment that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


class _AsOnGitHub(Extension):  # type: ignore[misc]
    """Nested lists are indented by two spaces."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Set the indentation."""
        md.tab_length = 2
        md.parser = build_block_parser(md)
