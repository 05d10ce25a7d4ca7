# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the runs of plans that another program wrote, on Dask or on processes of this machine, into a store.

    makeway-lab papers sqf --plans out/plans
    python run_plans.py out/plans out/papers/store --on tcp://head:8786
    makeway-lab papers sqf                                                  # judges the runs that are in out/papers/store

`--on processes` starts a Dask cluster of this machine, `--on threads` none. The scenarios and traces that plans name are beside
them: each machine needs that folder at the same path.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

import makeway as mw


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", type=Path, help="folder of plans, ID-KEY.json")
    parser.add_argument("store", type=Path, help="folder of the store")
    parser.add_argument("--on", default="processes", metavar="ADDRESS|processes|threads")
    arguments = parser.parse_args()
    sweeps = [mw.Sweep.load(path) for path in sorted(arguments.plans.glob("*.json"))]
    if not sweeps:
        parser.error(f"no plan in {arguments.plans}: write some with `makeway-lab papers sqf --plans DIR`")
    if arguments.on == "threads":
        done = mw.run_all(sweeps, arguments.store)
    else:
        with closing(mw.dask(None if arguments.on == "processes" else arguments.on)) as cluster:
            done = mw.run_all(sweeps, arguments.store, on=cluster)
    print(
        f"{done.runs} runs of {len(sweeps)} plans: {done.kept} were in the store, {done.made} made, {done.failed} of them failed"
    )
    raise SystemExit(0 if done.complete and not done.failed else 1)


if __name__ == "__main__":
    main()
