// SPDX-License-Identifier: MIT OR Apache-2.0
// The HTTP API of the service.

/** Answer in JSON; an error has the server's own words. */
export async function ask(path, { method = 'GET', body } = {}) {
  const response = await fetch(path, {
    method,
    headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
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

/** Calls `live` with each state, and `lost` when there are none. */
export function follow(live, lost) {
  const source = new EventSource('/api/live');
  source.onmessage = (event) => live(JSON.parse(event.data));
  source.onerror = lost;
  return () => source.close();
}
