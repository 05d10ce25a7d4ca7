// SPDX-License-Identifier: MIT OR Apache-2.0

import assert from 'node:assert/strict';
import test from 'node:test';

import { HELP, Wrong, options } from '../options.js';

test('without arguments the options are those of the help', () => {
  const found = options([]);
  assert.deepEqual(
    [found.rate, found.downloads, found.rtt, found.seconds, found.runs, found.disciplines, found.first],
    [4e6, 4, 20, 30, 1, ['fifo', 'fq-codel', 'makeway'], 'call'],
  );
  for (const option of Object.keys(found).filter((name) => name !== 'help')) {
    assert.match(HELP, new RegExp(`--${option} `), option);
  }
});

test('rates and times have units', () => {
  assert.equal(options(['--rate', '2.5Mbit']).rate, 2.5e6);
  assert.equal(options(['--rate', '640kbit']).rate, 640e3);
  assert.equal(options(['--rtt', '1s']).rtt, 1000);
  assert.equal(options(['--rtt', '0ms']).rtt, 0);
});

test('a wrong argument is refused with what was given, what is allowed and an example', () => {
  const lines = [
    ['--rate', '4'], ['--rate', '0mbit'], ['--rate', '-1mbit'], ['--rate', '2gbit'], ['--rate', ''], ['--rate', 'mbit'],
    ['--downloads', '101'], ['--downloads', '-1'], ['--downloads', '1e1'], ['--seconds', '1'], ['--seconds', '601'],
    ['--runs', '0'], ['--rtt', '2s'], ['--rtt', '20'], ['--disciplines', ''], ['--disciplines', 'fifo,,sqf'],
    ['--disciplines', 'fifo,fifo'], ['--disciplines', '--json'], ['--disciplines', '$(id)'], ['--first', 'both'], ['--backend', 'tc'],
  ];
  for (const [option, value] of lines) {
    assert.throws(
      () => options([`${option}=${value}`]),
      (error) => error instanceof Wrong && error.message.includes(`\`${value}\``) && error.message.includes('for example'),
      `${option}=${value}`,
    );
  }
});

test('an unknown option and a stray word are refused', () => {
  assert.throws(() => options(['--speed', '9']), Wrong);
  assert.throws(() => options(['fifo']), Wrong);
});
