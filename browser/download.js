// SPDX-License-Identifier: MIT OR Apache-2.0
// One end of the TCP downloads: `send ADDRESS` or `receive ADDRESS COUNT`. Each `count` that comes by IPC is answered with the
// bytes received by each connection.

import net from 'node:net';

const PORT = 5001;
const [role, address, count] = process.argv.slice(2);
process.on('disconnect', () => process.exit());

if (role === 'send') {
  const block = Buffer.alloc(1 << 16);
  const server = net.createServer((socket) => {
    const more = () => {
      while (socket.write(block));
    };
    socket.on('drain', more).on('error', () => {});
    more();
  });
  server.listen(PORT, address, () => process.send('ready'));
} else {
  const sockets = Array.from({ length: Number(count) }, () => net.connect(PORT, address).on('data', () => {}));
  for (const socket of sockets) {
    socket.on('error', (error) => {
      console.error(`download: ${error.message}`);
      process.exit(1);
    });
  }
  process.on('message', () => process.send(sockets.map((socket) => socket.bytesRead)));
  process.send('ready');
}
