#!/usr/bin/env node
// SPDX-License-Identifier: MIT OR Apache-2.0
// A call between two browsers through `makeway up`, beside TCP downloads.
//
// The program starts itself again in new namespaces of processes, mounts and networks. When it ends, for any reason, the kernel
// removes all of its processes, links, rules and files in /run with them.

import { execFileSync, spawn } from 'node:child_process';
import { accessSync, appendFileSync, constants, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { constants as os } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { makeClip } from './clip.js';
import { plain, summary } from './figures.js';
import { HELP, Wrong, options as read } from './options.js';

const INSIDE = 'MAKEWAY_BROWSER_INSIDE';

/** Needed programs, with the package of Debian that has each. */
function needs(options) {
  const found = (program, from) => {
    const dirs = program.includes('/') ? [''] : `${process.env.PATH}:/usr/sbin:/sbin`.split(':');
    const there = dirs.some((dir) => {
      try {
        accessSync(dir ? join(dir, program) : program, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
    if (!there) {
      throw new Error(`no program \`${program}\`: ${from}`);
    }
  };
  found('ip', 'apt-get install iproute2');
  found('sysctl', 'apt-get install procps');
  found('unshare', 'apt-get install util-linux');
  found('ffmpeg', 'apt-get install ffmpeg');
  found(options.chromium, 'apt-get install chromium, or name one with --chromium');
  found(options.makeway, 'cargo build --bin makeway, or name one with --makeway');
}

/** This program again, in namespaces of its own; its exit status. */
async function isolated(line) {
  const root = process.getuid() === 0 ? [] : ['--user', '--map-root-user'];
  const child = spawn(
    'unshare',
    [...root, '--net', '--mount', '--pid', '--fork', '--mount-proc', '--kill-child', process.execPath, fileURLToPath(import.meta.url), ...line],
    { stdio: ['pipe', 'inherit', 'inherit'], env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin`, [INSIDE]: '1' } },
  );
  // The one inside ends when its standard input does.
  let stopped;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      stopped = 128 + os.signals[signal];
      child.stdin.end();
    });
  }
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (status, signal) => resolve(status ?? 128 + os.signals[signal]));
  });
  return stopped ?? code;
}

const note = (text) => process.stderr.write(`${text}\n`);

/** All runs, interleaved: each discipline in turn, then each again. */
async function runs(options) {
  const { chromium } = await import('playwright-core').catch(() => {
    throw new Error('no playwright-core: npm ci --prefix browser');
  });
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
  process.stdin.on('end', () => process.exit(130)).on('error', () => process.exit(130)).resume();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => process.exit(128 + os.signals[signal]));
  }
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', '/run']);
  process.env.TMPDIR = '/run';
  const { page, table } = await import('./page.js');
  const summaries = await runs(options);
  mkdirSync(options.out, { recursive: true });
  const html = join(options.out, 'index.html');
  writeFileSync(html, page(summaries, options));
  if (options.json) {
    writeFileSync(options.json, `${JSON.stringify(summaries.map(told), null, 2)}\n`);
  }
  process.stdout.write(`${table(summaries)}\n\nPage: ${html}\n`);
  return summaries.some((one) => one.not_measured) ? 3 : 0;
}

/** Files that are written must be writable before minutes pass. */
function writable(options) {
  mkdirSync(options.out, { recursive: true });
  for (const file of [options.json, options.trace].filter(Boolean)) {
    mkdirSync(dirname(resolve(file)), { recursive: true });
    appendFileSync(file, '');
  }
}

async function main() {
  const line = process.argv.slice(2);
  const options = read(line);
  if (options === null) {
    process.stdout.write(HELP);
    return 0;
  }
  if (process.env[INSIDE]) {
    return inside(options);
  }
  needs(options);
  writable(options);
  return isolated(line);
}

try {
  process.exit(await main());
} catch (error) {
  note(`browser: ${error.message}${error instanceof Wrong ? '; see --help' : ''}`);
  process.exit(error instanceof Wrong ? 2 : 1);
}
