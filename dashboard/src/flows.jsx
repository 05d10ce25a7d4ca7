// SPDX-License-Identifier: MIT OR Apache-2.0
// Flows of a direction: standing, host, application, and who is served.

import { parts, rate, size, time } from './format.js';

const SHOWN = { standing: 'goes first', new: 'new', probation: 'probation', bulk: 'bulk' };

export function Flows({ name, one }) {
  const busy = one.flows.filter((flow) => flow.sent_bps > 0 || flow.backlog_bytes > 0);
  const idle = one.flows.length - busy.length + one.more_flows;
  const judged = busy.some((flow) => flow.standing);
  return (
    <div class="scroll" tabindex="0" role="region" aria-label={`Flows of the ${name}`}>
      <table>
        <caption class="hidden">Flows of the {name}, by the rate at which they are served</caption>
        <thead>
          <tr>
            <th scope="col">Host</th>
            <th scope="col">Application</th>
            <th scope="col">Served at</th>
            <th scope="col">Backlog</th>
            <th scope="col">In queue</th>
            {judged && <th scope="col">Standing</th>}
          </tr>
        </thead>
        <tbody>
          {busy.map((flow) => <Row key={flow.flow} flow={flow} judged={judged} direction={one.direction} />)}
          {busy.length === 0 && <tr><td colspan={judged ? 6 : 5} class="soft">No flow sends now.</td></tr>}
        </tbody>
      </table>
      {idle > 0 && <p class="soft">{idle} more that do not send now, or less.</p>}
    </div>
  );
}

function Row({ flow, judged, direction }) {
  const { host, peer, app } = parts(flow.flow, direction);
  const standing = SHOWN[flow.standing] ?? flow.standing;
  return (
    <tr title={flow.flow}>
      <th scope="row">{host}</th>
      <td>{app}{peer && <span class="soft"> {peer}</span>}</td>
      <td class="figure">
        {rate(flow.sent_bps)}
        <meter min="0" max="1" value={flow.share} aria-label="Share of the packets served" />
      </td>
      <td class="figure">{size(flow.backlog_bytes)}</td>
      <td class="figure">{flow.sojourn_p99_ms > 0 ? time(flow.sojourn_p99_ms) : '–'}</td>
      {judged && (
        <td>
          {standing && <span class={`pill ${flow.standing}`} title={flow.reason}>{standing}</span>}
        </td>
      )}
    </tr>
  );
}
