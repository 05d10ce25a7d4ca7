#!/usr/bin/env node
// SPDX-License-Identifier: MIT OR Apache-2.0
// The page in a real browser: `page.js URL TOKEN INTERFACE DOWNLOAD_HOST PICTURE`. Prints figures as JSON.
//
// A datagram to port 4000 of DOWNLOAD_HOST asks for a download of some seconds to its sender.

import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

import { chromium } from 'playwright-core';

const [url, token, name, host, picture] = process.argv.slice(2);
const axe = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

/** Rules of WCAG and best practice that the page breaks, with the first element of each. */
async function faults(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 120)}: ${one.nodes[0].failureSummary}`);
}

/** Tabs to the first control for which `found` holds. */
async function tabTo(page, found) {
  for (let n = 0; n < 60; n += 1) {
    await page.keyboard.press('Tab');
    if (await page.evaluate(found)) {
      return;
    }
  }
  assert.fail(`no control by the keyboard: ${found}`);
}

/** What `look` finds in a page of a server at another port of this host. */
async function elsewhere(context, answer, look) {
  const server = createServer((request, response) => response.end(answer(request)));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const page = await context.newPage();
  try {
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    return await look(page);
  } finally {
    await page.close();
    server.close();
  }
}

/** Notes when the first canvas is drawn, by the browser's own clock from the page's first request. */
function notesFirstCanvas() {
  const look = () => {
    if (document.querySelector('section.direction canvas')) {
      globalThis.drawn = performance.now();
    } else {
      requestAnimationFrame(look);
    }
  };
  look();
}

const drawn = async (page) => Math.round(await (await page.waitForFunction(() => globalThis.drawn)).jsonValue());

/** The time that a page with nothing but an empty canvas takes on this machine: the median of three, in milliseconds. */
async function emptyCanvas(context) {
  const answer = () => '<!doctype html><section class="direction"><canvas></canvas></section>';
  const times = [];
  for (let n = 0; n < 3; n += 1) {
    times.push(await elsewhere(context, answer, drawn));
  }
  return times.sort((a, b) => a - b)[1];
}

async function main(browser, download) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce' });
  await context.addInitScript(notesFirstCanvas);
  const empty = await emptyCanvas(context);
  const page = await context.newPage();
  const wrong = [];
  page.on('pageerror', (error) => wrong.push(error.message));
  page.on('console', (message) => message.type() === 'error' && wrong.push(message.text()));
  await page.goto(url, { waitUntil: 'load' });
  await page.getByText('Live', { exact: true }).waitFor();
  const load = await drawn(page);
  const bytes = await page.evaluate(() => {
    const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    return all.reduce((sum, one) => sum + one.encodedBodySize, 0);
  });

  // Read-only without a session: no button, and no way around it.
  assert.equal(await page.getByLabel('Upload, Mbit/s').isDisabled(), true);
  const change = (body, key = '') => page.evaluate(
    ([path, text, key]) => fetch(path, { method: 'POST', headers: { 'X-Makeway-Session': key }, body: text }).then((one) => one.status),
    [`/api/interfaces/${name}`, body, key],
  );
  assert.equal(await change('{"upload_bps": 1000000}'), 401);
  wrong.splice(0);

  // A download begins.
  const began = Date.now();
  download.send('go', 4000, host);
  await page.waitForFunction(
    () => /^\d+(\.\d+)? Mbit\/s$/.test(document.querySelector('section[aria-labelledby=ingress] .large').textContent),
    null,
    { polling: 20, timeout: 20_000 },
  );
  const shown = Date.now() - began;
  await page.locator('section[aria-labelledby=ingress] tbody th').getByText('10.9.0.1').waitFor();

  // A wrong token, then the right one, then another rate: by the keyboard alone.
  await tabTo(page, () => document.activeElement.type === 'password');
  await page.keyboard.type('wrong');
  await page.keyboard.press('Enter');
  await page.getByText('that is not the token').waitFor();
  wrong.splice(0);
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.type(token);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Apply' }).waitFor();
  const cookies = await context.cookies();
  assert.deepEqual(cookies.map((one) => [one.httpOnly, one.sameSite]), [[true, 'Strict']]);
  assert.equal(await page.evaluate(() => document.cookie), '');
  await page.locator('h1').click();
  await tabTo(page, () => document.activeElement.labels?.[0]?.textContent.startsWith('Upload'));
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.type('5');
  await page.keyboard.press('Enter');
  await page.locator('section[aria-labelledby=egress]').getByText('of 5.00 Mbit/s').waitFor();
  await page.getByText('upload 8mbit to 5mbit, by the page').first().waitFor();
  await page.getByText('This differs from the file').waitFor();
  const key = await page.evaluate(() => sessionStorage.getItem('makeway-session'));
  assert.equal(await change('{"upload_bps": 1}', key), 422);
  assert.equal(await change('{"upload_bps": 1}'), 401);
  // A server at another port of this host gets the cookie, and not the key.
  const headers = (request) => JSON.stringify(request.headers);
  const leaked = JSON.parse(await elsewhere(context, headers, (other) => other.evaluate(() => document.body.textContent)));
  assert.ok(leaked.cookie.includes(cookies[0].value) && !JSON.stringify(leaked).includes(key), JSON.stringify(leaked));
  wrong.splice(0);
  // Something to see in the charts.
  await page.waitForTimeout(4000);
  const light = await faults(page);
  await page.evaluate(() => window.scrollTo(0, 0));
  await page.screenshot({ path: picture, fullPage: true });

  await tabTo(page, () => document.activeElement.textContent === 'Undo');
  await page.keyboard.press('Enter');
  await page.locator('section[aria-labelledby=egress]').getByText('of 8.00 Mbit/s').waitFor();

  // Another discipline with shares of hosts, which its process starts anew for; then both back.
  const holds = (found) => page.waitForFunction(found, null, { timeout: 20_000 });
  await page.locator('.settings select').selectOption('hier');
  await page.locator('.settings textarea').fill('10.9.0.1 = 2');
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('discipline makeway to hier, weights changed, by the page').first().waitFor();
  await holds(() => document.querySelector('.differs pre')?.textContent.includes('weights = { "10.9.0.1" = 2 }'));
  await holds(() => document.querySelector('.top .soft').textContent.includes(' by hier, '));
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByText('discipline hier to makeway, weights changed, undone').first().waitFor();
  await holds(() => !document.querySelector('.differs') && document.querySelector('.settings select').value === 'makeway');
  await holds(() => document.querySelector('.top .soft').textContent.includes(' by makeway, '));

  // The last hour has these seconds.
  await page.getByRole('button', { name: 'Hour' }).click();
  const hour = await page.waitForFunction(async () => {
    const told = await (await fetch('/api/history/hour')).json();
    const one = told.series.find((series) => series.direction === 'ingress');
    return one && Math.max(...one.sent_bps) > 1e6 && one.t.length;
  });
  const points = await hour.jsonValue();

  // A telephone, and a dark one; with more events than there is room for.
  await page.evaluate(() => {
    document.querySelector('.events').style.maxHeight = '1rem';
  });
  await page.setViewportSize({ width: 360, height: 740 });
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.waitForTimeout(300);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  const dark = await faults(page);
  await page.screenshot({ path: picture.replace('.png', '-360.png'), fullPage: true });
  return { bytes, empty_ms: empty, load_ms: load, shown_ms: shown, width_at_360: width, points_of_the_hour: points, faults: [...light, ...dark], wrong };
}

const download = createSocket('udp4');
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--disable-gpu'] });
try {
  await new Promise((resolve) => download.bind(0, '10.9.0.1', resolve));
  process.stdout.write(`${JSON.stringify(await main(browser, download))}\n`);
} finally {
  download.close();
  await browser.close();
}
