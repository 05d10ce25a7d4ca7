# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables of docs/sweep-figures.md, from rows of `make bench-sweep` and of the example that trains a rate controller."""

import json
from types import NoneType

from pages.shared import NUMBER, TEXT, cells, check_places, day, files, machine, refusal, renew_page, table

PAGE = "docs/sweep-figures.md"
OR_NULL = (*NUMBER, NoneType)
ROW = dict.fromkeys(("case", "engine"), TEXT) | dict.fromkeys(("workers", "runs"), NUMBER)
ROW |= dict.fromkeys(("scheduling", "overall", "makespan_s"), OR_NULL) | {"identical": (bool, NoneType)}
CALL = {"case": TEXT, "controller": TEXT, "replications": NUMBER, "trained_s": OR_NULL, "figures": {}}
HEAD = ["case", "engine", "workers", "runs", "scheduling", "overall", "time, s", "identical", "bar met", "more"]


def sweep(rows):
    """A line for each row, then the bars that are missed."""
    words = {True: "yes", False: "**no**", None: ""}
    number = lambda value, digits: "" if value is None else f"{value:.{digits}f}"
    lines = []
    for row in rows:
        more = [f"`{name}` {value}" for name, value in row.items() if name not in (*ROW, "met") and value is not None]
        figures = [number(row["scheduling"], 3), number(row["overall"], 3), number(row["makespan_s"], 1)]
        counts = [f"{row[name]:,}".replace(",", " ") for name in ("workers", "runs")]
        lines.append([row["case"], row["engine"], *counts, *figures, words[row["identical"]], words[row.get("met")], ", ".join(more)])
    missed = [f"{row['case']} on {row['engine']}" for row in rows if row.get("met") is False]
    said = f"Bars that are missed: {'; '.join(missed)}." if missed else "Each bar is met."
    return f"{table(HEAD, lines)}\n{said}\n"


def controller(rows):
    """A line for each case and controller."""
    heads = list(rows[0]["figures"])
    lines = [[row["case"], row["controller"], *[f"{row['figures'][head]:.1f}" for head in heads]] for row in rows]
    trained = rows[0]["trained_s"]
    said = f"Means of {rows[0]['replications']} replications" + ("" if trained is None else f"; trained in {trained:.0f} s") + ":\n\n"
    return said + table(["case", "controller", *heads], lines)


# Shape of a row, the writer of the file, and the table of each command.
COMMANDS = {
    "sweep": (ROW, "`make bench-sweep`", sweep),
    "controller": (CALL, "`train_rate_controller.py --json FILE`", controller),
}


def renew(root, command, file, commit=None):
    """The table of one of both commands, in the page."""
    shape, by, of_rows = COMMANDS[command]
    rows = cells(file, shape, command, f"name a file that {by} wrote")
    renew_page(root / PAGE, {command: f"{day(file)}, {machine(commit)}.\n\n{of_rows(rows)}"})
    return [f"{PAGE}: renewed from {file}"]


def check(root):
    check_places(root / PAGE, *COMMANDS)
    return []


def self_test():
    """Tables follow from rows; files of another shape are refused, and then the page stays."""
    form = {"case": "warm", "engine": "dask", "workers": 2, "runs": 10000, "scheduling": 0.94, "overall": 0.9, "makespan_s": 105.26, "identical": True}
    store = dict.fromkeys(form) | {"case": "store", "engine": "threads", "workers": 2, "runs": 1000000, "scan_s": 3.5, "chunk_s": None, "met": True}
    call = {"case": "5.1", "controller": "gcc", "replications": 10, "trained_s": 61.4, "figures": {"kbit/s": 640.25, "p99, ms": 80}}
    page = "a\n<!-- sweep -->\nold\n<!-- /sweep -->\n<!-- controller -->\n<!-- /controller -->\n"
    texts = {
        PAGE: page,
        "sweep.json": json.dumps([form | {"met": False}, store]),
        "controller.json": json.dumps([call]),
        "lacks.json": json.dumps([form, {"case": "cold"}]),
    }
    with files(texts) as root:
        assert check(root) == []
        fault = "lacks.json: cell 2 has no `engine` that is a text: name a file that `make bench-sweep` wrote"
        assert refusal(renew, root, "sweep", root / "lacks.json", "abc") == f"{root}/{fault}"
        assert (root / PAGE).read_text() == page
        for command in COMMANDS:
            assert renew(root, command, root / f"{command}.json", "abc") == [f"{PAGE}: renewed from {root / f'{command}.json'}"]
        shown = (root / PAGE).read_text()
    assert "| warm | dask | 2 | 10 000 | 0.940 | 0.900 | 105.3 | yes | **no** | |\n" in shown, shown
    assert "| store | threads | 2 | 1 000 000 | | | | | yes | `scan_s` 3.5 |\n\nBars that are missed: warm on dask.\n" in shown, shown
    assert "Means of 10 replications; trained in 61 s:\n\n| case | controller | kbit/s | p99, ms |\n" in shown, shown
    assert "| 5.1 | gcc | 640.2 | 80.0 |\n<!-- /controller -->\n" in shown and ", commit abc, " in shown and "old" not in shown, shown
