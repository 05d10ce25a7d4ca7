#!/usr/bin/env node
// SPDX-License-Identifier: MIT OR Apache-2.0
// Bundles the page into crates/web/assets, or into the folder given. The result depends on the sources and the lock file alone.

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
  banner: { js: banner(['preact', 'uplot']), css: banner(['uplot']) },
  outdir: process.argv[2] ?? join(here, '../crates/web/assets'),
  logLevel: 'warning',
});
