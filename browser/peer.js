// SPDX-License-Identifier: MIT OR Apache-2.0
// One end of the call, in the browser. The caller sends its camera and both send audio; `call.js` carries the descriptions.

'use strict';

const video = document.querySelector('video');
const connection = new RTCPeerConnection();
const now = () => performance.timeOrigin + performance.now();

/** [number of the picture or null, ms]: captured at the caller, displayed at the viewer. */
const frames = [];
const waiting = [];
const cells = new OffscreenCanvas(16, 1).getContext('2d', { willReadFrequently: true });
cells.imageSmoothingEnabled = false;

/** Number of the picture that the video shows, or null if its check does not fit: see clip.js. */
function code() {
  cells.drawImage(video, 0, 0, video.videoWidth, video.videoHeight / 15, 0, 0, 16, 1);
  const { data } = cells.getImageData(0, 0, 16, 1);
  const bit = (cell) => (data[4 * cell] > 127 ? 1 : 0);
  const bits = (from, count) => Array.from({ length: count }, (_, at) => bit(from + at) << at).reduce((a, b) => a + b, 0);
  const number = bits(0, 9);
  return bits(9, 7) === (number * 53 + 29) % 128 ? number : null;
}

/** Notes each frame of the video with the time that `when` finds in its metadata. */
function watch(stream, when) {
  video.srcObject = stream;
  const each = (_, metadata) => {
    frames.push([code(), performance.timeOrigin + when(metadata)]);
    for (const { number, resolve } of waiting) {
      if (frames.at(-1)[0] >= number) {
        resolve(now());
      }
    }
    video.requestVideoFrameCallback(each);
  };
  video.requestVideoFrameCallback(each);
}

/** All host candidates are in the description. */
async function gathered() {
  while (connection.iceGatheringState !== 'complete') {
    await new Promise((resolve) => connection.addEventListener('icegatheringstatechange', resolve, { once: true }));
  }
  return connection.localDescription.sdp;
}

const SOUND = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };

window.peer = {
  /** The caller: opens camera and microphone. */
  async offer(fps, bps) {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: SOUND, video: { width: 640, height: 360, frameRate: fps } });
    video.muted = true;
    watch(new MediaStream(stream.getVideoTracks()), (metadata) => metadata.captureTime);
    connection.ontrack = ({ streams: [remote] }) => {
      // Heard too, or its samples would not be counted.
      const audio = new Audio();
      audio.srcObject = remote;
      audio.play();
    };
    for (const track of stream.getTracks()) {
      const sender = connection.addTrack(track, stream);
      if (track.kind === 'video') {
        this.encoder = { sender, bps };
      }
    }
    await connection.setLocalDescription();
    return gathered();
  },

  /** The viewer: microphone only. */
  async answer(sdp) {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: SOUND });
    connection.ontrack = ({ track, streams: [remote] }) => {
      if (track.kind === 'video') {
        watch(remote, (metadata) => metadata.expectedDisplayTime);
      }
    };
    await connection.setRemoteDescription({ type: 'offer', sdp });
    connection.addTrack(stream.getAudioTracks()[0], stream);
    await connection.setLocalDescription();
    return gathered();
  },

  async accept(sdp) {
    await connection.setRemoteDescription({ type: 'answer', sdp });
    const { sender, bps } = this.encoder;
    const parameters = sender.getParameters();
    parameters.encodings[0].maxBitrate = bps;
    await sender.setParameters(parameters);
  },

  /** The instant of the first picture with at least this number. */
  reached: (number) => new Promise((resolve) => waiting.push({ number, resolve })),

  now,
  frames: () => frames,

  /** The counters that figures.js reads. */
  async stats() {
    const all = [...(await connection.getStats()).values()];
    const find = (type, kind) => all.find((one) => one.type === type && one.kind === kind) ?? {};
    const sent = find('outbound-rtp', 'video');
    return {
      now: now(),
      video: { ...find('inbound-rtp', 'video'), ...sent, cpuLimited: sent.qualityLimitationDurations?.cpu ?? 0 },
      audio: find('inbound-rtp', 'audio'),
      camera: find('media-source', 'video'),
      rtts: all
        .map((one) => (one.type === 'remote-inbound-rtp' ? one.roundTripTime : one.nominated ? one.currentRoundTripTime : undefined))
        .filter((rtt) => rtt !== undefined),
    };
  },

  /** The pictures shown at these instants, as data addresses; null before the first. */
  pictures(instants) {
    const shot = new OffscreenCanvas(320, 180);
    const take = async () => {
      if (video.videoWidth === 0) {
        return null;
      }
      shot.getContext('2d').drawImage(video, 0, 0, 320, 180);
      const bytes = new Uint8Array(await (await shot.convertToBlob({ type: 'image/jpeg', quality: 0.7 })).arrayBuffer());
      return `data:image/jpeg;base64,${btoa(String.fromCharCode(...bytes))}`;
    };
    return Promise.all(instants.map(async (at) => {
      await new Promise((resolve) => setTimeout(resolve, at - now()));
      return take();
    }));
  },
};
