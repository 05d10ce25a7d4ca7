#!/usr/bin/env node
// SPDX-License-Identifier: MIT OR Apache-2.0
// A live video by WebRTC to a browser, beside TCP downloads over a link that loses packets: from a sender on str0m in which makeway's queue
// decides which packet leaves next, and from the same with str0m's own queue.

import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { encode, makeClip } from './clip.js';
import { CLIP, FPS, columns, median, plain } from './figures.js';
import { driver, found, note, program, writable } from './isolated.js';
import { discipline, given, rate, senders, share } from './options.js';

const HELP = `\
A live video by WebRTC to a browser, beside TCP downloads over a link that loses packets: from a sender on
str0m in which makeway decides which packet leaves next, and from the same with str0m's own queue. The
browser's getStats is the judge.

Usage: make webrtc ARGS='[OPTIONS]', or node browser/webrtc.js [OPTIONS]

Options:
  --rate RATE           link rate: 640kbit, 4mbit [default: 2mbit]
  --discipline NAME     discipline of makeway up on the link [default: fq-codel]
  --loss SHARE          packets lost on the link, each way, 0 to 0.5 [default: 0.01]
  --rtt TIME            round-trip time without the queue, 0ms to 1s [default: 20ms]
  --downloads N         TCP downloads beside the video, 0 to 100 [default: 2]
  --video RATE          rate of the video, 100kbit to 20mbit [default: 500kbit]
  --senders LIST        makeway, str0m, with a comma between them [default: makeway,str0m]
  --seconds N           measured seconds of each sender, 2 to 600 [default: 30]
  --runs N              runs of each sender, in turn, 1 to 100; figures are medians [default: 1]
  --json FILE           writes the figures to FILE
  --out DIR             writes a picture of the page to DIR/SENDER.png [default: out/webrtc]
  --makeway FILE        the program makeway [default: target/debug/makeway]
  --server FILE         the sender [default: target/debug/examples/webrtc]
  --chromium FILE       the browser [default: chromium]
  -h, --help            this text

Examples:
  make webrtc
  make webrtc ARGS='--rate 2mbit --downloads 2 --loss 0.01 --seconds 30 --json webrtc.json'

JSON: an array with an object for each sender:
  sender (makeway, str0m); decoded_fps (frames decoded in a second, of 25); freezes (freezeCount); frozen_s
  (totalFreezesDuration, s); buffer_ms (mean time in the browser's jitter buffer, ms); kbps (payload
  received, kbit/s).
Exit status: 0 if each sender was measured, 1 on errors, 2 for wrong arguments, 3 if the machine was too busy for it.
`;

/** A thread that is woken later than this decides the figures: a frame has 200 ms. As in webtransport.js. */
const STALL_MS = 50;
/** Seconds from the first frame to the measured time. */
const WARM = 3;
const SENDERS = { makeway: 'makeway', str0m: 'plain' };
const FIGURES = ['decoded_fps', 'freezes', 'frozen_s', 'buffer_ms', 'kbps'];

/** Options of a command line, or `null` if it asks for help. */
function read(line) {
  const values = given(line, {
    rate: '2mbit',
    discipline: 'fq-codel',
    makeway: 'target/debug/makeway',
    loss: '0.01',
    rtt: '20ms',
    downloads: '2',
    video: '500kbit',
    senders: 'makeway,str0m',
    seconds: '30',
    runs: '1',
    json: undefined,
    out: 'out/webrtc',
    server: 'target/debug/examples/webrtc',
    chromium: 'chromium',
  });
  return values && {
    ...values,
    discipline: discipline(values.discipline),
    backend: 'nfqueue',
    loss: share(values.loss),
    video: rate('video', values.video),
    senders: senders(values.senders, Object.keys(SENDERS)),
  };
}

/** The sender in its namespace; it reads an offer and writes an answer, and its counts when its input ends. */
function serve(network, options, kind, file) {
  const line = [options.server, '--sender', kind, '--clip', file, '--listen', `${network.CALLER}:5004`];
  const child = network.inside('caller', line, ['pipe', 'pipe', 'inherit']);
  const end = network.ended(child);
  let said = '';
  const answered = new Promise((resolve, reject) => {
    child.once('error', reject);
    child.stdout.on('data', (bytes) => {
      said += bytes;
      if (said.includes('\n')) {
        resolve();
      }
    });
    end.then((code) => reject(new Error(`${options.server} ended (${code})`)));
  });
  answered.catch(() => {}); // awaited in `answer`
  return {
    async answer(offer) {
      child.stdin.write(`${JSON.stringify(offer)}\n`);
      await answered;
      return JSON.parse(said.split('\n')[0]);
    },
    /** Ends it; its counts. */
    async counts() {
      child.stdin.end();
      await end;
      return JSON.parse(said.trim().split('\n').at(-1));
    },
    async stop() {
      child.stdin.end();
      await end;
    },
  };
}

/** Differences of the browser's counters over the measured time. */
function figures(before, after) {
  const seconds = (after.now - before.now) / 1000;
  const of = (key) => after[key] - before[key];
  return {
    decoded_fps: of('framesDecoded') / seconds,
    freezes: of('freezeCount'),
    frozen_s: of('totalFreezesDuration'),
    buffer_ms: (1000 * of('jitterBufferDelay')) / Math.max(1, of('jitterBufferEmittedCount')),
    kbps: (8 * of('bytesReceived')) / seconds / 1000,
    lost: of('packetsLost'),
    nacks: of('nackCount'),
    plis: of('pliCount'),
    keyframes: of('keyFramesDecoded'),
  };
}

/** One run of one sender, in a network of its own. */
async function run({ chromium, sender, options, file, machine }) {
  const network = await import('./network.js');
  const { open, soon } = await import('./call.js');
  const cleanup = [];
  try {
    network.build();
    cleanup.push(network.remove);
    cleanup.push(await network.delay(options.rtt, dirname(options.makeway)));
    network.lose(options.loss);
    const link = await network.shape(options.makeway, options, options.discipline);
    cleanup.push(() => link.stop());
    const server = serve(network, options, SENDERS[sender], file);
    cleanup.push(() => server.stop());
    const { browser, page } = await open(chromium, 'viewer', options, { file: 'receiver.html', height: 360, args: ['--autoplay-policy=no-user-gesture-required'] });
    cleanup.push(() => browser.close());
    const offer = await page.evaluate(() => receiver.offer());
    const answer = await soon('the answer', server.answer(offer));
    await page.evaluate((description) => receiver.accept(description), answer);
    await soon('the first picture', page.evaluate(() => receiver.shown()));
    const transfers = await network.downloads(options.downloads);
    cleanup.push(() => transfers.stop());
    await sleep(WARM * 1000);
    await machine.lap();
    const [begin, before] = [await page.evaluate(() => receiver.stats()), await transfers.received()];
    await sleep(options.seconds * 1000);
    const [end, after] = [await soon('the page', page.evaluate(() => receiver.stats())), await transfers.received()];
    const { stall_ms, idle } = await machine.lap();
    await page.screenshot({ path: join(options.out, `${sender}.png`) });
    await page.evaluate(() => receiver.close());
    const counts = await soon('the sender', server.counts());
    const downloaded = after.reduce((sum, bytes, at) => sum + bytes - before[at], 0);
    const downloads_mbps = (8 * downloaded) / options.seconds / 1e6;
    return { ...figures(begin, end), counts, downloads_mbps, stall_ms, idle, disturbed: stall_ms >= STALL_MS };
  } finally {
    for (const undo of cleanup.reverse()) {
      await undo();
    }
  }
}

async function inside(options) {
  const chromium = await driver();
  const { watchMachine } = await import('./stalls.js');
  note('camera: ffmpeg makes its clip');
  makeClip('/run/clip.y4m', Math.min(CLIP, (options.seconds + 2 * WARM) * FPS));
  encode('/run/clip.y4m', '/run/clip.ivf', options.video);
  const machine = watchMachine();
  const runs = Object.fromEntries(options.senders.map((sender) => [sender, []]));
  for (let round = 1; round <= options.runs; round += 1) {
    for (const sender of options.senders) {
      const one = await run({ chromium, sender, options, file: '/run/clip.ivf', machine });
      runs[sender].push(one);
      note(`${round}/${options.runs} ${sender}: ${JSON.stringify(plain(one))}`);
    }
  }
  await machine.stop();
  const rows = Object.entries(runs).map(([sender, all]) => {
    const quiet = all.filter((one) => !one.disturbed);
    const of = (key) => median((quiet.length ? quiet : all).map((one) => one[key]));
    return { sender, ...Object.fromEntries(FIGURES.map((key) => [key, of(key)])) };
  });
  if (options.json) {
    writeFileSync(options.json, `${JSON.stringify(rows.map(plain), null, 2)}\n`);
  }
  const lines = rows.map((row) => [row.sender, ...FIGURES.map((key) => row[key].toFixed(key === 'frozen_s' ? 2 : 0))]);
  const all = [['sender', 'decoded, 1/s', 'freezes', 'frozen, s', 'buffer, ms', 'kbit/s'], ...lines];
  process.stdout.write(`${columns(all).join('\n')}\n`);
  const busy = Object.entries(runs).filter(([, of]) => of.every((one) => one.disturbed)).map(([sender]) => sender);
  for (const sender of busy) {
    note(`${sender}: not measured: the machine stalled by ${Math.max(...runs[sender].map((one) => one.stall_ms)).toFixed(0)} ms`);
  }
  return busy.length ? 3 : 0;
}

await program({
  name: 'webrtc',
  url: import.meta.url,
  help: HELP,
  read,
  check({ out, json, server }) {
    found('iptables', 'apt-get install iptables');
    found(server, 'cargo build --example webrtc, or name one with --server');
    writable(out, [json]);
  },
  work: inside,
});
