// SPDX-License-Identifier: MIT OR Apache-2.0
// The page of makeway service.

import * as api from 'makeway:api';
import { render } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

import 'uplot/dist/uPlot.min.css';
import './style.css';
import { keep } from './api.js';
import { Controls, line } from './controls.jsx';
import { Direction } from './direction.jsx';
import { clock } from './format.js';
import { Measurement } from './measurement.jsx';

/** Seconds of the live charts. */
const LIVE = 120;
const SPANS = { live: ['2 minutes', LIVE], hour: ['Hour', 3600], day: ['Day', 86400], month: ['Month', 31 * 86400] };
const KEYS = ['sent_bps', 'rate_bps', 'sojourn_p50_ms', 'sojourn_p99_ms'];
const EMPTY = { t: [], ...Object.fromEntries(KEYS.map((key) => [key, []])) };

/** Adds a moment, and forgets those before the live charts begin. */
function remember(all, live) {
  const next = new Map(all);
  const at = live.at_ms / 1000;
  for (const one of live.interfaces) {
    for (const direction of one.directions) {
      const name = `${one.name} ${direction.direction}`;
      const old = all.get(name) ?? EMPTY;
      const first = old.t.findIndex((t) => t > at - LIVE - 2);
      const keep = (list) => (first < 0 ? [] : list.slice(first));
      const points = { t: [...keep(old.t), at] };
      for (const key of KEYS) {
        points[key] = [...keep(old[key]), direction[key]];
      }
      next.set(name, points);
    }
  }
  return next;
}

/** With a gap wherever points are missing. */
function withGaps(series, step) {
  const points = { t: [], ...Object.fromEntries(KEYS.map((key) => [key, []])) };
  series.t.forEach((t, i) => {
    const before = series.t[i - 1];
    if (before !== undefined && t - before > step) {
      points.t.push(before + step);
      KEYS.forEach((key) => points[key].push(null));
    }
    points.t.push(t);
    KEYS.forEach((key) => points[key].push(series[key][i]));
  });
  return points;
}

function useLive() {
  const [state, setState] = useState({ live: null, points: new Map(), lost: false });
  useEffect(
    () =>
      api.live(
        (live) => setState((old) => ({ live, points: remember(old.points, live), lost: false })),
        () => setState((old) => ({ ...old, lost: true })),
      ),
    [],
  );
  return state;
}

/** The history of a span, asked for again each 10 s. */
function useHistory(span) {
  const [history, setHistory] = useState(null);
  useEffect(() => {
    setHistory(null);
    if (span === 'live') {
      return undefined;
    }
    let gone = false;
    const look = () => api.history(span).then((told) => gone || setHistory(told)).catch(() => {});
    look();
    const timer = setInterval(look, 10_000);
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, [span]);
  return history;
}

function App() {
  const { live, points, lost } = useLive();
  const [about, setAbout] = useState(null);
  const [chosen, choose] = useState(location.hash.slice(1));
  const [span, setSpan] = useState('live');
  const history = useHistory(span);
  const look = () => api.about().then(setAbout).catch(() => {});
  useEffect(() => void look(), []);

  const one = live?.interfaces.find((each) => each.name === chosen) ?? live?.interfaces[0];
  const past = useMemo(() => {
    const all = new Map();
    for (const series of history?.series ?? []) {
      all.set(`${series.interface} ${series.direction}`, withGaps(series, history.step_s));
    }
    return all;
  }, [history]);
  const shown = span === 'live' ? points : past;
  const end = (live?.at_ms ?? 0) / 1000;
  const begins = one?.directions.map((each) => shown.get(`${one.name} ${each.direction}`)?.t[0] ?? end) ?? [];
  // A page that was opened just now has less than two minutes to show.
  const first = span === 'live' ? Math.min(end - 30, ...begins) : 0;
  const range = [Math.max(end - SPANS[span][1], first), end];

  return (
    <>
      <header>
        <h1>makeway</h1>
        {live && live.interfaces.length > 1 && (
          <nav aria-label="Interfaces">
            {live.interfaces.map((each) => (
              <a key={each.name} href={`#${each.name}`} aria-current={each === one ? 'page' : undefined} onClick={() => choose(each.name)}>
                {each.name}
              </a>
            ))}
          </nav>
        )}
        <p class={lost ? 'state lost' : 'state'} role="status">
          {lost ? 'No connection to the service' : live ? 'Live' : 'Connecting'}
        </p>
        {about?.may_change && (
          <button type="button" class="quiet" onClick={() => api.closeSession().then(() => keep(null)).then(look)}>Lock</button>
        )}
      </header>
      <main>
        {live && !one && <p>The file names no interface yet.</p>}
        {one && (
          <>
            <div class="top">
              <div>
                <h2 class="name">{one.name}</h2>
                <p class="soft">
                  {one.is_up ? `${line(one)} by ${one.discipline}, ${one.backend === 'nfqueue' ? 'in the packet queue' : 'in the kernel'}` : 'not shaped now'}
                </p>
              </div>
              <div role="group" aria-label="Span of the charts" class="spans">
                {Object.entries(SPANS).map(([key, [text]]) => (
                  <button key={key} type="button" aria-pressed={span === key} onClick={() => setSpan(key)}>{text}</button>
                ))}
              </div>
            </div>
            {one.warnings.map((text) => <p key={text} class="warning">{text}</p>)}
            <div class="directions">
              {one.directions.map((each) => (
                <Direction key={`${one.name} ${each.direction}`} one={each} points={shown.get(`${one.name} ${each.direction}`) ?? EMPTY} range={range} />
              ))}
            </div>
          </>
        )}
        {live && (
          <div class="bottom">
            {one && about && <Controls about={about} asked={one} signIn={look} signedOut={look} />}
            {one && about && <Measurement about={about} name={one.name} />}
            <section aria-labelledby="events">
              <h2 id="events">Events</h2>
              <ol class="events" tabindex="0" aria-labelledby="events">
                {live.events.toReversed().map((event) => (
                  <li key={`${event.at_ms} ${event.text}`}>
                    <time dateTime={new Date(event.at_ms).toISOString()}>{clock(event.at_ms)}</time>
                    <span>{event.interface && <b>{event.interface}: </b>}{event.text}</span>
                  </li>
                ))}
                {live.events.length === 0 && <li class="soft">None yet.</li>}
              </ol>
            </section>
          </div>
        )}
      </main>
    </>
  );
}

render(<App />, document.getElementById('app'));
