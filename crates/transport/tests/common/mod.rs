// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of two streams, and a way with delay and loss between two UDP ports of this machine.

#![allow(dead_code)] // Each test uses its part.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use makeway_core::rate::Config;
use makeway_core::send::{self, AnyPolicy};
use makeway_core::units::Rate;
use makeway_transport::rtp::{CallConfig, Ecn, Rtx, RtxConfig, Stream};

/// SSRCs of [`config`]'s streams.
pub const AUDIO: u32 = 1000;
pub const VIDEO: u32 = 1001;

/// A stream of audio, class 0, and one of video, class 1.
pub fn config(rate: Config, policy: &str) -> CallConfig {
    let stream = |class, payload_type, clock_rate| Stream {
        ssrc: AUDIO + u32::from(class),
        payload_type,
        clock_rate,
        class,
    };
    CallConfig {
        streams: vec![stream(0, 111, 48_000), stream(1, 96, 90_000)],
        queue: send::Config::default(),
        policy: policy.parse::<AnyPolicy>().unwrap(),
        rate,
        cname: "sender@loopback".into(),
        rtx: Default::default(),
        seed: 1,
        ecn: Ecn::default(),
    }
}

/// Retransmission of [`config`]'s video, on a stream of its own.
pub const VIDEO_AGAIN: Rtx = Rtx {
    ssrc: VIDEO + 1,
    payload_type: 97,
    media_ssrc: VIDEO,
    media_payload_type: 96,
};

/// [`config`] at 8 Mbit/s, whose video is sent again as [`VIDEO_AGAIN`].
pub fn config_with_rtx() -> CallConfig {
    let rate = Config::Fixed(Rate::from_bps(8_000_000));
    CallConfig {
        rtx: RtxConfig {
            streams: vec![VIDEO_AGAIN],
            ..RtxConfig::default()
        },
        ..config(rate, "prio")
    }
}

/// TFRC for calls over RTP.
pub fn tfrc() -> Config {
    Config::Tfrc(makeway_transport::rtp::tfrc())
}

/// Forwards what comes to its address to a receiver, and its answers to the last sender.
pub struct Relay {
    pub address: SocketAddr,
    /// The port from which it reaches the receiver.
    pub back: u16,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    /// Datagrams lost on the path to the receiver, per thousand.
    loss: AtomicU32,
    /// Lost datagrams that were RTP.
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
        let back_port = back.local_addr().unwrap().port();
        Self {
            address,
            back: back_port,
            shared,
            thread: Some(std::thread::spawn(move || {
                forward(&front, &back, delay, &theirs)
            })),
        }
    }

    /// From now on it loses this number of a thousand datagrams for the receiver, at random.
    pub fn lose(&self, per_thousand: u32) {
        self.shared.loss.store(per_thousand, Ordering::Relaxed);
    }

    /// How many packets of RTP it has lost; the sender's reports that it loses as well do not count.
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
                let rtp = !is_report(&buffer[..len]);
                shared.lost.fetch_add(rtp.into(), Ordering::Relaxed);
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

/// Whether it is RTCP, by what RTP and RTCP on one port have different (RFC 5761 §4).
fn is_report(datagram: &[u8]) -> bool {
    (192..=223).contains(&datagram[1])
}
