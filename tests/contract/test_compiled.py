"""The gate under test has the form that was asked for: `make test-compiled` must never test Python by mistake."""

import ast
import os
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from headway.gate.callers import Caller
from headway.gate.upstream import read_address
from tests.parts.gate_play import Play, get

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]
COMPILED = os.environ.get("HEADWAY_COMPILED") == "1"  # says the Makefile
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LISTED = PROJECT["tool"]["hatch"]["build"]["hooks"]["custom"]["modules"]


@pytest.mark.parametrize("path", LISTED)
def test_a_listed_module_has_the_form_that_was_asked_for(path: str) -> None:
    found = import_module(path.removesuffix(".py").replace("/", ".")).__file__
    assert found is not None and found.endswith(".so" if COMPILED else ".py")


def test_a_gate_says_which_form_it_has() -> None:
    play = Play()
    _, pipe = play.ask(get("/metrics"))
    play.close()
    info = next(row for row in bytes(pipe.out).splitlines() if row.startswith(b"headway_gate_info{"))
    assert (b'compiled="%d"' % COMPILED) in info


def test_what_is_frozen_is_frozen_in_both_forms() -> None:
    for value, name in (
        (Caller("a", "attended", 1, None, ours=False), "ours"),
        (read_address("http://a"), "port"),
    ):
        with pytest.raises(AttributeError):
            setattr(value, name, 1)


def narrowed_twice(function: ast.AST) -> Iterator[int]:
    """Lines that ask an attribute again what a test or an assignment has already told the type checker.

    It believes that no call changes it, and compiled code believes the type checker: None there is a TypeError.
    """
    asked = [
        (ast.unparse(node.left), node.lineno)
        for node in ast.walk(function)
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute)
        and isinstance(node.ops[0], (ast.Is, ast.IsNot))
    ]  # fmt: skip
    for node in ast.walk(function):
        if isinstance(node, ast.If):
            tests = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
            known = {
                ast.unparse(one.left) for one in tests
                if isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.IsNot)
            }  # fmt: skip
            first, last = node.body[0].lineno, node.body[-1].end_lineno or 0
            yield from (line for name, line in asked if name in known and first <= line <= last)
        blocks: list[Any] = [getattr(node, "body", None), getattr(node, "orelse", None)]
        for block in (block for block in blocks if isinstance(block, list)):
            for one in block:
                if isinstance(one, ast.Assign) and isinstance(one.value, ast.Name | ast.Call):
                    names, last = {ast.unparse(target) for target in one.targets}, block[-1].end_lineno
                    yield from (line for name, line in asked if name in names and one.lineno < line <= last)


@pytest.mark.parametrize("path", LISTED)
def test_no_attribute_is_asked_again_whether_it_is_none(path: str) -> None:
    for node in ast.walk(ast.parse((ROOT / "src" / path).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert not list(narrowed_twice(node)), node.name


def test_the_search_for_attributes_asked_again_finds_them() -> None:
    twice = """
def after_a_test(self):
    if self.exchange is not None:
        self.exchange.feed()
        if self.exchange is not None:
            return

def after_an_assignment(self):
    self.exchange = exchange
    exchange.begin()
    if self.pending and self.exchange is exchange:
        return
"""
    assert [list(narrowed_twice(function)) for function in ast.parse(twice).body] == [[5], [11]]
