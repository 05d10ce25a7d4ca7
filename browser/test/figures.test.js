// SPDX-License-Identifier: MIT OR Apache-2.0

import assert from 'node:assert/strict';
import test from 'node:test';

import { CLIP, delays, disturbance, figures, frozenStill, jain, median, summary } from '../figures.js';

const paced = (count, from, lag = 0) => Array.from({ length: count }, (_, at) => [(from + at) % CLIP, 40 * (from + at) + lag]);

test('a delay is that from the latest capture of the same picture', () => {
  // The clip begins anew within these: each number is captured twice.
  const captured = paced(2 * CLIP, 0);
  assert.deepEqual(new Set(delays(captured, paced(CLIP, 300, 75))), new Set([75]));
  assert.deepEqual(delays(captured, [[7, 6], [9, 40 * 9 + 12000]]), [12000], 'no capture before it; 12 s late');
});

test('a freeze that has not ended counts, and a late frame does not', () => {
  const displayed = paced(50, 0);
  const last = displayed.at(-1)[1];
  assert.equal(frozenStill(displayed, last + 189), 0);
  assert.equal(frozenStill(displayed, last + 191), 0.191);
  const slow = Array.from({ length: 20 }, (_, at) => [at, 200 * at]);
  assert.equal(frozenStill(slow, slow.at(-1)[1] + 500), 0, 'three frame intervals of a slow video');
  assert.equal(frozenStill([], 5000), 5);
});

test("Jain's index", () => {
  assert.equal(jain([5, 5, 5, 5]), 1);
  assert.equal(jain([5, 0, 0, 0]), 0.25);
  assert.equal(jain([0, 0]), 0);
  assert.equal(jain([]), null);
});

test('medians of even and odd counts, of nothing and of gaps', () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 2, 3]), 2.5);
  assert.equal(median([]), null);
  assert.equal(median([null, 7]), 7);
});

const calm = { stall_ms: 8, idle: 0.5, camera_fps: 25, cpu_limited_s: 0, encode_ms: 4, decode_ms: 1, concealed: 0, codes_read: 1 };

test('each way in which the machine decides is named', () => {
  assert.equal(disturbance(calm, 30, 0.2), null);
  assert.equal(disturbance({ ...calm, concealed: 0.06 }, 30, 0.6), null, 'the call broke, and not the machine');
  for (const [key, value, word] of [
    ['stall_ms', 100, 'stalled'], ['camera_fps', 20, 'camera'], ['cpu_limited_s', 4, 'encoder'], ['encode_ms', 30, 'encode'],
    ['decode_ms', 30, 'decode'], ['concealed', 0.005, 'idle direction'], ['codes_read', 0.4, 'bar codes'],
  ]) {
    assert.match(disturbance({ ...calm, [key]: value }, 30, 0.01), new RegExp(word), key);
  }
});

/** Counters of a call of ten seconds: 250 frames, 1 Mbit/s, 50 ms late. */
function counted(changes = {}) {
  const none = { video: {}, audio: {}, camera: {} };
  return {
    before: { caller: none, viewer: none },
    after: {
      caller: { video: { framesEncoded: 250, totalEncodeTime: 1 }, audio: { totalSamplesReceived: 480000 }, camera: { frames: 250 } },
      viewer: {
        ...none,
        video: { bytesReceived: 1.25e6, freezeCount: 1, totalFreezesDuration: 0.4, framesDecoded: 250, totalDecodeTime: 0.5 },
        audio: { totalSamplesReceived: 480000, concealedSamples: 4800 },
      },
    },
    begin: 1000,
    end: 11000,
    seconds: 10,
    captured: paced(275, 25),
    displayed: paced(274, 25, 50),
    downloaded: [1e6, 1e6],
    rtts: [0.021, 0.066, 0.04],
    stall_ms: 8,
    idle: 0.5,
    ...changes,
  };
}

test('figures of a run are differences over its seconds', () => {
  const run = figures(counted());
  assert.equal(run.not_measured, null);
  assert.deepEqual(
    [run.kbps, run.freezes, run.frozen_s, run.concealed, run.rtt_max_ms, run.display_p50_ms, run.display_p95_ms, run.downloads_mbps, run.jain],
    [1000, 1, 0.4, 0.01, 66, 50, 50, 1.6, 1],
  );
});

test('a video that stands at the end, and audio that never came, are not good figures', () => {
  const run = figures(counted({ displayed: paced(100, 25, 50) }));
  assert.equal(run.freezes, 2);
  assert.ok(run.frozen_s > 5);
  const silent = counted();
  silent.after.viewer.audio = {};
  assert.equal(figures(silent).concealed, 1);
});

test('medians are of the runs that the machine did not disturb, and nothing without one', () => {
  const run = (kbps, not_measured) => ({ ...figures(counted()), kbps, not_measured });
  const options = { rate: 4e6, downloads: 4 };
  const some = summary('makeway', options, [run(900, null), run(100, 'stall'), run(1100, null)]);
  assert.deepEqual([some.kbps, some.not_measured, some.runs.length], [1000, null, 3]);
  const none = summary('makeway', options, [run(900, 'stall')]);
  assert.deepEqual([none.kbps, none.freezes, none.not_measured], [null, null, 'stall']);
});
