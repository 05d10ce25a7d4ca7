# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whole studies of `makeway-lab` as sweeps: the program writes their plans, any engine makes the runs, and the program judges."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import makeway as mw
import polars as pl

if TYPE_CHECKING:
    from pathlib import Path


RESULTS = {
    "runs": ["key", "fingerprint", "hops", "status"],
    "figures": ["key", "of", "figure", "value"],
    "reports": ["key", "report"],
}
"""Files of a store, and columns that do not say when or where a run was made."""


@dataclass(frozen=True)
class Study:
    name: str
    lab: Path
    """The program."""
    arguments: tuple[str, ...]
    """Of it."""
    folder: Path

    def _lab(self, *more: str | Path) -> None:
        subprocess.run([self.lab, *self.arguments, *more], check=True, stdout=subprocess.DEVNULL)

    def plans(self) -> list[mw.Sweep]:
        """A sweep of each of its cells."""
        folder = self.folder / "plans"
        if not folder.exists():
            self._lab("--plans", folder)
        return [mw.Sweep.load(path) for path in sorted(folder.glob("*.json"))]

    def store(self, engine: str) -> Path:
        return self.folder / engine / "store"

    def verdict(self, engine: str) -> str:
        """What the program says of the runs in the store of `engine`, as JSON. It has to make none."""
        store = self.store(engine)
        kept, file = len(mw.Store(store)), store.parent / "verdict.json"
        where = ("--out", store.parent) if self.arguments[0] == "papers" else ("--store", store)
        self._lab(*where, "--json", file)
        if (now := len(mw.Store(store))) != kept:
            raise RuntimeError(f"{self.name}: {now - kept} runs were not in the plans")
        return file.read_text()

    def digest(self, engine: str) -> str:
        """Of all results: figures, report and fingerprint of each run, and the verdict; not how long runs took, nor where."""
        hasher = hashlib.sha256(self.verdict(engine).encode())
        # Each file is read once. A query for each of a thousand plans reads files with runs of many plans many times.
        for kind, columns in RESULTS.items():
            rows = pl.read_parquet(str(self.store(engine) / kind / "*.parquet"), columns=columns).rows()
            hasher.update("\n".join(sorted(map(repr, rows))).encode())
        return hasher.hexdigest()


def studies(lab: Path, folder: Path, full: bool) -> list[Study]:
    """A whole paper, and the gauntlet with all its cases; with fewer replications unless `full`."""
    paper = ("papers", "sqf", "--full", *(() if full else ("--at-most", "1")))
    gauntlet = ("gauntlet", "--runs", "10" if full else "2")
    return [
        Study("paper sqf", lab, paper, folder / "sqf"),
        Study("gauntlet", lab, gauntlet, folder / "gauntlet"),
    ]
