// SPDX-License-Identifier: MIT OR Apache-2.0
// The call: two browsers, and all that is counted while it is beside the downloads.

import { setTimeout as sleep } from 'node:timers/promises';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

import { FPS, figures } from './figures.js';
import { build, delay, downloads, remove, shape } from './network.js';

const here = (file) => fileURLToPath(new URL(file, import.meta.url));

/** The most that the encoder may send, bit/s. */
const MOST = 1.7e6;

/** Pictures after which the measured time begins: those of a call that stands, or of one that begins among downloads. */
const BEGIN = { call: 6 * FPS, downloads: 2 * FPS };

/** Seconds in which the call must have connected, and a browser have answered. */
const PATIENCE = 60;

/** Pictures of the viewer that are kept of a run. */
export const PICTURES = 6;

/** `work`, or an error after `PATIENCE`. */
export function soon(what, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing for ${PATIENCE} s`)), PATIENCE * 1000);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** A browser in the namespace `space`, with the page `file`. */
export async function open(chromium, space, options, { file, height, args }) {
  const browser = await chromium.launch({
    executablePath: here('in-namespace'),
    env: { ...process.env, CALL_NAMESPACE: space, CALL_CHROMIUM: options.chromium },
    timeout: PATIENCE * 1000,
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
    args: ['--disable-gpu', ...args],
  });
  const page = await browser.newPage({ viewport: { width: 640, height } });
  await page.goto(`file://${here(file)}`);
  return { browser, page };
}

/** The page of an end of the call. */
const callPage = (clip) => ({
  file: 'peer.html',
  height: 360,
  args: [
    '--use-fake-ui-for-media-stream',
    '--use-fake-device-for-media-stream',
    `--use-file-for-fake-video-capture=${clip}`,
    '--disable-features=WebRtcHideLocalIpsWithMdns',
    '--autoplay-policy=no-user-gesture-required',
  ],
});

/** Lets the two connect. */
async function connect(caller, viewer) {
  const offer = await caller.evaluate(([fps, bps]) => peer.offer(fps, bps), [FPS, MOST]);
  const answer = await viewer.evaluate((sdp) => peer.answer(sdp), offer);
  await caller.evaluate((sdp) => peer.accept(sdp), answer);
}

/** What both ends, the downloads and the machine have counted so far. */
async function snapshot(caller, viewer, transfers) {
  const [one, other, received] = await Promise.all([
    caller.evaluate(() => peer.stats()),
    viewer.evaluate(() => peer.stats()),
    transfers.received(),
  ]);
  return { caller: one, viewer: other, received };
}

/** The measured time. */
async function measure({ caller, viewer, transfers, machine, options, each }) {
  await machine.lap();
  const before = await snapshot(caller, viewer, transfers);
  const begin = before.viewer.now;
  const end = begin + options.seconds * 1000;
  const instants = Array.from({ length: PICTURES }, (_, at) => begin + ((at + 1) * options.seconds * 1000) / PICTURES - 500);
  const pictures = viewer.evaluate((at) => peer.pictures(at), instants);
  pictures.catch(() => {}); // awaited below; a closed browser is an error of another line first
  const rtts = [];
  for (let second = 1; second <= options.seconds; second += 1) {
    await sleep(Math.max(0, begin + second * 1000 - (performance.timeOrigin + performance.now())));
    rtts.push(...(await soon('the caller', caller.evaluate(() => peer.stats()))).rtts);
    each(second);
  }
  const after = await snapshot(caller, viewer, transfers);
  const lap = await machine.lap();
  const seen = {
    before,
    after,
    begin,
    end: Math.min(end, after.viewer.now),
    seconds: (after.viewer.now - begin) / 1000,
    captured: await caller.evaluate(() => peer.frames()),
    displayed: await viewer.evaluate(() => peer.frames()),
    downloaded: after.received.map((bytes, at) => bytes - before.received[at]),
    rtts,
    ...lap,
  };
  return { ...figures(seen), pictures: await pictures };
}

/** One run of one discipline, in a network of its own. */
export async function call({ chromium, discipline, options, clip, machine, each }) {
  const cleanup = [];
  try {
    build();
    cleanup.push(remove);
    cleanup.push(await delay(options.rtt, dirname(options.makeway)));
    const makeway = await shape(options.makeway, options, discipline);
    cleanup.push(() => makeway.stop());
    const ends = await Promise.all(['caller', 'viewer'].map((space) => open(chromium, space, options, callPage(clip))));
    cleanup.push(() => Promise.all(ends.map(({ browser }) => browser.close())));
    const [caller, viewer] = ends.map(({ page }) => page);
    const start = async () => {
      const transfers = await downloads(options.downloads);
      cleanup.push(() => transfers.stop());
      return transfers;
    };
    let transfers = options.first === 'downloads' ? await start() : null;
    if (transfers) {
      await sleep(3000);
    }
    const standing = caller.evaluate((number) => peer.reached(number), BEGIN[options.first]);
    const shown = viewer.evaluate(() => peer.reached(0));
    // Awaited below; a call that does not connect is the first error.
    standing.catch(() => {});
    shown.catch(() => {});
    await soon('connecting', connect(caller, viewer));
    await soon('the first picture', shown);
    await soon('the camera', standing);
    transfers ??= await start();
    return await measure({ caller, viewer, transfers, machine, options, each: (second) => each(second, makeway) });
  } finally {
    for (const undo of cleanup.reverse()) {
      await undo();
    }
  }
}
