#!/usr/bin/env node
// SPDX-License-Identifier: MIT OR Apache-2.0
// A live video by WebTransport to a browser, beside TCP downloads over a link that loses packets: from makeway's sender, and from quinn's
// own queue of datagrams.

import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { encode, makeClip } from './clip.js';
import { CLIP, FPS, columns, median, plain } from './figures.js';
import { driver, found, note, program, writable } from './isolated.js';
import { discipline, given, rate, senders, share } from './options.js';

const HELP = `\
A live video by WebTransport to a browser, beside TCP downloads over a link that loses packets: from
makeway's sender, and from the same server with quinn's own queue of datagrams.

Usage: make webtransport ARGS='[OPTIONS]', or node browser/webtransport.js [OPTIONS]

Options:
  --rate RATE           link rate: 640kbit, 4mbit [default: 2mbit]
  --discipline NAME     discipline of makeway up on the link [default: fq-codel]
  --loss SHARE          packets lost on the link, each way, 0 to 0.5 [default: 0.01]
  --rtt TIME            round-trip time without the queue, 0ms to 1s [default: 20ms]
  --downloads N         TCP downloads beside the video, 0 to 100 [default: 2]
  --video RATE          rate of the video, 100kbit to 20mbit [default: 500kbit]
  --senders LIST        makeway, quinn, with a comma between them [default: makeway,quinn]
  --seconds N           measured seconds of each sender, 2 to 600 [default: 30]
  --runs N              runs of each sender, in turn, 1 to 100; figures are medians [default: 1]
  --json FILE           writes the figures to FILE
  --out DIR             writes a picture of the page to DIR/SENDER.png [default: out/webtransport]
  --makeway FILE        the program makeway [default: target/debug/makeway]
  --server FILE         the server [default: target/debug/examples/webtransport]
  --chromium FILE       the browser [default: chromium]
  -h, --help            this text

Examples:
  make webtransport
  make webtransport ARGS='--rate 2mbit --downloads 2 --loss 0.01 --seconds 30 --json webtransport.json'

JSON: an array with an object for each sender:
  sender (makeway, quinn); shown_200ms (share of the frames that were shown within 200 ms of their capture, 0 to 1);
  freezes; age_p95_ms (from capture until all of a frame was there, ms); kbps (payload received, kbit/s).
Exit status: 0 if each sender was measured, 1 on errors, 2 for wrong arguments, 3 if the machine was too busy for it.
`;

/** A thread that is woken later than this decides the figures: a frame has 200 ms. Chosen by us before the first run. */
const STALL_MS = 50;
/** Seconds from the first frame to the measured time. */
const WARM = 3;
const SENDERS = { makeway: 'makeway', quinn: 'plain' };

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
    senders: 'makeway,quinn',
    seconds: '30',
    runs: '1',
    json: undefined,
    out: 'out/webtransport',
    server: 'target/debug/examples/webtransport',
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

/** The server in its namespace, once it listens. */
async function serve(network, options, kind, file) {
  const address = `${network.CALLER}:4433`;
  const child = network.inside('caller', [options.server, '--sender', kind, '--clip', file, '--listen', address], ['pipe', 'pipe', 'inherit']);
  const end = network.ended(child);
  let said = '';
  await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.stdout.on('data', (bytes) => {
      said += bytes;
      resolve();
    });
    end.then((code) => reject(new Error(`${options.server} ended (${code})`)));
  });
  return {
    url: `https://${address}/`,
    hash: JSON.parse(said.split('\n')[0]).hash,
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
    const server = await serve(network, options, SENDERS[sender], file);
    cleanup.push(() => server.stop());
    const { browser, page } = await open(chromium, 'viewer', options, { file: 'viewer.html', height: 660, args: [] });
    cleanup.push(() => browser.close());
    await soon('the session', page.evaluate(([url, hash]) => viewer.connect(url, hash), [server.url, server.hash]));
    const transfers = await network.downloads(options.downloads);
    cleanup.push(() => transfers.stop());
    await sleep(WARM * 1000);
    await machine.lap();
    const begin = await page.evaluate(() => viewer.mark());
    const before = await transfers.received();
    await sleep(options.seconds * 1000);
    const end = await soon('the page', page.evaluate(() => viewer.mark()));
    const after = await transfers.received();
    const { stall_ms, idle } = await machine.lap();
    // Until the last frame is shown, or not.
    await sleep(500);
    const figures = await page.evaluate(([from, to]) => viewer.figures(from, to), [begin, end]);
    if (figures.wrong) {
      throw new Error(`the decoder: ${figures.wrong}`);
    }
    const downloaded = after.reduce((sum, bytes, at) => sum + bytes - before[at], 0);
    const text = `${sender}: ${(100 * figures.shown_200ms).toFixed(1)} % of ${figures.made} frames shown within 200 ms, ${figures.freezes} freezes`;
    await page.evaluate(([all, said]) => viewer.plot(all, said), [figures, text]);
    await page.screenshot({ path: join(options.out, `${sender}.png`) });
    await page.evaluate(() => viewer.close());
    const counts = await soon('the server', server.counts());
    const downloads_mbps = (8 * downloaded) / figures.seconds / 1e6;
    return { ...figures, points: undefined, counts, downloads_mbps, stall_ms, idle, disturbed: stall_ms >= STALL_MS };
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
    return { sender, shown_200ms: of('shown_200ms'), freezes: of('freezes'), age_p95_ms: of('age_p95_ms'), kbps: of('kbps') };
  });
  if (options.json) {
    writeFileSync(options.json, `${JSON.stringify(rows.map(plain), null, 2)}\n`);
  }
  const lines = rows.map((row) => [row.sender, `${(100 * row.shown_200ms).toFixed(1)} %`, `${row.freezes}`, `${row.age_p95_ms?.toFixed(0) ?? '-'}`, row.kbps.toFixed(0)]);
  const all = [['sender', 'shown within 200 ms', 'freezes', 'age p95, ms', 'kbit/s'], ...lines];
  process.stdout.write(`${columns(all).join('\n')}\n`);
  const busy = Object.entries(runs).filter(([, of]) => of.every((one) => one.disturbed)).map(([sender]) => sender);
  for (const sender of busy) {
    note(`${sender}: not measured: the machine stalled by ${Math.max(...runs[sender].map((one) => one.stall_ms)).toFixed(0)} ms`);
  }
  return busy.length ? 3 : 0;
}

await program({
  name: 'webtransport',
  url: import.meta.url,
  help: HELP,
  read,
  check({ out, json, server }) {
    found('iptables', 'apt-get install iptables');
    found(server, 'cargo build --example webtransport, or name one with --server');
    writable(out, [json]);
  },
  work: inside,
});
