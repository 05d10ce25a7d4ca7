# SPDX-License-Identifier: MIT OR Apache-2.0
"""Scenarios and runs."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from typing import TYPE_CHECKING, Any

import duckdb
import makeway as mw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import DISCIPLINE, ROOT, TEXT
from makeway._scenario import as_text

if TYPE_CHECKING:
    from pathlib import Path


def test_a_run_is_the_same_each_time_and_another_replication_is_another(call: mw.Scenario) -> None:
    runs = [call.run(replication=n) for n in (1, 1, 2)]
    assert runs[0].fingerprint == runs[1].fingerprint != runs[2].fingerprint
    assert runs[0].hops > 100
    assert "fifo" in str(runs[0])


def test_a_path_and_its_text_are_one_scenario(tmp_path: Path) -> None:
    file = tmp_path / "call.toml"
    file.write_text(TEXT)
    assert mw.Scenario(file).digest == mw.Scenario(str(file)).digest == mw.Scenario(TEXT).digest
    assert mw.Scenario(ROOT / "scenarios/call-and-downloads.toml").run().flows["name"][-1] == "audio"


def test_settings_have_the_keys_and_the_errors_of_the_program(call: mw.Scenario) -> None:
    small = call.set({"duration": "1s", "flow.download.count": 2, "link.line.queue": {"at": "server", "discipline": "sqf"}})
    assert small.duration_s == 1.0
    assert as_text([True, 1, "a", {"k": 0.5}]) == '[true, 1, "a", { "k" = 0.5 }]'
    assert [as_text(value) for value in (True, 2, 0.5, "fifo")] == ["true", "2", "0.5", "fifo"]
    assert small.run().flows["name"] == ["call", "download-1", "download-2"]
    assert small.run().queues["discipline"] == ["sqf"]
    with pytest.raises(mw.ScenarioError, match=r"--set link.lin.rate=1mbit: there is no link `lin`.*did you mean `line`\?"):
        call.set({"link.lin.rate": "1mbit"})
    with pytest.raises(mw.ScenarioError, match="--set duration=-1"):
        call.set({"duration": -1})
    with pytest.raises(mw.ScenarioError, match=r"scenario:\d+: "):
        mw.Scenario(TEXT.replace("poisson", "poison"))
    with pytest.raises(mw.ScenarioError, match="cannot be read"):
        mw.Scenario("no such file")
    with pytest.raises(TypeError, match="a setting of object"):
        call.set({"duration": object()})  # type: ignore[dict-item] # pyright: ignore[reportArgumentType]


def test_a_scenario_without_a_model_is_an_exception(call: mw.Scenario) -> None:
    bbr = call.set({"flow.download.congestion_control": "bbr"})
    with pytest.raises(mw.RunError, match="no congestion control `bbr`"):
        bbr.run()


def test_polars_pandas_pyarrow_and_duckdb_read_a_table(call: mw.Scenario) -> None:
    run = call.run()
    flows = run.flows
    names, goodput = flows["name"], flows["goodput_bps"]
    assert names == ["call", "download"]
    assert flows["loss"][1] is None
    polars = pl.DataFrame(flows)
    assert polars["name"].to_list() == names
    assert polars["goodput_bps"].to_list() == goodput
    assert polars["loss"].null_count() == 1
    arrow = pa.table(flows)
    assert arrow["name"].to_pylist() == names
    assert pd.DataFrame.from_arrow(flows)["goodput_bps"].tolist() == goodput  # pyright: ignore
    # Of the table itself, which the query names.
    assert duckdb.sql("SELECT name FROM flows WHERE goodput_bps > 5e5").fetchall() == [("download",)]  # pyright: ignore[reportOptionalMemberAccess]
    # Whole numbers, flags and text of each row.
    queue = run.queues.rows()[0]
    assert queue["packets_in"] >= queue["packets_out"] > 0
    assert pa.schema(run.queues).field("dropped").type == pa.int64()  # pyright: ignore


def test_numbers_are_read_where_they_are(call: mw.Scenario) -> None:
    reader: Any = pa.RecordBatchReader
    batch = reader.from_stream(call.run().series("backlog")).read_next_batch()
    values = batch.column("value")
    there = values.buffers()[1].address
    backlog = pa.Table.from_batches([batch])  # pyright: ignore
    of_pandas = backlog.to_pandas(types_mapper=pd.ArrowDtype)["value"].array.__arrow_array__()
    assert values.to_numpy(zero_copy_only=True).ctypes.data == there
    assert pl.DataFrame(batch)["value"].to_numpy(allow_copy=False).ctypes.data == there
    assert of_pandas.chunk(0).buffers()[1].address == there
    # Each export of one table has the same memory: of numbers, whole ones and text.
    table = call.run().flows
    exports: list[Any] = [pa.table(table) for _ in range(3)]
    for name, buffer in [("goodput_bps", 1), ("received", 1), ("name", 2)]:
        assert len({export[name].chunk(0).buffers()[buffer].address for export in exports}) == 1
    # DuckDB's own vectors show no address: it scans the same table.
    total = duckdb.sql("SELECT sum(value) FROM backlog").fetchall()  # pyright: ignore[reportOptionalMemberAccess]
    assert total[0][0] == pytest.approx(sum(values.to_pylist()))


def test_long_tables_come_in_batches_and_empty_ones_have_a_schema(call: mw.Scenario) -> None:
    longer = call.set({"duration": "20s", "flow.call.count": 200, "flow.call.rate": "8kbit"})
    series = longer.run().series()
    assert len(series) > 65536
    assert pl.DataFrame(series)["value"].to_list() == series["value"]
    empty = pa.table(call.run().classes)
    assert empty.num_rows == 0
    assert "freezes" in empty.column_names


def test_a_class_of_frames_has_the_share_of_them_that_was_shown(tmp_path: Path) -> None:
    video = mw.Scenario(ROOT / "scenarios/examples/video-call.toml").set({"duration": "10s"})
    run = video.run(replication=1)
    assert run.classes["class"] == ["audio", "video"]
    told = [one["freezes"] for one in run.report()["flows"][1]["media"]["classes"]]
    shown = [one["frames"] / one["made"] for one in told]
    assert run.classes["shown"] == shown
    # Frames each 20 and each 100 ms, for seven seconds.
    assert [one["made"] for one in told] == [350, 70]
    assert run.figures.where({"of": "call video", "figure": "shown"})["value"] == shown[1:]
    store = video.sweep({"flow.call.policy": ["fifo", "sbpn2"]}, replications=2).run(tmp_path)
    assert len(store.estimates().where({"of": "call video", "figure": "shown"})) == 2


def test_frames_that_the_queue_cannot_hold_are_counted_and_told() -> None:
    trace = ROOT / "scenarios/traces/x264-500k.csv"
    call = mw.Scenario(ROOT / "scenarios/examples/video-call.toml")
    # As long as the trace, after the warm-up.
    call = call.set({"flow.call.video": {"period": "40ms", "trace": str(trace)}, "duration": "23s"})
    assert "the largest frame of `video` has 6 datagrams" in call.warnings[0]
    run = call.run()
    [of_audio, of_video] = run.classes["too_large"]
    assert (of_audio, of_video % 6, of_video > 0) == (0, 0, True)
    assert run.figures.where({"of": "call video", "figure": "too_large"})["value"] == [of_video]
    assert call.set({"flow.call.queue": "6 packets"}).warnings == []


def test_series_are_over_time(call: mw.Scenario) -> None:
    run = call.run()
    backlog = run.series("backlog")
    assert set(backlog["of"]) == {"server -> client"}
    assert backlog["time_s"][:3] == pytest.approx([0.0, 0.1, 0.2])
    assert max(backlog["value"]) > 10
    with pytest.raises(ValueError, match="choose goodput_bps"):
        run.series("goodput")


def test_a_notebook_shows_runs_scenarios_and_tables(call: mw.Scenario) -> None:
    run = call.run()
    assert "<iframe srcdoc=" in run._repr_html_()
    assert "<script" not in run.html()
    assert "download" in call._repr_html_()
    shown = run.series()._repr_html_()
    assert shown.count("<tr>") == 21
    assert f"20 of {len(run.series())} rows" in shown


def test_other_threads_run_during_a_run(call: mw.Scenario) -> None:
    long = call.set({"duration": "300s", "link.line.rate": "20mbit"})
    done = threading.Event()
    ticks = 0

    def work() -> None:
        long.run()
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.001):
        ticks += 1
    thread.join()
    # With the interpreter's lock held, this thread would have come in after the run only.
    assert ticks > 10


def test_ctrl_c_ends_a_run(call: mw.Scenario) -> None:
    import _thread

    long = call.set({"duration": "10000s", "link.line.rate": "100mbit"})
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        long.run()
    assert time.monotonic() - began < 5


def test_a_sweep_has_values_of_a_range() -> None:
    assert mw.geom("1mbit", "100mbit", 3) == ["1mbit", "10mbit", "100mbit"]
    assert mw.lin("0ms", "10ms", 3) == ["0ms", "5ms", "10ms"]
    assert mw.lin(0, 1, 3) == ["0", "0.5", "1"]
    with pytest.raises(ValueError, match="different units"):
        mw.geom("1mbit", "1gbit", 3)
    scenario = mw.Scenario(TEXT)
    for value in mw.geom("1mbit", "20mbit", 7):
        scenario.set({"link.line.rate": value})
    assert DISCIPLINE in repr(scenario.sweep({DISCIPLINE: "fifo"}).plan.axes)


def test_a_copy_is_the_same_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = mw.Scenario(TEXT).set({"link.line.rate": "2mbit"})
    kept = pickle.dumps(scenario)
    # Elsewhere, as in another process.
    monkeypatch.chdir(tmp_path)
    for again in (pickle.loads(kept), copy.deepcopy(scenario)):
        assert again.digest == scenario.digest
        assert again._inner.source == scenario._inner.source
        assert again._inner.settings == scenario._inner.settings == ["link.line.rate=2mbit"]
        assert again.run().fingerprint == scenario.run().fingerprint
