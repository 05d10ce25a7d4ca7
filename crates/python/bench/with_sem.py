# SPDX-License-Identifier: MIT OR Apache-2.0
"""The same runs by SEM, the simulation execution manager of ns-3, in a Python that has it. Prints the seconds that they took.

    with_sem.py FOLDER WORKERS REPLICATIONS RATE,RATE,... makeway run FILE ...

SEM runs programs of an installation of ns-3. It is given a folder that looks like one, whose program is `makeway run` under the
options of ns-3's command line: what is compared is how runs are managed, and not the simulators.

The folder of a script comes first among modules: a script that is named sem.py would be the module that it imports.
"""

from __future__ import annotations

import importlib
import shlex
import sys
import time
from pathlib import Path
from typing import Any

PROGRAM = """#!/bin/sh
case "$1" in
--PrintHelp) printf 'Program Options:\\n    --rate:  link rate [5mbit]\\n\\nGeneral Arguments:\\n'; exit ;;
--PrintGlobals) exit ;;
esac
for option; do
    case "$option" in
    --rate=*) rate=${option#*=} ;;
    --RngRun=*) seed=${option#*=} ;;
    esac
done
exec COMMAND --set "link.line.rate=$rate" --set "seed=$seed"
"""


def main() -> None:
    folder, workers, replications, rates, *command = sys.argv[1:]
    ns3 = Path(folder) / "ns-3"
    ns3.mkdir(parents=True)
    (ns3 / "ns3").write_text("print('[1/1] nothing to build')\n")
    (ns3 / f".lock-ns3_{sys.platform}_build").write_text("ns3_runnable_programs = ['makeway-run']\n")
    program = ns3 / "makeway-run"
    program.write_text(PROGRAM.replace("COMMAND", shlex.join(command)))
    program.chmod(0o755)
    sem: Any = importlib.import_module("sem")
    began = time.monotonic()
    campaign = sem.CampaignManager.new(
        str(ns3),
        "makeway-run",
        str(Path(folder) / "campaign"),
        runner_type="ParallelRunner",
        check_repo=False,
        optimized=False,
        skip_configuration=True,
        max_parallel_processes=int(workers),
    )
    campaign.run_missing_simulations({"rate": rates.split(",")}, runs=int(replications))
    print(time.monotonic() - began)


if __name__ == "__main__":
    main()
