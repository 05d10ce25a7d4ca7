# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs of a sweep on Ray, by the same chunks as on every other executor."""

from __future__ import annotations

import importlib
import os
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from makeway._executors import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future


class RayExecutor(Executor):
    """Functions as tasks of Ray, each of which takes a core."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if fn not in self._remote:
            # A chunk whose worker died is sent again by the sweep, which counts its tries.
            self._remote[fn] = self._ray.remote(num_cpus=1, max_retries=0)(fn)
        return self._remote[fn].remote(*args, **kwargs).future()


def ray(address: str | None = None, *, workers: int | None = None) -> Cluster:
    """Runs on Ray: `sweep.run(store, on=mw.ray("auto"))`. Needs `pip install ray`, and the same wheel on each machine.

    Ray tells its makers of its use unless the environment has RAY_USAGE_STATS_ENABLED=0, which this sets where it is not set.

    Args:
        address: of a cluster: `auto`, `ray://head:10001`; processes on this machine, if None.
        workers: processes of this machine; one for each core, if None.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Imported here, and by its name: Ray is only needed by those who use it.
    module: Any = importlib.import_module("ray")
    if address is None:
        module.init(num_cpus=workers or os.cpu_count() or 1, include_dashboard=False, log_to_driver=False)
    else:
        module.init(address=address, log_to_driver=False)

    def cores() -> int:
        return int(module.cluster_resources().get("CPU", 1))

    return Cluster(RayExecutor(module), cores, module.shutdown, lambda: not module.is_initialized())
