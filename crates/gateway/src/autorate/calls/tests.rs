// SPDX-License-Identifier: MIT OR Apache-2.0

use std::net::IpAddr;

use makeway_core::autorate::{Autorate, Bounds, Direction, Way};
use makeway_core::units::{Bytes, Rate};
use makeway_transport::rtp::{FeedbackKind, NtpEpoch, Receiving, ReceivingConfig};

use super::*;

const SSRC: u32 = 0x1234_5678;
const MBIT: u64 = 1_000_000;

fn at_us(us: u64) -> Instant {
    Instant::from_nanos(1_000_000_000_000 + us * 1000)
}

/// A connection with a host of a network of its own.
fn connection(network: u8, port: u16) -> Connection {
    Connection {
        remote: (IpAddr::from([192, 0, network, 9]), 5004),
        local: (IpAddr::from([10, 0, 0, 1]), port),
    }
}

/// A packet of media with its transport-wide number, 1000 above that of its stream, in this header extension.
fn media(element: u8, number: u16) -> Vec<u8> {
    let mut bytes = vec![0x90, 96];
    bytes.extend(number.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(SSRC.to_be_bytes());
    let [a, b] = number.wrapping_add(1000).to_be_bytes();
    bytes.extend([0xbe, 0xde, 0, 1, element << 4 | 1, a, b, 0]);
    bytes.extend([7; 40]);
    bytes
}

/// A report of TWCC: packets from the transport-wide number `first` on came these ms after `reference` times 64 ms.
fn twcc(ssrc: u32, first: u16, reference: u32, ms: &[Option<i16>]) -> Vec<u8> {
    let mut body = first.to_be_bytes().to_vec();
    body.extend((ms.len() as u16).to_be_bytes());
    body.extend(&reference.to_be_bytes()[1..]);
    body.push(0);
    for one in ms {
        // A run of one.
        let chunk: u16 = if one.is_some() { 0x4001 } else { 1 };
        body.extend(chunk.to_be_bytes());
    }
    let mut last = 0;
    for one in ms.iter().flatten() {
        body.extend(((one - last) * 4).to_be_bytes());
        last = *one;
    }
    body.resize(body.len().next_multiple_of(4), 0);
    let mut bytes = vec![0x8f, 205];
    bytes.extend((body.len() as u16 / 4 + 2).to_be_bytes());
    bytes.extend(9u32.to_be_bytes());
    bytes.extend(ssrc.to_be_bytes());
    bytes.extend(body);
    bytes
}

/// Forty packets, one each 20 ms from `us` on: the last has the transport-wide number 1039.
fn send(calls: &mut Calls, connection: Connection, us: u64) {
    for n in 0..40 {
        let at = at_us(us + u64::from(n) * 20_000);
        calls.departed(at, connection, &media(5, n));
    }
}

/// A report on the last of them, which arrived these ms after a time of the receiver's clock.
fn report_on_last(reference: u32, ms: i16) -> Vec<u8> {
    twcc(SSRC, 1039, reference, &[Some(ms)])
}

fn tick(calls: &mut Calls, us: u64) -> Vec<Sample> {
    let mut told = Vec::new();
    calls.tick(at_us(us), |one| told.push(one), |_| {});
    told
}

fn ups(told: &[Sample]) -> Vec<f64> {
    let ups = told.iter().filter_map(|one| one.one_way[0]);
    ups.map(Duration::as_millis_f64).collect()
}

/// A call with a packet each 5 ms, of which the tap sees one in four, to a receiver of ours, whose clock has another zero.
struct Path {
    calls: Calls,
    receiving: Receiving,
    us: u64,
    number: u16,
    /// Packets and reports under way, with the times of their arrivals.
    there: VecDeque<(u64, Vec<u8>)>,
    back: VecDeque<(u64, Vec<u8>)>,
    told: Vec<Sample>,
}

impl Path {
    fn new(feedback: FeedbackKind) -> Self {
        let config = ReceivingConfig {
            ssrc: 9,
            cname: "test@test".into(),
            feedback,
            rtx: Vec::new(),
            interval: Duration::from_millis(50),
            ntp: NtpEpoch::since_unix(std::time::Duration::from_secs(1_000_000)),
            seed: 1,
        };
        Self {
            calls: Calls::new(4),
            receiving: Receiving::new(config),
            us: 0,
            number: 0,
            there: VecDeque::new(),
            back: VecDeque::new(),
            told: Vec::new(),
        }
    }

    /// A millisecond; packets that leave in it take `up` us.
    fn step(&mut self, up: u64) {
        let us = self.us;
        self.us += 1000;
        if us.is_multiple_of(5000) {
            let packet = media(1, self.number);
            if self.number.is_multiple_of(4) {
                self.calls.departed(at_us(us), connection(2, 1), &packet);
            }
            self.number = self.number.wrapping_add(1);
            self.there.push_back((us + up, packet));
        }
        let theirs = Instant::from_nanos(777_000_000_000 + us * 1000);
        while self.there.front().is_some_and(|one| one.0 <= us) {
            let (_, packet) = self.there.pop_front().unwrap();
            self.receiving.handle(theirs, &packet, 0);
        }
        let mut out = Vec::new();
        while self.receiving.poll_transmit(theirs, &mut out) {
            self.back.push_back((us + 12_000, out.clone()));
        }
        while self.back.front().is_some_and(|one| one.0 <= us) {
            let (_, report) = self.back.pop_front().unwrap();
            self.calls.arrived(at_us(us), connection(2, 1), &report);
        }
        if us.is_multiple_of(50_000) {
            self.told.extend(tick(&mut self.calls, us));
        }
    }
}

#[test]
fn reports_of_either_kind_show_the_delay_of_the_way_up() {
    for kind in [FeedbackKind::Twcc, FeedbackKind::Rfc8888] {
        let mut path = Path::new(kind);
        for ms in 0..5000 {
            path.step(10_000 + 40_000 * u64::from(ms >= 3000));
        }
        let all = ups(&path.told);
        let rise = all[all.len() - 1] - all[0];
        assert!((38.5..=41.5).contains(&rise), "{kind:?}: {all:?}");
        // One in each window.
        assert!((40..=50).contains(&all.len()), "{kind:?}: {}", all.len());
        let others = path
            .told
            .iter()
            .filter(|one| one.one_way[1].is_some() || one.both.is_some());
        assert_eq!(others.count(), 0);
        let counted = (path.calls.count(), path.calls.samples());
        assert_eq!(counted, (1, all.len() as u64));
    }
}

#[test]
fn a_report_counts_on_packets_that_have_left_and_by_times_that_can_be() {
    let mut calls = Calls::new(4);
    send(&mut calls, connection(2, 1), 0);
    let at = at_us(800_000);
    let good = report_on_last(100, 10);
    // Another stream, another connection, a packet that has not left, and one that left long ago.
    let other = twcc(SSRC + 1, 1039, 100, &[Some(10)]);
    calls.arrived(at, connection(2, 1), &other);
    calls.arrived(at, connection(3, 1), &good);
    let later = twcc(SSRC, 1040, 100, &[Some(10)]);
    calls.arrived(at, connection(2, 1), &later);
    calls.arrived(at_us(5_800_000), connection(2, 1), &good);
    assert_eq!(calls.count(), 0);
    // The packet before the last.
    let first = twcc(SSRC, 1038, 100, &[Some(10)]);
    calls.arrived(at, connection(2, 1), &first);
    assert_eq!(calls.count(), 1);
    assert_eq!(ups(&tick(&mut calls, 900_000)), [3_600_000.0]);
    // The last came 12.8 s later than it can have, and 70 minutes before.
    for reference in [300, 0xff_0000] {
        calls.arrived(at, connection(2, 1), &report_on_last(reference, 10));
    }
    assert!(tick(&mut calls, 1_000_000).is_empty());
    // It left 20 ms after the one before, and came 25 ms after that.
    let again = report_on_last(100, 35);
    calls.arrived(at, connection(2, 1), &again);
    assert_eq!(ups(&tick(&mut calls, 1_100_000)), [3_600_005.0]);
    // A packet counts once.
    calls.arrived(at, connection(2, 1), &again);
    assert!(tick(&mut calls, 1_200_000).is_empty());
}

#[test]
fn a_flood_of_packets_and_reports_is_bounded_and_takes_no_place_of_a_call() {
    let mut calls = Calls::new(4);
    send(&mut calls, connection(2, 1), 0);
    for _ in 0..10_000 {
        calls.arrived(at_us(800_000), connection(2, 1), &report_on_last(100, 10));
    }
    assert_eq!((calls.count(), calls.all[0].reports), (1, MOST_REPORTS));
    // A connection for each packet, as with requests of DNS.
    for port in 2..20_000 {
        calls.departed(at_us(800_000), connection(3, port), &media(5, port));
    }
    assert_eq!((calls.count(), calls.all.len()), (1, MOST_SEEN));
    // A connection without an end.
    for n in 0..20_000 {
        let at = at_us(800_000 + u64::from(n) * 20_000);
        calls.departed(at, connection(2, 1), &media(5, n));
    }
    assert_eq!(calls.all[0].connection, connection(2, 1));
    assert_eq!(calls.all[0].sent.len(), MOST_SENT);
    // One that has sent more than others stays, too.
    send(&mut calls, connection(4, 1), 0);
    for port in 2..20_000 {
        calls.departed(at_us(800_000), connection(3, port), &media(5, port));
    }
    calls.arrived(at_us(800_000), connection(4, 1), &report_on_last(100, 10));
    assert_eq!(calls.count(), 2);
}

#[test]
fn a_call_without_reports_leaves_its_place_and_one_that_begins_again_has_a_new_zero() {
    let mut calls = Calls::new(1);
    for network in [2, 3] {
        let connection = connection(network, 1);
        send(&mut calls, connection, 0);
        calls.arrived(at_us(800_000), connection, &report_on_last(100, 10));
    }
    assert_eq!((calls.count(), calls.all.len()), (1, 2));
    let mut gone = Vec::new();
    calls.tick(at_us(5_800_000), |_| {}, |place| gone.push(place));
    assert_eq!((gone.len(), calls.count()), (0, 1));
    calls.tick(at_us(5_900_000), |_| {}, |place| gone.push(place));
    assert_eq!(
        (&gone[..], calls.count(), calls.all.len()),
        (&[0][..], 0, 0)
    );
    // Its receiver was started anew, minutes before in its time.
    send(&mut calls, connection(2, 1), 6_000_000);
    let report = report_on_last(7, 10);
    calls.arrived(at_us(6_800_000), connection(2, 1), &report);
    let told = tick(&mut calls, 6_900_000);
    assert_eq!((told[0].path, ups(&told)), (0, vec![3_600_000.0]));
}

#[test]
fn a_network_has_one_voice_and_half_of_the_places() {
    let mut calls = Calls::new(4);
    let all = [(2, 1), (2, 2), (2, 3), (3, 1), (4, 1), (5, 1)];
    for (network, port) in all {
        let connection = connection(network, port);
        send(&mut calls, connection, 0);
        calls.arrived(at_us(800_000), connection, &report_on_last(100, 10));
    }
    let told = tick(&mut calls, 900_000);
    let paths: Vec<u16> = told.iter().map(|one| one.path).collect();
    assert_eq!(paths, [0, 1, 2, 3]);
    let voice = |n: usize| told[n].voice.unwrap();
    assert_eq!(voice(0), voice(1));
    assert!(voice(1) != voice(2) && voice(2) != voice(3));
}

#[test]
fn the_number_of_a_packet_is_the_element_that_counts_up() {
    let mut counter = Counter::default();
    let mut find = |n: u16, number: u16| {
        let mut elements = [None; ELEMENTS];
        elements[2] = Some(77);
        elements[3] = Some(n.wrapping_mul(31_421));
        elements[7] = Some(number);
        counter.find(&elements)
    };
    // It passes its end meanwhile.
    let found: Vec<_> = (0..12)
        .map(|n| find(n, n.wrapping_mul(5).wrapping_sub(20)))
        .collect();
    let known = found.iter().position(Option::is_some);
    assert_eq!(known, Some(usize::from(SURE)), "{found:?}");
    assert_eq!(found[11], Some(35));
    // Once it has counted up for longer, one packet out of order is no reason against it.
    for n in 12..20 {
        find(n, n * 5 - 20);
    }
    assert_eq!(find(20, 60), Some(60));
    assert_eq!(find(21, 85), Some(85));
}

#[test]
fn a_link_that_slows_down_is_found_by_the_feedback_of_a_call_alone() {
    let mut path = Path::new(FeedbackKind::Twcc);
    let [first, least, most] = [7, 1, 20].map(|mbit| Rate::from_bps(mbit * MBIT));
    let bounds = Bounds { first, least, most };
    let mut autorate = Autorate::new(at_us(0), bounds, bounds);
    // Rate of the link, bits before it, and bits since the last tick.
    let (mut link, mut queue, mut sent) = (10 * MBIT, 0u64, 0u64);
    let mut rates = Vec::new();
    for ms in 0..45_000u64 {
        if ms == 30_000 {
            link = 5 * MBIT;
        }
        // The call alone, and from the fifth second on an upload without end.
        let is_busy = ms >= 5000;
        let up = autorate.rates().up;
        let bits = if is_busy { up.bps() / 1000 } else { 150 };
        queue = (queue + bits).saturating_sub(link / 1000);
        sent += bits;
        path.step(10_000 + queue * 1_000_000 / link);
        rates.push(up.as_mbit_f64());
        if !ms.is_multiple_of(50) {
            continue;
        }
        let now = at_us(ms * 1000);
        let backlog = Bytes::new(if is_busy { 30_000 } else { 0 });
        autorate.on_bytes(Direction::Up, Bytes::new(sent / 8));
        autorate.on_backlog(now, Direction::Up, backlog);
        sent = 0;
        for one in path.told.drain(..) {
            autorate.set_voice(one.path, one.voice.unwrap());
            let way = Way::One(Direction::Up);
            autorate.on_delay(now, one.path, way, one.one_way[0].unwrap());
        }
        autorate.tick(now);
    }
    let mean = |ms: std::ops::Range<usize>| {
        let all = &rates[ms];
        all.iter().sum::<f64>() / all.len() as f64
    };
    let before = mean(28_000..30_000);
    assert!((8.5..10.5).contains(&before), "{before}");
    let found = rates[30_000..].iter().position(|rate| *rate < 5.0);
    assert!(found.is_some_and(|ms| ms < 4000), "{found:?}");
    let after = mean(43_000..45_000);
    assert!((4.0..5.25).contains(&after), "{after}");
    // Downwards there is no sample.
    assert_eq!(autorate.rates().down, first);
}
