#!/usr/bin/env node
// SPDX-License-Identifier: MIT OR Apache-2.0
// Latency under load in a real browser: `measurement.js URL TOKEN INTERFACE PICTURE`. Prints the answer of the service, letters of the page
// and its faults as JSON.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

import { chromium } from 'playwright-core';

const [url, token, name, picture] = process.argv.slice(2);
const axe = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

async function main(browser) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce' });
  const page = await context.newPage();
  const wrong = [];
  page.on('pageerror', (error) => wrong.push(error.message));
  await page.goto(url);
  const section = page.locator('section[aria-labelledby=latency]');
  const button = section.getByRole('button', { name: 'Measure' });
  await button.waitFor();
  // It makes load: nobody without the token, by no way.
  assert.equal(await button.isDisabled(), true);
  const ask = (path, body) => page.evaluate(
    ([path, text]) => {
      const key = sessionStorage.getItem('makeway-session') ?? '';
      return fetch(path, { method: 'POST', headers: { 'X-Makeway-Session': key }, body: text }).then((one) => one.status);
    },
    [path, body],
  );
  const path = `/api/interfaces/${name}`;
  assert.equal(await ask(`${path}/measurement`, '{"compare": false}'), 401);
  await page.getByLabel('Token, for changes').fill(token);
  await page.getByRole('button', { name: 'Unlock' }).click();
  await button.click();
  await section.getByText('without makeway: download').waitFor();
  // One at a time, and nothing else sets rates meanwhile.
  assert.equal(await ask(`${path}/measurement`, '{"compare": false}'), 409);
  assert.equal(await ask(path, '{"upload_bps": 1000000}'), 409);
  await section.locator('.grade.with').waitFor({ timeout: 120_000 });
  const letters = await section.locator('.grade b').allTextContents();
  const told = await page.evaluate(() => fetch('/api/measurement').then((one) => one.json()));

  const faults = async () => {
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    return violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 120)}: ${one.nodes[0].failureSummary}`);
  };
  const light = await faults();
  await section.screenshot({ path: picture });
  await page.setViewportSize({ width: 360, height: 740 });
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.waitForTimeout(300);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  const dark = await faults();
  await section.screenshot({ path: picture.replace('.png', '-360.png') });
  delete told.without.probes;
  delete told.with.probes;
  return { letters, told, width_at_360: width, faults: [...light, ...dark], wrong };
}

const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--disable-gpu'] });
try {
  process.stdout.write(`${JSON.stringify(await main(browser))}\n`);
} finally {
  await browser.close();
}
