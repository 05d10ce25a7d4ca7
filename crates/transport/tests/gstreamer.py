# SPDX-License-Identifier: MIT OR Apache-2.0
"""rtpbin as the receiver of a call, with feedback by TWCC.

Prints the port at which it listens; takes HOST:PORT, where feedback goes, from standard input; and prints, when that ends, one line of JSON: what
came out of rtpbin by SSRC, and what its session counted. With the argument `rtx` it asks for lost packets of the video (SSRC 1001), takes them
by rtprtxreceive (SSRC 1002, payload type 97), and prints the counters of that too.
"""

import json
import sys

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

TWCC = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"
CAPS = {
    payload_type: f'application/x-rtp,media={media},clock-rate={rate},encoding-name=X,payload={payload_type},extmap-1="{TWCC}"'
    for payload_type, media, rate in ((111, "audio", 48000), (96, "video", 90000))
}
CAPS[97] = f'application/x-rtp,media=video,clock-rate=90000,encoding-name=RTX,apt=(string)96,payload=97,extmap-1="{TWCC}"'
# RTP header, the head of its extensions, ours.
HEADERS = 12 + 4 + 16


def main():
    Gst.init(None)
    pipeline = Gst.Pipeline.new()
    rtpbin, source, feedback = map(Gst.ElementFactory.make, ("rtpbin", "udpsrc", "udpsink"))
    for element in (rtpbin, source, feedback):
        pipeline.add(element)
    # Feedback as soon as there is some (RFC 4585), not in RTCP's own time.
    rtpbin.set_property("rtp-profile", "avpf")
    rtx = Gst.ElementFactory.make("rtprtxreceive") if "rtx" in sys.argv else None
    if rtx:
        # RFC 4588 by rtpbin: the element sits behind its session, in a bin with the pads that rtpbin looks for.
        rtx.set_property("payload-type-map", Gst.Structure.from_string("application/x-rtp-pt-map,96=(uint)97")[0])
        rtpbin.set_property("do-retransmission", True)

        def on_aux(_rtpbin, session):
            aux = Gst.Bin.new()
            aux.add(rtx)
            for name in ("sink", "src"):
                aux.add_pad(Gst.GhostPad.new(f"{name}_{session}", rtx.get_static_pad(name)))
            return aux

        rtpbin.connect("request-aux-receiver", on_aux)
    source.set_property("address", "127.0.0.1")
    source.set_property("port", 0)
    source.set_property("caps", Gst.Caps.from_string(CAPS[96]))
    received = {}

    def caps_of(_rtpbin, _session, payload_type):
        return Gst.Caps.from_string(CAPS[payload_type]) if payload_type in CAPS else None

    def on_pad(_rtpbin, pad):
        if not pad.get_name().startswith("recv_rtp_src"):
            return
        _, _, _, session, ssrc, payload_type = pad.get_name().split("_")
        count = received.setdefault(ssrc, {"packets": 0, "bytes": 0})

        def on_buffer(_pad, info):
            count["packets"] += 1
            count["bytes"] += info.get_buffer().get_size() - HEADERS
            return Gst.PadProbeReturn.OK

        pad.add_probe(Gst.PadProbeType.BUFFER, on_buffer)
        sink = Gst.ElementFactory.make("fakesink")
        pipeline.add(sink)
        sink.sync_state_with_parent()
        pad.link(sink.get_static_pad("sink"))

    rtpbin.connect("request-pt-map", caps_of)
    rtpbin.connect("pad-added", on_pad)
    source.get_static_pad("src").link(rtpbin.request_pad_simple("recv_rtp_sink_0"))
    rtpbin.request_pad_simple("send_rtcp_src_0").link(feedback.get_static_pad("sink"))

    # Regular reports more often than each 5 s, that a test need not last long.
    rtpbin.emit("get-internal-session", 0).set_property("rtcp-min-interval", Gst.SECOND)

    # RTP and RTCP share a port (RFC 5761): feedback leaves from where media comes.
    source.set_state(Gst.State.READY)
    print(source.get_property("port"), flush=True)
    host, port = sys.stdin.readline().strip().rsplit(":", 1)
    feedback.set_property("host", host)
    feedback.set_property("port", int(port))
    feedback.set_property("socket", source.get_property("used-socket"))
    feedback.set_property("close-socket", False)
    feedback.set_property("sync", False)
    feedback.set_property("async", False)

    loop = GLib.MainLoop()
    errors = []

    def on_error(_bus, message):
        errors.append(message.parse_error()[0].message)
        loop.quit()

    bus = pipeline.get_bus()
    bus.add_signal_watch()
    bus.connect("message::error", on_error)
    pipeline.set_state(Gst.State.PLAYING)
    print("ready", flush=True)
    GLib.io_add_watch(sys.stdin, GLib.IO_IN | GLib.IO_HUP, lambda *_: loop.quit())
    loop.run()

    stats = rtpbin.emit("get-internal-session", 0).get_property("stats")
    names = [stats.nth_field_name(n) for n in range(stats.n_fields())]
    session = {name: stats.get_value(name) for name in names if isinstance(stats.get_value(name), int)}
    counters = ("num-rtx-requests", "num-rtx-packets", "num-rtx-assoc-packets")
    repaired = {name: rtx.get_property(name) for name in counters} if rtx else None
    print(json.dumps({"received": received, "session": session, "errors": errors, "rtx": repaired}), flush=True)
    pipeline.set_state(Gst.State.NULL)


main()
