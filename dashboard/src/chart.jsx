// SPDX-License-Identifier: MIT OR Apache-2.0
// A chart over time.

import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';

const HEIGHT = 165;
const dark = matchMedia('(prefers-color-scheme: dark)');

/** A variable of the style sheet. */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Times of the axis: seconds in minutes, days in weeks. */
function times(_, all) {
  const span = all.at(-1) - all[0];
  const form = span > 2 * 86400 ? { day: 'numeric', month: 'short' } : { hour: '2-digit', minute: '2-digit', hourCycle: 'h23', ...(span < 300 && { second: '2-digit' }) };
  const text = new Intl.DateTimeFormat([], form);
  return all.map((at) => text.format(at * 1000));
}

/** `series`: { label, colour, dash, fill }; `data`: times in seconds, then a list for each series. */
export function Chart({ title, series, data, range, format, summary }) {
  const place = useRef(null);
  const plot = useRef(null);
  const latest = useRef({});
  latest.current = { data, range, format };
  const shape = series.map((one) => one.label).join();

  useEffect(() => {
    // The reference is cleared before the observer stops.
    const box = place.current;
    const make = () => {
      plot.current?.destroy();
      const axis = { stroke: colour('soft'), grid: { stroke: colour('line'), width: 1 }, ticks: { show: false }, font: '12px system-ui, sans-serif' };
      plot.current = new uPlot(
        {
          width: box.clientWidth,
          height: HEIGHT,
          cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
          padding: [8, 12, 0, 0],
          legend: { live: true, markers: { width: 2 } },
          scales: {
            x: { time: true, range: () => latest.current.range },
            y: { range: (_, _low, high) => [0, Math.max(high * 1.1, 1e-9)] },
          },
          axes: [{ ...axis, space: 84, size: 30, values: times }, { ...axis, size: 74, space: 34, values: (_, all) => all.map((one) => latest.current.format(one)) }],
          series: [
            { label: 'Time', value: (_, at) => (at === null ? '–' : new Date(at * 1000).toLocaleTimeString()) },
            ...series.map((one) => ({
              label: one.label,
              stroke: colour(one.colour),
              fill: one.fill ? `${colour(one.colour)}22` : undefined,
              width: 2,
              dash: one.dash,
              points: { show: false },
              spanGaps: false,
              value: (_, value) => (value === null || value === undefined ? '' : latest.current.format(value)),
            })),
          ],
        },
        latest.current.data,
        box,
      );
    };
    make();
    const watch = new ResizeObserver(() => plot.current.setSize({ width: box.clientWidth, height: HEIGHT }));
    watch.observe(box);
    dark.addEventListener('change', make);
    return () => {
      watch.disconnect();
      dark.removeEventListener('change', make);
      plot.current.destroy();
    };
  }, [shape]);

  useEffect(() => plot.current.setData(data), [data]);

  return (
    <figure>
      <figcaption>{title}</figcaption>
      <div ref={place} role="img" aria-label={`${title}: ${summary}`} />
    </figure>
  );
}
