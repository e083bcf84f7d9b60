"""A folder of pages."""

import pytest

from tests.environments.browser.browsers import BUSY, DESCRIPTION, DESK, PAGE


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "page.html").write_text(PAGE)
    (folder / "page.yaml").write_text(DESCRIPTION)
    (folder / "numbers.yaml").write_text(DESCRIPTION + "observe: '[ticks, presses, clicks]'\n")
    (folder / "busy.html").write_text(BUSY)
    (folder / "busy.yaml").write_text(
        "{url: busy.html, score: ticks, end: 'false', actions: [none, space], step_ms: 50}"
    )
    (folder / "desk.html").write_text(DESK)
    (folder / "desk.yaml").write_text(
        "{url: desk.html, score: dragged, end: 'false', width: 60, height: 40, actions: desktop}"
    )
    return folder
