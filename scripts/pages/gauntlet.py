# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables of docs/gauntlet.md, from cells of `makeway-lab gauntlet`; and which of its reasons, which are written by hand, are no longer
right."""

import json
import re
import sys
from statistics import median
from types import NoneType

from pages.shared import FIGURE, FIGURE_OR_NULL, OWN, TEXT, cells, check_places, files, grid, read, read_page, refusal, renew_page, shown, table

# Rivals in the table, the ideal, and the first case of the judged half.
RIVALS, IDEAL, JUDGED = ("fifo", "fq-codel", "cake", "confucius", "dualpi2", "sqf"), "prio", "g1a"
# The bars, as in crates/lab/src/gauntlet/ideal.rs: figure, factor and digits, and whether a mean beside the ideal's keeps it.
KEEPS = {
    "on time, %": ("call.on_time", 100.0, 1, lambda own, _: own >= 0.99),
    "p99, ms": ("call.delay_p99_ms", 1.0, 1, lambda own, _: own <= 60.0),
    "rest, Mbit/s": ("rest.goodput_mbps", 1.0, 2, lambda own, ideal: own >= 0.95 * ideal),
    "Jain": ("rest.jain", 1.0, 3, lambda own, _: own >= 0.95),
}
# Figures of the other traffic with tables of their own, and their digits.
OTHERS = {
    "rest.wait_p50_ms": ("Wait of the downloads, ms (median of each, mean over them)", 0),
    "rest.page_s": ("Time of an object of a page, of a chunk or of a file, s (mean)", 2),
}
CELL = {
    "case": TEXT,
    "discipline": TEXT,
    "wins": (bool, NoneType),
    "call": {"on_time": FIGURE, "delay_p99_ms": FIGURE_OR_NULL, "frozen_s": FIGURE_OR_NULL},
    "rest": {"goodput_mbps": FIGURE_OR_NULL, "jain": FIGURE_OR_NULL, "wait_p50_ms": FIGURE_OR_NULL, "page_s": FIGURE_OR_NULL},
}
TABLES = ("cases", "bars", "rest", "drawn")


class Runs:
    """Cells of a file: cases and disciplines in order, the cell of both, and in which cases ours wins."""

    def __init__(self, file):
        found = cells(file, CELL, "gauntlet")
        if lacks := {OWN, IDEAL, *RIVALS} - {cell["discipline"] for cell in found}:
            sys.exit(f"{file}: the cells lack {', '.join(sorted(lacks))}: `makeway-lab gauntlet --disciplines` with them")
        self.file = file
        self.cases, self.disciplines, self.of = grid(found, "case", "discipline", file)
        self.wins = {case: self.of[case, OWN]["wins"] for case in self.cases}
        for case, wins in self.wins.items():
            if wins is None:
                sys.exit(f"{file}: `{OWN}` has no verdict in the case `{case}`: `makeway-lab gauntlet` with two runs or more")

    def figure(self, case, discipline, name):
        """A figure such as `call.on_time`; none where the case has not that."""
        group, name = name.split(".")
        return self.of[case, discipline][group][name]

    def mean(self, case, discipline, name):
        figure = self.figure(case, discipline, name)
        return figure and figure["mean"]

    def won(self, cases):
        return f"{sum(self.wins[case] for case in cases)} of the {len(cases)}"

    def missed(self, discipline):
        """Bars that a discipline misses, by the cases in which the call does not follow the link."""
        kept = {}
        for case in self.cases:
            if self.figure(case, discipline, "call.frozen_s"):
                continue
            means = {bar: (self.mean(case, discipline, name), self.mean(case, IDEAL, name)) for bar, (name, *_) in KEEPS.items()}
            kept[case] = [bar for bar, both in means.items() if None not in both and not KEEPS[bar][-1](*both)]
        return kept


def courses(runs):
    """The table of all cases, below the counts of those that are won."""
    if JUDGED not in runs.cases:
        sys.exit(f"{runs.file}: has no case `{JUDGED}`, with which the judged half begins: `makeway-lab gauntlet --json FILE` runs all cases")
    rows = []
    for case in runs.cases:
        own = lambda name, factor=1.0, digits=0, interval=False, case=case: shown(runs.figure(case, OWN, name), factor, digits, interval)
        shares = [f"{100 * runs.mean(case, name, 'call.on_time'):.1f}" for name in RIVALS]
        means = [own("call.delay_p99_ms"), own("rest.goodput_mbps", digits=2), own("rest.jain", digits=3)]
        rows.append([case, *shares, f"**{own('call.on_time', 100.0, 1, interval=True)}**", *means, "yes" if runs.wins[case] else "no"])
    first = runs.cases.index(JUDGED)
    tuned, judged = runs.won(runs.cases[:first]), runs.won(runs.cases[first:])
    count = f"`{OWN}` wins {tuned} cases of the tuned half and {judged} of the judged half, which begins with `{JUDGED}`."
    return f"{count}\n\n{table(['case', *RIVALS, f'**{OWN}**', 'p99', 'rest', 'Jain', 'wins'], rows)}"


def barred(runs):
    """The table of missed bars, by case; the ideal's figure is bold where it misses the bar too."""

    def told(case, discipline, bar):
        name, factor, digits, keeps = KEEPS[bar]
        mean = runs.mean(case, discipline, name)
        text = re.sub(r" ± [0.]+$", "", shown(runs.figure(case, discipline, name), factor, digits))
        return text if discipline == OWN or keeps(mean, mean) else f"**{text}**"

    missed = runs.missed(OWN)
    each = lambda case, discipline, bars: "; ".join(told(case, discipline, bar) for bar in bars)
    rows = [[case, "; ".join(bars), *(each(case, name, bars) for name in (OWN, IDEAL))] for case, bars in missed.items() if bars]
    met = list(missed.values()).count([])
    count = f"Beside `{IDEAL}`, `{OWN}` keeps all four bars in {met} of the {len(missed)} cases whose call does not follow the link."
    head = ["case", "bar missed", OWN, IDEAL]
    return f"{count} The others, with the figure of `{IDEAL}`, bold where it misses the bar too:\n\n{table(head, rows)}"


def rest(runs):
    """A table for each figure of the other traffic, of the cases that have it, below the medians of these cases."""

    def told(case, discipline, figure, digits):
        text = shown(runs.figure(case, discipline, figure), digits=digits, interval=discipline == OWN)
        return f"**{text}**" if discipline == OWN else text

    names, tables = [*RIVALS, OWN, IDEAL], []
    for figure, (what, digits) in OTHERS.items():
        has = [case for case in runs.cases if all(runs.figure(case, name, figure) for name in names)]
        if not has:
            continue
        middle = {name: median(runs.mean(case, name, figure) for case in has) for name in names}
        medians = ", ".join(f"{name} {mean:.{digits}f}" for name, mean in middle.items())
        rows = [[case, *(told(case, name, figure, digits) for name in names)] for case in has]
        head = ["case", *RIVALS, f"**{OWN}**", IDEAL]
        tables.append(f"{what}; median of the {len(has)} cases: {medians}.\n\n{table(head, rows)}")
    return "\n".join(tables)


def drawn(runs):
    """The table of drawn cases, and the counts of those that are won and in which all bars are kept."""
    rows = []
    reached = lambda figures, bar: str(sum(one >= bar for one in figures))
    for name in runs.disciplines:
        means = lambda key, name=name: [mean for case in runs.cases if (mean := runs.mean(case, name, key)) is not None]
        shares, p99s, indices = means("call.on_time"), means("call.delay_p99_ms"), means("rest.jain")
        rests = [[runs.mean(case, one, "rest.goodput_mbps") for one in (name, IDEAL)] for case in runs.cases]
        # Of the cases in which both have other traffic.
        ratios = [a / b for a, b in rests if a is not None and b]
        on_time = [reached(shares, 0.99), reached(shares, 0.95), f"{100 * sum(shares) / len(shares):.1f}", f"{100 * min(shares):.1f}"]
        others = [f"{reached(indices, 0.95)} of {len(indices)}", f"{sum(ratios) / len(ratios):.2f}" if ratios else "-"]
        rows.append([f"**{name}**" if name == OWN else name, *on_time, str(sum(one <= 60.0 for one in p99s)), *others])
    own, ideal = (list(runs.missed(name).values()).count([]) for name in (OWN, IDEAL))
    count = f"`{OWN}` wins {runs.won(runs.cases)} by the verdict above, and keeps all bars in {own}, `{IDEAL}` in {ideal}."
    head = ["discipline", "99 % on time", "95 %", "mean, %", "least, %", "p99 within 60 ms", "Jain 0.95", "rest"]
    return f"{table(head, rows)}\n{count}\n"


def reasons(text):
    """Cases that the program's output says are not won: `{case: {figure: [rival]}}`."""
    found = {}
    for case, rival, call, other in re.findall(r"(?m)^- (\S+): the (?:call under (\S+) has (.*)|other traffic has more under (\S+))$", text):
        found.setdefault(case, {}).setdefault(call or "more for the other traffic", []).append(rival or other)
    return found


def renew(root, cases_file, drawn_file, text_files):
    """Renews the page of the gauntlet, and says what is left to be written by hand."""
    page, why = root / "docs/gauntlet.md", {}
    cases, of_drawn = Runs(cases_file), Runs(drawn_file)
    for file in text_files:
        why |= reasons(read(file, "name a file with the output of `makeway-lab gauntlet`"))
    renew_page(page, dict(zip(TABLES, (courses(cases), barred(cases), rest(cases), drawn(of_drawn)), strict=True)))
    said = ["docs/gauntlet.md: renewed"]
    for case, wins in [*cases.wins.items(), *of_drawn.wins.items()]:
        if not wins:
            told = "; ".join(f"{what} under {', '.join(rivals)}" for what, rivals in why.get(case, {}).items())
            said.append(f"not won: {case}" + (f": {told}" if told else ""))
    by_hand = read_page(page).split("**Not won**")[-1].split("**Bars.**")[0]
    said += [f'in "Not won", won: {case}' for case, wins in cases.wins.items() if wins and f"`{case}`" in by_hand]
    said += [f'not in "Not won": {case}' for case, wins in cases.wins.items() if not wins and f"`{case}`" not in by_hand]
    said += [f"bars missed: {case}: {'; '.join(bars)}" for case, bars in of_drawn.missed(OWN).items() if bars]
    return said


def check(root):
    check_places(root / "docs/gauntlet.md", *TABLES)
    return []


PAGE = """<!-- cases -->
<!-- /cases -->
**Not won**: `late`, `n1`.
**Bars.** <!-- bars -->
<!-- /bars -->
<!-- rest -->
none
<!-- /rest -->
<!-- drawn -->
old
<!-- /drawn -->
"""


def self_test():
    """Tables, counts and lists follow from cells and the program's output; cells that lack something are refused."""

    def of(case, wins, own, ideal, frozen=None, wait=None, page=None):
        figures = lambda all_of: [mean and {"mean": mean, "half": half} for mean, half in all_of]
        for name in (*RIVALS, OWN, IDEAL):
            on_time, p99, goodput, jain = figures(ideal if name == IDEAL else own)
            call = {"on_time": on_time, "delay_p99_ms": p99, "frozen_s": frozen}
            others = {"goodput_mbps": goodput, "jain": jain, "wait_p50_ms": wait, "page_s": page}
            yield {"case": case, "discipline": name, "call": call, "rest": others, "wins": wins if name == OWN else None}

    met = [(0.99, 0.001), (60.0, 1.0), (3.8, 0.1), (0.95, 0.0)]
    late = [(0.9894, 0.0), (66.4, 3.0), (3.79, 0.1), (None, None)]
    ideal = [(0.98, 0.01), (59.0, 0.0), (4.0, 0.0), (0.9, 0.0)]
    wait = {"mean": 21.4, "half": 1.2}
    some = [*of("n1", True, met, ideal, wait=wait), *of("late", False, late, ideal, wait=wait | {"mean": 22.4})]
    some += [*of(JUDGED, True, late, ideal, {"mean": 0.0, "half": 0.0})]
    some += [*of("shade", False, late, ideal), *of("dusk", False, late, ideal)]
    output = "- late: the call under sqf has a shorter delay\n- late: the call under hier has a shorter delay\n- late: the other traffic has more under fq\n"
    alone = [*of("n1", True, [*met[:2], (None, None), (None, None)], ideal)]
    inputs = {
        "some": some,
        "alone": alone,
        "lacks": [cell for cell in some if cell["discipline"] not in ("sqf", IDEAL)],
        "few": [*alone, *of(JUDGED, True, met, ideal)][:-1],
        "verdict": [*of("n1", None, met, ideal)],
        "late": [*of("n1", True, [(None, None), *met[1:]], ideal)],
    }
    with files({"docs/gauntlet.md": PAGE, "output": output} | {f"{name}.json": json.dumps(of) for name, of in inputs.items()}) as root:
        assert check(root) == []
        place = lambda name: root / f"{name}.json"
        for name, fault in [
            ("lacks", "the cells lack prio, sqf: `makeway-lab gauntlet --disciplines` with them"),
            ("few", "has no cell of the case `g1a` and the discipline `prio`: every case should have every discipline"),
            ("verdict", "`makeway` has no verdict in the case `n1`: `makeway-lab gauntlet` with two runs or more"),
            ("late", "cell 1 has no `call.on_time` that is an object: name a file that `makeway-lab gauntlet --json FILE` wrote"),
            ("alone", "has no case `g1a`, with which the judged half begins: `makeway-lab gauntlet --json FILE` runs all cases"),
        ]:
            assert refusal(renew, root, place(name), place("some"), []) == f"{place(name)}: {fault}", name
        missing = f"{root}/none: No such file or directory: name a file with the output of `makeway-lab gauntlet`"
        assert refusal(renew, root, place("some"), place("some"), [root / "none"]) == missing
        assert (root / "docs/gauntlet.md").read_text() == PAGE
        said = renew(root, place("some"), place("some"), [root / "output"])
        page = (root / "docs/gauntlet.md").read_text()
        assert rest(Runs(place("alone"))) == ""
        assert drawn(Runs(place("alone"))).split("\n")[8] == "| **makeway** | 1 | 1 | 99.0 | 99.0 | 1 | 0 of 0 | - |"
    for line in [
        "`makeway` wins 1 of the 2 cases of the tuned half and 1 of the 3 of the judged half, which begins with `g1a`.\n",
        "| n1 | 99.0 | 99.0 | 99.0 | 99.0 | 99.0 | 99.0 | **99.0 ± 0.1** | 60 | 3.80 | 0.950 | yes |\n",
        "| late | 98.9 | 98.9 | 98.9 | 98.9 | 98.9 | 98.9 | **98.9 ± 0.0** | 66 | 3.79 | - | no |\n",
        "keeps all four bars in 1 of the 4 cases",
        "| late | on time, %; p99, ms; rest, Mbit/s | 98.9; 66.4 ± 3.0; 3.79 ± 0.10 | **98.0 ± 1.0**; 59.0; 4.00 |\n| shade | ",
        "median of the 2 cases: fifo 22, fq-codel 22, cake 22, confucius 22, dualpi2 22, sqf 22, makeway 22, prio 22.\n\n| case | fifo | ",
        "| n1 | 21 | 21 | 21 | 21 | 21 | 21 | **21 ± 1** | 21 |\n| late | 22 | 22 | 22 | 22 | 22 | 22 | **22 ± 1** | 22 |\n<!-- /rest -->",
        "| **makeway** | 1 | 5 | 99.0 | 98.9 | 1 | 1 of 1 | 0.95 |\n",
        "\n`makeway` wins 2 of the 5 by the verdict above, and keeps all bars in 1, `prio` in 0.\n",
    ]:
        assert line in page, page
    late = "not won: late: a shorter delay under sqf, hier; more for the other traffic under fq"
    by_hand = ['in "Not won", won: n1', 'not in "Not won": shade', 'not in "Not won": dusk']
    assert said[1:3] == [late, "not won: shade"] and [line for line in said if '"Not won"' in line] == by_hand, said
    assert "\nold\n" not in page and "bars missed: late: on time, %; p99, ms; rest, Mbit/s" in said, said
