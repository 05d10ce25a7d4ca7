// SPDX-License-Identifier: MIT OR Apache-2.0
//! A call through a bottleneck in simulated time: 20 ms each way and a drop-tail queue.

use makeway_core::rate::{RateController, Start};
use makeway_core::send::AnyPolicy;
use makeway_core::units::Bytes as Size;

use super::*;

struct Call {
    sending: Sending<AnyController, AnyReporter, AnyPolicy>,
    receiving: Receiving,
    link: Rate,
    /// Time that the longest queue takes.
    room: Duration,
    /// When the link has sent its backlog.
    free: Instant,
    there: VecDeque<(Instant, Vec<u8>)>,
    back: VecDeque<(Instant, Vec<u8>)>,
    /// Packets of video in time, by the time stamp of their frame.
    frames: BTreeMap<u32, usize>,
    /// Frames of video made, of those with all packets in time, and packets that came late.
    made: u64,
    shown: u64,
    late: u64,
}

const ONE_WAY: Duration = Duration::from_millis(20);
const LIFETIME: Duration = Duration::from_millis(200);

impl Call {
    fn new(rate: Config, link: Rate, room: Duration) -> Self {
        Self::with(FeedbackKind::Rfc8888, rate, link, room)
    }

    fn with(feedback: FeedbackKind, rate: Config, link: Rate, room: Duration) -> Self {
        let policy: AnyPolicy = "sbpn2".parse().unwrap();
        let (controller, reporter) = (rate.controller(), rate.reporter());
        let sending = Sending::new(sending_config(), controller, reporter, policy);
        Self {
            sending: sending.unwrap(),
            receiving: Receiving::new(receiving_config(feedback)),
            link,
            room,
            free: Instant::ZERO,
            there: VecDeque::new(),
            back: VecDeque::new(),
            frames: BTreeMap::new(),
            made: 0,
            shown: 0,
            late: 0,
        }
    }

    /// Audio of 214 B each 20 ms, and 25 frames a second of `parts` packets of 1400 B.
    fn run(&mut self, seconds: u64, parts: usize) {
        for tenth in 0..seconds * 10_000 {
            let now = Instant::from_nanos(tenth * 100_000);
            if tenth % 200 == 0 {
                self.send(now, 0, 214);
            }
            if tenth % 400 == 0 {
                self.made += 1;
                let packets = self.send(now, 1, parts * 1400);
                assert_eq!(packets as usize, parts);
            }
            self.step(now);
        }
        let whole = self.frames.values().filter(|came| **came == parts);
        self.shown = whole.count() as u64;
    }

    /// Hands a frame over: the number of its packets.
    fn send(&mut self, now: Instant, stream: usize, len: usize) -> u64 {
        let frame = Frame {
            stream,
            deadline: now + LIFETIME,
            payload: Bytes::from(vec![0; len]),
        };
        self.sending.send(now, &frame).unwrap().1
    }

    /// All that is due.
    fn step(&mut self, now: Instant) {
        let mut out = Vec::new();
        while self.there.front().is_some_and(|(at, _)| *at <= now) {
            let (_, datagram) = self.there.pop_front().unwrap();
            let Some((_, packet)) = self.receiving.handle(now, &datagram, 0) else {
                continue;
            };
            if packet.ssrc() == VIDEO.ssrc {
                let (profile, data) = packet.extension().unwrap();
                let captured = extension::Extensions::read(profile, data).capture.unwrap();
                let took = rtcp::ntp_between(captured, ntp().at(now)) as u64;
                if Duration::from_nanos(took) <= LIFETIME + Duration::from_millis(1) {
                    *self.frames.entry(packet.timestamp()).or_default() += 1;
                } else {
                    self.late += 1;
                }
            }
        }
        while self.back.front().is_some_and(|(at, _)| *at <= now) {
            let (_, datagram) = self.back.pop_front().unwrap();
            self.sending.handle(now, &datagram);
        }
        self.sending.handle_timeout(now);
        while self.sending.poll_transmit(now, &mut out).is_some() {
            let waits = self.free.saturating_since(now);
            if waits <= self.room {
                self.free = now + waits + Size::new(out.len() as u64) / self.link;
                self.there.push_back((self.free + ONE_WAY, out.clone()));
            }
        }
        while self.receiving.poll_transmit(now, &mut out) {
            self.back.push_back((now + ONE_WAY, out.clone()));
        }
        while self.sending.poll_event().is_some() {}
    }

    fn target(&mut self, now: Instant) -> f64 {
        let target = |rate: &mut AnyController| rate.target_rate().bps();
        self.sending.change_rate(now, target) as f64
    }
}

/// 1.2 Mbit/s for 0.8 Mbit/s and a queue of 150 ms, all of it on the path to the receiver: datagrams that would be late are not sent.
#[test]
fn a_queue_on_the_way_there_makes_no_packet_late() {
    let rate = Config::Ccid2(Default::default());
    let mut call = Call::new(rate, Rate::from_bps(800_000), Duration::from_millis(150));
    call.run(30, 4);
    let sent = call.sending.stats().streams[1].outcomes.sent;
    assert!(sent > 1500, "{sent}");
    assert!(call.late * 50 < sent, "{} of {sent} late", call.late);
    assert!(
        call.shown * 4 > call.made,
        "{} of {}",
        call.shown,
        call.made
    );
}

/// A keyframe of 10 packets, the first of a call by TFRC: with what signalling knows of the path it is in time.
#[test]
fn the_first_frame_is_in_time_where_the_path_is_known() {
    let start = Start {
        rtt: Duration::from_millis(40),
        rate: Rate::from_bps(2_000_000),
    };
    let rate = Config::Tfrc(tfrc()).with_start(start);
    assert_eq!(rate.controller().rtt(), Some(start.rtt));
    let mut call = Call::new(rate, Rate::from_bps(5_000_000), Duration::from_millis(100));
    call.run(1, 10);
    assert_eq!((call.made, call.shown), (25, 24), "the last is under way");
    assert_eq!(call.sending.stats().streams[1].outcomes.expired, 0);
}

/// 100 packets between two reports, of which one feedback tells 64: none is taken for lost.
#[test]
fn scream_hears_of_all_packets_of_a_long_report() {
    let start = Start {
        rtt: Duration::from_millis(40),
        rate: Rate::from_bps(25_000_000),
    };
    let rate = Config::Scream(Default::default()).with_start(start);
    let mut call = Call::new(rate, Rate::from_bps(60_000_000), Duration::from_millis(100));
    call.run(4, 80);
    assert!(call.shown >= 97, "{} of {}", call.shown, call.made);
    assert_eq!(call.sending.stats().rejected, 0);
}

/// 0.65 Mbit/s over 2 Mbit/s, from the least window of SCReAM on, and from half of it.
#[test]
fn calls_by_scream_and_gcc_come_to_their_rate() {
    for name in ["scream", "gcc"] {
        let rate: Config = name.parse().unwrap();
        let mut call = Call::new(rate, Rate::from_bps(2_000_000), Duration::from_millis(300));
        call.run(30, 2);
        assert!(
            call.shown * 10 > call.made * 9,
            "{name}: {} of {}",
            call.shown,
            call.made
        );
        let stats = call.sending.stats();
        assert_eq!((call.late, stats.rejected), (0, 0), "{name}");
    }
}

/// 0.65 Mbit/s over 2 Mbit/s for `talk` ms, and nothing for `silence` ms: the target after the second by that after the first.
fn paused(name: &str, feedback: FeedbackKind, talk: u64, silence: u64) -> (Call, f64) {
    let link = Rate::from_bps(2_000_000);
    let room = Duration::from_millis(300);
    let mut call = Call::with(feedback, name.parse().unwrap(), link, room);
    let mut before = 0.0;
    for ms in 0..talk + silence {
        let now = at_ms(ms);
        if ms == talk {
            before = call.target(now);
        }
        if ms < talk && ms % 20 == 0 {
            call.send(now, 0, 214);
        }
        if ms < talk && ms % 40 == 0 {
            call.send(now, 1, 2800);
        }
        call.step(now);
    }
    let after = call.target(at_ms(talk + silence));
    (call, after / before)
}

/// A timeout halves GCC's target, and takes SCReAM's window to the least. The receiver holds TWCC's last report for up to 100 ms, so that
/// the RTT, by which SCReAM divides, is then longer by an eighth of that.
#[test]
fn a_pause_is_no_timeout() {
    for feedback in [FeedbackKind::Twcc, FeedbackKind::Rfc8888] {
        for name in ["scream", "gcc"] {
            for talk in (10_000..=10_100).step_by(10) {
                let (call, left) = paused(name, feedback, talk, 5000);
                assert!(left > 0.7, "{name}, {feedback:?}, {talk} ms: {left}");
                let last_rejected = call.sending.stats().last_rejected;
                assert_eq!(last_rejected, None, "{name}, {feedback:?}, {talk} ms");
            }
        }
    }
}

/// It halves its rate each second for which it has no report on what it sent, down to a packet in 64 s.
#[test]
fn abrc_sends_at_once_after_a_pause() {
    let (mut call, _) = paused("abrc", FeedbackKind::Twcc, 10_000, 20_000);
    let sent = |call: &Call| call.sending.stats().streams[0].outcomes.sent;
    let before = sent(&call);
    call.send(at_ms(30_000), 0, 214);
    for ms in 30_000..30_100 {
        call.step(at_ms(ms));
    }
    assert_eq!(sent(&call), before + 1);
}
