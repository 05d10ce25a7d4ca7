// SPDX-License-Identifier: MIT OR Apache-2.0
// A program that starts itself again in new namespaces of processes, mounts and networks. When it ends, for any reason, the kernel
// removes all of its processes, links, rules and files in /run with them.

import { execFileSync, spawn } from 'node:child_process';
import { accessSync, appendFileSync, constants, mkdirSync } from 'node:fs';
import { constants as os } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { Wrong } from './options.js';

const INSIDE = 'MAKEWAY_BROWSER_INSIDE';

/** Says a line beside the figures. */
export const note = (text) => process.stderr.write(`${text}\n`);

/** An error that says what to install if a program is missing. */
export function found(program, from) {
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
}

/** The programs that each run needs, with the package of Debian that has each. */
function needs(chromium) {
  found('ip', 'apt-get install iproute2');
  found('sysctl', 'apt-get install procps');
  found('unshare', 'apt-get install util-linux');
  found('ffmpeg', 'apt-get install ffmpeg');
  found(chromium, 'apt-get install chromium, or name one with --chromium');
}

/** Files that are written must be writable before minutes pass. */
export function writable(folder, files) {
  mkdirSync(folder, { recursive: true });
  for (const file of files.filter(Boolean)) {
    mkdirSync(dirname(resolve(file)), { recursive: true });
    appendFileSync(file, '');
  }
}

/** `script` again, in namespaces of its own; its exit status. */
async function isolated(script, line) {
  const root = process.getuid() === 0 ? [] : ['--user', '--map-root-user'];
  const child = spawn(
    'unshare',
    [...root, '--net', '--mount', '--pid', '--fork', '--mount-proc', '--kill-child', process.execPath, script, ...line],
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
  const code = await new Promise((done, reject) => {
    child.once('error', reject);
    child.once('exit', (status, signal) => done(status ?? 128 + os.signals[signal]));
  });
  return stopped ?? code;
}

/** Of the program inside: it ends with the one outside, and has /run for itself. */
function settle() {
  process.stdin.on('end', () => process.exit(130)).on('error', () => process.exit(130)).resume();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => process.exit(128 + os.signals[signal]));
  }
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', '/run']);
  process.env.TMPDIR = '/run';
}

/**
 * The program `name` in the file `url`: reads its command line, checks that it has all that it needs, and does its work inside. Exit
 * status 1 on errors, 2 for wrong arguments, else that of `work`.
 */
export async function program({ name, url, help, read, check, work }) {
  try {
    const line = process.argv.slice(2);
    const options = read(line);
    if (options === null) {
      process.stdout.write(help);
      process.exit(0);
    }
    if (process.env[INSIDE]) {
      settle();
      process.exit(await work(options));
    }
    needs(options.chromium);
    found(options.makeway, 'cargo build --bin makeway, or name one with --makeway');
    check(options);
    process.exit(await isolated(fileURLToPath(url), line));
  } catch (error) {
    note(`${name}: ${error.message}${error instanceof Wrong ? '; see --help' : ''}`);
    process.exit(error instanceof Wrong ? 2 : 1);
  }
}

/** playwright's Chromium. */
export async function driver() {
  const { chromium } = await import('playwright-core').catch(() => {
    throw new Error('no playwright-core: npm ci --prefix browser');
  });
  return chromium;
}
