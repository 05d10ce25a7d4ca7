# SPDX-License-Identifier: MIT OR Apache-2.0
"""The book's page and its notebooks run as they are printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from conftest import ROOT
from nbclient import NotebookClient

if TYPE_CHECKING:
    from pathlib import Path


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/python.md").read_text(), re.M | re.S)
    assert len(blocks) == 4
    # "A study in 20 lines".
    assert len(blocks[0].splitlines()) <= 20
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    shown = capsys.readouterr().out.splitlines()
    # The call's MOS, under two disciplines, at three rates.
    assert len(shown) == 6
    assert (tmp_path / "out/delay.png").stat().st_size > 1000
    assert len(names["store"]) == 45
    # Intervals of three disciplines at three rates, and a line of each step of a run.
    points, steps = names["points"].data, names["series"].data
    assert (points.height, len(set(points["discipline"]))) == (9, 3)
    assert (points["low"] <= points["mean"]).all() and (points["low"] < points["high"]).any()
    assert steps.height >= 80
    assert "vega" in (tmp_path / "out/delay.html").read_text()


@pytest.mark.parametrize("file", sorted((ROOT / "docs/notebooks").glob("*.ipynb")), ids=lambda file: file.stem)
def test_a_notebook_runs(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.setenv("MAKEWAY_ROOT", str(ROOT))
    notebook = nbformat.read(file, as_version=4)
    NotebookClient(notebook, timeout=600, startup_timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert {"text/html", "image/png"} <= kinds
    assert not [output for output in outputs if output.output_type == "error"]
    clean = nbformat.read(file, as_version=4)
    assert not any(cell.get("outputs") for cell in clean.cells), "results are not kept in the tree"


def test_the_book_names_every_notebook() -> None:
    page = (ROOT / "docs/notebooks.md").read_text()
    files = [file.name for file in (ROOT / "docs/notebooks").glob("*.ipynb")]
    assert len(files) == 4
    for file in files:
        assert page.count(f"(notebooks/{file})") == 1
