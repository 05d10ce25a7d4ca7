// SPDX-License-Identifier: MIT OR Apache-2.0
// A direction: figures now, charts, flows.

import { useMemo } from 'preact/hooks';

import { Chart } from './chart.jsx';
import { Flows } from './flows.jsx';
import { rate, size, time } from './format.js';

export const NAMES = { egress: 'upload', ingress: 'download' };

function Figure({ label, value, children }) {
  return (
    <div class="figure-box">
      <dt>{label}</dt>
      <dd><span class="large">{value}</span>{children}</dd>
    </div>
  );
}

function drops(one) {
  const now = Object.entries(one.drops_per_s);
  return now.length ? now.map(([reason, rate]) => `${reason} ${rate.toFixed(1)}/s`).join(', ') : `${one.dropped} in all`;
}

/** States of autorate. */
const STATES = { hold: 'rate stays', search: 'rate rises', drain: 'rate falls' };
const RATE = [
  { label: 'Served', colour: 'served', fill: true },
  { label: 'Setting', colour: 'setting', dash: [6, 4] },
];
const SOJOURN = [
  { label: 'p99', colour: 'p99' },
  { label: 'Median', colour: 'p50' },
];

/** `points`: { t, sent_bps, rate_bps, sojourn_p50_ms, sojourn_p99_ms }, all lists. */
export function Direction({ one, points, range }) {
  const name = NAMES[one.direction];
  const title = name[0].toUpperCase() + name.slice(1);
  const perSecond = Object.values(one.drops_per_s).reduce((all, each) => all + each, 0);
  const rates = useMemo(() => [points.t, points.sent_bps, points.rate_bps], [points]);
  const times = useMemo(() => [points.t, points.sojourn_p99_ms, points.sojourn_p50_ms], [points]);
  return (
    <section aria-labelledby={one.direction} class="direction">
      <h2 id={one.direction}>{title}</h2>
      <dl class="figures">
        <Figure label="Served" value={rate(one.sent_bps)}>
          <span class="soft">of {one.rate_bps === null ? 'no limit' : rate(one.rate_bps)}</span>
        </Figure>
        <Figure label="In queue, p99" value={time(one.sojourn_p99_ms)}>
          <span class="soft">median {time(one.sojourn_p50_ms)}</span>
        </Figure>
        <Figure label="Backlog" value={size(one.backlog_bytes)}>
          <span class="soft">{one.backlog_packets} packets</span>
        </Figure>
        {one.autorate && (
          <Figure label="Before the link" value={one.autorate.standing_ms === null ? '–' : time(one.autorate.standing_ms)}>
            <span class="soft">{STATES[one.autorate.state]}, {rate(one.autorate.least_bps)} to {rate(one.autorate.most_bps)}</span>
          </Figure>
        )}
        <Figure label="Drops" value={`${perSecond.toFixed(1)}/s`}>
          <span class="soft">{drops(one)}</span>
        </Figure>
      </dl>
      <div class="charts">
        <Chart title="Rate" series={RATE} data={rates} range={range} format={rate} summary={`${rate(one.sent_bps)} of ${rate(one.rate_bps)}`} />
        <Chart title="Time in queue" series={SOJOURN} data={times} range={range} format={time} summary={`p99 ${time(one.sojourn_p99_ms)}, median ${time(one.sojourn_p50_ms)}`} />
      </div>
      <Flows name={name} one={one} />
    </section>
  );
}
