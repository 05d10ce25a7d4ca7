# SPDX-License-Identifier: MIT OR Apache-2.0
"""Traces of links and of packets, in and out.

    rates = mw.traces.ucc("B_2019.12.16_13.40.04.csv")                       # one of the public formats below
    drive = call.set({"link.line.changes": rates.changes(at="server")})
    rates.opportunities().save("drive.mahimahi")                             # for Mahimahi's mm-link

A function for each public format of mobile and satellite rates; the files are their authors', and none comes with makeway. Each
result has the SHA-256 of the file that was read, and `sha256=` refuses any other file.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from makeway import _makeway
from makeway._makeway import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from makeway._makeway import Table
    from makeway._scenario import Setting

__all__ = [
    "Opportunities",
    "Rates",
    "TraceError",
    "hsdpa",
    "lumos5g",
    "mahimahi",
    "of_packets",
    "read_capture",
    "read_ns2",
    "satellite_vs_cellular",
    "ucc",
]

MOST_BYTES = 256_000_000
"""Largest file that is read."""
MOST_OPPORTUNITIES = 20_000_000
"""Most lines of a trace of Mahimahi."""
LATEST_MS = 1_000_000_000
OPPORTUNITY = 1500
"""Bytes that leave at an opportunity."""
GAP_S = 10.0
"""A longer time without a sample ends a session."""


Row: TypeAlias = "tuple[str, dict[str, str]]"
"""Place of a row, and the values of its columns."""


class Columns(Protocol):
    """A table of makeway, a data frame, or a dictionary of lists."""

    def __getitem__(self, name: str, /) -> Any: ...


@dataclass(frozen=True, repr=False)
class Rates:
    """Rates of a link: each from its time on until the next, the last until `end_s`."""

    time_s: Sequence[float]
    """The first is 0."""
    mbit: Sequence[float]
    end_s: float
    sha256: str = ""
    """Of the file that it was read from, if any."""

    def __len__(self) -> int:
        return len(self.time_s)

    def __repr__(self) -> str:
        return f"<makeway.traces.Rates: {len(self)} up to {max(self.mbit, default=0.0):g} Mbit/s, {self.end_s:g} s>"

    def changes(self, at: str) -> dict[str, Setting]:
        """Value of `link.NAME.changes` for the egress of the node `at`; the rates repeat.

            scenario.set({"link.line.changes": rates.changes("server")})

        Of some thousand rates or more, `save` a file and name that.
        """
        steps = [[f"{_number(time)}s", f"{round(rate * 1e6)}bit"] for time, rate in zip(self.time_s, self.mbit, strict=True)]
        return {"at": at, "steps": steps, "every": f"{_number(self.end_s)}s"}

    def save(self, path: str | Path) -> Path:
        """Writes the CSV for `changes = { at = "server", file = "rates.csv", every = "60s" }`; without `every` it plays once."""
        path = Path(path)
        rows = [f"{_number(time)},{_number(rate)}\n" for time, rate in zip(self.time_s, self.mbit, strict=True)]
        path.write_text("time_s,mbit\n" + "".join(rows))
        return path

    def opportunities(self) -> Opportunities:
        """The same as a trace of Mahimahi: an opportunity in the first millisecond by whose end another 1500 B could be sent.

        Bits that fill none stay for the next rate, and a trace ends with its last opportunity.
        """
        # In ns and bit/s, which are whole numbers: nothing is rounded but the millisecond.
        need = OPPORTUNITY * 8 * 10**9
        times: list[int] = []
        sent = 0
        ends = [*self.time_s[1:], self.end_s]
        for begin, end, rate in zip(self.time_s, ends, self.mbit, strict=True):
            now, until, bps = round(begin * 1e9), round(end * 1e9), round(rate * 1e6)
            while bps:
                wait = -((sent - need) // bps)
                if now + wait > until:
                    sent += bps * (until - now)
                    break
                now += wait
                sent += bps * wait - need
                times.append(-(-now // 10**6))
                if len(times) > MOST_OPPORTUNITIES:
                    raise TraceError(f"the rates have more than {MOST_OPPORTUNITIES} opportunities: take a part of them")
        return Opportunities(times)


@dataclass(frozen=True, repr=False)
class Opportunities:
    """A trace of Mahimahi: milliseconds at each of which 1500 B may leave a link; it begins again after the last."""

    ms: Sequence[int]
    """In order; of several in one millisecond each is there."""
    sha256: str = ""

    def __post_init__(self) -> None:
        if not self.ms or self.ms[-1] <= 0:
            raise TraceError("a trace of Mahimahi needs an opportunity after 0 ms, at which it ends")
        if self.ms[0] < 0 or any(later < time for time, later in itertools.pairwise(self.ms)):
            raise TraceError("a trace of Mahimahi has its times in order, from 0 ms on")
        if self.ms[-1] > LATEST_MS:
            raise TraceError(f"{self.ms[-1]} ms is beyond {LATEST_MS} ms: take a part of the trace")

    def __len__(self) -> int:
        return len(self.ms)

    def __repr__(self) -> str:
        return f"<makeway.traces.Opportunities: {len(self)} in {self.ms[-1]} ms>"

    def save(self, path: str | Path) -> Path:
        """Writes the file that `mm-link` reads, and `changes = { at = "server", file = "trace.mahimahi", exact = true }`."""
        path = Path(path)
        path.write_text("".join(f"{time}\n" for time in self.ms))
        return path

    def rates(self) -> Rates:
        """The rate of each tenth of a second, those that a scenario takes without `exact`."""
        last = self.ms[-1]
        bins = [0] * ((last - 1) // 100 + 1)
        for time in self.ms:
            bins[max(time - 1, 0) // 100] += OPPORTUNITY * 8
        lengths = [min(last - 100 * n, 100) for n in range(len(bins))]
        times = [n / 10 for n in range(len(bins))]
        rates = [bits / length / 1000 for bits, length in zip(bins, lengths, strict=True)]
        return Rates(times, rates, last / 1000, self.sha256)


def read_capture(path: str | Path) -> Table:
    """IP packets of a capture, pcap or pcapng, a row each, in the order of the file.

    Columns: `time_s` after the first packet, `unix_ns`, `interface` (name, or number in its section), `bytes` from the IP header
    on, `source` and `destination` (addresses), `protocol` (6 is TCP, 17 UDP), `source_port`, `destination_port`. 2 million
    packets at most.

    Raises:
        TraceError: packet, and what is wrong with it.
    """
    _exists(path)
    return _makeway.read_capture(path)


def read_ns2(path: str | Path) -> Table:
    """Packet events of a trace of ns-2, or of `run(ns2=...)`, a row each.

    Columns, as the ns Manual has them: `event` (`+` queued, `-` sent, `r` received, `d` dropped), `time_s`, `from`, `to`, `kind`,
    `bytes`, `flags`, `flow`, `source`, `destination`, `seq`, `id`. Further columns of TCP and lines of variables are left out.
    4 million events at most.

    Raises:
        TraceError: line, and what is wrong with it.
    """
    _exists(path)
    return _makeway.read_ns2(path)


def mahimahi(path: str | Path, *, sha256: str | None = None) -> Opportunities:
    """A trace of Mahimahi: a time in ms on each line. Empty lines, and comments from `#` on, are left out."""
    text, digest = _text(path, sha256)
    times: list[int] = []
    for line, word in enumerate(map(str.strip, text.splitlines()), start=1):
        if not word or word.startswith("#"):
            continue
        if not (word.isascii() and word.isdigit()) or len(word) > 12:
            raise TraceError(f"{path}:{line}: `{word[:20]}` should be a time in ms, like 25")
        if times and int(word) < times[-1]:
            raise TraceError(f"{path}:{line}: {word} ms is earlier than the {times[-1]} ms before it")
        times.append(int(word))
    try:
        return Opportunities(times, digest)
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


def of_packets(packets: Columns) -> Opportunities:
    """Packets of a link as a trace of Mahimahi: an opportunity for each 1500 B, in the millisecond by whose end they had left.

    Args:
        packets: columns `time_s` and `bytes` of packets that left the link: `read_ns2(path).where({"event": "-"})`, or
            `read_capture(path)`. Time 0 is the table's. A link that was idle now and then could have sent more.
    """
    rows = sorted(zip(packets["time_s"], packets["bytes"], strict=True))
    times: list[int] = []
    sent = 0
    for time, size in rows:
        sent += size
        while sent >= OPPORTUNITY:
            sent -= OPPORTUNITY
            # 5 ms may be 5.000000000000001.
            times.append(max(math.ceil(time * 1000 - 1e-6), 0))
            if len(times) > MOST_OPPORTUNITIES:
                raise TraceError(f"the packets have more than {MOST_OPPORTUNITIES} opportunities: take a part of them")
    return Opportunities(times)


def ucc(path: str | Path, *, direction: str = "down", sha256: str | None = None) -> Rates:
    """A file of University College Cork's 4G or 5G dataset (D. Raca et al., MMSys 2018, 2020): CSV, about a sample a second.

    Args:
        direction: `down` (column `DL_bitrate`, kbit/s) or `up` (`UL_bitrate`).

    Samples of one second count by their mean. The rate is what an application received, not what the link could have sent.
    """
    names = {"down": "DL_bitrate", "up": "UL_bitrate"}
    if direction not in names:
        raise ValueError(f"direction={direction!r}: choose 'down' or 'up'")
    rows, digest = _rows(path, sha256, ["Timestamp", names[direction]])
    samples: list[tuple[float, float]] = []
    first: datetime | None = None
    for place, row in rows:
        kbit = _amount(row[names[direction]], names[direction], place)
        if kbit is None:
            continue
        at = _moment(row["Timestamp"], "%Y.%m.%d_%H.%M.%S", "2019.12.16_13.40.04", place)
        first = first or at
        samples.append(((at - first).total_seconds(), kbit / 1000))
        if len(samples) > 1 and samples[-1][0] < samples[-2][0]:
            raise TraceError(f"{place}: {row['Timestamp']} is earlier than the sample before it: give one recording")
    return _course(samples, digest, str(path))


def lumos5g(
    path: str | Path, *, run: int, mode: str | None = None, trajectory: str | None = None, sha256: str | None = None
) -> Rates:
    """A run of Lumos5G 1.0 (A. Narayanan et al., IMC 2020): CSV, TCP's throughput in each second.

    Args:
        run: `run_num`, which counts within a mode and a trajectory.
        mode: `mobility_mode`, `walking` or `driving`; needed where both have the run.
        trajectory: `trajectory_direction`, `CW` or `ACW`; likewise.
    """
    columns = ["run_num", "seq_num", "Throughput", "mobility_mode", "trajectory_direction"]
    rows, digest = _rows(path, sha256, columns)
    samples: list[tuple[float, float]] = []
    known: set[str] = set()
    of: set[tuple[str, str]] = set()
    for place, row in rows:
        known.add(row["run_num"])
        chosen = row["run_num"] == str(run) and (mode or row["mobility_mode"]) == row["mobility_mode"]
        if not chosen or (trajectory or row["trajectory_direction"]) != row["trajectory_direction"]:
            continue
        of.add((row["mobility_mode"], row["trajectory_direction"]))
        if len(of) > 1:
            both = " and of ".join(f"mode={way!r}, trajectory={turn!r}" for way, turn in sorted(of))
            raise TraceError(f"{path}: run {run} is there of {both}: choose one")
        second = _amount(row["seq_num"], "seq_num", place)
        mbit = _amount(row["Throughput"], "Throughput", place)
        if second is None or mbit is None:
            continue
        samples.append((second, mbit))
        if len(samples) > 1 and second < samples[-2][0]:
            raise TraceError(f"{place}: seq_num {second:g} is earlier than the sample before it")
    if not samples:
        runs = ", ".join(sorted(known, key=lambda number: (len(number), number))[:20])
        chosen = f"run={run}, mode={mode!r}, trajectory={trajectory!r}"
        raise TraceError(f"{path}: no sample of {chosen}: the first runs are {runs}")
    return _course(samples, digest, str(path))


def satellite_vs_cellular(path: str | Path, *, session: int = 0, sha256: str | None = None) -> Rates:
    """A session of the Starlink and cellular measurements of B. Hu et al. (CoNEXT 2023): CSV, Mbit/s of each second.

    Args:
        session: a file has many, from 0; one ends where 10 s have no sample, or the clock goes back.
    """
    rows, digest = _rows(path, sha256, ["time", "throughput"])
    sessions: list[list[tuple[float, float]]] = []
    last: datetime | None = None
    first = datetime.min
    for place, row in rows:
        mbit = _amount(row["throughput"], "throughput", place)
        # The zone, CDT, is left out: it stays within a session.
        text = " ".join(row["time"].split()[:2])
        at = _moment(text, "%Y-%m-%d %H:%M:%S", "2023-04-12 10:40:20 CDT", place)
        if last is None or not 0 <= (at - last).total_seconds() <= GAP_S:
            sessions.append([])
            first = at
        last = at
        if mbit is not None:
            sessions[-1].append(((at - first).total_seconds(), mbit))
    if not 0 <= session < len(sessions):
        raise TraceError(f"{path}: session={session}: it has {len(sessions)}, numbered from 0")
    return _course(sessions[session], digest, f"{path}: session {session}")


def hsdpa(path: str | Path, *, sha256: str | None = None) -> Rates:
    """A log of Telenor's 3G network (H. Riiser et al., MMSys 2013): six columns, the last two are bytes and the ms they took."""
    text, digest = _text(path, sha256)
    times: list[float] = []
    rates: list[float] = []
    now = 0.0
    for line, words in enumerate(map(str.split, text.splitlines()), start=1):
        place = f"{path}:{line}"
        if not words:
            continue
        if len(words) != 6:
            like = "1289406399 549692 59.85 10.78 248069 1008"
            raise TraceError(f"{place}: {len(words)} columns: a log has six, like `{like}`")
        received = _amount(words[4], "column 5", place)
        length = _amount(words[5], "column 6", place)
        if received is None or not length:
            raise TraceError(f"{place}: {words[4]} B in {words[5]} ms is no rate: both are numbers, the second above 0")
        times.append(now)
        rates.append(received * 8 / length / 1000)
        now += length / 1000
    if not times:
        raise TraceError(f"{path}: it has no sample")
    return Rates(times, rates, now, digest)


def _exists(path: str | Path) -> None:
    """An error of the system, as of any file in Python."""
    with Path(path).open("rb"):
        pass


def _text(path: str | Path, sha256: str | None) -> tuple[str, str]:
    """The text of a file, and its SHA-256."""
    with Path(path).open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise TraceError(f"{path}: it is longer than {MOST_BYTES // 1_000_000} MB: give a part of it")
    digest = hashlib.sha256(content).hexdigest()
    if sha256 is not None and digest != sha256.lower():
        raise TraceError(f"{path}: its SHA-256 is {digest}, not {sha256}: it is another version of the file, or damaged")
    try:
        return content.decode("utf-8-sig"), digest
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: byte {error.start} is no UTF-8: give the CSV itself, not an archive") from None


def _rows(path: str | Path, sha256: str | None, needed: Sequence[str]) -> tuple[Iterator[Row], str]:
    """Rows of a CSV with a header, and the SHA-256 of the file."""
    text, digest = _text(path, sha256)
    reader = csv.reader(io.StringIO(text, newline=""))

    def lines() -> Iterator[list[str]]:
        try:
            yield from reader
        except csv.Error as error:
            raise TraceError(f"{path}:{reader.line_num}: {error}") from None

    every = lines()
    header = [name.strip() for name in next(every, [])]
    missing = [name for name in needed if name not in header]
    if missing:
        raise TraceError(f"{path}:1: no column {', '.join(missing)}: its columns are {', '.join(header)[:200] or 'none'}")
    at = [header.index(name) for name in needed]

    def rows() -> Iterator[Row]:
        for row in every:
            place = f"{path}:{reader.line_num}"
            if not row:
                continue
            if len(row) <= max(at):
                raise TraceError(f"{place}: {len(row)} columns, the header has {len(header)}: the line is cut off")
            yield place, {name: row[n].strip() for name, n in zip(needed, at, strict=True)}

    return rows(), digest


def _amount(text: str, name: str, place: str) -> float | None:
    """A number from 0 on; None where it is not known."""
    if text in ("", "-") or text.lower() == "nan":
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < 1e12:
        raise TraceError(f"{place}: {name} is `{text[:20]}`: it should be a number from 0 on, like 12.5")
    return number


def _moment(text: str, form: str, example: str, place: str) -> datetime:
    try:
        return datetime.strptime(text, form)
    except ValueError:
        raise TraceError(f"{place}: `{text[:30]}` should be a time like {example}") from None


def _course(samples: Iterable[tuple[float, float]], digest: str, place: str) -> Rates:
    """Samples in order of time; those of one time count by their mean, and the last is as long as a second."""
    times: list[float] = []
    rates: list[float] = []
    for time, group in itertools.groupby(samples, key=lambda sample: sample[0]):
        values = [mbit for _, mbit in group]
        times.append(time)
        rates.append(sum(values) / len(values))
    if not times:
        raise TraceError(f"{place}: it has no sample")
    return Rates([time - times[0] for time in times], rates, times[-1] - times[0] + 1.0, digest)


def _number(value: float) -> str:
    """In as few digits as a scenario needs: nanoseconds, or bit/s of Mbit/s."""
    return f"{value:.9f}".rstrip("0").rstrip(".")
