# SPDX-License-Identifier: MIT OR Apache-2.0
"""Traces of links and packets, in and out."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any

import makeway as mw
import polars as pl
import pytest
from conftest import ROOT
from makeway import traces

if TYPE_CHECKING:
    from pathlib import Path

LINK = """
duration = "2s"
[node.server]
[node.client]
[link.line]
between = ["server", "client"]
rate = "10mbit"
framing = "ip"
queue = { at = "server", discipline = "fifo", limit = "20 packets" }
[flow.stream]
kind = "cbr"
from = "server"
to = "client"
rate = "30mbit"
payload = "1460B"
"""


@pytest.fixture
def link() -> mw.Scenario:
    return mw.Scenario(LINK)


def test_a_capture_of_a_run_is_a_table(call: mw.Scenario, link: mw.Scenario, tmp_path: Path) -> None:
    run = call.run(pcap={"line": tmp_path / "line.pcapng"}, ns2={"": tmp_path / "all.tr", "line:client": tmp_path / "up.tr"})
    packets = mw.read_capture(tmp_path / "line.pcapng")
    down = packets.where({"interface": "server -> client"})
    queue = run.queues.rows()[0]
    assert len(down) == queue["packets_out"]
    frame = pl.DataFrame(packets)
    assert frame["time_s"].min() == 0.0
    # Time zero of a run is 2000-01-01.
    assert 946_684_800 * 10**9 <= min(packets["unix_ns"]) < max(packets["unix_ns"]) < 946_684_810 * 10**9
    assert set(packets["protocol"]) == {6, 17}
    assert set(down["source"]) == {"10.78.0.1"}
    assert set(down.where({"protocol": 6})["destination_port"]) == {10_001}
    assert max(packets["bytes"]) == 1500
    # The same run, and the same packets, in its other trace.
    assert run.fingerprint == call.run().fingerprint
    events = mw.read_ns2(tmp_path / "all.tr")
    sent = events.where({"event": "-", "from": 0})
    assert sent["bytes"] == down["bytes"]
    assert sent["time_s"] == pytest.approx([ns / 1e9 - 946_684_800 for ns in down["unix_ns"]], abs=1e-6)
    assert set(events["kind"]) == {"tcp", "ack", "poisson"}
    assert list(events["event"]).count("d") == queue["dropped"]
    full = link.run(ns2={"": tmp_path / "full.tr"})
    drops = mw.read_ns2(tmp_path / "full.tr").where({"event": "d"})
    assert len(drops) == full.queues["dropped"][0] > 0
    assert set(mw.read_ns2(tmp_path / "up.tr")["from"]) == {1}


def test_errors_of_packet_traces_name_the_file_and_the_place(call: mw.Scenario, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        mw.read_capture(tmp_path / "none.pcap")
    with pytest.raises(FileNotFoundError, match="none"):
        mw.read_ns2(tmp_path / "none.tr")
    file = tmp_path / "trace"
    file.write_bytes(b"\0" * 100)
    with pytest.raises(mw.TraceError, match="trace: it is no capture: neither pcap nor pcapng begins so"):
        mw.read_capture(file)
    call.run(pcap={"line": file})
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(mw.TraceError, match=r"trace: it is cut off, or broken, in the record after the first \d+"):
        mw.read_capture(file)
    file.write_text("+ 0.1 0 1 tcp 1500 ------- 0 0.1 1.1 0 1\n+ 0.1 0 1 tcp\n")
    with pytest.raises(mw.TraceError, match="trace:2: the line has 5 columns: event, time, from, to"):
        mw.read_ns2(file)
    with pytest.raises(mw.ScenarioError, match="there is no link `lime` in the scenario"):
        call.run(pcap={"line": tmp_path / "first.pcapng", "lime": file})
    assert not (tmp_path / "first.pcapng").exists()
    with pytest.raises(ValueError, match=r"two traces would write .*trace: name a separate file"):
        call.run(pcap={"line": file}, ns2={"line": file})
    with pytest.raises(FileNotFoundError, match="folder"):
        call.run(ns2={"line": tmp_path / "no folder" / "line.tr"})


def test_a_trace_that_cannot_be_costs_no_other_file(call: mw.Scenario, tmp_path: Path) -> None:
    old, new, link = (tmp_path / name for name in ("old", "new", "link"))
    old.write_text("an older trace")
    link.symlink_to(old)
    pcap = {"line": new, "line:server": old}
    refused: list[tuple[type[Exception], str, dict[str, Path]]] = [
        (mw.ScenarioError, "there is no link `lime`", {"lime": tmp_path / "last"}),
        (FileNotFoundError, "folder", {"line": tmp_path / "no folder" / "last"}),
        (ValueError, r"two outputs would write .*link: name a separate file", {"line": link}),
    ]
    for error, words, last in refused:
        with pytest.raises(error, match=words):
            call.run(pcap=pcap, ns2=last)
        assert not new.exists()
        assert old.read_text() == "an older trace"
    with pytest.raises(mw.RunError, match="bbr"):
        call.set({"flow.download.congestion_control": "bbr"}).run(pcap=pcap)
    assert not new.exists()
    assert old.read_text() == "an older trace"


def test_opportunities_go_in_and_come_out_as_they_were(link: mw.Scenario, tmp_path: Path) -> None:
    # Bursts, a pause, and two in one millisecond.
    given = traces.Opportunities([1, 2, 2, 3, 40, 41, 41, 100])
    file = given.save(tmp_path / "trace.mahimahi")
    assert list(traces.mahimahi(file).ms) == given.ms
    exact = mw.Scenario(LINK, folder=tmp_path).set(
        {"link.line.changes": {"at": "server", "file": "trace.mahimahi", "exact": True}}
    )
    assert "8 opportunities of 1500 B, again every 100ms" in exact.explain()
    exact.run(ns2={"line:server": tmp_path / "line.tr"})
    sent = mw.read_ns2(tmp_path / "line.tr").where({"event": "-"})
    # The queue is never empty, so every opportunity is a packet: twenty rounds in 2 s.
    came = traces.of_packets(sent)
    rounds = [ms + 100 * n for n in range(20) for ms in given.ms]
    assert list(came.ms)[: len(rounds)] == rounds
    # A binary fraction a little above its millisecond is that millisecond.
    assert list(traces.of_packets({"time_s": [0.005000000000000001], "bytes": [1500]}).ms) == [5]
    # As a trace again, of one round.
    again = traces.Opportunities([ms for ms in came.ms if ms <= 100]).save(tmp_path / "again.mahimahi")
    assert again.read_bytes() == file.read_bytes()
    # Without `exact` it is the rate of each tenth of a second.
    mean = exact.set({"link.line.changes": {"at": "server", "file": "trace.mahimahi"}})
    assert given.rates().mbit == [0.96]
    assert mean.run().queues["throughput_bps"][0] == pytest.approx(960e3, rel=0.02)


def test_rates_become_opportunities_and_a_course_of_a_link(link: mw.Scenario, tmp_path: Path) -> None:
    rates = traces.Rates([0.0, 0.5, 0.7], [12.0, 0.0, 3.0], 1.0)
    trace = rates.opportunities()
    # A packet each ms, none, one each 4 ms.
    assert list(trace.ms) == [*range(1, 501), *range(704, 1001, 4)]
    back = trace.rates()
    assert [round(mbit, 6) for mbit in back.mbit] == [12.0] * 5 + [0.0] * 2 + [3.0] * 3
    assert (len(back), back.end_s) == (10, 1.0)
    inline = link.set({"link.line.changes": rates.changes("server")})
    rates.save(tmp_path / "rates.csv")
    named = mw.Scenario(LINK, folder=tmp_path).set({"link.line.changes": {"at": "server", "file": "rates.csv", "every": "1s"}})
    assert inline.digest == named.digest
    # (12 * 0.5 + 3 * 0.3) Mbit in each second.
    assert inline.run().queues["rate_bps"][0] == 6_900_000
    # Bits that fill no opportunity stay for the next rate.
    assert list(traces.Rates([0.0, 0.001], [6.0, 12.0], 0.003).opportunities().ms) == [2, 3]
    # Seven packets take 12 ms to the nanosecond, though one takes no whole number of them.
    assert list(traces.Rates([0.0], [7.0], 0.012).opportunities().ms) == [2, 4, 6, 7, 9, 11, 12]
    with pytest.raises(mw.TraceError, match="needs an opportunity after 0 ms"):
        traces.Rates([0.0], [0.0], 1.0).opportunities()
    with pytest.raises(mw.TraceError, match="has its times in order"):
        traces.Opportunities([2, 1])


UCC = """Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,DL_bitrate,UL_bitrate,State
2019.12.16_13.40.04,-8.4,51.8,0,B,2,5G,-92,-12,6.0,8,-82,20000,400,D
2019.12.16_13.40.04,-8.4,51.8,0,B,2,5G,-92,-12,6.0,8,-82,40000,600,D
2019.12.16_13.40.05,-8.4,51.8,0,B,2,5G,-92,-12,6.0,8,-82,-,-,D
2019.12.16_13.40.06,-8.4,51.8,0,B,2,5G,-92,-12,6.0,8,-82,0,100,I
"""
LUMOS5G = """run_num,seq_num,abstractSignalStr,latitude,longitude,nrStatus,Throughput,mobility_mode,trajectory_direction,tower_id
1,1,3,44.97,-93.25,CONNECTED,812.5,walking,CW,4
1,2,3,44.97,-93.25,CONNECTED,700,walking,CW,4
1,1,2,44.97,-93.25,NOT_RESTRICTED,90,driving,CW,4
2,1,2,44.97,-93.25,NOT_RESTRICTED,60,driving,CW,4
"""
SATELLITE = """time,throughput,speed,latitude,longtitu,area_type
2023-04-12 10:40:20 CDT,147,62.9,45.4,-93.2,rural
2023-04-12 10:40:21 CDT,260.5,62.2,45.4,-93.2,rural
2023-04-12 10:41:00 CDT,12.0,61.0,45.4,-93.2,rural
"""
HSDPA = """1289406399 549692 59.851754 10.781778 250000 1000
1289406400 550772 59.851864 10.781833 125000 2000
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "trace"
    file.write_text(text)
    return file


def test_public_formats_become_rates(tmp_path: Path) -> None:
    def course(rates: traces.Rates) -> tuple[list[float], list[float], float]:
        return list(rates.time_s), list(rates.mbit), rates.end_s

    ucc = written(tmp_path, UCC)
    # Samples of one second are their mean; a second without one keeps the rate before it.
    assert course(traces.ucc(ucc)) == ([0.0, 2.0], [30.0, 0.0], 3.0)
    assert course(traces.ucc(ucc, direction="up")) == ([0.0, 2.0], [0.5, 0.1], 3.0)
    lumos = written(tmp_path, LUMOS5G)
    assert course(traces.lumos5g(lumos, run=1, mode="walking")) == ([0.0, 1.0], [812.5, 700.0], 2.0)
    assert course(traces.lumos5g(lumos, run=2)) == ([0.0], [60.0], 1.0)
    satellite = written(tmp_path, SATELLITE)
    assert course(traces.satellite_vs_cellular(satellite)) == ([0.0, 1.0], [147.0, 260.5], 2.0)
    assert course(traces.satellite_vs_cellular(satellite, session=1)) == ([0.0], [12.0], 1.0)
    hsdpa = written(tmp_path, HSDPA)
    assert course(traces.hsdpa(hsdpa)) == ([0.0, 1.0], [2.0, 0.5], 3.0)


def test_a_file_is_known_by_its_checksum(tmp_path: Path) -> None:
    file = written(tmp_path, HSDPA)
    digest = hashlib.sha256(HSDPA.encode()).hexdigest()
    assert traces.hsdpa(file).sha256 == digest
    assert traces.hsdpa(file, sha256=digest.upper()).mbit == [2.0, 0.5]
    file.write_text(HSDPA + HSDPA)
    with pytest.raises(mw.TraceError, match=rf"its SHA-256 is .*, not {digest}"):
        traces.hsdpa(file, sha256=digest)


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (traces.ucc, "", "trace:1: no column Timestamp, DL_bitrate: its columns are none"),
        (traces.ucc, UCC.replace("DL_bitrate", "DL"), "no column DL_bitrate: its columns are Timestamp"),
        (traces.ucc, UCC.replace("2019.12.16_13.40.06", "noon"), "trace:5: `noon` should be a time like 2019.12.16_13"),
        (traces.ucc, UCC.replace("13.40.06", "13.40.01"), "trace:5: .* is earlier than the sample before it"),
        (traces.ucc, UCC.replace(",40000,", ",fast,"), "trace:3: DL_bitrate is `fast`: it should be a number from 0 on"),
        (traces.ucc, UCC.replace(",40000,", ",1e99,"), "trace:3: DL_bitrate is `1e99`"),
        (traces.ucc, UCC[: UCC.rindex(",0,")], "trace:5: 12 columns, the header has 15"),
        (traces.ucc, UCC + '"' + "x" * 200_000, "trace:6: field larger than field limit"),
        (traces.ucc, UCC[: UCC.index("\n") + 1], "it has no sample"),
        (traces.satellite_vs_cellular, SATELLITE.replace(" 10:41:00 CDT", ""), "trace:4: `2023-04-12` should be a time like"),
        (partial(traces.satellite_vs_cellular, session=7), SATELLITE, "session=7: it has 2, numbered from 0"),
        (partial(traces.lumos5g, run=1), LUMOS5G, "run 1 is there of mode='driving'.* and of mode='walking'"),
        (partial(traces.lumos5g, run=9), LUMOS5G, "no sample of run=9, .*: the first runs are 1, 2"),
        (traces.hsdpa, "1 2 3\n", "trace:1: 3 columns: a log has six"),
        (traces.hsdpa, HSDPA.replace(" 2000", " 0"), "trace:2: 125000 B in 0 ms is no rate"),
        (traces.hsdpa, "", "it has no sample"),
        (traces.mahimahi, "5\n3\n", "trace:2: 3 ms is earlier than the 5 ms before it"),
        (traces.mahimahi, "# 5\n1.5\n", "trace:2: `1.5` should be a time in ms"),
        (traces.mahimahi, "0\n", "trace: a trace of Mahimahi needs an opportunity after 0 ms"),
        (traces.mahimahi, "999999999999\n", "is beyond 1000000000 ms"),
    ],
)
def test_errors_of_files_name_the_line(read: Any, text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(mw.TraceError, match=said):
        read(written(tmp_path, text))


def test_other_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_bytes(b"PK\x03\x04\xff\xfe")
    with pytest.raises(mw.TraceError, match="byte 4 is no UTF-8: give the CSV itself, not an archive"):
        traces.ucc(file)
    with pytest.raises(mw.TraceError, match="it is longer than 256 MB"):
        traces.mahimahi("/dev/zero")
    with pytest.raises(ValueError, match="direction='left': choose 'down' or 'up'"):
        traces.ucc(written(tmp_path, UCC), direction="left")


def test_a_trace_of_the_tree_and_of_its_reader_in_rust_are_the_same(tmp_path: Path) -> None:
    """Both readers of Mahimahi's format take and refuse the same lines."""
    corpus = ROOT / "fuzz/corpus/changes"
    taken = 0
    for file in sorted(corpus.iterdir()):
        text = file.read_text()
        (tmp_path / "trace").write_text(text)
        changes: dict[str, mw.Setting] = {"at": "server", "file": "trace", "exact": True}
        try:
            ours = traces.mahimahi(tmp_path / "trace")
        except mw.TraceError:
            with pytest.raises(mw.ScenarioError):
                mw.Scenario(LINK, folder=tmp_path).set({"link.line.changes": changes})
            continue
        taken += 1
        words = mw.Scenario(LINK, folder=tmp_path).set({"link.line.changes": changes}).explain()
        assert f"{len(ours)} opportunities of 1500 B" in words
    assert taken >= 1
