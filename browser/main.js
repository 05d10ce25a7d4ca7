#!/usr/bin/env node
// SPDX-License-Identifier: MIT OR Apache-2.0
// A call between two browsers through `makeway up`, beside TCP downloads.

import { appendFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { makeClip } from './clip.js';
import { plain, summary } from './figures.js';
import { driver, note, program, writable } from './isolated.js';
import { HELP, options } from './options.js';

/** All runs, interleaved: each discipline in turn, then each again. */
async function runs(options) {
  const chromium = await driver();
  const { call } = await import('./call.js');
  const { watchMachine } = await import('./stalls.js');
  const clip = '/run/clip.y4m';
  note('camera: ffmpeg makes its clip');
  makeClip(clip);
  const machine = watchMachine();
  if (options.trace) {
    rmSync(options.trace, { force: true });
  }
  const done = new Map(options.disciplines.map((discipline) => [discipline, []]));
  const all = options.runs * options.disciplines.length;
  let number = 0;
  for (let round = 1; round <= options.runs; round += 1) {
    for (const discipline of options.disciplines) {
      number += 1;
      const name = `${number}/${all} ${discipline}`;
      note(`${name}: the call begins`);
      const each = (second, makeway) => {
        if (second % 10 === 0 && second < options.seconds) {
          note(`${name}: ${second} of ${options.seconds} s`);
        }
        if (options.trace) {
          appendFileSync(options.trace, `${JSON.stringify({ discipline, run: round, second, status: makeway.status() })}\n`);
        }
      };
      const run = await call({ chromium, discipline, options, clip, machine, each });
      done.get(discipline).push(run);
      const wrong = run.not_measured ? `; not measured: ${run.not_measured}` : '';
      const display = run.display_p95_ms === null ? '-' : run.display_p95_ms.toFixed(0);
      note(
        `${name}: ${run.kbps.toFixed(0)} kbit/s, ${run.freezes} freezes of ${run.frozen_s.toFixed(1)} s, ` +
          `${(100 * run.concealed).toFixed(2)} % concealed, display p95 ${display} ms, downloads ${run.downloads_mbps.toFixed(2)} Mbit/s; ` +
          `machine ${(100 * run.machine.idle).toFixed(0)} % idle, stall ${run.machine.stall_ms.toFixed(0)} ms${wrong}`,
      );
    }
  }
  await machine.stop();
  return options.disciplines.map((discipline) => summary(discipline, options, done.get(discipline)));
}

/** The object of the JSON file: no pictures. */
const told = ({ runs: each, ...medians }) => plain({ ...medians, runs: each.map(({ pictures, ...run }) => run) });

async function inside(options) {
  const { page, table } = await import('./page.js');
  const summaries = await runs(options);
  const html = join(options.out, 'index.html');
  writeFileSync(html, page(summaries, options));
  if (options.json) {
    writeFileSync(options.json, `${JSON.stringify(summaries.map(told), null, 2)}\n`);
  }
  process.stdout.write(`${table(summaries)}\n\nPage: ${html}\n`);
  return summaries.some((one) => one.not_measured) ? 3 : 0;
}

await program({
  name: 'browser',
  url: import.meta.url,
  help: HELP,
  read: options,
  check: ({ out, json, trace }) => writable(out, [json, trace]),
  work: inside,
});
