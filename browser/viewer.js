// SPDX-License-Identifier: MIT OR Apache-2.0
// The page that receives a live video by WebTransport datagrams (crates/quinn/examples/webtransport.rs has their form), asks for those
// that are missing, shows each frame 200 ms after its capture, and plots when frames came.

'use strict';

const SHOWN_AFTER = 200;
/** A frame that others refer to is waited for until it is this old. */
const GIVEN_UP = 400;
const PERIOD = 40;
/** Between two requests for a datagram, and how many. */
const ASK_AGAIN = 80;
const ASKS = 3;

const now = () => performance.timeOrigin + performance.now();
const picture = document.querySelector('#picture').getContext('2d');

/** Frames by number: those of which a part came. */
const frames = new Map();
/** Of each layer: the number that comes next, and those that did not come, with [first asked, last asked, times]. */
const layers = [0, 1, 2].map(() => ({ expected: 0, missing: new Map() }));
let latest = -1;
let playing = -1;
let received = 0;
let decoded = 0;
let submitted = 0;
let wrong = null;
let asked = 0;
let refreshed = -1;
let writer = null;

const decoder = new VideoDecoder({
  output(frame) {
    decoded += 1;
    picture.drawImage(frame, 0, 0, 640, 360);
    frame.close();
  },
  error(error) {
    wrong ??= error.message;
  },
});
decoder.configure({ codec: 'vp8', optimizeForLatency: true });

/** Asks for datagrams: pairs of layer and number. */
function askFor(pairs) {
  const message = new DataView(new ArrayBuffer(1 + 5 * pairs.length));
  message.setUint8(0, 1);
  pairs.forEach(([layer, number], at) => {
    message.setUint8(1 + 5 * at, layer);
    message.setUint32(2 + 5 * at, number);
  });
  writer.write(new Uint8Array(message.buffer)).catch(() => {});
}

/** Asks for a keyframe instead of a frame. */
function refresh(number) {
  const message = new DataView(new ArrayBuffer(5));
  message.setUint8(0, 2);
  message.setUint32(1, number);
  writer.write(new Uint8Array(message.buffer)).catch(() => {});
}

/** A datagram came: those before it, of its layer and of lower ones, are missing if they did not. */
function note(layer, number, before) {
  layers[layer].missing.delete(number);
  const lost = [];
  for (let below = 0; below <= layer; below += 1) {
    const { missing } = layers[below];
    const next = below === layer ? number : before[below];
    for (; layers[below].expected < next; layers[below].expected += 1) {
      missing.set(layers[below].expected, [now(), now(), 1]);
      lost.push([below, layers[below].expected]);
    }
  }
  layers[layer].expected = Math.max(layers[layer].expected, number + 1);
  if (lost.length) {
    asked += lost.length;
    askFor(lost.slice(-64));
  }
}

/** What is still missing is asked for again. */
function askAgain() {
  const lost = [];
  for (const [layer, { missing }] of layers.entries()) {
    for (const [number, entry] of missing) {
      const [first, last, times] = entry;
      if (now() - first > GIVEN_UP) {
        missing.delete(number);
      } else if (times < ASKS && now() - last > ASK_AGAIN) {
        entry[1] = now();
        entry[2] += 1;
        lost.push([layer, number]);
      }
    }
  }
  if (lost.length) {
    askFor(lost.slice(0, 64));
  }
}

/** A frame is there when all of its parts are, and the frame that it refers to. */
function settle(frame) {
  if (frame.there === null && frame.have === frame.parts.length) {
    const refersTo = frames.get(frame.refersTo);
    if (frame.refersTo === frame.number || refersTo?.there) {
      frame.there = now();
      for (const other of frames.values()) {
        if (other.refersTo === frame.number && other !== frame) {
          settle(other);
        }
      }
    }
  }
}

function arrive(bytes) {
  const data = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (data.byteLength < 36 || data.getUint8(0) !== 0 || data.getUint8(1) > 2) {
    return;
  }
  received += bytes.byteLength;
  const layer = data.getUint8(1);
  note(layer, data.getUint32(2), [6, 10, 14].map((at) => data.getUint32(at)));
  const number = data.getUint32(18);
  if (!frames.has(number)) {
    const capture = Number(data.getBigUint64(28)) / 1000;
    const parts = Array(data.getUint8(27)).fill(null);
    frames.set(number, { number, refersTo: data.getUint32(22), layer, capture, parts, have: 0, there: null, shown: false, fed: false });
    latest = Math.max(latest, number);
    if (playing < 0) {
      playing = number;
    }
  }
  const frame = frames.get(number);
  const part = data.getUint8(26);
  if (part < frame.parts.length && frame.parts[part] === null) {
    frame.parts[part] = bytes.slice(36);
    frame.have += 1;
    settle(frame);
  }
}

/** Gives the decoder a frame, and those before that it refers to. */
function feed(frame) {
  if (frame.fed) {
    return;
  }
  const isKey = frame.refersTo === frame.number;
  if (!isKey) {
    feed(frames.get(frame.refersTo));
  }
  frame.fed = true;
  submitted += 1;
  const whole = new Blob(frame.parts);
  queue = queue.then(async () => {
    const data = await whole.arrayBuffer();
    decoder.decode(new EncodedVideoChunk({ type: isKey ? 'key' : 'delta', timestamp: frame.number * PERIOD * 1000, data }));
  }).catch((error) => {
    wrong ??= error.message;
  });
}
let queue = Promise.resolve();

/** Shows each frame at its time. */
function play() {
  while (playing >= 0 && playing <= latest) {
    const frame = frames.get(playing);
    // Of a frame of which nothing came, the time is known from the others.
    const due = (frame?.capture ?? captured(playing)) + SHOWN_AFTER;
    if (due > now()) {
      break;
    }
    if (frame?.there) {
      frame.shown = true;
      feed(frame);
    }
    playing += 1;
  }
  // A frame of the base that is given up: all up to the next keyframe are lost.
  for (let number = playing - 1; number >= 0 && number > playing - 25; number -= 1) {
    const frame = frames.get(number);
    const capture = frame?.capture ?? captured(number);
    if (now() - capture > GIVEN_UP && number > refreshed && frame && !frame.there && frame.layer === 0) {
      refreshed = latest;
      refresh(number);
      break;
    }
  }
  askAgain();
}

function captured(number) {
  const later = frames.get(latest);
  return later.capture - (latest - number) * PERIOD;
}

const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? null;

window.viewer = {
  /** Receives from `url`, whose certificate has this SHA-256. */
  async connect(url, hash) {
    const value = Uint8Array.from(hash.split(':'), (byte) => parseInt(byte, 16));
    const transport = new WebTransport(url, { serverCertificateHashes: [{ algorithm: 'sha-256', value }] });
    await transport.ready;
    transport.datagrams.incomingHighWaterMark = 1000;
    writer = transport.datagrams.writable?.getWriter() ?? transport.datagrams.createWritable().getWriter();
    setInterval(play, 5);
    const reader = transport.datagrams.readable.getReader();
    (async () => {
      for (;;) {
        const { value: datagram, done } = await reader.read();
        if (done) {
          break;
        }
        arrive(datagram);
      }
    })().catch(() => {});
    window.viewer.close = () => transport.close();
  },

  /** Number of the latest frame, bytes received, the time. */
  mark: () => ({ latest, received, now: now(), asked }),

  /** Figures of the frames captured from `begin` to `end`, of which all that is of use has come. */
  figures(begin, end) {
    const within = [...frames.values()].filter((frame) => frame.capture >= begin.now);
    const first = within.reduce((a, b) => (b.number < a.number ? b : a));
    const made = Math.floor((end.now - first.capture) / PERIOD) + 1;
    const ages = [];
    const shown = [];
    const points = [];
    for (let number = first.number; number < first.number + made; number += 1) {
      const frame = frames.get(number);
      const capture = frame?.capture ?? captured(number);
      const age = frame?.there ? frame.there - capture : null;
      if (age !== null) {
        ages.push(age);
      }
      if (frame?.shown) {
        shown.push(capture);
      }
      points.push([(capture - begin.now) / 1000, age, Boolean(frame?.shown)]);
    }
    ages.sort((a, b) => a - b);
    let freezes = 0;
    const edges = [begin.now, ...shown, end.now];
    for (let at = 1; at < edges.length; at += 1) {
      // W3C, freezeCount: three periods, and one and 150 ms.
      freezes += edges[at] - edges[at - 1] >= Math.max(3 * PERIOD, PERIOD + 150) ? 1 : 0;
    }
    const seconds = (end.now - begin.now) / 1000;
    return {
      shown_200ms: shown.length / made,
      freezes,
      age_p95_ms: quantile(ages, 0.95),
      kbps: (8 * (end.received - begin.received)) / seconds / 1000,
      made, seconds, points,
      age_p50_ms: quantile(ages, 0.5),
      asked: end.asked - begin.asked,
      submitted, decoded, wrong,
    };
  },

  /** The plot of `points`, and a sentence. */
  plot({ points, seconds }, text) {
    document.querySelector('#figures').textContent = text;
    const plot = document.querySelector('#plot').getContext('2d');
    const [left, top, width, height] = [44, 12, 584, 196];
    const most = 400;
    const x = (second) => left + (second / seconds) * width;
    const y = (ms) => top + height - (Math.min(ms, most) / most) * height;
    plot.clearRect(0, 0, 640, 240);
    plot.font = '12px system-ui, sans-serif';
    for (let ms = 0; ms <= most; ms += 100) {
      plot.fillStyle = ms === SHOWN_AFTER ? '#c0392b' : '#d5dbe1';
      plot.fillRect(left, y(ms), width, 1);
      plot.fillStyle = '#5b6875';
      plot.fillText(`${ms}`, 10, y(ms) + 4);
    }
    for (const [second, age, isShown] of points) {
      plot.fillStyle = isShown ? '#2a6fb0' : '#c0392b';
      plot.fillRect(x(second) - 1, y(age ?? most) - 1, 3, 3);
    }
    plot.fillStyle = '#5b6875';
    plot.fillText('ms from capture until all of a frame is there, over the seconds of the run; red: not shown', left, 232);
  },
};
