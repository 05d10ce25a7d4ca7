#!/usr/bin/env node
// SPDX-License-Identifier: MIT OR Apache-2.0
// The HTTP API against its own document: `api.js URL TOKEN INTERFACE`. Prints the answers that were compared, as JSON.
//
// Each request of the document is made, rightly and wrongly; each answer has a status, a type and a form that the document tells.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

import Ajv from 'ajv/dist/2020.js';

const [url, token, name] = process.argv.slice(2);
const document = await (await fetch(new URL('/api/openapi.json', url))).json();
const { schemas } = document.components;

/** Names of schemas that others are made of. */
const parts = new Set([...JSON.stringify(schemas).matchAll(/"allOf":\[\{"\$ref":"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name));
for (const [name, schema] of Object.entries(schemas)) {
  // A field that the document does not tell is a fault here; the document itself allows later versions more.
  if ((schema.properties && !parts.has(name)) || schema.allOf) {
    schema.unevaluatedProperties = false;
  }
}
const ajv = new Ajv({ strict: true, strictTypes: false, allErrors: true, formats: { int32: true, int64: true, double: true, float: true } });
// Words of OpenAPI beside those of JSON Schema.
['components', 'info', 'openapi', 'paths', 'tags', 'servers'].forEach((word) => ajv.addVocabulary([word]));
ajv.addSchema(document, 'document');

const compared = {};
let cookie = '';
let key = '';

/** Makes a request of the document; the answer's body. */
async function ask(operationId, { path = {}, body, status = 200, accept = '*/*' } = {}) {
  const all = Object.entries(document.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, one]) => ({ path, method, ...one })));
  const operation = all.find((one) => one.operationId === operationId);
  assert.ok(operation, `${operationId} is not in the document`);
  const address = operation.path.replace(/\{(\w+)\}/g, (_, key) => encodeURIComponent(path[key]));
  const answer = await fetch(new URL(address, url), { method: operation.method.toUpperCase(), body, headers: { cookie, accept, 'x-makeway-session': key } });
  const is = `${operationId} ${JSON.stringify(path)} ${body ?? ''}: ${answer.status}`;
  assert.equal(answer.status, status, is);
  const told = operation.responses[status];
  assert.ok(told, `${is} is not in the document`);
  const type = answer.headers.get('content-type').split(';')[0];
  const content = told.content[type];
  assert.ok(content, `${is}: ${type} is not in the document`);
  const text = type === 'text/event-stream' ? await firstEvent(answer) : await answer.text();
  const value = type.startsWith('text/p') || type.endsWith('openmetrics-text') ? text : JSON.parse(text);
  const escaped = (key) => encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'));
  const place = ['paths', operation.path, operation.method, 'responses', String(status), 'content', type, 'schema'].map(escaped).join('/');
  const validate = ajv.getSchema(`document#/${place}`);
  assert.ok(validate(value), `${is}: ${ajv.errorsText(validate.errors)}`);
  const set = answer.headers.get('set-cookie');
  cookie = set === null ? cookie : set.split(';')[0];
  (compared[operationId] ??= []).push(status);
  return value;
}

async function firstEvent(answer) {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of answer.body) {
    text += decoder.decode(chunk, { stream: true });
    const found = /^data: ?(.*)\n\n/.exec(text);
    if (found) {
      // Leaving the loop ends the stream.
      return found[1];
    }
  }
  return assert.fail('a stream without an event');
}

const here = { path: { name } };
const change = (upload_bps) => JSON.stringify({ upload_bps });
await ask('document');
await ask('about');
await ask('metrics', { accept: 'text/plain' });
await ask('metrics', { accept: 'application/openmetrics-text; version=1.0.0' });
for (const span of ['hour', 'day', 'month']) {
  const { series } = await ask('history', { path: { span } });
  assert.ok(series.length > 0, `${span} is empty`);
}
await ask('history', { path: { span: 'week' }, status: 404 });
await ask('changeInterface', { ...here, body: change(5e6), status: 401 });
await ask('undoChange', { ...here, status: 401 });
await ask('measure', { ...here, body: '{"compare": false}', status: 401 });
assert.equal((await ask('measurement')).state, 'none');
await ask('openSession', { body: '{}', status: 400 });
await ask('openSession', { body: '{"token": "wrong"}', status: 401 });
const opened = await ask('openSession', { body: JSON.stringify({ token }) });
// Browsers send the cookie to servers at other ports of this host too: nothing is done by it alone.
assert.equal((await ask('about')).may_change, false);
await ask('undoChange', { ...here, status: 401 });
({ key } = opened);
assert.equal((await ask('about')).may_change, true);
await ask('measure', { ...here, body: '{}', status: 400 });
// The file names no server: test/measurement.js has one.
await ask('measure', { ...here, body: '{"compare": false}', status: 422 });
await ask('changeInterface', { ...here, body: '{"upload": 5}', status: 400 });
await ask('changeInterface', { ...here, body: change(1), status: 422 });
await ask('changeInterface', { path: { name: 'none' }, body: change(5e6), status: 422 });
await ask('changeInterface', { ...here, body: change(5e6) });
// The state follows a change after its next round, and each stream begins with that of the last one.
let live;
const follows = () => {
  const one = live?.interfaces[0];
  return one?.differs && one.directions.length === 2 && one.directions.some(({ flows }) => flows.length > 0);
};
for (const end = Date.now() + 20_000; !follows() && Date.now() < end; await sleep(100)) {
  live = await ask('live');
}
assert.ok(follows(), JSON.stringify(live));
await ask('undoChange', here);
await ask('undoChange', { ...here, status: 422 });
await ask('closeSession');
assert.equal((await ask('about')).may_change, false);

for (const [path, methods] of Object.entries(document.paths)) {
  for (const [method, { operationId, responses }] of Object.entries(methods)) {
    assert.ok(compared[operationId], `${method} ${path} was not tried`);
    // OpenAPI asks for one.
    assert.ok(Object.values(responses).every((one) => one.description), `${method} ${path} has an answer without a description`);
  }
  // The document has all methods of the path.
  for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH'].filter((one) => !methods[one.toLowerCase()])) {
    const { status } = await fetch(new URL(path, url), { method });
    assert.equal(status, 405, `${method} ${path}`);
  }
}
process.stdout.write(`${JSON.stringify(compared)}\n`);
