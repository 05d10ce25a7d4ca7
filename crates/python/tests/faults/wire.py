# SPDX-License-Identifier: MIT OR Apache-2.0
"""A link between this network namespace and a new one, with delay and loss, on kernels without netem too.

    wire.py NUMBER DELAY_MS LOSS

This end is 10.77.NUMBER.1, the other 10.77.NUMBER.2; the new namespace is that of this process, which says `ready`. Lines of
standard input: `cut` and `mend`. It ends with its standard input.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time
from contextlib import suppress

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CLONE_NEWNET = 0x40000000


def ip(line: str) -> None:
    subprocess.run(["ip", *line.split()], check=True)


def tun(name: str, own: str, peer: str) -> int:
    """An interface whose packets are read from the descriptor, and written to it."""
    file = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    ip(f"addr add {own} peer {peer} dev {name}")
    ip(f"link set {name} up")
    return file


def main() -> None:
    number, delay, loss = sys.argv[1], float(sys.argv[2]) / 1e3, float(sys.argv[3])
    near, far = f"10.77.{number}.1", f"10.77.{number}.2"
    here = tun(f"wire{number}", near, far)
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    ip("link set lo up")
    there = tun("wire", far, near)
    ip("route add default dev wire")
    print("ready", flush=True)
    other = {here: there, there: here}
    rng = random.Random(number)
    packets: list[tuple[float, int, int, bytes]] = []
    count, cut = 0, False
    while True:
        now = time.monotonic()
        while packets and packets[0][0] <= now:
            _, _, to, packet = heapq.heappop(packets)
            with suppress(OSError):
                os.write(to, packet)
        left = max(packets[0][0] - now, 0) if packets else None
        for file in select.select([0, here, there], [], [], left)[0]:
            data = os.read(file, 65536)
            if file == 0:
                if not data:
                    return
                cut = data.split()[-1] == b"cut"
            elif not cut and rng.random() >= loss:
                count += 1
                heapq.heappush(packets, (time.monotonic() + delay, count, other[file], data))


if __name__ == "__main__":
    main()
