// SPDX-License-Identifier: MIT OR Apache-2.0
//! A WebRTC sender of a live video: str0m has ICE, DTLS, SRTP, retransmissions and the estimate of the rate by TWCC feedback; makeway decides
//! which packet leaves next, and which frame never does. `make webrtc` runs it. It plays a VP8 clip in a loop, at its frame rate.
//!
//!     webrtc --sender makeway|plain --clip FILE --listen ADDRESS:PORT
//!
//! Standard input: the browser's offer, `{"type": "offer", "sdp": ...}`, in one line; its end ends the program. Standard output: the answer
//! in one line, and counts at the end. `plain`: packets wait in str0m's own queue, first in, first out.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use makeway_core::rate::external::External;
use makeway_core::send::{
    Config, Event as Said, Frame, FrameId, Key, Outcome, Policy, Sender, Waiting, WhenFull,
    WhenLate,
};
use makeway_core::units::{self, Rate};
use makeway_testing::camera::{Camera, Picture};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use str0m::bwe::{Bitrate, BweKind};
use str0m::change::SdpOffer;
use str0m::crypto::from_feature_flags;
use str0m::format::Codec;
use str0m::media::{Mid, Pt};
use str0m::net::{Protocol, Receive};
use str0m::rtp::RtpWrite;
use str0m::{Candidate, Event, Input, Output, Rtc, RtcConfig};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PERIOD: Duration = Duration::from_millis(40);
/// The longest that a frame of each layer may take from its capture: where the queue grows, layer 2 is left out first.
const PATIENCE: [units::Duration; 3] = [
    units::Duration::from_millis(400),
    units::Duration::from_millis(300),
    units::Duration::from_millis(150),
];
/// Payload of a packet without the VP8 descriptor.
const PART: usize = 1100;
/// RTP's header with its extensions, and SRTP's tag.
const HEADERS: u64 = 40;
/// The estimate at first, and the most that probes look for.
const START: Bitrate = Bitrate::kbps(600);
const MOST: Bitrate = Bitrate::kbps(1500);
/// Frames that later ones may refer to, or of which parts still leave.
const KEPT: usize = 64;

/// In the order of capture, since a decoder takes frames in no other: one that a newer frame has passed is lost. Frames that cannot be there in
/// their time are left out.
struct InOrder;

impl Policy for InOrder {
    fn key(&self, _waiting: &Waiting) -> Key {
        (0, 0)
    }

    fn when_full(&self) -> WhenFull {
        WhenFull::Refuse
    }

    fn when_late(&self) -> WhenLate {
        WhenLate::DiscardUnlessAlone
    }
}

/// A packet that waits: a part of a frame.
#[derive(Clone)]
struct Part {
    frame: u32,
    layer: u8,
    /// Number of the base frame at or before it (TL0PICIDX).
    base: u8,
    /// Refers to that base frame only.
    is_sync: bool,
    captured: Instant,
    at: u16,
    of: u16,
    data: Bytes,
}

/// Numbers of a frame on the wire. It has them when its first packet leaves, so that one dropped before that leaves no gap.
struct Numbers {
    frame: u32,
    sequence: u64,
    picture: u16,
}

#[derive(Default)]
struct Counts {
    frames: u64,
    dropped: u64,
    /// Packets of frames that waited until a newer one had left.
    overtaken: u64,
    packets: u64,
    refreshes: u64,
    bps: u64,
}

/// The queue's share of the bytes that leave. Retransmissions and probes have the rest, and the estimate is of all.
struct Share {
    own: u64,
    all: u64,
    mean: f64,
}

impl Share {
    /// The least that the queue has of the estimate, where retransmissions would have all.
    const LEAST: f64 = 0.2;

    /// Takes the bytes since the last call into the mean, with a weight of a quarter.
    fn update(&mut self) {
        if self.all > 0 {
            let share = self.own as f64 / self.all as f64;
            self.mean += (share.min(1.0) - self.mean) / 4.0;
            (self.own, self.all) = (0, 0);
        }
    }

    fn of(&self, bps: u64) -> u64 {
        (bps as f64 * self.mean.max(Self::LEAST)) as u64
    }
}

struct Server {
    rtc: Rtc,
    zero: Instant,
    /// `None`: str0m's queue.
    queue: Option<Sender<External, InOrder, Part>>,
    camera: Camera,
    /// Where the video goes, once connected.
    video: Option<(Mid, Pt)>,
    is_connected: bool,
    /// Frames in the queue's numbers.
    frames: VecDeque<(u32, u8, FrameId)>,
    leaving: VecDeque<Numbers>,
    base: (u32, u8),
    sequence: u64,
    picture: u16,
    share: Share,
    counts: Counts,
}

impl Server {
    fn time(&self, at: Instant) -> units::Instant {
        let since = at.saturating_duration_since(self.zero).as_nanos();
        units::Instant::ZERO + units::Duration::from_nanos(since as u64)
    }

    /// A frame, cut into packets, goes to the queue with the time until which it is of use.
    fn shoot(&mut self, now: Instant) -> Fallible<()> {
        let picture = self.camera.shoot();
        let layer = picture.layer;
        if layer == 0 {
            self.base = (picture.number, self.base.1.wrapping_add(1));
        }
        self.counts.frames += 1;
        let parts = self.cut(&picture, now);
        let time = self.time(now);
        let Some(queue) = &mut self.queue else {
            return parts.into_iter().try_for_each(|part| self.leave(part));
        };
        let known =
            |(number, _, id): &(u32, u8, FrameId)| (*number == picture.refers_to).then_some(*id);
        let refers_to = self.frames.iter().find_map(known);
        let frame = Frame {
            class: layer,
            deadline: time + PATIENCE[usize::from(layer)],
            depends_on: refers_to.as_slice(),
        };
        let parts = parts
            .into_iter()
            .map(|part| (6 + part.data.len() as u32, part));
        let (id, _) = queue.enqueue_frame(time, &frame, parts)?;
        self.frames.push_back((picture.number, layer, id));
        self.frames.truncate_front_to(KEPT);
        Ok(())
    }

    fn cut(&self, picture: &Picture, captured: Instant) -> Vec<Part> {
        let of = picture.data.len().div_ceil(PART) as u16;
        let part = |(at, data): (usize, &[u8])| Part {
            frame: picture.number,
            layer: picture.layer,
            base: self.base.1,
            is_sync: picture.layer > 0 && picture.refers_to == self.base.0,
            captured,
            at: at as u16,
            of,
            data: picture.data.slice_ref(data),
        };
        picture.data.chunks(PART).enumerate().map(part).collect()
    }

    /// A packet leaves: str0m encrypts and sends it.
    fn leave(&mut self, part: Part) -> Fallible<()> {
        let Some((mid, pt)) = self.video else {
            return Ok(());
        };
        let known = |numbers: &&Numbers| numbers.frame == part.frame;
        let (first, picture) = match self.leaving.iter().find(known) {
            Some(numbers) => (numbers.sequence, numbers.picture),
            // A decoder takes no frame older than one it has: overtaken ones are of no use.
            None if self
                .leaving
                .back()
                .is_some_and(|last| last.frame > part.frame) =>
            {
                self.counts.overtaken += 1;
                return Ok(());
            }
            None => {
                let numbers = (self.sequence, self.picture);
                self.leaving.push_back(Numbers {
                    frame: part.frame,
                    sequence: numbers.0,
                    picture: numbers.1,
                });
                self.leaving.truncate_front_to(KEPT);
                self.sequence += u64::from(part.of);
                self.picture = (self.picture + 1) & 0x7FFF;
                numbers
            }
        };
        // RFC 7741 §4.2: picture, base and layer are there.
        let [high, low] = picture.to_be_bytes();
        let start = if part.at == 0 { 0x10 } else { 0 };
        let layer = part.layer << 6 | u8::from(part.is_sync) << 5;
        let mut payload = vec![0x80 | start, 0xE0, 0x80 | high, low, part.base, layer];
        payload.extend_from_slice(&part.data);
        self.share.own += HEADERS + payload.len() as u64;
        let timestamp = (part.captured - self.zero).as_micros() as u64 * 9 / 100;
        let sequence = (first + u64::from(part.at)).into();
        let packet = RtpWrite::new(pt, sequence, timestamp as u32, part.captured, payload)
            .marker(part.at + 1 == part.of)
            .nackable(true);
        let mut api = self.rtc.direct_api();
        let stream = api.stream_tx_by_mid(mid, None).ok_or("no stream")?;
        // makeway has chosen its time already.
        stream.set_unpaced(self.queue.is_some());
        stream.write_rtp(packet);
        self.counts.packets += 1;
        Ok(())
    }

    /// Takes an event of str0m; `false`: the call is over.
    fn heard(&mut self, event: Event, now: Instant) -> Fallible<bool> {
        match event {
            Event::Connected => self.is_connected = true,
            Event::MediaAdded(media) => {
                let params = self.rtc.codec_config().params();
                let vp8 = params
                    .iter()
                    .find(|params| params.spec().codec == Codec::Vp8);
                self.video = Some((media.mid, vp8.ok_or("the browser takes no VP8")?.pt()));
            }
            Event::EgressBitrateEstimate(BweKind::Twcc { estimate, .. }) => {
                self.counts.bps = estimate.as_u64();
                self.set_rate(now, None);
            }
            Event::PeerStats(stats) => {
                self.share.update();
                self.set_rate(now, stats.rtt);
            }
            Event::KeyframeRequest(_) => self.refresh(self.counts.frames as u32),
            Event::Closed => return Ok(false),
            _ => {}
        }
        Ok(true)
    }

    fn set_rate(&mut self, now: Instant, rtt: Option<Duration>) {
        let (time, bps) = (self.time(now), self.share.of(self.counts.bps));
        let rtt = rtt.map(|rtt| units::Duration::from_nanos(rtt.as_nanos() as u64));
        if let Some(queue) = &mut self.queue {
            queue.change_rate(time, |rate| rate.set(Rate::from_bps(bps), rtt));
        }
    }

    /// The encoder makes a keyframe, unless it has made one after the frame that was lost.
    fn refresh(&mut self, lost: u32) {
        self.counts.refreshes += u64::from(self.camera.refresh(lost));
    }

    /// Sends what may leave now; when there may be more.
    fn send(&mut self, now: Instant) -> Fallible<Option<Instant>> {
        let time = self.time(now);
        while let Some(sent) = self
            .queue
            .as_mut()
            .and_then(|queue| queue.poll_transmit(time))
        {
            self.leave(sent.payload)?;
        }
        while let Some(said) = self.queue.as_mut().and_then(Sender::poll_event) {
            if let Said::Frame(id, outcome) = said
                && !matches!(outcome, Outcome::Sent { .. })
            {
                self.counts.dropped += 1;
                // Without a frame of the base all later ones are of no use.
                let lost = self
                    .frames
                    .iter()
                    .find(|(_, layer, of)| *of == id && *layer == 0);
                if let Some((lost, ..)) = lost {
                    self.refresh(*lost);
                }
            }
        }
        let next = self.queue.as_ref().and_then(Sender::poll_timeout);
        Ok(next.map(|at| self.zero + Duration::from_nanos(at.as_nanos())))
    }

    fn run(mut self, socket: &UdpSocket, ended: &AtomicBool) -> Fallible<Counts> {
        let address = socket.local_addr()?;
        let mut buffer = [0; 2000];
        let mut capture = Instant::now();
        while !ended.load(Ordering::Relaxed) {
            let now = Instant::now();
            if !self.is_connected {
                capture = now;
            } else if capture <= now {
                capture += PERIOD;
                self.shoot(now)?;
            }
            let next = self.send(now)?;
            self.rtc.handle_input(Input::Timeout(now))?;
            let timeout = loop {
                match self.rtc.poll_output()? {
                    Output::Timeout(at) => break at,
                    Output::Transmit(packet) => {
                        self.share.all += packet.contents.len() as u64;
                        socket.send_to(&packet.contents, packet.destination)?;
                    }
                    Output::Event(event) => {
                        if !self.heard(event, now)? {
                            return Ok(self.counts);
                        }
                    }
                }
            };
            let wake = if self.is_connected {
                capture
            } else {
                now + PERIOD
            };
            let wake = wake.min(timeout).min(next.unwrap_or(wake));
            let pause = wake.saturating_duration_since(Instant::now());
            let mut ready = [PollFd::new(socket, PollFlags::IN)];
            poll(&mut ready, Some(&Timespec::try_from(pause)?))?;
            match socket.recv_from(&mut buffer) {
                Ok((length, source)) => {
                    let contents = buffer[..length].try_into()?;
                    let packet = Receive {
                        proto: Protocol::Udp,
                        source,
                        destination: address,
                        contents,
                    };
                    self.rtc
                        .handle_input(Input::Receive(Instant::now(), packet))?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.counts)
    }
}

/// The newest entries stay.
trait Newest {
    fn truncate_front_to(&mut self, most: usize);
}

impl<T> Newest for VecDeque<T> {
    fn truncate_front_to(&mut self, most: usize) {
        self.drain(..self.len().saturating_sub(most));
    }
}

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "write --sender makeway|plain --clip FILE --listen ADDRESS:PORT";
    let [s, sender, c, file, l, listen] = &arguments[..] else {
        return Err(usage.into());
    };
    if [s.as_str(), c, l] != ["--sender", "--clip", "--listen"]
        || !["makeway", "plain"].contains(&sender.as_str())
    {
        return Err(usage.into());
    }
    let camera = Camera::open(file)?;
    let socket = UdpSocket::bind(listen.parse::<SocketAddr>()?)?;
    socket.set_nonblocking(true)?;

    let zero = Instant::now();
    let mut rtc = RtcConfig::new()
        .set_crypto_provider(Arc::new(from_feature_flags()))
        .clear_codecs()
        .enable_vp8(true)
        .set_rtp_mode(true)
        .set_ice_lite(true)
        .set_stats_interval(Some(Duration::from_millis(200)))
        .enable_bwe(Some(START))
        .build(zero);
    rtc.add_local_candidate(Candidate::host(socket.local_addr()?, "udp")?);
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let offer: SdpOffer = serde_json::from_str(&line)?;
    let answer = rtc.sdp_api().accept_offer(offer)?;
    println!("{}", serde_json::to_string(&answer)?);
    rtc.bwe().set_desired_bitrate(MOST);

    let ended = Arc::new(AtomicBool::new(false));
    let end = ended.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        end.store(true, Ordering::Relaxed);
    });
    let rate = External::new(Rate::from_bps(START.as_u64()));
    let server = Server {
        rtc,
        zero,
        queue: (sender == "makeway").then(|| Sender::new(Config::default(), rate, InOrder)),
        camera,
        video: None,
        is_connected: false,
        frames: VecDeque::new(),
        leaving: VecDeque::new(),
        base: (0, 0),
        sequence: 1,
        picture: 0,
        share: Share {
            own: 0,
            all: 0,
            mean: 1.0,
        },
        counts: Counts::default(),
    };
    let counts = server.run(&socket, &ended)?;
    println!(
        "{{\"frames\": {}, \"dropped\": {}, \"overtaken\": {}, \"packets\": {}, \"refreshes\": {}, \"bps\": {}}}",
        counts.frames,
        counts.dropped,
        counts.overtaken,
        counts.packets,
        counts.refreshes,
        counts.bps
    );
    Ok(())
}
