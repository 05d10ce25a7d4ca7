// SPDX-License-Identifier: MIT OR Apache-2.0
// Figures as text, and flows in parts.

const three = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

/** `18.2 Mbit/s`; a dash for none. */
export function rate(bps) {
  if (bps === null || bps === undefined) {
    return '–';
  }
  if (bps < 1000) {
    return `${bps.toFixed(0)} bit/s`;
  }
  const power = Math.min(3, Math.floor(Math.log10(bps * 1.0005) / 3));
  return `${three(bps / 1000 ** power)} ${['', 'k', 'M', 'G'][power]}bit/s`;
}

/** `23.1 kB`. */
export function size(bytes) {
  if (bytes < 1000) {
    return `${bytes} B`;
  }
  const power = Math.min(3, Math.floor(Math.log10(bytes * 1.0005) / 3));
  return `${three(bytes / 1000 ** power)} ${['', 'k', 'M', 'G'][power]}B`;
}

/** `4.20 ms`, `1.30 s`. */
export function time(ms) {
  if (ms < 0.005) {
    return '0 ms';
  }
  return ms < 1000 ? `${three(ms)} ms` : `${three(ms / 1000)} s`;
}

export const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });

/** Well-known ports, for people. */
const PORTS = {
  20: 'ftp', 21: 'ftp', 22: 'ssh', 25: 'smtp', 53: 'dns', 80: 'http', 110: 'pop3', 123: 'ntp', 143: 'imap', 443: 'https', 465: 'smtp',
  587: 'smtp', 853: 'dns', 993: 'imap', 995: 'pop3', 1194: 'openvpn', 3074: 'xbox', 3389: 'rdp', 3478: 'stun', 3480: 'psn', 5004: 'rtp',
  5060: 'sip', 5061: 'sip', 5201: 'iperf', 5349: 'turn', 8801: 'zoom', 19302: 'stun', 27015: 'steam', 51820: 'wireguard',
};

const end = (text) => {
  const at = text.lastIndexOf(':');
  const port = Number(text.slice(at + 1));
  return at > 0 && Number.isInteger(port) && (text[at - 1] === ']' || text.indexOf(':') === at)
    ? { host: text.slice(0, at).replace(/^\[|\]$/g, ''), port }
    : { host: text, port: null };
};

/** The host of ours, the other one, and the application by its port. */
export function parts(flow, direction) {
  const found = /^(\S+) (\S+) > (\S+)$/.exec(flow);
  if (!found) {
    return { host: flow, peer: '', app: '' };
  }
  const [, protocol, from, to] = found;
  const [ours, theirs] = (direction === 'egress' ? [from, to] : [to, from]).map(end);
  const port = [theirs.port, ours.port].find((one) => PORTS[one]) ?? theirs.port;
  const app = [protocol, port === null ? '' : PORTS[port] ?? port].join(' ').trim();
  return { host: ours.host, peer: theirs.host, app };
}
