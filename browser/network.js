// SPDX-License-Identifier: MIT OR Apache-2.0
// Three namespaces: caller, router, viewer. `makeway up` shapes the router's interface towards the viewer.

import { execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = (file) => fileURLToPath(new URL(file, import.meta.url));

const SPACES = ['caller', 'router', 'viewer'];
export const VIEWER = '10.0.2.2';
export const CALLER = '10.0.1.2';

function run(program, line) {
  try {
    return execFileSync(program, line.split(' '), { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    throw new Error(`${program} ${line}: ${(error.stderr || error.message).trim()}`);
  }
}

const ip = (line) => run('ip', line);

/** The namespaces and their links. */
export function build() {
  for (const space of SPACES) {
    ip(`netns add ${space}`);
    run('ip', `netns exec ${space} sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv4.ip_forward=1 net.ipv4.tcp_no_metrics_save=1`);
    ip(`-n ${space} link set lo up`);
  }
  for (const [host, net] of [['caller', '10.0.1'], ['viewer', '10.0.2']]) {
    // In the host it is `wire`, in the router it has the host's name.
    ip(`link add wire netns ${host} type veth peer name ${host} netns router`);
    ip(`-n ${host} addr add ${net}.2/24 dev wire`);
    ip(`-n router addr add ${net}.1/24 dev ${host}`);
    // As on a wire: no packet larger than the MTU.
    ip(`-n ${host} link set wire gso_max_segs 1 up`);
    ip(`-n router link set ${host} up`);
    ip(`-n ${host} route add default via ${net}.1`);
  }
}

/** Half of the round-trip time each way: netem, or our own delay line, in `examples` of `folder`, on a kernel without it. Ended by the answer. */
export async function delay(rtt, folder) {
  if (rtt === 0) {
    return async () => {};
  }
  try {
    for (const host of ['caller', 'viewer']) {
      run('tc', `-n ${host} qdisc add dev wire root netem delay ${rtt / 2}ms limit 100000`);
    }
    return async () => {};
  } catch (error) {
    const program = join(folder, 'examples', 'delay');
    if (!existsSync(program)) {
      throw new Error(`${error.message}; without netem --rtt needs ${program}: cargo build --example delay`);
    }
    const child = inside('router', [program, 'caller', String(rtt / 2)], ['pipe', 'pipe', 'inherit']);
    const end = ended(child);
    await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.stdout.once('data', resolve);
      end.then((code) => reject(new Error(`${program} ended (${code})`)));
    });
    return async () => {
      child.stdin.end();
      await end;
    };
  }
}

/** Removes them, and the links with them. */
export function remove() {
  for (const space of SPACES) {
    ip(`netns del ${space}`);
  }
}

export const inside = (space, command, stdio) => spawn('ip', ['netns', 'exec', space, ...command], { stdio });

export const ended = (child) => new Promise((resolve) => child.once('exit', (code, signal) => resolve(signal ?? code)));

/** The router loses a share of the packets of both ways. */
export function lose(share) {
  if (share > 0) {
    run('ip', `netns exec router iptables -A FORWARD -m statistic --mode random --probability ${share} -j DROP`);
  }
}

/** `makeway up` on the bottleneck, once it shapes. */
export async function shape(makeway, options, discipline) {
  const command = [makeway, 'up', 'viewer', '--rate', `${options.rate}bit`, '--discipline', discipline, '--backend', options.backend];
  const child = inside('router', command, ['ignore', 'pipe', 'pipe']);
  let said = '';
  let wrong = '';
  child.stderr.on('data', (bytes) => { wrong += bytes; });
  const end = ended(child);
  await new Promise((resolve, reject) => {
    child.once('error', reject);
    // It says two lines when it is ready.
    child.stdout.on('data', (bytes) => {
      said += bytes;
      if (said.split('\n').length > 2) {
        resolve();
      }
    });
    end.then((code) => reject(new Error(`makeway up ended (${code}): ${wrong.trim() || said.trim()}`)));
  });
  return {
    status: () => JSON.parse(execFileSync('ip', ['netns', 'exec', 'router', makeway, 'status', 'viewer', '--json'], { encoding: 'utf8' })),
    async stop() {
      child.kill('SIGINT');
      await end;
    },
  };
}

/** `count` TCP downloads from caller to viewer, until `stop`. */
export async function downloads(count) {
  if (count === 0) {
    return { received: async () => [], stop: async () => {} };
  }
  const start = async (space, ...line) => {
    const child = inside(space, [process.execPath, here('download.js'), ...line], ['ignore', 'inherit', 'inherit', 'ipc']);
    await new Promise((resolve, reject) => {
      child.once('message', resolve);
      child.once('exit', (code) => reject(new Error(`downloads: ${line[0]} ended (${code})`)));
    });
    return child;
  };
  const server = await start('caller', 'send', CALLER);
  const client = await start('viewer', 'receive', CALLER, String(count));
  return {
    /** Bytes received so far, of each. */
    received: () => new Promise((resolve) => {
      client.once('message', resolve);
      client.send('count');
    }),
    async stop() {
      const gone = [server, client].map(ended);
      server.kill('SIGKILL');
      client.kill('SIGKILL');
      await Promise.all(gone);
    },
  };
}
