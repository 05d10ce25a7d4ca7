// SPDX-License-Identifier: MIT OR Apache-2.0
// Latency under load, with makeway and without: both in one picture, and in numbers.

import * as api from 'makeway:api';
import { useEffect, useState } from 'preact/hooks';

import { rate, time } from './format.js';

const PHASES = { idle: 'Idle', download: 'Download', upload: 'Upload' };
/** Place of the picture's three panels. */
const WIDE = 720;
const HIGH = 250;
const LEFT = 52;
const TOP = 24;
const BOTTOM = 22;
const PANEL = (WIDE - LEFT) / 3;
const TICKS = [1, 10, 100, 1000];

const round = (value) => value.toFixed(1);
/** From 0.5 ms to 4 s, each decade as high as the others. */
const height = (ms) => {
  const share = Math.log(Math.min(Math.max(ms, 0.5), 4000) / 0.5) / Math.log(4000 / 0.5);
  return HIGH - BOTTOM - share * (HIGH - BOTTOM - TOP);
};

/** Points of a phase, across its panel; a probe without an answer is at the top. */
function points(measured, phase) {
  const all = measured.probes.filter((one) => one.phase === phase);
  const first = all[0]?.at_s ?? 0;
  const span = Math.max((all.at(-1)?.at_s ?? 0) - first, 0.001);
  const left = LEFT + Object.keys(PHASES).indexOf(phase) * PANEL + 6;
  return all.map((one) => ({ x: left + ((one.at_s - first) / span) * (PANEL - 12), y: one.ms === null ? TOP : height(one.ms), lost: one.ms === null }));
}

function Trace({ measured, kind }) {
  return Object.keys(PHASES).map((phase) => {
    const all = points(measured, phase);
    const line = all.map(({ x, y }) => `${round(x)},${round(y)}`).join(' ');
    return (
      <g key={phase} class={kind}>
        <polyline points={line} />
        {all.map(({ x, y, lost }) => <circle key={x} class={lost ? 'lost' : ''} cx={round(x)} cy={round(y)} r={lost ? 3.5 : 1.8} />)}
      </g>
    );
  });
}

function Picture({ without, with: shaped }) {
  const words = [without && `without makeway ${time(without.download.latency.p50_ms)}`, shaped && `with makeway ${time(shaped.download.latency.p50_ms)}`];
  return (
    <figure class="latency">
      <figcaption>
        Latency of new connections
        {without && <span class="key without">without makeway</span>}
        {shaped && <span class="key with">with makeway</span>}
      </figcaption>
      <div class="scroll" tabindex="0" role="region" aria-label="Picture of the measurement">
        <svg viewBox={`0 0 ${WIDE} ${HIGH}`} role="img" aria-label={`Latency under a download: ${words.filter(Boolean).join(', ')}`}>
          {TICKS.map((ms) => (
            <g key={ms} class="tick">
              <line x1={LEFT} x2={WIDE} y1={height(ms)} y2={height(ms)} />
              <text x={LEFT - 6} y={height(ms) + 4} text-anchor="end">{ms < 1000 ? `${ms} ms` : '1 s'}</text>
            </g>
          ))}
          {Object.values(PHASES).map((name, n) => (
            <g key={name} class="panel">
              <rect x={LEFT + n * PANEL} y={TOP} width={PANEL} height={HIGH - BOTTOM - TOP} />
              <text x={LEFT + (n + 0.5) * PANEL} y={HIGH - 5} text-anchor="middle">{name}</text>
            </g>
          ))}
          {without && <Trace measured={without} kind="without" />}
          {shaped && <Trace measured={shaped} kind="with" />}
        </svg>
      </div>
    </figure>
  );
}

const worst = (measured) => {
  const order = ['A+', 'A', 'B', 'C', 'D', 'F'];
  const both = [measured.download.letter, measured.upload.letter];
  return both.toSorted((a, b) => order.indexOf(a) - order.indexOf(b))[1];
};

function Grade({ name, measured, kind }) {
  return (
    <p class={`grade ${kind}`}>
      <b>{worst(measured)}</b>
      <span>{name}</span>
    </p>
  );
}

function Numbers({ name, measured }) {
  return Object.keys(PHASES).map((phase) => {
    const load = phase === 'idle' ? null : measured[phase];
    const latency = load?.latency ?? measured.idle;
    return (
      <tr key={phase}>
        <th scope="row">{PHASES[phase]}, {name}</th>
        <td class="figure">{time(latency.p50_ms)}</td>
        <td class="figure">{time(latency.p90_ms)}</td>
        <td class="figure">{load ? `+${time(load.added_ms)}` : ''}</td>
        <td class="figure">{latency.rpm.toFixed(0)}</td>
        <td class="figure">{load ? rate(load.payload_bps) : ''}</td>
        <td>{load?.letter}</td>
      </tr>
    );
  });
}

function Result({ told }) {
  const { without, with: shaped } = told;
  return (
    <>
      <div class="grades">
        {without && <Grade name="without makeway" measured={without} kind="without" />}
        {shaped && <Grade name="with makeway" measured={shaped} kind="with" />}
      </div>
      <Picture without={without} with={shaped} />
      <div class="scroll" tabindex="0" role="region" aria-label="Figures of the measurement">
        <table>
          <thead>
            <tr>
              <th scope="col">Load</th>
              <th scope="col">Median</th>
              <th scope="col">p90</th>
              <th scope="col">Added</th>
              <th scope="col">RPM</th>
              <th scope="col">Payload</th>
              <th scope="col">Grade</th>
            </tr>
          </thead>
          <tbody>
            {without && <Numbers name="without" measured={without} />}
            {shaped && <Numbers name="with makeway" measured={shaped} />}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** `name`: the interface; `about.line_server` is the other end. */
export function Measurement({ about, name }) {
  const [told, setTold] = useState(null);
  const [compare, setCompare] = useState(true);
  const [said, say] = useState('');
  const running = told?.state === 'running';
  useEffect(() => {
    const look = () => api.measurement().then(setTold).catch(() => {});
    look();
    const timer = running ? setInterval(look, 500) : undefined;
    return () => clearInterval(timer);
  }, [running]);

  async function start() {
    say('');
    try {
      await api.measure(name, { compare });
      setTold(await api.measurement());
    } catch (error) {
      say(error.message);
    }
  }

  const now = running
    ? `${told.interface}, ${told.with_makeway ? 'with makeway' : 'without makeway'}: ${PHASES[told.phase].toLowerCase()}`
    : told?.state === 'failed' ? `It failed: ${told.error}` : '';
  return (
    <section aria-labelledby="latency">
      <h2 id="latency">Latency under load</h2>
      <p class="soft">
        Between {name} of this machine and {about.line_server ?? 'a server behind the link'}, by connections of its own: the link that makeway shapes, not
        the Wi-Fi between you and this machine. The link is fully loaded for 16 s, twice that to compare.
      </p>
      {!about.line_server && <p>Name the server as <code>line_server</code> in <code>[web]</code> of the file.</p>}
      {about.line_server && (
        <div class="settings">
          <label class="check">
            <input type="checkbox" checked={compare} disabled={!about.may_change || running} onChange={(event) => setCompare(event.currentTarget.checked)} />
            First without makeway: its rates are off meanwhile
          </label>
          <div class="buttons">
            <button type="button" disabled={!about.may_change || running} onClick={start}>Measure</button>
          </div>
          {!about.may_change && <p class="soft wide">It takes the token, since it fills the link.</p>}
        </div>
      )}
      <p class="said" role="status">{said || now}</p>
      {told && (told.without || told.with) && <Result told={told} />}
    </section>
  );
}
