// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic of the tests in a guest: downloads, a call, single packets.

use std::sync::atomic::AtomicBool;

use super::*;

/// Mbit/s of all of them over three seconds.
pub fn rate(downloads: &[Arc<AtomicU64>]) -> f64 {
    let sum = || {
        downloads
            .iter()
            .map(|got| got.load(Ordering::Relaxed))
            .sum::<u64>()
    };
    let (begin, since) = (sum(), Instant::now());
    thread::sleep(Duration::from_secs(3));
    (sum() - begin) as f64 * 8e-6 / since.elapsed().as_secs_f64()
}

/// A call of 50 packets a second for three seconds: its delays in ms, in order of size; a lost packet has none.
pub fn call(far: &Far) -> Vec<f64> {
    const PACKETS: usize = 150;
    let receiver = far.udp(4000);
    receiver
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let epoch = Instant::now();
    let received = thread::spawn(move || {
        let mut delays = Vec::new();
        let mut packet = [0; 200];
        while delays.len() < PACKETS && receiver.recv(&mut packet).is_ok() {
            let sent = u64::from_be_bytes(packet[..8].try_into().unwrap());
            delays.push((epoch.elapsed().as_micros() as u64 - sent) as f64 / 1e3);
        }
        delays
    });
    let sender = UdpSocket::bind("10.9.0.1:0").unwrap();
    for _ in 0..PACKETS {
        let mut packet = [0; 200];
        packet[..8].copy_from_slice(&(epoch.elapsed().as_micros() as u64).to_be_bytes());
        sender.send_to(&packet, "10.9.0.2:4000").unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    let mut delays = received.join().unwrap();
    delays.sort_by(f64::total_cmp);
    delays
}

/// Whether a packet comes in by `near`.
pub fn comes_in(far: &Far) -> bool {
    let receiver = UdpSocket::bind("10.9.0.1:4002").unwrap();
    receiver
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let sender = far.run(|| UdpSocket::bind("10.9.0.2:0").unwrap());
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        sender.send_to(b"mark", "10.9.0.1:4002").unwrap();
        if receiver.recv(&mut [0; 8]).is_ok() {
            return true;
        }
    }
    false
}

/// A packet each so often to the far end.
pub struct Stream {
    stop: Arc<AtomicBool>,
    sender: thread::JoinHandle<u64>,
    receiver: UdpSocket,
    arrivals: thread::JoinHandle<(u64, Duration)>,
}

/// Packets sent and arrived, and the longest time between two that arrive.
pub struct Heard {
    pub sent: u64,
    pub arrived: u64,
    pub longest: Duration,
}

impl Stream {
    pub fn start(far: &Far, every: Duration) -> Self {
        let receiver = far.udp(4001);
        let looks = Some(Duration::from_millis(100));
        receiver.set_read_timeout(looks).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let [sends, receives] = [(); 2].map(|()| Arc::clone(&stop));
        let sender = thread::spawn(move || {
            let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
            let mut sent = 0;
            while !sends.load(Ordering::Relaxed) {
                socket.send_to(&[0; 160], "10.9.0.2:4001").unwrap();
                sent += 1;
                thread::sleep(every);
            }
            sent
        });
        let socket = receiver.try_clone().unwrap();
        let arrivals = thread::spawn(move || {
            let (mut n, mut last, mut longest) = (0, Instant::now(), Duration::ZERO);
            while !receives.load(Ordering::Relaxed) {
                let came = socket.recv(&mut [0; 300]).is_ok();
                longest = longest.max(last.elapsed());
                if came {
                    (n, last) = (n + 1, Instant::now());
                }
            }
            (n, longest)
        });
        Self {
            stop,
            sender,
            receiver,
            arrivals,
        }
    }

    /// Stops it, and waits for the packets that are under way: of those that were lost none comes for a second.
    pub fn end(self) -> Heard {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.join().unwrap();
        let (mut arrived, longest) = self.arrivals.join().unwrap();
        let silence = Some(Duration::from_secs(1));
        self.receiver.set_read_timeout(silence).unwrap();
        while arrived < sent && self.receiver.recv(&mut [0; 300]).is_ok() {
            arrived += 1;
        }
        Heard {
            sent,
            arrived,
            longest,
        }
    }
}
