#!/usr/bin/env node
// SPDX-License-Identifier: MIT OR Apache-2.0
// Bundles the page into crates/web/assets, or into the folder given. The result depends on the sources, the document of the service's API
// (crates/web/openapi.json) and the lock file alone.

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));

/** The licence of a library asks to go with it. */
function licence(name) {
  const folder = join(here, 'node_modules', name);
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return `${name} ${version}: ${readFileSync(join(folder, 'LICENSE'), 'utf8').trim()}`;
}

const banner = (names) =>
  `/*\nSPDX-License-Identifier: MIT OR Apache-2.0\nMade by dashboard/build.js of dashboard/src, and of:\n\n${names.map(licence).join('\n\n')}\n*/`;

/** The module `makeway:api`: a function for each request of the document, called by its parameters in the order of the path, then its body.
 *  A stream takes two functions instead: one for each event, one for the loss of the connection. */
function client() {
  const { paths } = JSON.parse(readFileSync(join(here, '../crates/web/openapi.json'), 'utf8'));
  const all = ["import { ask, follow } from './src/api.js';"];
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, { operationId, requestBody, responses }] of Object.entries(methods)) {
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      const address = `\`${path.replace(/\{(\w+)\}/g, '${encodeURIComponent($1)}')}\``;
      const gives = Object.keys(responses[200].content)[0];
      if (gives === 'text/event-stream') {
        all.push(`export const ${operationId} = (${[...names, 'event', 'lost'].join(', ')}) => follow(${address}, event, lost);`);
      } else if (gives === 'application/json') {
        const asks = JSON.stringify(method.toUpperCase());
        const body = requestBody ? ['body'] : [];
        all.push(`export const ${operationId} = (${[...names, ...body].join(', ')}) => ask(${[asks, address, ...body].join(', ')});`);
      }
    }
  }
  return all.join('\n');
}

/** A request that the document lacks is a name that the module lacks, and so an error of the build. */
const api = {
  name: 'api',
  setup(build) {
    build.onResolve({ filter: /^makeway:api$/ }, ({ path }) => ({ path, namespace: 'api' }));
    build.onLoad({ filter: /.*/, namespace: 'api' }, () => ({ contents: client(), resolveDir: here }));
  },
};

await build({
  absWorkingDir: here,
  entryPoints: { app: 'src/app.jsx' },
  bundle: true,
  minify: true,
  format: 'iife',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  plugins: [api],
  logOverride: { 'import-is-undefined': 'error' },
  banner: { js: banner(['preact', 'uplot']), css: banner(['uplot']) },
  outdir: process.argv[2] ?? join(here, '../crates/web/assets'),
  logLevel: 'warning',
});
