# SPDX-License-Identifier: MIT OR Apache-2.0
"""What kinds of pages share: files that are read, and refused in one line; places in pages; tables in Markdown."""

import json
import re
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime
from os import cpu_count
from pathlib import Path
from types import NoneType

ROOT = Path(__file__).resolve().parent.parent.parent
# The discipline, and the controller of autorate, that is ours.
OWN = "makeway"
# Shapes of JSON, for `cells`: types that a value may have, an object by its keys, or either.
TEXT, NUMBER = (str,), (int, float)
# A mean over runs, as `makeway-lab` writes it; null where no run has the figure.
FIGURE = {"mean": NUMBER, "half": (*NUMBER, NoneType)}
FIGURE_OR_NULL = (FIGURE, NoneType)
NAMES = {str: "a text", bool: "true or false", int: "a number", float: "a number", dict: "an object", NoneType: "null"}


def read(file, right):
    """The text of a file; `right` says which file would be right."""
    try:
        return file.read_text()
    except OSError as error:
        sys.exit(f"{file}: {error.strerror}: {right}")
    except UnicodeDecodeError:
        sys.exit(f"{file}: is no text: {right}")


def read_page(page):
    return read(page, "a page of this repository: `git checkout` has it")


def cells(file, shape, command, right=None):
    """The list that `command` of makeway-lab wrote to a file of JSON, or another program, which `right` names; each entry has this shape."""
    right = right or f"name a file that `makeway-lab {command} --json FILE` wrote"
    try:
        found = json.loads(read(file, right))
    except json.JSONDecodeError as error:
        sys.exit(f"{file}:{error.lineno}:{error.colno}: is no JSON, {error.msg}: {right}")
    if not isinstance(found, list) or not found:
        sys.exit(f"{file}: has no list of cells: {right}")
    for n, cell in enumerate(found, 1):
        if fault := lack(cell, shape):
            place, expected = fault
            sys.exit(f"{file}: cell {n} has no `{place}` that is {expected}: {right}" if place else f"{file}: cell {n} is not {expected}: {right}")
    return found


def lack(value, shape, place=""):
    """Where a value has not its shape, and what should be there; none where it has."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return place, NAMES[dict]
        faults = (lack(value.get(key, ...), of, f"{place}.{key}".lstrip(".")) for key, of in shape.items())
        return next((fault for fault in faults if fault), None)
    if type(value) in shape:
        return None
    of_object = [one for one in shape if isinstance(one, dict)]
    if of_object and isinstance(value, dict):
        return lack(value, of_object[0], place)
    return place, " or ".join(dict.fromkeys(NAMES[dict if isinstance(one, dict) else one] for one in shape))


def grid(cells, row, column, file):
    """Names of rows and columns in order, and the cells by both. All rows have all columns."""
    rows, columns = (list(dict.fromkeys(cell[key] for cell in cells)) for key in (row, column))
    of = {}
    for cell in cells:
        if of.setdefault((cell[row], cell[column]), cell) is not cell:
            sys.exit(f"{file}: has the {row} `{cell[row]}` and the {column} `{cell[column]}` twice")
    for at in ((a, b) for a in rows for b in columns):
        if at not in of:
            sys.exit(f"{file}: has no cell of the {row} `{at[0]}` and the {column} `{at[1]}`: every {row} should have every {column}")
    return rows, columns, of


def between(text, name, new, page):
    """`text` with `new` between the marks of that name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit(f"{page}: should have `{begin.strip()}`, at the end of a line, and `{end}` once")
    before, rest = text.split(begin)
    return before + begin + new + end + rest.split(end)[1]


def renew_page(page, tables):
    """Writes tables, by the names of their marks, into a page."""
    text = read_page(page)
    for name, new in tables.items():
        text = between(text, name, new, page)
    page.write_text(text)


def check_places(page, *names):
    """Ends where a page has no places of these names."""
    text = read_page(page)
    for name in names:
        between(text, name, "", page)


def row(cells):
    return f"|{''.join(f' {cell} |' if cell else ' |' for cell in cells)}"


def table(head, rows):
    """A table in Markdown."""
    return "\n".join(map(row, [head, ["---"] * len(head), *rows])) + "\n"


def shown(figure, factor=1.0, digits=0, interval=True):
    """`94.0 ± 0.6`."""
    if figure is None:
        return "-"
    half = f" ± {figure['half'] * factor:.{digits}f}" if interval and figure["half"] is not None else ""
    return f"{figure['mean'] * factor:.{digits}f}{half}"


def day(file):
    """The date of a file, which is that of its runs."""
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).strftime("%Y-%m-%d")


def machine(commit=None):
    """The commit, HEAD unless named, and the machine, in words; as `makeway-lab` names them."""
    if not commit:
        told = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
        commit = told.stdout.strip() or sys.exit(f"{ROOT}: git names no commit here: run it in a clone of the repository")
    model = re.search(r"(?m)^model name\s*: (.*)$", read(Path("/proc/cpuinfo"), "run it on Linux"))
    return f"commit {commit}, {model[1] if model else 'unknown processor'}, {cpu_count()} cores"


@contextmanager
def files(texts):
    """For tests: a temporary folder with these files."""
    with tempfile.TemporaryDirectory() as folder:
        for place, text in texts.items():
            file = Path(folder) / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        yield Path(folder)


def refusal(run, *arguments):
    """For tests: the line with which a function ends the program."""
    try:
        said = run(*arguments)
    except SystemExit as refused:
        assert "\n" not in refused.code, refused.code
        return refused.code
    raise AssertionError(f"not refused: {said}")


def self_test():
    """Bad files and pages are refused in a line that says what, where, and what would be right; tables and figures in words."""
    shape = {"case": TEXT, "wins": (bool, NoneType), "call": {"delay": FIGURE, "rate": FIGURE_OR_NULL}}
    cell = {"case": "a", "wins": None, "call": {"delay": {"mean": 1, "half": None}, "rate": None}}
    right = ": name a file that `makeway-lab lab --json FILE` wrote"
    full = cell["call"] | {"rate": {"mean": 1.5, "half": 0}}
    for text, fault in [
        ("[{]", ":1:3: is no JSON, Expecting property name enclosed in double quotes"),
        (json.dumps(cell), ": has no list of cells"),
        ("[]", ": has no list of cells"),
        ("[3]", ": cell 1 is not an object"),
        (json.dumps([cell, cell | {"case": 1}]), ": cell 2 has no `case` that is a text"),
        (json.dumps([cell | {"wins": 1}]), ": cell 1 has no `wins` that is true or false or null"),
        (json.dumps([cell | {"call": None}]), ": cell 1 has no `call` that is an object"),
        (json.dumps([cell | {"call": {"rate": None}}]), ": cell 1 has no `call.delay` that is an object"),
        (json.dumps([cell | {"call": cell["call"] | {"delay": {"mean": None, "half": None}}}]), ": cell 1 has no `call.delay.mean` that is a number"),
        (json.dumps([cell | {"call": cell["call"] | {"delay": {"mean": True, "half": None}}}]), ": cell 1 has no `call.delay.mean` that is a number"),
        (json.dumps([cell | {"call": cell["call"] | {"rate": {"mean": 1}}}]), ": cell 1 has no `call.rate.half` that is a number or null"),
        (json.dumps([cell | {"call": cell["call"] | {"rate": 1}}]), ": cell 1 has no `call.rate` that is an object or null"),
        (json.dumps([cell, cell | {"call": full}]), None),
    ]:
        with files({"a.json": text}) as folder:
            file = folder / "a.json"
            if fault:
                assert refusal(cells, file, shape, "lab") == f"{file}{fault}{right}", (text, refusal(cells, file, shape, "lab"))
            else:
                assert len(cells(file, shape, "lab")) == 2
    with files({"a": ""}) as folder:
        assert refusal(cells, folder / "b", shape, "lab") == f"{folder}/b: No such file or directory{right}"
        assert refusal(read, folder, "name a file") == f"{folder}: Is a directory: name a file"
        (folder / "a").write_bytes(b"\xff")
        assert refusal(read, folder / "a", "name a page") == f"{folder}/a: is no text: name a page"

    some = [{"case": case, "by": by} for case, by in (("a", "x"), ("b", "x"), ("b", "y"))]
    assert refusal(grid, some, "case", "by", "f") == "f: has no cell of the case `a` and the by `y`: every case should have every by"
    assert grid(some[1:], "case", "by", "f") == (["b"], ["x", "y"], {("b", "x"): some[1], ("b", "y"): some[2]})

    page = "1\n<!-- a -->\nold\n<!-- /a -->\n2\n<!-- b -->\n<!-- /b -->\n"
    with files({"p.md": page, "q.md": page + "<!-- /a -->", "r.md": "<!-- a -->\n" + page}) as folder:
        renew_page(folder / "p.md", {"b": "4\n", "a": "3\n"})
        assert (folder / "p.md").read_text() == "1\n<!-- a -->\n3\n<!-- /a -->\n2\n<!-- b -->\n4\n<!-- /b -->\n"
        check_places(folder / "p.md", "a", "b")
        assert refusal(check_places, folder / "p.md", "a", "c").startswith(f"{folder}/p.md: should have `<!-- c -->`, ")
        assert refusal(check_places, folder / "r.md", "a").endswith(" and `<!-- /a -->` once")
        assert refusal(renew_page, folder / "q.md", {"b": "4\n", "a": "3\n"}).endswith(" and `<!-- /a -->` once")
        assert (folder / "q.md").read_text() == page + "<!-- /a -->"

    assert table(["a", "b"], [["1", ""]]) == "| a | b |\n| --- | --- |\n| 1 | |\n"
    figure = {"mean": 0.94, "half": 0.006}
    assert [shown(figure, 100.0, 1), shown(figure, 100.0, 1, interval=False), shown(figure | {"half": None}), shown(None)] == ["94.0 ± 0.6", "94.0", "1", "-"]
    assert machine("abc").startswith("commit abc, ")
