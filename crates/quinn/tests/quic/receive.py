# SPDX-License-Identifier: MIT OR Apache-2.0
"""Receives QUIC datagrams with aioquic and counts those in time.

receive.py CERTIFICATE KEY: prints its port, serves until standard input ends, then prints for each sender and class
how many came, and how many of these in time. A datagram begins with sender, class and deadline (CLOCK_MONOTONIC, ns).
"""

import asyncio
import collections
import struct
import sys
import time

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import DatagramFrameReceived

HEAD = struct.Struct("!BBQ")
came = collections.Counter()
in_time = collections.Counter()


class Receiver(QuicConnectionProtocol):
    def quic_event_received(self, event):
        if isinstance(event, DatagramFrameReceived):
            sender, media, deadline = HEAD.unpack_from(event.data)
            came[sender, media] += 1
            in_time[sender, media] += time.monotonic_ns() <= deadline


async def main(certificate, key):
    configuration = QuicConfiguration(
        is_client=False, alpn_protocols=["makeway"], max_datagram_frame_size=65536
    )
    configuration.load_cert_chain(certificate, key)
    server = await serve(
        "127.0.0.1", 0, configuration=configuration, create_protocol=Receiver
    )
    print(server._transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for sender, media in sorted(came):
        print(sender, media, came[sender, media], in_time[sender, media])
    server.close()


asyncio.run(main(*sys.argv[1:]))
