"""Worlds that need an extra, where it is not installed."""

import sys

import pytest

import checkout
import environments
from environments.extras.levels import EXTRAS
from environments.names import PREFIXES, ExtraLevel, find

ROOT = __file__.partition("/tests/")[0]


@pytest.mark.parametrize("kind", EXTRAS)
def test_a_world_without_its_extra_names_the_command_that_installs_it(kind, one_line, monkeypatch):
    extra = EXTRAS[kind]
    for package in extra.packages:
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"environments.extras.{extra.module}", raising=False)
    told = f"{kind}:any needs {extra.product}, which is not installed here"
    one_line(lambda: environments.spec(f"{kind}:any"), told, f"run bin/setup --extra={kind}")
    monkeypatch.setattr(checkout, "is_checkout", lambda: False)
    one_line(lambda: environments.spec(f"{kind}:any"), told, f"run pip install '.[{kind}]'")


@pytest.mark.parametrize("kind", EXTRAS)
def test_each_kind_is_a_reserved_word_with_an_extra_of_its_own(kind):
    assert find(f"{kind}:any") == ExtraLevel(kind, "any")
    assert kind in PREFIXES
    with open(f"{ROOT}/bin/setup") as setup:
        assert f"--extra={kind} " in setup.read()
