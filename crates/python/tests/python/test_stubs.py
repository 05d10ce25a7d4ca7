# SPDX-License-Identifier: MIT OR Apache-2.0
"""The types of the compiled half: the stub names all that it has, and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import makeway as mw
from makeway import _makeway

FOLDER = Path(mw.__file__).parent


def of_class(one: ast.ClassDef) -> set[str]:
    return {inner.name for inner in one.body if isinstance(inner, ast.FunctionDef)} - {"__init__"}


def test_the_stub_is_that_of_the_module() -> None:
    tree = ast.parse((FOLDER / "_makeway.pyi").read_text())
    classes = {node.name: of_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    values = {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    has = {name for name in dir(_makeway) if not name.startswith("__")} | {"__version__"}
    assert set(classes) | functions | values == has
    for name, methods in classes.items():
        own = set(vars(getattr(_makeway, name)))
        assert methods <= own, (name, methods - own)
        # Special methods that need no type of their own are left out.
        public = {method for method in own if not method.startswith("_")}
        assert public <= methods, (name, public - methods)


def test_the_module_says_that_it_has_types() -> None:
    assert (FOLDER / "py.typed").exists()
