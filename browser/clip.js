// SPDX-License-Identifier: MIT OR Apache-2.0
// The camera's clip, made by ffmpeg: a zoom with a moving clock, and the number of each picture as a bar code on top.

import { spawnSync } from 'node:child_process';

import { CLIP, FPS } from './figures.js';

const WIDTH = 640;
const HEIGHT = 360;
// peer.js reads the code: cells side by side, the bits of the number and then those of its check.
const CODE = 24;
const CELLS = 16;
const BITS = 9;

/** Writes the clip, or its first frames, to `file`. */
export function makeClip(file, frames = CLIP) {
  const picture = `${WIDTH}x${HEIGHT - CODE}`;
  const bits = `if(lt(X,${BITS}),N,mod(N*53+29,128))/pow(2,mod(X,${BITS}))`;
  const sources = [
    `mandelbrot=size=${picture}:rate=${FPS}:start_scale=1.5:end_scale=0.2:end_pts=512`,
    `testsrc2=size=200x150:rate=${FPS}`,
    `color=size=${CELLS}x2:rate=${FPS}`,
  ];
  const graph = [
    `[0:v][1:v]overlay=x='210+180*sin(t*1.3)':y='93+80*cos(t)',format=yuv420p[picture]`,
    `[2:v]format=yuv444p,geq=lum='16+219*mod(floor(${bits}),2)':cb=128:cr=128,scale=${WIDTH}:${CODE}:flags=neighbor,format=yuv420p[code]`,
    '[code][picture]vstack',
  ];
  const inputs = sources.flatMap((source) => ['-f', 'lavfi', '-i', source]);
  const made = spawnSync(
    'ffmpeg',
    ['-hide_banner', '-nostdin', '-loglevel', 'error', '-y', ...inputs, '-filter_complex', graph.join(';'),
      '-frames:v', String(frames), '-f', 'yuv4mpegpipe', file],
    { encoding: 'utf8' },
  );
  if (made.error || made.status !== 0) {
    throw new Error(`ffmpeg made no clip: ${made.error?.message ?? made.stderr.trim()}; apt-get install ffmpeg`);
  }
}

/** The clip as VP8 in three temporal layers, of which the lowest has each fourth frame; a keyframe each 4 s. */
export function encode(clip, file, bps) {
  const kbit = Math.round(bps / 1000);
  const layers = [0.4, 0.6, 1].map((part) => Math.round(part * kbit)).join(',');
  const made = spawnSync(
    'ffmpeg',
    ['-hide_banner', '-nostdin', '-loglevel', 'error', '-y', '-i', clip, '-c:v', 'libvpx', '-deadline', 'realtime', '-cpu-used', '8',
      '-b:v', `${kbit}k`, '-minrate', `${kbit}k`, '-maxrate', `${kbit}k`, '-bufsize', `${kbit / 2}k`, '-g', '100', '-keyint_min', '100',
      '-lag-in-frames', '0', '-auto-alt-ref', '0', '-max-intra-rate', '300', '-error-resilient', 'default', '-ts-parameters',
      `ts_number_layers=3:ts_target_bitrate=${layers}:ts_rate_decimator=4,2,1:ts_periodicity=4:ts_layer_id=0,2,1,2:ts_layering_mode=3`, file],
    { encoding: 'utf8' },
  );
  if (made.error || made.status !== 0) {
    throw new Error(`ffmpeg made no VP8: ${made.error?.message ?? made.stderr.trim()}`);
  }
}
