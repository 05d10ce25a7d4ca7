#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the traces of this folder: `make.py` writes them, `make.py --check` compares.

Columns `time_ms,kind,bytes`: one coded frame a line, bytes of RTP payload. Seeded and free of
library randomness, so that every machine makes the same bytes.
"""

import math
import pathlib
import sys

HERE = pathlib.Path(__file__).parent


class Random:
    """xorshift64*: the same numbers from every Python."""

    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        x = self.state
        x ^= x >> 12
        x = (x ^ (x << 25)) & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 27
        self.state = x
        return (((x * 2685821657736338717) & 0xFFFFFFFFFFFFFFFF) >> 11) / 2.0**53

    def normal(self):
        """Irwin-Hall: twelve uniforms; bounded to six deviations, and no libm in the way."""
        return sum(self.uniform() for _ in range(12)) - 6.0


def whole(sizes, total):
    """Integers in the proportions of `sizes` with exactly this sum: the remainder is carried on."""
    scale = total / sum(sizes)
    exact, given, out = 0.0, 0, []
    for size in sizes:
        exact += size * scale
        out.append(round(exact) - given)
        given += out[-1]
    out[-1] += total - given
    return out


def fullness(sizes, per_frame):
    """The largest backlog of a buffer drained by `per_frame`: the VBV that the stream needs."""
    level = most = 0.0
    for size in sizes * 2:
        level += size
        most = max(most, level)
        level = max(0.0, level - per_frame)
    return most


def video():
    """MPEG-2 at 25 frames/s, 60 s, 5 Mbit/s: groups of 12, I:P:B about 4:2:1."""
    rng = Random(20110605)
    weight = {"I": 4.0, "P": 2.0, "B": 1.0}
    group = "IBBPBBPBBPBB"
    frames, mean = 1500, 5_000_000 // 8 // 25
    sizes, kinds, scene, wave = [], [], 1.0, 0.0
    for i in range(frames):
        if rng.uniform() < 1 / 100:  # a cut each four seconds or so
            scene = math.exp(round(0.12 * rng.normal(), 6))
        wave = 0.98 * wave + 0.02 * rng.normal()
        noise = round(0.10 * rng.normal(), 6)
        kinds.append(group[i % len(group)])
        sizes.append(weight[kinds[-1]] * scene * math.exp(round(wave, 6)) * math.exp(noise))
    # Rate control: a third of what a group asks for (in decibels), less half of what was overspent.
    step = len(group)
    share = sum(sizes) * step / frames
    spent = 0.0
    for start in range(0, frames, step):
        part = sum(sizes[start : start + step])
        target = share * math.exp(round(math.log(part / share) / 3, 6)) - spent / 2
        spent += target - share
        for i in range(start, start + step):
            sizes[i] *= target / part
    sizes = whole(sizes, mean * frames)
    vbv = fullness(sizes, mean) / 1000
    about = [
        "MPEG-2 video, 25 frames/s, groups of 12 (IBBPBBPBBPBB), 60 s, mean 5.000 Mbit/s",
        f"a buffer drained at the mean rate needs {vbv:.0f} kB (MPEG-2 at main level has 229 kB)",
    ]
    return "mpeg2-5m.csv", about, [(i * 40, kinds[i], s) for i, s in enumerate(sizes)]


def audio():
    """MPEG audio, layer II, 24 ms a frame, 60 s, VBR with a mean of 64 kbit/s."""
    rng = Random(13818)
    frames, mean = 2500, 192
    sizes, mood = [], 0.0
    for _ in range(frames):
        mood = 0.97 * mood + 0.03 * rng.normal()
        sizes.append(max(0.4, 1.0 + 1.2 * mood + 0.12 * rng.normal()))
    sizes = whole(sizes, mean * frames)
    about = ["MPEG audio, a frame each 24 ms, VBR, 60 s, mean 64.0 kbit/s"]
    return "audio-64k.csv", about, [(i * 24, "A", s) for i, s in enumerate(sizes)]


def main():
    wrong = []
    for name, about, rows in (video(), audio()):
        lines = [f"# {line}; made by make.py" for line in about[:1]]
        lines += [f"# {line}" for line in about[1:]]
        lines += ["time_ms,kind,bytes"] + [f"{t},{k},{b}" for t, k, b in rows]
        text = "\n".join(lines) + "\n"
        path = HERE / name
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(name)
    if wrong:
        sys.exit(f"{', '.join(wrong)}: not what make.py makes; run it without --check")


if __name__ == "__main__":
    main()
