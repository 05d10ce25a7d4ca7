#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes x264-500k.csv: frames of libx264 as a call codes them, from ffmpeg's own test source, with their sizes and kinds.

`x264.py` writes the file with the ffmpeg of this machine; another version of ffmpeg or x264 makes other sizes. Columns
`time_ms,kind,bytes` as in the other traces: one coded frame a line, in the order of coding, bytes of the coded frame.

The coder looks ahead at nothing and makes no B, as for a call; each P refers to the frame before it alone. Its buffer of 160 ms keeps
keyframes short. Keyframes are where receivers ask for them, one to three seconds apart: at the frames of KEYS.
"""

import pathlib
import re
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent
RATE = 25
FRAMES = 450
KEYS = [0, 37, 90, 121, 189, 240, 272, 341, 377, 430]
SOURCE = f"testsrc2=size=640x360:rate={RATE},noise=alls=8:allf=t:all_seed=1"
ENCODER = [
    *("-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-threads", "1"),
    *("-b:v", "500k", "-maxrate", "500k", "-bufsize", "80k", "-g", str(FRAMES)),
    *("-forced-idr", "1", "-force_key_frames", "expr:" + "+".join(f"eq(n,{n})" for n in KEYS)),
    *("-x264-params", "scenecut=0:ref=1"),
]


def main():
    encode = ["ffmpeg", "-hide_banner", "-nostdin", "-loglevel", "error", "-threads", "1"]
    encode += ["-f", "lavfi", "-i", SOURCE, "-frames:v", str(FRAMES), *ENCODER, "-f", "h264"]
    with tempfile.TemporaryDirectory() as folder:
        stream = str(pathlib.Path(folder) / "x264.h264")
        subprocess.run([*encode, stream], check=True)
        build = re.search(rb"x264 - core (\d+)", pathlib.Path(stream).read_bytes())
        probe = ["ffprobe", "-v", "error", "-show_entries", "packet=size,flags", "-of", "csv=p=0", stream]
        packets = subprocess.run(probe, check=True, capture_output=True, text=True).stdout
    frames = [line.split(",") for line in packets.split()]
    frames = [("I" if flags.startswith("K") else "P", int(size)) for size, flags, *_ in frames]
    assert [n for n, (kind, _) in enumerate(frames) if kind == "I"] == KEYS, frames
    mean = sum(size for _, size in frames) * 8 * RATE / len(frames)
    version = subprocess.run(["ffmpeg", "-version"], check=True, capture_output=True, text=True).stdout
    about = [
        f"H.264 by libx264, {RATE} frames/s, {len(KEYS)} keyframes in {FRAMES / RATE:g} s, mean {mean / 1000:.1f} kbit/s; made by x264.py",
        f"with ffmpeg {version.split()[2]} and x264 core {build[1].decode() if build else '?'}",
    ]
    lines = [f"# {line}" for line in about] + ["time_ms,kind,bytes"]
    lines += [f"{n * 1000 // RATE},{kind},{size}" for n, (kind, size) in enumerate(frames)]
    (HERE / "x264-500k.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
