# SPDX-License-Identifier: MIT OR Apache-2.0
"""Scenarios of networks in simulated time, sweeps over them, and their results as Arrow.

    import makeway as mw

    call = mw.Scenario("scenarios/call-and-downloads.toml")
    run = call.set({"duration": "20s", "flow.download.count": 5}).run(replication=1)
    run.flows                                # polars, pandas, pyarrow and DuckDB take it
    sweep = call.sweep({"link.line.queue.discipline": ["fifo", "sqf"]}, replications=20)
    store = sweep.run("out/sweep")           # only the runs that it lacks
    store.estimates()

`makeway.gym` has environments of Gymnasium in which an agent sets the rate of a flow; `makeway.traces` reads and writes traces of
links and packets. Documentation: docs/python.md.
"""

from typing import TYPE_CHECKING

from makeway import traces
from makeway._executors import Cluster, dask
from makeway._makeway import (
    SIMULATOR,
    RunError,
    ScenarioError,
    SimulatorPanic,
    StoreError,
    Table,
    TraceError,
    __version__,
)
from makeway._parts import Scheduler, Sender
from makeway._ray import ray
from makeway._scenario import Run, Scenario, Setting
from makeway._sweep import Store, Summary, Sweep, geom, lin, run_all
from makeway.traces import read_capture, read_ns2

if TYPE_CHECKING:
    from makeway import gym, plot

__all__ = [
    "SIMULATOR",
    "Cluster",
    "Run",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Scheduler",
    "Sender",
    "Setting",
    "SimulatorPanic",
    "Store",
    "StoreError",
    "Summary",
    "Sweep",
    "Table",
    "TraceError",
    "__version__",
    "dask",
    "geom",
    "gym",
    "lin",
    "plot",
    "ray",
    "read_capture",
    "read_ns2",
    "run_all",
    "traces",
]


def __getattr__(name: str) -> object:
    """`makeway.plot` needs matplotlib and `makeway.gym` Gymnasium, so each is imported at its first use."""
    if name in ("gym", "plot"):
        import importlib

        return importlib.import_module(f"makeway.{name}")
    raise AttributeError(f"module 'makeway' has no attribute {name!r}")
