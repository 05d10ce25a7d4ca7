// SPDX-License-Identifier: MIT OR Apache-2.0
// Changes of rate, discipline and weights, for those who have the token.

import * as api from 'makeway:api';
import { useEffect, useState } from 'preact/hooks';

import { keep } from './api.js';
import { rate } from './format.js';

const mbit = (bps) => (bps === null ? '' : String(bps / 1e6));

/** `192.168.1.7 = 2` on each line. */
const lines = (weights) => Object.entries(weights).map(([host, share]) => `${host} = ${share}`).join('\n');

function weights(text) {
  const all = {};
  for (const line of text.split('\n').map((one) => one.trim()).filter(Boolean)) {
    const found = /^(\S+)\s*=\s*(\d+)$/.exec(line);
    if (!found) {
      throw new Error(`“${line}” is no share: write 192.168.1.7 = 2`);
    }
    all[found[1]] = Number(found[2]);
  }
  return all;
}

/** What the file would say, for it to stay. */
function fileLines(one) {
  const table = /^[\w-]+$/.test(one.name) ? one.name : JSON.stringify(one.name);
  const all = [`[interface.${table}]`];
  for (const [key, bps] of [['upload', one.upload_bps], ['download', one.download_bps]]) {
    if (bps !== null) {
      const [unit, name] = [[1e6, 'mbit'], [1e3, 'kbit'], [1, 'bit']].find(([unit]) => bps % unit === 0);
      all.push(`${key} = "${bps / unit}${name}"`);
    }
  }
  all.push(`discipline = "${one.discipline}"`);
  const shares = Object.entries(one.weights).map(([host, share]) => `"${host}" = ${share}`);
  return [...all, ...(shares.length ? [`weights = { ${shares.join(', ')} }`] : [])].join('\n');
}

export function Controls({ about, asked, signIn, signedOut }) {
  const now = { upload: mbit(asked.upload_bps), download: mbit(asked.download_bps), discipline: asked.discipline, weights: lines(asked.weights) };
  const key = JSON.stringify(now);
  const [form, setForm] = useState(now);
  const [said, say] = useState('');
  const [busy, setBusy] = useState(false);
  useEffect(() => setForm(now), [asked.name, key]);
  const takesWeights = about.disciplines.find((one) => one.name === form.discipline)?.weights;
  const set = (name) => (event) => setForm({ ...form, [name]: event.currentTarget.value });

  async function send(request, done) {
    setBusy(true);
    say('');
    try {
      await request;
      say(done);
    } catch (error) {
      say(error.message);
      if (error.status === 401) {
        signedOut();
      }
    }
    setBusy(false);
  }

  function apply(event) {
    event.preventDefault();
    const change = {};
    try {
      for (const [name, bps] of [['upload', asked.upload_bps], ['download', asked.download_bps]]) {
        const wanted = Math.round(Number(form[name]) * 1e6);
        if (bps !== null && wanted !== bps) {
          change[`${name}_bps`] = wanted;
        }
      }
      if (form.discipline !== asked.discipline) {
        change.discipline = form.discipline;
      }
      if (takesWeights && form.weights !== now.weights) {
        change.weights = weights(form.weights);
      }
    } catch (error) {
      say(error.message);
      return;
    }
    if (Object.keys(change).length === 0) {
      say('nothing to change');
      return;
    }
    send(api.changeInterface(asked.name, change), 'changed');
  }

  const field = (name, bps, label) =>
    bps !== null && (
      <label>
        {label}, Mbit/s
        <input type="number" min="0.001" max="1000000" step="any" required value={form[name]} onInput={set(name)} disabled={!about.may_change} />
      </label>
    );
  return (
    <section aria-labelledby="settings">
      <h2 id="settings">Settings</h2>
      {!about.may_change && <SignIn about={about} signIn={signIn} />}
      <form onSubmit={apply} class="settings">
        {field('upload', asked.upload_bps, 'Upload')}
        {field('download', asked.download_bps, 'Download')}
        <label>
          Discipline
          <select value={form.discipline} onChange={set('discipline')} disabled={!about.may_change}>
            {about.disciplines.map((one) => (
              <option key={one.name} value={one.name}>{one.name}</option>
            ))}
          </select>
        </label>
        {takesWeights && (
          <label class="wide">
            Shares of hosts, one on each line
            <textarea rows="3" placeholder="192.168.1.7 = 2" value={form.weights} onInput={set('weights')} disabled={!about.may_change} />
          </label>
        )}
        {about.may_change && (
          <div class="buttons">
            <button type="submit" disabled={busy}>Apply</button>
            <button
              type="button"
              disabled={busy || asked.undo === 0}
              onClick={() => send(api.undoChange(asked.name), 'undone')}
            >
              Undo
            </button>
          </div>
        )}
        <p class="said" role="status">{said}</p>
      </form>
      <p class="soft">{about.disciplines.find((one) => one.name === form.discipline)?.about}</p>
      {asked.differs && (
        <div class="differs">
          <p>This differs from the file, until its part of the file changes or the service starts anew. To keep it, write there:</p>
          <pre tabindex="0">{fileLines(asked)}</pre>
        </div>
      )}
    </section>
  );
}

function SignIn({ about, signIn }) {
  const [token, setToken] = useState('');
  const [said, say] = useState('');
  async function open(event) {
    event.preventDefault();
    try {
      keep((await api.openSession({ token })).key);
      setToken('');
      signIn();
    } catch (error) {
      say(error.message);
    }
  }
  return (
    <form onSubmit={open} class="settings signin">
      <label>
        Token, for changes
        <input type="password" autocomplete="current-password" required value={token} onInput={(event) => setToken(event.currentTarget.value)} />
      </label>
      <div class="buttons"><button type="submit">Unlock</button></div>
      <p class="said" role="status">{said}</p>
      <p class="soft wide">Read it on the machine: <code>sudo cat {about.token_file}</code></p>
    </form>
  );
}

export const line = (asked) =>
  [asked.upload_bps !== null && `upload ${rate(asked.upload_bps)}`, asked.download_bps !== null && `download ${rate(asked.download_bps)}`]
    .filter(Boolean)
    .join(', ');
