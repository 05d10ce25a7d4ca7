# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables of docs/which-sender.md and docs/which-controller.md, from figures of `makeway-lab senders` and `makeway-lab marks`, as both
print them."""

import json
import math
import re
import sys
from types import NoneType

from pages.shared import NUMBER, TEXT, cells, check_places, day, files, machine, read, refusal, renew_page

# Head, figure and unit of each column, as crates/lab/src/senders.rs and marks.rs print them.
OF_SENDERS = (
    ("audio on time", "audio_on_time", "share"),
    ("video on time", "video_on_time", "share"),
    ("frames shown", "video_shown", "share"),
    ("audio p99", "audio_p99_ms", "ms"),
    ("video p99", "video_p99_ms", "ms"),
    ("received", "goodput_bps", "rate"),
    ("still", "frozen", "share"),
    ("freezes a minute", "freezes", "index"),
)
OF_MARKS = (
    ("video", "goodput_bps", "rate"),
    ("download", "download_bps", "rate"),
    ("queue p50", "queueing_p50_ms", "ms"),
    ("queue p99", "queueing_p99_ms", "ms"),
    ("video on time", "on_time", "share"),
    ("marks a second", "marks", "index"),
    ("drops a second", "drops", "index"),
)
DEFAULT = "sbpn2, late keyframes"
# A mean over runs: null where no run has the figure.
ESTIMATE = {"mean": (*NUMBER, NoneType), "half_width": (*NUMBER, NoneType), "runs": NUMBER}
# Figures by which senders are compared: every run has them.
COMPARED = {"video_shown": ESTIMATE | {"mean": NUMBER}, "frozen": ESTIMATE | {"mean": NUMBER}}


def shape(columns, *names):
    """That of a row with these columns and names."""
    return dict.fromkeys(("sender", *names), TEXT) | {"figures": {figure: ESTIMATE for _, figure, _ in columns}}


def with_unit(figure, unit):
    """A mean and its interval as `Unit::show` of crates/report/src/estimate.rs writes them; nothing where no run has the figure."""
    mean, half = figure["mean"], figure["half_width"]
    if mean is None:
        return ""
    most = max(abs(mean), half or 0.0)
    rates = [(1e9, " Gbit/s"), (1e6, " Mbit/s"), (1e3, " kbit/s")]
    rate = next((one for one in rates if most >= one[0]), (1.0, " bit/s"))
    scale, suffix = {"rate": rate, "share": (0.01, " %"), "ms": (1.0, " ms"), "index": (1.0, "")}[unit]
    short = lambda value, digits: f"{value:.{digits}f}".rstrip("0").rstrip(".")
    mean /= scale
    if half is None:
        return f"{short(mean, 2)}{suffix}"
    half /= scale
    if half == 0:
        return f"{short(mean, 3)} ± 0{suffix}"
    digits = int(min(max(1.0 - math.floor(math.log10(half)), 0.0), 3.0))
    half = max(half, 0.1**digits)
    mean = 0.0 if abs(mean) < 0.1**digits / 2 else mean
    return f"{mean:.{digits}f} ± {half:.{digits}f}{suffix}"


def aligned(head, rows):
    """A table in Markdown with columns of one width, all but the first to the right."""
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    right = lambda row: [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
    line = lambda row: f"| {' | '.join([row[0].ljust(widths[0]), *right(row)])} |"
    return "\n".join([line(head), f"|{'|'.join('-' * (width + 2) for width in widths)}|", *map(line, rows)]) + "\n"


def in_tables(rows, keys):
    """Rows that agree in these keys, in their order."""
    found = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found


def figures(rows, columns):
    cells = lambda row: [with_unit(row["figures"][figure], unit) for _, figure, unit in columns]
    return aligned(["sender", *[head for head, _, _ in columns]], [[row["sender"], *cells(row)] for row in rows])


def above(a, b):
    """Whether a mean is above another by more than both intervals together."""
    return a["mean"] - b["mean"] > (a["half_width"] or 0.0) + (b["half_width"] or 0.0)


def beside_the_default(rows, file):
    """In how many tables the default sender is better than another sender, and worse."""
    setup = lambda row: (row["bottleneck"], row["encoder"], row["controller"])
    own = {setup(row): row["figures"] for row in rows if row["sender"] == DEFAULT}
    for row in rows:
        if setup(row) not in own:
            sys.exit(f"{file}: has no row of `{DEFAULT}` in {', '.join(setup(row))}: each table should have one")
    lines = []
    for name in dict.fromkeys(row["sender"] for row in rows if row["sender"] != DEFAULT):
        pairs = [(own[setup(row)], row["figures"]) for row in rows if row["sender"] == name]
        more = lambda figure, pairs=pairs: str(sum(above(ours[figure], theirs[figure]) for ours, theirs in pairs))
        less = lambda figure, pairs=pairs: str(sum(above(theirs[figure], ours[figure]) for ours, theirs in pairs))
        lines.append([name, str(len(pairs)), more("video_shown"), less("video_shown"), less("frozen"), more("frozen")])
    return aligned(["sender", "tables", "the default shows more", "fewer", "stands still for less", "longer"], lines)


def titles(source, expression, names):
    """Titles of the tables by these names, as the program's source has them."""
    found = dict(re.findall(expression, read(source, "the source of the program has the titles")))
    for name in names:
        if name not in found:
            sys.exit(f"{source}: has no title of `{name}`: renew at a commit whose program makes that table")
    return found


def senders(rows, source, file):
    """The tables of docs/which-sender.md."""
    tables = in_tables(rows, ("bottleneck", "encoder", "controller"))
    title = titles(source, r'name: "([^"]+)",\s+title: "([^"]+)"', [at for at, _, _ in tables])
    texts = [f"### {title[at]}; the encoder {encoder}, {controller}\n\n{figures(of, OF_SENDERS)}\n" for (at, encoder, controller), of in tables.items()]
    return f"{''.join(texts)}### the default ({DEFAULT}) beside each other sender\n\n{beside_the_default(rows, file)}"


def marks(rows, source, _file):
    """The tables of docs/which-controller.md."""
    tables = in_tables(rows, ("queue", "beside"))
    title = titles(source, r'\(\s*"([\w-]+)",\s*"([^"]+)",\s*&\[', [name for both in tables for name in both])
    return "\n".join(f"### {title[queue]}; {title[beside]}\n\n{figures(of, OF_MARKS)}" for (queue, beside), of in tables.items())


SENDERS = shape(OF_SENDERS, "bottleneck", "encoder", "controller")
# Page, shape of a row, and tables of each command.
COMMANDS = {
    "senders": ("which-sender.md", SENDERS | {"figures": SENDERS["figures"] | COMPARED}, senders),
    "marks": ("which-controller.md", shape(OF_MARKS, "queue", "beside"), marks),
}


def renew(root, command, file, commit=None):
    """The tables of one of both commands, in its page."""
    page, of_row, tables = COMMANDS[command]
    rows = cells(file, of_row, command)
    runs = max(figure["runs"] for row in rows for figure in row["figures"].values())
    by = f"`makeway-lab {command} --runs {runs}`; {day(file)}, {machine(commit)}."
    text = tables(rows, root / f"crates/lab/src/{command}.rs", file)
    renew_page(root / "docs" / page, {command: f"{by}\n\n{text}"})
    return [f"docs/{page}: renewed from {file}"]


def check(root):
    for command, (page, _, _) in COMMANDS.items():
        check_places(root / "docs" / page, command)
    return []


def self_test():
    """Figures have their units, tables follow from rows, and rows that lack something are refused."""
    figure = lambda mean, half=0.05: {"mean": mean, "half_width": half, "runs": 10}
    for unit, mean, half, text in [
        ("rate", 4.12e6, 31234.0, "4.120 ± 0.031 Mbit/s"),
        ("rate", 63990.0, 120.0, "63.99 ± 0.12 kbit/s"),
        ("rate", 4.0e6, None, "4 Mbit/s"),
        ("share", 0.2134, 0.0123, "21.3 ± 1.2 %"),
        ("share", 0.0, 0.0, "0 ± 0 %"),
        ("share", 1.0, 2e-5, "100.000 ± 0.002 %"),
        ("share", 1.0, 2e-6, "100.000 ± 0.001 %"),
        ("ms", 61.4, 12.3, "61 ± 12 ms"),
        ("index", 4800.0, 120.0, "4800 ± 120"),
        ("rate", None, None, ""),
    ]:
        assert with_unit(figure(mean, half), unit) == text, text
    assert aligned(["sender", "x"], [["a", "100 %"]]) == "| sender |     x |\n|--------|-------|\n| a      | 100 % |\n"

    def row(controller, sender, shown, frozen):
        figures = {name: figure(1.0) for _, name, _ in OF_SENDERS} | {"video_shown": figure(shown), "frozen": figure(frozen)}
        return {"bottleneck": "loss", "encoder": "stays", "controller": controller, "sender": sender, "figures": figures}

    rows = [row("tfrc", DEFAULT, 0.8, 0.1), row("tfrc", "fifo", 0.6, 0.4), row("gcc", DEFAULT, 0.8, 0.3), row("gcc", "fifo", 0.95, 0.35)]
    rows += [row("ccid2", DEFAULT, 0.5, 0.5), row("ccid2", "fifo", 0.7, 0.7)]
    mark = {"queue": "fifo", "beside": "reno-ecn", "sender": "GCC", "figures": {name: figure(1.0) for _, name, _ in OF_MARKS}}
    none = mark | {"figures": mark["figures"] | {"download_bps": figure(None, None) | {"runs": 0}}}
    texts = {
        "docs/which-sender.md": "a\n<!-- senders -->\nold\n<!-- /senders -->\nb\n",
        "docs/which-controller.md": "a\n<!-- marks -->\nold\n<!-- /marks -->\nb\n",
        "crates/lab/src/senders.rs": 'name: "loss",\n        title: "2 % lost",\n',
        "crates/lab/src/marks.rs": '("fifo", "a FIFO", &[]),\n    (\n        "reno-ecn",\n        "beside Reno",\n        &["x"],\n',
        "senders.json": json.dumps(rows),
        "marks.json": json.dumps([none]),
        "own.json": json.dumps(rows[:2] + rows[3:]),
        "shown.json": json.dumps([row("tfrc", DEFAULT, None, 0.1)]),
        "title.json": json.dumps([mark | {"beside": "bbr"}]),
    }
    with files(texts) as root:
        assert check(root) == []
        right = "name a file that `makeway-lab senders --json FILE` wrote"
        for command, name, fault in [
            ("senders", "marks", f"marks.json: cell 1 has no `bottleneck` that is a text: {right}"),
            ("senders", "own", "own.json: has no row of `sbpn2, late keyframes` in loss, stays, gcc: each table should have one"),
            ("senders", "shown", f"shown.json: cell 1 has no `figures.video_shown.mean` that is a number: {right}"),
            ("marks", "title", "crates/lab/src/marks.rs: has no title of `bbr`: renew at a commit whose program makes that table"),
        ]:
            assert refusal(renew, root, command, root / f"{name}.json", "abc") == f"{root}/{fault}"
        for command in COMMANDS:
            renew(root, command, root / f"{command}.json", "abc")
        page = (root / "docs/which-sender.md").read_text()
        begin = "a\n<!-- senders -->\n`makeway-lab senders --runs 10`; "
        assert page.startswith(begin) and ", commit abc, " in page and page.endswith("<!-- /senders -->\nb\n"), page
        assert "### 2 % lost; the encoder stays, gcc\n\n| sender                | audio on time |" in page, page
        assert "| fifo                  | 100.0 ± 5.0 % |" in page, page
        assert "| fifo   |      3 |                      1 |     2 |                     2 |      0 |\n" in page, page
        page = (root / "docs/which-controller.md").read_text()
        assert "### a FIFO; beside Reno\n\n| sender | " in page and page.endswith("|\n<!-- /marks -->\nb\n"), page
        assert "| GCC    | 1.000 ± 0.050 bit/s |          | " in page, page
