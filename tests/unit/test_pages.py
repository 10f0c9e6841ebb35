"""The pages at the top: every link leads somewhere, and README leads to every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {page.name: page.read_text() for page in sorted(ROOT.glob("*.md"))}
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
MOST_BYTES = 16_000
"""README is read at once; what is looked up has pages of its own."""


def anchors(text: str) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: str, text: str) -> list[str]:
    """The links of a page that lead to no file or to no heading."""
    found = []
    for file, anchor in LINK.findall(text):
        target = ROOT / (file or page)
        if file.startswith("http") or (target.exists() and not anchor):
            continue
        if not target.is_file() or anchor not in anchors(target.read_text()):
            found.append(f"{file}#{anchor}")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str):
    assert broken(page, PAGES[page]) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[x](NOTHING.md)", ["NOTHING.md#"]),
        ("[x](SECURITY.md#nothing)", ["SECURITY.md#nothing"]),
        ("[x](#nothing)", ["#nothing"]),
        ("[x](SECURITY.md#the-least-role) [y](https://example.com/#z) [z](#why)", []),
    ],
)
def test_a_broken_link_is_found(text: str, expected: list[str]):
    assert broken("README.md", text) == expected


def test_readme_leads_to_every_page():
    assert set(PAGES) - {"README.md"} == {file for file, _anchor in LINK.findall(PAGES["README.md"])} & set(
        PAGES
    )


def test_readme_is_short():
    assert len(PAGES["README.md"].encode()) <= MOST_BYTES
