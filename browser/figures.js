// SPDX-License-Identifier: MIT OR Apache-2.0
// Figures of a run from what the browsers and the machine counted, and medians over runs. No clock, no file.

/** Frames per second of the camera. */
export const FPS = 25;

/** Pictures of the clip, after which the camera begins anew: delays below 20.48 s are told from each other. */
export const CLIP = 512;

const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? null;

const ascending = (list) => [...list].sort((a, b) => a - b);

export const median = (list) => {
  const sorted = ascending(list.filter((value) => value !== null));
  const half = sorted.length / 2;
  return sorted.length === 0 ? null : (sorted[Math.ceil(half) - 1] + sorted[Math.floor(half)]) / 2;
};

/**
 * Time from capture to display of each displayed picture, in ms. Both lists hold [number of the picture, ms]; the capture that
 * belongs to a display is the latest one before it with its number.
 */
export function delays(captured, displayed) {
  const times = new Map();
  for (const [number, ms] of captured) {
    times.set(number, [...(times.get(number) ?? []), ms]);
  }
  return displayed.flatMap(([number, ms]) => {
    const capture = (times.get(number) ?? []).findLast((at) => at <= ms);
    return capture === undefined ? [] : [ms - capture];
  });
}

/**
 * Seconds of a freeze that has not ended, else 0. getStats counts a freeze when the next frame is displayed, by this rule:
 * longer than three frame intervals, and than one and 150 ms.
 */
export function frozenStill(displayed, end) {
  const last = displayed.at(-1)?.[1] ?? 0;
  const gaps = displayed.slice(-31).map(([, ms], at, all) => (at ? ms - all[at - 1][1] : null));
  const usual = median(gaps) ?? 1000 / FPS;
  const gap = end - last;
  return gap >= Math.max(3 * usual, usual + 150) ? gap / 1000 : 0;
}

/** R. Jain's index of fairness; `null` for no flows. */
export function jain(bytes) {
  const sum = bytes.reduce((a, b) => a + b, 0);
  const squares = bytes.reduce((a, b) => a + b * b, 0);
  return bytes.length === 0 ? null : squares === 0 ? 0 : (sum * sum) / (bytes.length * squares);
}

// At and beyond these the figures are those of the machine. Chosen by us before the first run: a freeze is 150 ms and an
// interval of 40 ms, so that a stall of 100 ms alone makes none.
const STALL_MS = 100;
const CAMERA_SHARE = 0.9;
const CPU_SHARE = 0.1;
const FRAME_MS = 25;
const READ_SHARE = 0.5;
// Of the audio from viewer to caller, whose direction carries nothing else. A call that breaks breaks there too, by the answers that
// it lacks: so it explains what it is half of.
const CONCEALED = 0.005;
const EXPLAINS = 0.5;

/** Why the machine and not the discipline decided the figures, of which `concealed` is one; `null` if it did not. */
export function disturbance(machine, seconds, concealed) {
  const reasons = [
    [machine.stall_ms >= STALL_MS, `the machine stalled by ${machine.stall_ms.toFixed(0)} ms`],
    [machine.camera_fps < CAMERA_SHARE * FPS, `the camera gave ${machine.camera_fps.toFixed(1)} of ${FPS} frames/s`],
    [machine.cpu_limited_s > CPU_SHARE * seconds, `the encoder lacked processor time for ${machine.cpu_limited_s.toFixed(1)} s`],
    [machine.encode_ms > FRAME_MS, `a frame took ${machine.encode_ms.toFixed(0)} ms to encode`],
    [machine.decode_ms > FRAME_MS, `a frame took ${machine.decode_ms.toFixed(0)} ms to decode`],
    [
      machine.concealed >= CONCEALED && machine.concealed >= EXPLAINS * concealed,
      `${(100 * machine.concealed).toFixed(1)} % of the audio was concealed in the idle direction`,
    ],
    [machine.codes_read < READ_SHARE, `${(100 * machine.codes_read).toFixed(0)} % of the bar codes could be read`],
  ];
  return reasons.filter(([holds]) => holds).map(([, why]) => why).join('; ') || null;
}

/** Share of the audio that an end concealed; all of it if none came. */
function concealed(before, after) {
  const all = between(before, after, 'totalSamplesReceived');
  return all === 0 ? 1 : between(before, after, 'concealedSamples') / all;
}

const between = (before, after, key) => (after[key] ?? 0) - (before[key] ?? 0);

/** Figures of one run. `seen` is all that was counted over the measured time. */
export function figures(seen) {
  const { before, after, seconds } = seen;
  const video = (key) => between(before.viewer.video, after.viewer.video, key);
  const sent = (key) => between(before.caller.video, after.caller.video, key);
  const shown = seen.displayed.filter(([, ms]) => ms >= seen.begin && ms < seen.end);
  const read = shown.filter(([number]) => number !== null);
  const delay = ascending(delays(seen.captured, read));
  const still = frozenStill(seen.displayed.filter(([, ms]) => ms < seen.end), seen.end);
  const machine = {
    stall_ms: seen.stall_ms,
    idle: seen.idle,
    camera_fps: between(before.caller.camera, after.caller.camera, 'frames') / seconds,
    cpu_limited_s: sent('cpuLimited'),
    encode_ms: (1000 * sent('totalEncodeTime')) / Math.max(1, sent('framesEncoded')),
    decode_ms: (1000 * video('totalDecodeTime')) / Math.max(1, video('framesDecoded')),
    concealed: concealed(before.caller.audio, after.caller.audio),
    codes_read: shown.length === 0 ? 1 : read.length / shown.length,
  };
  const heard = concealed(before.viewer.audio, after.viewer.audio);
  return {
    kbps: (8 * video('bytesReceived')) / seconds / 1000,
    freezes: video('freezeCount') + (still > 0 ? 1 : 0),
    frozen_s: video('totalFreezesDuration') + still,
    concealed: heard,
    rtt_max_ms: seen.rtts.length === 0 ? null : Math.max(...seen.rtts) * 1000,
    display_p50_ms: quantile(delay, 0.5),
    display_p95_ms: quantile(delay, 0.95),
    downloads_mbps: (8 * seen.downloaded.reduce((a, b) => a + b, 0)) / seconds / 1e6,
    jain: jain(seen.downloaded),
    displayed_fps: shown.length / seconds,
    lost: { packets: video('packetsLost'), received: video('packetsReceived') },
    machine,
    not_measured: disturbance(machine, seconds, heard),
  };
}

/** Figures of the object for each discipline, in its order. */
export const FIGURES = [
  'kbps', 'freezes', 'frozen_s', 'concealed', 'rtt_max_ms', 'display_p50_ms', 'display_p95_ms', 'downloads_mbps', 'jain',
];

const rounded = (value) => (typeof value === 'number' ? Number(value.toPrecision(6)) : value);

/** `value` with its numbers to six digits. */
export function plain(value) {
  if (Array.isArray(value)) {
    return value.map(plain);
  }
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]));
  }
  return rounded(value);
}

/** Medians over the runs of a discipline that count. */
export function summary(discipline, options, runs) {
  const counted = runs.filter((run) => run.not_measured === null);
  const medians = FIGURES.map((key) => [key, median(counted.map((run) => run[key]))]);
  const why = [...new Set(runs.map((run) => run.not_measured))].join('; ');
  return {
    discipline,
    rate: options.rate,
    downloads: options.downloads,
    ...Object.fromEntries(medians),
    not_measured: counted.length === 0 ? why : null,
    runs,
  };
}

/** Rows of texts as lines with columns; the first stands left. */
export function columns(rows) {
  const widths = rows[0].map((_, at) => Math.max(...rows.map((row) => row[at].length)));
  return rows.map((row) => row.map((cell, at) => (at ? cell.padStart(widths[at]) : cell.padEnd(widths[at]))).join('  '));
}
