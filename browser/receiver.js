// SPDX-License-Identifier: MIT OR Apache-2.0
// The page that receives a live video by WebRTC, as any page does; its getStats is the judge.

'use strict';

const connection = new RTCPeerConnection();
const video = document.querySelector('video');
connection.ontrack = ({ track }) => {
  video.srcObject = new MediaStream([track]);
};
const playing = new Promise((resolve) => video.addEventListener('playing', resolve, { once: true }));

window.receiver = {
  async offer() {
    connection.addTransceiver('video', { direction: 'recvonly' });
    await connection.setLocalDescription();
    return connection.localDescription.toJSON();
  },
  accept: (answer) => connection.setRemoteDescription(answer),
  /** Until the first picture. */
  shown: () => playing.then(() => true),
  /** Counters of the video so far, with the time, ms. */
  async stats() {
    const report = [...(await connection.getStats()).values()];
    return { now: performance.now(), ...report.find(({ type, kind }) => type === 'inbound-rtp' && kind === 'video') };
  },
  close: () => connection.close(),
};
