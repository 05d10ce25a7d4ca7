// SPDX-License-Identifier: MIT OR Apache-2.0
// The command line.

import { parseArgs } from 'node:util';

export const HELP = `\
A call between two browsers through \`makeway up\`, beside TCP downloads.

Usage: make browser ARGS='[OPTIONS]', or node browser/main.js [OPTIONS]

Options:
  --rate RATE           link rate: 640kbit, 4mbit [default: 4mbit]
  --downloads N         TCP downloads beside the call, 0 to 100 [default: 4]
  --rtt TIME            round-trip time added by netem, 0ms to 1s [default: 20ms]
  --seconds N           measured seconds, 2 to 600 [default: 30]
  --disciplines LIST    disciplines of makeway up, with commas [default: fifo,fq-codel,makeway]
  --first WHICH         call: it stands for 6 s before the downloads begin; downloads: the call begins
                        among them [default: call]
  --runs N              runs of each discipline, interleaved, 1 to 100; figures are medians [default: 1]
  --backend NAME        backend of makeway up: nfqueue, bpf, auto [default: nfqueue]
  --json FILE           writes the figures to FILE
  --out DIR             writes the page to DIR/index.html [default: out/browser]
  --makeway FILE        the program makeway [default: target/debug/makeway]
  --chromium FILE       the browser [default: chromium]
  --trace FILE          writes \`makeway status --json\` of each second to FILE, a line each
  -h, --help            this text

Examples:
  make browser
  make browser ARGS='--rate 2mbit --downloads 10 --disciplines makeway --seconds 20'
  make browser ARGS='--rate 4mbit --downloads 4 --disciplines fifo,fq-codel,cake,sqf,makeway --runs 5 --json call.json'

JSON: an array with an object for each discipline, in the order of --disciplines:
  discipline; rate (bit/s); downloads; kbps (video received, kbit/s); freezes; frozen_s (s); concealed (share of
  the audio, 0 to 1); rtt_max_ms; display_p50_ms, display_p95_ms (capture to display); downloads_mbps (goodput of
  all, Mbit/s); jain (index of the downloads); not_measured (null, or why the figures are null); runs (figures of
  each run, with those of the machine).
Exit status: 0 if each discipline was measured, 1 on errors, 2 for wrong arguments, 3 if one was not measured.
`;

/** A wrong argument. */
export class Wrong extends Error {}

const UNITS = { bit: 1, kbit: 1e3, mbit: 1e6, gbit: 1e9 };

/** `4mbit` in bit/s. */
export function rate(name, text) {
  const [, number, unit] = /^(\d{1,9}(?:\.\d{1,6})?)(k|m|g)?bit$/i.exec(text) ?? [];
  const bps = Math.round(Number(number) * UNITS[`${(unit ?? '').toLowerCase()}bit`]);
  if (!(bps >= 100e3 && bps <= 1e9)) {
    throw new Wrong(`--${name} is \`${text}\`: a rate from 100kbit to 1gbit, for example 4mbit`);
  }
  return bps;
}

/** `20ms` in milliseconds. */
export function time(text) {
  const [, number, unit] = /^(\d{1,6}(?:\.\d{1,3})?)(ms|s)$/.exec(text) ?? [];
  const ms = Number(number) * (unit === 's' ? 1000 : 1);
  if (!(ms >= 0 && ms <= 1000)) {
    throw new Wrong(`--rtt is \`${text}\`: a time from 0ms to 1s, for example 20ms`);
  }
  return ms;
}

/** A number of things. */
export function count(name, text, least, most) {
  const number = /^\d{1,6}$/.test(text) ? Number(text) : NaN;
  if (!(number >= least && number <= most)) {
    throw new Wrong(`--${name} is \`${text}\`: a number from ${least} to ${most}, for example ${Math.max(least, 4)}`);
  }
  return number;
}

function one(name, text, allowed) {
  if (!allowed.includes(text)) {
    throw new Wrong(`--${name} is \`${text}\`: ${allowed.join(' or ')}, for example ${allowed[0]}`);
  }
  return text;
}

/** Names as `makeway up --discipline` takes them; it checks that they exist. */
export function disciplines(text) {
  const names = text.split(',');
  const bad = names.find((name) => !/^[a-z][a-z0-9-]{0,30}$/.test(name));
  if (bad !== undefined) {
    throw new Wrong(`--disciplines is \`${text}\`: names with commas between them, for example fifo,fq-codel,makeway`);
  }
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) {
    throw new Wrong(`--disciplines is \`${text}\`: ${twice} is there twice; --runs repeats all, for example --runs 5`);
  }
  return names;
}

/** One name of a discipline. */
export function discipline(text) {
  const names = disciplines(text);
  if (names.length > 1) {
    throw new Wrong(`--discipline is \`${text}\`: one name, for example fq-codel`);
  }
  return names[0];
}

/** A share of packets. */
export function share(text) {
  const loss = /^0?\.\d{1,6}$|^0$/.test(text) ? Number(text) : NaN;
  if (!(loss >= 0 && loss <= 0.5)) {
    throw new Wrong(`--loss is \`${text}\`: a share from 0 to 0.5, for example 0.01`);
  }
  return loss;
}

/** Some of the senders `known`. */
export function senders(text, known) {
  const names = text.split(',');
  if (names.some((name) => !known.includes(name)) || new Set(names).size < names.length) {
    throw new Wrong(`--senders is \`${text}\`: ${known.join(', ')} or both, for example ${known.join(',')}`);
  }
  return names;
}

/**
 * Options of a command line, or `null` if it asks for help. `defaults` has the texts of all options, those of both programs among
 * them, which are read here.
 */
export function given(line, defaults) {
  const options = Object.entries(defaults).map(([name, fallback]) => [name, { type: 'string', default: fallback }]);
  let values;
  try {
    ({ values } = parseArgs({ args: line, options: { ...Object.fromEntries(options), help: { type: 'boolean', short: 'h' } } }));
  } catch (error) {
    throw new Wrong(error.message);
  }
  if (values.help) {
    return null;
  }
  return {
    ...values,
    rate: rate('rate', values.rate),
    downloads: count('downloads', values.downloads, 0, 100),
    rtt: time(values.rtt),
    seconds: count('seconds', values.seconds, 2, 600),
    runs: count('runs', values.runs, 1, 100),
  };
}

/** Options of a call, or `null` if the line asks for help. */
export function options(line) {
  const read = given(line, {
    rate: '4mbit',
    downloads: '4',
    rtt: '20ms',
    seconds: '30',
    disciplines: 'fifo,fq-codel,makeway',
    first: 'call',
    runs: '1',
    backend: 'nfqueue',
    json: undefined,
    out: 'out/browser',
    makeway: 'target/debug/makeway',
    chromium: 'chromium',
    trace: undefined,
  });
  return read && {
    ...read,
    disciplines: disciplines(read.disciplines),
    first: one('first', read.first, ['call', 'downloads']),
    backend: one('backend', read.backend, ['nfqueue', 'bpf', 'auto']),
  };
}
