// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests of the HTTP API, which `makeway:api` (build.js) makes of the service's document.

/** Name of the session's key in this page's storage, which a server at another port of this host has no part in. */
const KEY = 'makeway-session';

/** Keeps the key of a session that was opened; without one forgets it. */
export function keep(key) {
  if (key) {
    sessionStorage.setItem(KEY, key);
  } else {
    sessionStorage.removeItem(KEY);
  }
}

/** Answer in JSON; an error has the server's own words. */
export async function ask(method, path, body) {
  const key = sessionStorage.getItem(KEY);
  const response = await fetch(path, {
    method,
    headers: {
      ...(key && { 'X-Makeway-Session': key }),
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  }).catch(() => {
    throw new Error('the service does not answer');
  });
  const told = await response.json().catch(() => ({}));
  if (!response.ok) {
    const error = new Error(told.error ?? `the service answers ${response.status}`);
    error.status = response.status;
    throw error;
  }
  return told;
}

/** Calls `event` with each event of a stream, and `lost` when there are none. */
export function follow(path, event, lost) {
  const source = new EventSource(path);
  source.onmessage = (message) => event(JSON.parse(message.data));
  source.onerror = lost;
  return () => source.close();
}
