// SPDX-License-Identifier: MIT OR Apache-2.0
// How late this machine wakes a thread, and how busy it is.

import { readFileSync } from 'node:fs';
import { Worker, isMainThread, parentPort } from 'node:worker_threads';
import { fileURLToPath } from 'node:url';

const STEP = 5;

if (!isMainThread) {
  const sleeper = new Int32Array(new SharedArrayBuffer(4));
  let worst = 0;
  const step = () => {
    const began = performance.now();
    Atomics.wait(sleeper, 0, 0, STEP);
    worst = Math.max(worst, performance.now() - began - STEP);
    setImmediate(step);
  };
  parentPort.on('message', () => {
    parentPort.postMessage(worst);
    worst = 0;
  });
  step();
}

/** Ticks of all processors: [all, idle]. */
function ticks() {
  const all = readFileSync('/proc/stat', 'utf8').split('\n')[0].trim().split(/\s+/).slice(1, 9).map(Number);
  return [all.reduce((a, b) => a + b, 0), all[3] + all[4]];
}

/** Watches until `stop`; `lap` has the figures since the one before. */
export function watchMachine() {
  const worker = new Worker(fileURLToPath(import.meta.url));
  let before = ticks();
  return {
    async lap() {
      const worst = await new Promise((resolve) => {
        worker.once('message', resolve);
        worker.postMessage('lap');
      });
      const [[all, idle], [allBefore, idleBefore]] = [ticks(), before];
      before = [all, idle];
      return { stall_ms: worst, idle: (idle - idleBefore) / Math.max(1, all - allBefore) };
    },
    stop: () => worker.terminate(),
  };
}
