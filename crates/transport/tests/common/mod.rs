//! A way with delay, loss and a rate between two UDP ports of this machine.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Forwards what comes to its address to a receiver, and what that answers back to who sent last.
pub struct Relay {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    /// Datagrams lost on the way to the receiver, per thousand.
    loss: AtomicU32,
    lost: AtomicU32,
}

impl Relay {
    /// Each datagram takes `delay` in either direction.
    pub fn start(to: SocketAddr, delay: Duration) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let back = UdpSocket::bind("127.0.0.1:0").unwrap();
        back.connect(to).unwrap();
        let pause = Some(Duration::from_micros(200));
        front.set_read_timeout(pause).unwrap();
        back.set_nonblocking(true).unwrap();
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            loss: AtomicU32::new(0),
            lost: AtomicU32::new(0),
        });
        let address = front.local_addr().unwrap();
        let theirs = Arc::clone(&shared);
        Self {
            address,
            shared,
            thread: Some(std::thread::spawn(move || {
                forward(&front, &back, delay, &theirs)
            })),
        }
    }

    /// From now on it loses so many of a thousand datagrams for the receiver, at random.
    pub fn lose(&self, per_thousand: u32) {
        self.shared.loss.store(per_thousand, Ordering::Relaxed);
    }

    /// How many it has lost.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed).into()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn forward(front: &UdpSocket, back: &UdpSocket, delay: Duration, shared: &Shared) {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut buffer = [0; 65_536];
    let (mut there, mut here) = (VecDeque::new(), VecDeque::new());
    let mut sender = None;
    while !shared.stop.load(Ordering::Relaxed) {
        if let Ok((len, from)) = front.recv_from(&mut buffer) {
            sender = Some(from);
            if rng.u32(0..1000) < shared.loss.load(Ordering::Relaxed) {
                shared.lost.fetch_add(1, Ordering::Relaxed);
            } else {
                there.push_back((Instant::now() + delay, buffer[..len].to_vec()));
            }
        }
        while let Ok(len) = back.recv(&mut buffer) {
            here.push_back((Instant::now() + delay, buffer[..len].to_vec()));
        }
        let now = Instant::now();
        while there.front().is_some_and(|(at, _)| *at <= now) {
            let (_, datagram) = there.pop_front().unwrap();
            let _ = back.send(&datagram);
        }
        while here.front().is_some_and(|(at, _)| *at <= now) {
            let (_, datagram) = here.pop_front().unwrap();
            let _ = front.send_to(&datagram, sender.unwrap());
        }
    }
}
