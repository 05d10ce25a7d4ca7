# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pages of docs/reproduction, which are reports of `makeway-lab papers`, and what follows from them: the table of docs/reproduction.md, that
of docs/rate.md, and lines of the table of contents."""

import re
import sys

from pages.shared import between, files, read, read_page, refusal, row, table

# Papers in the order of the table, and their names in the table of contents.
PAPERS = {"sqf": "SQF", "ncq": "NCQ", "pps": "PPS", "sbpn": "SBPN", "abrc": "ABRC", "rfc8867": "RFC 8867"}
# Ends of the names of reports, by the world, and of their titles.
WORLDS = {"": "", "-netns": " with the kernel's TCP", "-vm": " in a guest"}
REPORTS = [paper + world for paper in PAPERS for world in WORLDS]
# Rate controllers with bars on RFC 8867's cases, and the figures that have some.
CONTROLLERS = ("TFRC", "CCID 2", "ABRC", "SCReAMv2", "GCC")
P99, CALLS, JAIN, DOWNLOADS = "p99 in the network over", "calls over", "Jain's index of the calls over", "downloads beside"
VERDICTS = ("reproduced", "differs", "not measurable", "not measured")
COLUMNS = {"printed": "As printed", "ours": "Ours"}
RIGHT = "a report of `makeway-lab papers`"


def there(folder):
    """Texts of the reports in a folder, by name, in the order of the table."""
    return {name: read(file, RIGHT) for name in REPORTS if (file := folder / f"{name}.md").exists()}


def statements(text):
    """Each statement of a report with the verdict and the figures of both columns: `{id: {"printed": (verdict, figures), "ours": ...}}`."""
    found = {}
    for part in re.split(r"(?m)^## ", text)[1:]:
        columns = {}
        for column, name in COLUMNS.items():
            line = re.search(rf"(?m)^- \*\*{name}\*\* \(\w+\): ({'|'.join(VERDICTS)}): (.*)$", part)
            if line:
                columns[column] = line.groups()
        if len(columns) == len(COLUMNS):
            found[part.split("\n")[0].strip()] = columns
    return found


def counted(found, column):
    """Verdicts of a column in words: `8 of 15, 1 not measured`."""
    all_of = [columns[column][0] for columns in found.values()]
    [reproduced, _, not_measurable, not_measured] = [all_of.count(verdict) for verdict in VERDICTS]
    if not_measurable == len(all_of):
        return "not measurable"
    said = f"{reproduced} of {len(all_of) - not_measurable}"
    for count, name in [(not_measurable, VERDICTS[2]), (not_measured, VERDICTS[3])]:
        said += f", {count} {name}" if count else ""
    return said


def bars(found):
    """Of the bars on RFC 8867's cases those that are met, and all."""
    figures = [figure for name, columns in found.items() if ".bars_" in name for figure in columns["ours"][1].split("; ")]
    return sum("(bar: " not in figure and "not measured" not in figure for figure in figures), len(figures)


def origin(text):
    """The command, replications, date, commit and machine of a report."""
    made = re.search(r"Made by `([^`]+)`", text)
    runs = re.search(r"mean of ([\d to]+) replications", text)
    told = re.search(r"Reported on (\S+) by commit ([^;]+); (\d+) runs, [^;]*; (.*?)\. Criteria: ", text)
    if not (made and told):
        return None
    date, commit, count, machine = told.groups()
    replications = f"{runs[1]} replications" if runs else "one run of each"
    return f"`{made[1]}`, {replications}, {count} runs; {date}, commit {commit}, {machine}"


def count(folder):
    """The table of all reports in a folder; those without two columns are left out."""
    rows, all_of = [], {}
    for name, text in there(folder).items():
        found, of = statements(text), origin(text)
        if not found or not of:
            continue
        ours = counted(found, "ours")
        [met, asked] = bars(found)
        if asked:
            ours += f"; of the [bars](rate.md#bars-on-rfc-8867s-cases) in the latter eight {met} of {asked}"
        rows.append([f"[`{name}`](reproduction/{name}.md)", str(len(found)), counted(found, "printed"), ours, of])
        if name in PAPERS and name != "rfc8867":
            all_of |= found
    if all_of:
        rows.append(["the five papers, in simulated time", str(len(all_of)), *(counted(all_of, column) for column in COLUMNS), ""])
    return table(["report", "statements", "as printed, reproduced", "ours, reproduced", "run"], rows)


def cases(text):
    """Cases of RFC 8867 with bars: figures, each with whether its bar is met; and delay and goodput of each controller."""
    found = {}
    pairs = lambda text: [one.split(": ", 1) for one in text.split("; ") if ": " in one]
    for case, body in re.findall(r"(?ms)^## rfc8867\.bars_(\S+)$(.*?)(?=^## |\Z)", text):
        ours = re.search(r"(?m)^- \*\*Ours\*\* \(\w+\): [\w ]+: (.*)$", body)
        said = re.search(r"(?m)^- \*\*Measured:\*\* (.*)$", body)
        if not (ours and said):
            continue
        judged = {}
        for name, value in pairs(ours[1]):
            figure, missed = re.fullmatch(r"(.*?)( \(bar: [^)]*\))?", value).groups()
            judged[name.split(", ")[0]] = (figure, missed is None and figure != "not measured")
        found[case.replace("_", ".")] = (judged, dict(pairs(said[1])))
    return found


def complete(found, of, report):
    """Ends where the cases of a report, or its head, lack a figure of docs/rate.md."""
    if not of:
        sys.exit(f"{report}: the head has no command, date, commit and machine: name {RIGHT}")
    whole = "`makeway-lab papers rfc8867` measures all controllers"
    for case, (judged, measured) in found.items():
        figures = [CALLS, *(one for one in (JAIN, DOWNLOADS) if f"{one} {CONTROLLERS[0]}" in judged)]
        for name in CONTROLLERS:
            if not re.fullmatch(r".* ms, .* Mbit/s", measured.get(name, "")):
                sys.exit(f'{report}: case {case} has no delay in ms and goodput in Mbit/s of {name} below "Measured": {whole}')
            for figure in figures:
                if f"{figure} {name}" not in judged:
                    sys.exit(f"{report}: case {case} has no figure `{figure} {name}`: {whole}")


def controllers(text, report):
    """The tables of docs/rate.md from a report; none where it has not all eight cases."""
    found, of = cases(text), origin(text)
    if len(found) != 8:
        return None
    complete(found, of, report)
    bold = lambda figure, is_met: figure if is_met else f"**{figure}**"
    delays, others = [], []
    for case, (judged, measured) in found.items():
        cells = []
        for name in CONTROLLERS:
            delay, goodput = measured[name].split(" ms, ")
            # Beside downloads the delay has no bar.
            _, is_met = judged.get(f"{P99} {name}", ("", True))
            cells.append(f"{bold(delay, is_met)}, {bold(goodput.removesuffix(' Mbit/s'), judged[f'{CALLS} {name}'][1])}")
        delays.append([case, *cells])
    for words, figure, unit in ((JAIN.split(" of ")[0], JAIN, ""), ("downloads", DOWNLOADS, ", Mbit/s")):
        for case, (judged, _) in found.items():
            if f"{figure} {CONTROLLERS[0]}" in judged:
                others.append([f"{words}, {case}{unit}", *(bold(*judged[f"{figure} {name}"]) for name in CONTROLLERS)])
    met = {name: [is_met for judged, _ in found.values() for of, (_, is_met) in judged.items() if of.endswith(f" {name}")] for name in CONTROLLERS}
    each = ", ".join(f"{sum(bars)} of {len(bars)} by {name}" for name, bars in met.items())
    count = f"{sum(map(sum, met.values()))} of the {sum(map(len, met.values()))} bars are met: {each}."
    return f"{of}. {count}\n\n{table(['case', *CONTROLLERS], delays)}\n{table(['figure', *CONTROLLERS], others)}"


def following(docs):
    """Pages that follow from the reports there: the file, its text as it should be, and what of it follows."""
    page, reports, report = docs / "reproduction.md", docs / "reproduction", docs / "reproduction/rfc8867.md"
    yield page, between(read_page(page), "count", count(reports), page), "the count is not that of docs/reproduction"
    if report.exists() and (bars := controllers(read(report, RIGHT), report)):
        page = docs / "rate.md"
        yield page, between(read_page(page), "bars", bars, page), "the bars are not those of docs/reproduction/rfc8867.md"


def named(page):
    """Statements in the first column of the tables below "Differences": `sqf.a`, `b` and `sqf.c_1` to `c_3` with all between."""
    section = page.split("\n## Differences", 1)[-1].split("\n## ", 1)[0]
    found = set()
    for line in section.split("\n"):
        cell = line.split("|")[1] if line.startswith("| ") else ""
        paper, last = "", ""
        for joint, token in re.findall(r"(to )?`([\w.-]+)`", cell):
            if "." in token and token.split(".")[0] in PAPERS:
                paper, token = token.split(".", 1)
            begin, end = (re.fullmatch(r"(.*?)(\d+)", one) for one in (last, token))
            if joint and begin and end:
                found |= {f"{paper}.{begin[1]}{n}" for n in range(int(begin[2]), int(end[2]) + 1)}
            found.add(f"{paper}.{token}")
            last = token
    return {name for name in found if name.split(".")[0] in PAPERS}


def differing(reports):
    """Statements of the papers, in simulated time, that differ, each with the columns in which it does."""
    found = {}
    for name, text in there(reports).items():
        for statement, columns in statements(text).items() if name in PAPERS else ():
            if those := [COLUMNS[column].lower() for column in COLUMNS if columns[column][0] == "differs"]:
                found[statement] = those
    return found


def listed(summary, name):
    """The table of contents with a line for a new report, behind the others of its paper."""
    if f"(reproduction/{name}.md)" in summary:
        return summary
    paper, _, world = name.partition("-")
    line = f"  - [{PAPERS[paper]}{WORLDS['-' + world if world else '']}](reproduction/{name}.md)"
    lines = summary.split("\n")
    before = [n for n, one in enumerate(lines) if re.search(rf"\(reproduction/{paper}(-\w+)?\.md\)", one)]
    lines.insert((before or [len(lines) - 1])[-1] + 1, line)
    return "\n".join(lines)


def renew(root, folder):
    """Renews the pages of the papers, and says what is left to be written by hand."""
    docs, said = root / "docs", []
    reports = there(folder)
    if not reports:
        sys.exit(f"{folder}: no report of `makeway-lab papers` is there: " + ", ".join(f"{name}.md" for name in REPORTS))
    for name, text in reports.items():
        file = folder / f"{name}.md"
        if not statements(text):
            sys.exit(f"{file}: no statement with two columns is in it: name a folder of reports of `makeway-lab papers`")
        if name == "rfc8867":
            controllers(text, file)
    summary = docs / "SUMMARY.md"
    contents = read_page(summary)
    for name, text in reports.items():
        page = f"reproduction/{name}.md"
        if not all("." in statement for statement in statements(text)):
            said.append(f"docs/{page}: stays, since the runs of the report failed")
            continue
        (docs / page).write_text(text)
        contents = listed(contents, name)
        said.append(f"docs/{page}: renewed")
    summary.write_text(contents)
    for page, text, _ in list(following(docs)):
        page.write_text(text)
    differ, by_hand = differing(docs / "reproduction"), named(read_page(docs / "reproduction.md"))
    said += [f'differs ({", ".join(those)}), not in "Differences": {name}' for name, those in differ.items() if name not in by_hand]
    said += [f'in "Differences", differs no longer: {name}' for name in sorted(by_hand - set(differ))]
    return said


def check(root):
    """Pages that do not follow from the reports there."""
    docs = root / "docs"
    return [f"{page.relative_to(root)}: {fault}: scripts/renew papers" for page, text, fault in following(docs) if read_page(page) != text]


REPORT = """# A paper, run again

Somebody, 2001. Made by `makeway-lab papers pps --full`. 3 statements. As printed: 1 reproduced, 2 differ. Ours: 3 reproduced. Long. \
Each figure is the mean of 2 to 5 replications, with more.
Reported on 2026-11-26 by commit abc; 30 runs, seed 1 and replications from 1 on; A. Processor, 2 cores. \
Criteria: version 1 of 2026-11-23 (first; all), SHA-256 12.

## pps.fig1

- **Paper** (Fig. 1): more.
- **As printed** (sim): differs: x: 2 (bar: at most 1)
- **Ours** (sim): reproduced: x: 1
- **Why:** nobody knows

## pps.table2

- **As printed** (sim): differs: x: 2 (bar: at most 1)
- **Ours** (sim): reproduced: x: 1

## pps.table3

- **As printed** (theory): reproduced: x: 2
- **Ours** (theory): reproduced: x: 1

## pps.note

- **Ours** (sim): reproduced: in one column alone
"""
BARS = """# Cases

An RFC. Made by `makeway-lab papers rfc8867`. 1 statement. In simulated time, one run of each.
Reported on 2026-11-26 by commit abc; 3 runs, seed 1 and replications from 1 on; A. Processor, 2 cores. \
Criteria: version 1 of 2026-11-23 (first), SHA-256 12.

## rfc8867.bars_5_1

- **As printed** (sim): not measurable: no figure
- **Ours** (sim): differs: x: 2 (bar: at most 1); y: 1; z: not measured
"""
PAGE = """# Results

<!-- count -->
old
<!-- /count -->

## Differences, and one thing changed

| statement | differs in |
| --- | --- |
| `pps.fig7`, `table2` | both |
| `pps.table4` to `table6` | both |

## Papers

| `pps.fig1` | elsewhere |
"""


def cases_of_bars(last=8):
    """The end of a report, with cases up to the last."""
    bars = f"{P99} {{0}}, ms: 487.4 ± 42 (bar: at most 150); {CALLS} {{0}}, Mbit/s: 0.93; {JAIN} {{0}}: 0.9 ± 0.1"
    figures = "; ".join(bars.format(name) for name in CONTROLLERS)
    said = "; ".join(f"{name}: 487 ± 42 ms, 0.930 ± 0.004 Mbit/s" for name in CONTROLLERS)
    case = "\n## rfc8867.bars_5_{}\n\n- **As printed** (sim): not measurable: no figure\n- **Ours** (sim): differs: {}\n- **Measured:** {}\n"
    return "".join(case.format(n, figures, said) for n in range(1, last + 1))


def self_test():
    """Pages, count, table of contents and lists follow from reports; texts that are none are refused before a page is written."""
    failed = BARS.replace("rfc8867.bars_5_1", "sbpn")
    in_kernel = REPORT.replace("pps.fig1", "pps.fig9")
    reports = {"pps": REPORT, "pps-netns": in_kernel, "rfc8867": BARS, "sbpn": failed}
    pages = {
        "docs/SUMMARY.md": "- [R](reproduction.md)\n  - [PPS](reproduction/pps.md)\n  - [SBPN](reproduction/sbpn.md)\n",
        "docs/reproduction.md": PAGE,
        "docs/reproduction/other.md": "",
    }
    with files(pages | {f"out/{name}.md": text for name, text in reports.items()}) as root:
        old = ["docs/reproduction.md: the count is not that of docs/reproduction: scripts/renew papers"]
        assert check(root) == old
        said = renew(root, root / "out")
        assert (root / "docs/reproduction/pps-netns.md").read_text() == in_kernel
        summary = (root / "docs/SUMMARY.md").read_text().split("\n")
        assert summary[1:3] == ["  - [PPS](reproduction/pps.md)", "  - [PPS with the kernel's TCP](reproduction/pps-netns.md)"], summary
        page = (root / "docs/reproduction.md").read_text()
        run = "`makeway-lab papers pps --full`, 2 to 5 replications, 30 runs; 2026-11-26, commit abc, A. Processor, 2 cores"
        of_bars = "of the [bars](rate.md#bars-on-rfc-8867s-cases) in the latter eight 1 of 3"
        for line in [
            f"| [`pps`](reproduction/pps.md) | 3 | 1 of 3 | 3 of 3 | {run} |\n",
            f"| [`rfc8867`](reproduction/rfc8867.md) | 1 | not measurable | 0 of 1; {of_bars} | ",
            "| the five papers, in simulated time | 3 | 1 of 3 | 3 of 3 | |\n",
        ]:
            assert line in page, page
        assert "old" not in page and page.endswith("elsewhere |\n"), page
        assert check(root) == []
        (root / "docs/reproduction.md").write_text(page.replace("| 1 of 3 |", "| 2 of 3 |"))
        assert check(root) == old
        (root / "docs/reproduction.md").write_text(page)
        assert not (root / "docs/reproduction/sbpn.md").exists() and "docs/reproduction/sbpn.md: stays" in "\n".join(said)
        lists = [line for line in said if not line.startswith("docs/")]
        assert lists == [
            'differs (as printed), not in "Differences": pps.fig1',
            'differs (ours), not in "Differences": rfc8867.bars_5_1',
            'in "Differences", differs no longer: pps.fig7',
            'in "Differences", differs no longer: pps.table4',
            'in "Differences", differs no longer: pps.table5',
            'in "Differences", differs no longer: pps.table6',
        ], lists

        # A report with all eight cases.
        (root / "docs/rate.md").write_text("<!-- bars -->\nold\n<!-- /bars -->\nmore\n")
        report, whole = root / "out/rfc8867.md", BARS.split("\n## ")[0] + cases_of_bars()
        assert len(list(following(root / "docs"))) == 1
        measured = f"{CONTROLLERS[1]}: 487 ± 42 ms, 0.930 ± 0.004 Mbit/s; "
        all_of = "`makeway-lab papers rfc8867` measures all controllers"
        for text, fault in [
            ("# Page\n", "no statement with two columns is in it: name a folder of reports of `makeway-lab papers`"),
            (cases_of_bars(), "the head has no command, date, commit and machine: name a report of `makeway-lab papers`"),
            (whole.replace(measured, "", 1), f'case 5.1 has no delay in ms and goodput in Mbit/s of CCID 2 below "Measured": {all_of}'),
            (whole.replace(f"{JAIN} GCC", "Jain's"), f"case 5.1 has no figure `{JAIN} GCC`: {all_of}"),
            (whole.replace(f"{CALLS} GCC", "goodput"), f"case 5.1 has no figure `{CALLS} GCC`: {all_of}"),
        ]:
            report.write_text(text)
            assert refusal(renew, root, root / "out") == f"{report}: {fault}"
            assert (root / "docs/reproduction/rfc8867.md").read_text() == BARS
        report.write_text(whole)
        renew(root, root / "out")
        page = (root / "docs/rate.md").read_text()
        assert "old" not in page and page.endswith("<!-- /bars -->\nmore\n") and check(root) == [], page
        (root / "docs/rate.md").write_text(page.replace("0.9 ± 0.1", "0.8 ± 0.1", 1))
        assert check(root) == ["docs/rate.md: the bars are not those of docs/reproduction/rfc8867.md: scripts/renew papers"]
        none = f"{root}/docs: no report of `makeway-lab papers` is there: sqf.md, sqf-netns.md, "
        assert refusal(renew, root, root / "docs").startswith(none)

    assert controllers(cases_of_bars(7), "f") is None
    tables = controllers(whole, "f").split("\n")
    head = "`makeway-lab papers rfc8867`, one run of each, 3 runs; 2026-11-26, commit abc, A. Processor, 2 cores. "
    assert tables[0].startswith(f"{head}80 of the 120 bars are met: 16 of 24 by TFRC, "), tables[0]
    assert tables[4] == row(["5.1", *["**487 ± 42**, 0.930 ± 0.004"] * 5]), tables
    assert tables[16] == row(["Jain's index, 5.2", *["0.9 ± 0.1"] * 5]), tables
    tables = controllers(whole.replace("Mbit/s: 0.93;", "Mbit/s: not measured;", 1), "f").split("\n")
    assert tables[0].startswith(f"{head}79 of the 120 bars are met: 15 of 24 by TFRC, "), tables[0]
