"""The guide as a site: it builds without a warning, and a real browser shows it as it should."""

import functools
import http.server
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import browser
from tests.docs.pages import DOCS, PROJECT, links

pytestmark = pytest.mark.xdist_group("browser")

NEEDS_BROWSER = pytest.mark.skipif(
    browser.find() is None, reason="needs Chromium, which bin/setup --test installs"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site's files."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_built(site):
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").exists()


def test_every_link_leads_to_a_file_of_the_site(site):
    for page in DOCS.rglob("*.md"):
        folder = (site / page.relative_to(DOCS)).parent
        for link in links(page):
            if not link.startswith(("http://", "https://", "#")):
                target = folder / re.sub(r"\.md$", ".html", link.partition("#")[0])
                assert target.exists(), f"{page.relative_to(DOCS)}: {link}"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site) -> Iterator[str]:
    """Where the site is served."""
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@NEEDS_BROWSER
# What fits a phone fits a desktop, which fetches the same.
@pytest.mark.parametrize(
    "size",
    [pytest.param(browser.DESKTOP, marks=pytest.mark.extras), browser.PHONE],
    ids=["desktop", "phone"],
)
def test_pages_fit_the_window_and_fetch_nothing_from_elsewhere(address, size):
    pages = [page.relative_to(DOCS).with_suffix(".html") for page in sorted(DOCS.rglob("*.md"))]
    with browser.Browser(size) as window:
        for page in pages:
            window.open(f"{address}/{page}")
            window.wait_for("document.querySelector('h1') !== null")
            too_wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert window.evaluate(too_wide) <= 0, page
            broken = "[...document.images].filter(one => one.complete && !one.naturalWidth).length"
            assert window.evaluate(broken) == 0, page
        elsewhere = [url for url in window.requests if not url.startswith((address, "data:"))]
        assert elsewhere in ([], ["about:blank"])


@NEEDS_BROWSER
def test_the_search_finds_a_setting(address):
    with browser.Browser() as window:
        window.open(f"{address}/index.html")
        window.wait_for("document.querySelector('.md-search__input') !== null")
        window.evaluate(
            "document.querySelector('#__search').click();"
            "const field = document.querySelector('.md-search__input');"
            "field.focus(); field.value = 'max_batch_wait_s';"
            "field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}))"
        )
        window.wait_for(
            "document.querySelector('.md-search-result').innerText.includes('Settings')"
        )
