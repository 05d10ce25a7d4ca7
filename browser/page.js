// SPDX-License-Identifier: MIT OR Apache-2.0
// The figures as a table of text and as a page without scripts or anything loaded from elsewhere.

import { readFileSync } from 'node:fs';

import { PICTURES } from './call.js';
import { columns } from './figures.js';

const STYLE = new URL('../crates/report/src/style.css', import.meta.url);

const shown = (digits, unit = '') => (value) => (value === null ? '-' : `${value.toFixed(digits)}${unit}`);

const COLUMNS = [
  ['video, kbit/s', 'kbps', shown(0)],
  ['freezes', 'freezes', shown(0)],
  ['frozen, s', 'frozen_s', shown(1)],
  ['audio concealed', 'concealed', (share) => (share === null ? '-' : `${(100 * share).toFixed(2)} %`)],
  ['RTT max, ms', 'rtt_max_ms', shown(0)],
  ['display p50, ms', 'display_p50_ms', shown(0)],
  ['display p95, ms', 'display_p95_ms', shown(0)],
  ['downloads, Mbit/s', 'downloads_mbps', shown(2)],
  ['Jain', 'jain', shown(3)],
];

/** The table as lines of text. */
export function table(summaries) {
  const rows = [
    ['discipline', ...COLUMNS.map(([title]) => title)],
    ...summaries.map((one) => [one.discipline, ...COLUMNS.map(([, key, show]) => show(one[key]))]),
  ];
  const notes = summaries.filter((one) => one.not_measured).map((one) => `${one.discipline}: not measured: ${one.not_measured}`);
  return [...columns(rows), ...notes].join('\n');
}

const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);

const row = (kind, cells) => `<tr>${cells.map((cell) => `<${kind}>${escape(cell)}</${kind}>`).join('')}</tr>`;

const grid = (head, rows) =>
  `<div class="scroll"><table><thead>${row('th', head)}</thead><tbody>${rows.map((cells) => row('td', cells)).join('')}</tbody></table></div>`;

/** Pictures of the first run that counts, or of the first. */
function stills(summary, options) {
  const run = summary.runs.find((one) => one.not_measured === null) ?? summary.runs[0];
  const figures = run.pictures.map((picture, at) => {
    const second = (((at + 1) * options.seconds) / PICTURES - 0.5).toFixed(1);
    const image = picture ? `<img src="${picture}" alt="${escape(summary.discipline)} after ${second} s">` : '<p class="none">no picture</p>';
    return `<div>${image}<small>${second} s</small></div>`;
  });
  return `<h3>${escape(summary.discipline)}</h3><div class="stills">${figures.join('')}</div>`;
}

/** The page. */
export function page(summaries, options) {
  const mbit = `${options.rate / 1e6} Mbit/s`;
  const title = `A browser's call beside ${options.downloads} downloads over ${mbit}`;
  const means = [
    `Two Chromiums hold a call through makeway up: video of at most 1.7 Mbit/s (640x360, 25 frames/s) and audio. ${options.downloads} TCP ` +
      `downloads share the link of ${mbit}; ${options.rtt} ms of round-trip time are added. ${options.seconds} s, ${options.runs} ` +
      `run${options.runs === 1 ? '' : 's'} of each discipline; figures are medians.`,
    ...summaries.filter((one) => one.not_measured).map((one) => `${one.discipline}: not measured: ${one.not_measured}.`),
  ];
  const each = summaries.flatMap(({ discipline, runs }) =>
    runs.map((run, at) => [
      `${discipline} ${at + 1}`,
      ...COLUMNS.map(([, key, show]) => show(run[key])),
      `${(100 * run.machine.idle).toFixed(0)} %`,
      `${run.machine.stall_ms.toFixed(0)} ms`,
      run.not_measured ?? '',
    ]),
  );
  const heads = COLUMNS.map(([head]) => head);
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(title)}</title>
<style>${readFileSync(STYLE, 'utf8')}</style>
</head>
<body>
<header><p class="brand">makeway</p><h1>${escape(title)}</h1>${means.map((text) => `<p class="means">${escape(text)}</p>`).join('')}</header>
<main>
<section><h2>Figures</h2>${grid(['discipline', ...heads], summaries.map((one) => [one.discipline, ...COLUMNS.map(([, key, show]) => show(one[key]))]))}</section>
<section><h2>The viewer's pictures</h2><p class="means">At the same instants after the downloads began beside the call. A frozen picture repeats.</p>${summaries.map((one) => stills(one, options)).join('')}</section>
<section><h2>Runs</h2>${grid(['run', ...heads, 'machine idle', 'stall', 'not measured'], each)}</section>
</main>
<footer>Video: payload that the viewer received. Freezes, frozen time and concealed audio: the viewer's getStats. Display: from the camera to the screen, by a bar code in each picture. Stall: the longest by which the machine woke a thread late.</footer>
</body>
</html>
`;
}
