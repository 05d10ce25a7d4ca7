# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables of docs/autorate.md, one for each world, from cells of `makeway-lab autorate`."""

import json
import sys

from pages.shared import FIGURE, FIGURE_OR_NULL, OWN, TEXT, cells, check_places, day, files, grid, machine, refusal, renew_page, shown, table

WORLDS = ("sim", "netns")
# The target.
USED, ADDED_MS = 0.9, 30.0
ORACLE = "oracle"
CELL = {"case": TEXT, "algorithm": TEXT, "world": TEXT, "added_p99_ms": FIGURE, "used_share": FIGURE, "recovery_s": FIGURE_OR_NULL}


def used(cell):
    """The share of the rate that is used, in %."""
    return 100.0 * cell["used_share"]["mean"]


def added(cell):
    return cell["added_p99_ms"]["mean"]


def meets(cell):
    return cell["used_share"]["mean"] >= USED and added(cell) <= ADDED_MS


def figures(cells, by, file):
    """The table of one world: share used and added delay of each algorithm, and the recovery of ours; then where the target is met."""
    cases, algorithms, of = grid(cells, "case", "algorithm", file)
    if OWN not in algorithms:
        sys.exit(f"{file}: has no cell of the algorithm `{OWN}`: `makeway-lab autorate --json FILE` with it")
    heads = [f"**{name}**" if name == OWN else f"`{name}`" if name == ORACLE else name for name in algorithms]
    both = lambda cell: f"{shown(cell['used_share'], 100.0, 1)}, {shown(cell['added_p99_ms'])}"
    rows = [[f"`{case}`", *[both(of[case, name]) for name in algorithms], shown(of[case, OWN]["recovery_s"], digits=1)] for case in cases]
    missed = []
    for case in cases:
        cell = of[case, OWN]
        floor = f", `{ORACLE}` {added(of[case, ORACLE]):.0f} ms" if ORACLE in algorithms else ""
        missed += [] if meets(cell) else [f"`{case}` ({used(cell):.1f} % at {added(cell):.0f} ms{floor})"]
    rivals = [name for name in algorithms if name not in (OWN, ORACLE)]
    met = [f"{name} in {sum(meets(of[case, name]) for case in cases)}" for name in rivals]
    said = f"{', '.join([f'`{OWN}` meets the target in {len(cases) - len(missed)} of {len(cases)} cases', *met])}."
    said += f" It is missed in {', '.join(missed)}." if missed else ""
    for name in rivals:
        less = [used(of[case, name]) for case in cases if added(of[case, name]) < added(of[case, OWN])]
        said += f" {name} has less delay in {len(less)}, at {min(less):.0f} to {max(less):.0f} % of the rate." if less else ""
    return f"{by}:\n\n{table(['case', *heads, 'recovery'], rows)}\n{said}\n"


def renew(root, names):
    """Renews the table of each world from its files together, once all are read."""
    parts = {}
    for file in names:
        found = cells(file, CELL, "autorate")
        worlds = {cell["world"] for cell in found}
        if len(worlds) != 1 or not worlds <= set(WORLDS):
            sys.exit(f"{file}: the cells are of {', '.join(sorted(worlds))}: one file has those of one world, {' or '.join(WORLDS)}")
        parts.setdefault(worlds.pop(), []).append((file, found))
    tables = {}
    for world, of in parts.items():
        together = ", ".join(str(file) for file, _ in of)
        last = max(day(file) for file, _ in of)
        tables[world] = figures([cell for _, found in of for cell in found], f"{last}, {machine()}", together)
    renew_page(root / "docs/autorate.md", tables)
    return [f"docs/autorate.md: renewed from {file}" for file in names]


def check(root):
    check_places(root / "docs/autorate.md", *WORLDS)
    return []


def self_test():
    """A table follows from cells; files of another shape are refused, and then the page stays."""

    def cell(algorithm, used, added, half, world="sim"):
        figure = lambda mean: {"mean": mean, "half": half}
        return {"case": "step", "algorithm": algorithm, "world": world, "added_p99_ms": figure(added), "used_share": figure(used), "recovery_s": None}

    some = [cell(OWN, 0.94, 33.0, 0.006), cell("rival", 0.9, 30.0, None), cell(ORACLE, 0.97, 21.0, None)]
    lines = [
        "| case | **makeway** | rival | `oracle` | recovery |\n",
        "| `step` | 94.0 ± 0.6, 33 ± 0 | 90.0, 30 | 97.0, 21 | - |\n",
        "`makeway` meets the target in 0 of 1 cases, rival in 1. It is missed in `step` (94.0 % at 33 ms, `oracle` 21 ms). "
        "rival has less delay in 1, at 90 to 90 % of the rate.\n",
    ]
    page = "<!-- sim -->\n<!-- /sim -->\n<!-- netns -->\nold\n<!-- /netns -->\n"
    other = [cell(OWN, 0.9, 30.0, None, "netns") | {"recovery_s": {"mean": 1.25, "half": 0.5}}]
    inputs = {"sim": some, "netns": other, "two": some + other, "vm": [cell(OWN, 1, 1, None, "vm")], "rivals": some[1:], "lacks": [some[0], {}]}
    inputs["more"] = [cell | {"case": "ramp"} for cell in some]
    with files({"docs/autorate.md": page} | {f"{name}.json": json.dumps(of) for name, of in inputs.items()}) as root:
        assert check(root) == []
        place = lambda name: root / f"{name}.json"
        for name, fault in [
            ("two", "the cells are of netns, sim: one file has those of one world, sim or netns"),
            ("vm", "the cells are of vm: one file has those of one world, sim or netns"),
            ("rivals", "has no cell of the algorithm `makeway`: `makeway-lab autorate --json FILE` with it"),
            ("lacks", "cell 2 has no `case` that is a text: name a file that `makeway-lab autorate --json FILE` wrote"),
        ]:
            assert refusal(renew, root, [place("netns"), place(name)]) == f"{place(name)}: {fault}"
            assert (root / "docs/autorate.md").read_text() == page
        assert renew(root, [place("sim"), place("netns")]) == [f"docs/autorate.md: renewed from {place(name)}" for name in ("sim", "netns")]
        table = (root / "docs/autorate.md").read_text()
        renew(root, [place("sim"), place("more")])
        both = (root / "docs/autorate.md").read_text()
        twice = f"{place('sim')}, {place('sim')}: has the case `step` and the algorithm `{OWN}` twice"
        assert refusal(renew, root, [place("sim"), place("sim")]) == twice
    assert lines[1] in both and "| `ramp` |" in both and "in 0 of 2 cases" in both, both
    assert all(line in table for line in lines) and "old" not in table, table
    assert "| `step` | 90.0, 30 | 1.2 ± 0.5 |\n\n`makeway` meets the target in 1 of 1 cases.\n" in table, table
