// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two connections over a link in virtual time.

use std::io::Write;
use std::net::Ipv4Addr;
use std::process::Command;

use etherparse::{IpNumber, Ipv4Header};
use makeway_core::rate::ccid2::Ccid2Params;
use makeway_core::rate::tfrc::TfrcParams;
use makeway_core::send::fifo::Fifo;
use makeway_core::units::Rate;
use proptest::prelude::*;

use super::*;
use crate::dccp::option::options;
use crate::dccp::wire::{PROTOCOL, WireError};

const SERVICE: u32 = 42;
const PAYLOAD: usize = 500;

/// A client and a server, `delay` apart.
struct Pair {
    ends: [Connection<Fifo>; 2],
    /// Arrivals: when, at which end, what.
    link: VecDeque<(Instant, usize, Vec<u8>)>,
    delay: Duration,
    now: Instant,
    /// Packets of each kind that left each end.
    kinds: [[u64; 10]; 2],
    /// Loses what it says so of: end it leaves, packet.
    lose: fn(&mut Pair, usize, &Packet<'_>) -> bool,
    lost: u64,
    events: [Vec<Event>; 2],
    /// All that was sent.
    packets: Vec<(Instant, usize, Vec<u8>)>,
}

fn ends(client: bool) -> Ends {
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    match client {
        true => Ends {
            local: 1000,
            remote: 2000,
            outward: Pseudo::V4(a, b),
        },
        false => Ends {
            local: 2000,
            remote: 1000,
            outward: Pseudo::V4(b, a),
        },
    }
}

fn config() -> Config {
    Config::new(SERVICE, Ccid::Three(TfrcParams::default()))
}

impl Pair {
    fn new(
        client: Config,
        server: Config,
        lose: fn(&mut Pair, usize, &Packet<'_>) -> bool,
    ) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        // Just below the wrap.
        let mut client = Connection::client(client, Fifo, ends(true), (1 << 48) - 20, now);
        let mut request = Vec::new();
        assert!(client.poll_transmit(now, &mut request));
        let later = now + Duration::from_millis(20);
        let server = Connection::accept(server, Fifo, ends(false), 77, later, &request).unwrap();
        Self {
            ends: [client, server],
            link: VecDeque::new(),
            delay: Duration::from_millis(20),
            now: later,
            kinds: [[0; 10]; 2],
            lose,
            lost: 0,
            events: [Vec::new(), Vec::new()],
            packets: vec![(now, 0, request)],
        }
    }

    fn send(&mut self) {
        let mut out = Vec::new();
        for end in 0..2 {
            while self.ends[end].poll_transmit(self.now, &mut out) {
                self.packets.push((self.now, end, out.clone()));
                let packet = Packet::decode(&out, &ends(end == 0).outward).unwrap();
                self.kinds[end][usize::from(packet.kind.number())] += 1;
                if (self.lose)(self, end, &packet) {
                    self.lost += 1;
                } else {
                    self.link
                        .push_back((self.now + self.delay, 1 - end, out.clone()));
                }
            }
            while let Some(event) = self.ends[end].poll_event() {
                self.events[end].push(event);
            }
        }
    }

    fn run(&mut self, until: Instant) {
        loop {
            self.send();
            let timeouts = self.ends.iter().filter_map(Connection::poll_timeout);
            let next = timeouts.chain(self.link.front().map(|a| a.0)).min();
            let Some(next) = next.filter(|&at| at <= until) else {
                break;
            };
            self.now = self.now.max(next);
            while self
                .link
                .front()
                .is_some_and(|arrival| arrival.0 <= self.now)
                && let Some((_, end, bytes)) = self.link.pop_front()
            {
                self.ends[end].handle_packet(self.now, &bytes);
            }
            for end in &mut self.ends {
                end.handle_timeout(self.now);
            }
        }
        self.now = until;
    }

    /// Lets one end send `rate` datagrams a second for so long.
    fn stream(&mut self, end: usize, rate: u64, seconds: u64) {
        for _ in 0..rate * seconds {
            let datagram = Datagram {
                class: 0,
                len: PAYLOAD as u32,
                deadline: Instant::FAR_FUTURE,
                frame: None,
            };
            let payload = Bytes::from_static(&[7; PAYLOAD]);
            self.ends[end].enqueue(self.now, datagram, payload).unwrap();
            self.run(self.now + Duration::from_secs(1) / rate);
        }
    }

    fn received(&self, end: usize) -> usize {
        let data = |event: &&Event| matches!(event, Event::Received(data) if data.len() == PAYLOAD);
        self.events[end].iter().filter(data).count()
    }

    fn millis(&mut self, ms: u64) {
        self.run(self.now + Duration::from_millis(ms));
    }
}

fn nothing(_: &mut Pair, _: usize, _: &Packet<'_>) -> bool {
    false
}

#[test]
fn both_ends_establish_stream_and_close() {
    let mut pair = Pair::new(config(), config(), nothing);
    pair.millis(200);
    assert!(pair.events.iter().all(|e| e[0] == Event::Established));
    assert_eq!(
        pair.ends[1].feature(feature::SEND_LOSS_EVENT_RATE, End::Local),
        1
    );
    assert_eq!(
        pair.ends[1].feature(feature::SEQUENCE_WINDOW, End::Remote),
        1000
    );

    pair.stream(0, 50, 4);
    pair.millis(500);
    assert_eq!(pair.received(1), 200);
    let rate = pair.ends[0].sender().unwrap().rate();
    assert!(
        rate.rate() >= Rate::from_bps(50 * 500 * 8),
        "{:?}",
        rate.rate()
    );
    let rtt = rate.rtt().unwrap().as_millis_f64();
    assert!((40.0..41.0).contains(&rtt), "{rtt}");
    assert_eq!(pair.ends[0].stats().refused, 0);
    assert_eq!(
        pair.ends.iter().map(|end| end.stats().invalid).sum::<u64>(),
        0
    );

    pair.ends[1].close(pair.now);
    pair.millis(500);
    let closed = Event::Ended(Reset::CLOSED);
    assert_eq!(
        pair.events.clone().map(|mut e| e.pop()),
        [Some(closed.clone()), Some(closed)]
    );
    // The server asks, the client closes, the server resets; the client waits.
    assert_eq!(
        (pair.kinds[1][5], pair.kinds[0][6], pair.kinds[1][7]),
        (1, 1, 1)
    );
    assert_eq!(pair.ends[0].state(), State::TimeWait);
    pair.run(pair.now + Duration::from_secs(300));
    assert_eq!(pair.ends[0].state(), State::Closed);
}

/// As where the server does not run for two round trips, in which the client asks again.
#[test]
fn of_two_closes_that_come_at_once_the_first_is_answered_first() {
    let mut pair = Pair::new(config(), config(), nothing);
    pair.millis(200);
    let [client, server] = &mut pair.ends;
    let (mut now, mut out, mut closes) = (pair.now, Vec::new(), Vec::new());
    client.close(now);
    while closes.len() < 2 {
        client.handle_timeout(now);
        while client.poll_transmit(now, &mut out) {
            closes.push(out.clone());
        }
        now = client.poll_timeout().unwrap();
    }
    for close in &closes {
        server.handle_packet(now, close);
    }
    assert!(server.poll_transmit(now, &mut out));
    client.handle_packet(now, &out);
    assert_eq!(client.poll_event(), Some(Event::Ended(Reset::CLOSED)));
}

#[test]
fn a_loss_in_twenty_lowers_the_rate_to_that_of_the_equation() {
    let mut pair = Pair::new(config(), config(), |pair, _, packet| {
        packet.kind.is_data() && (pair.kinds[0][2] + pair.kinds[0][4]) % 20 == 19
    });
    pair.millis(200);
    pair.stream(0, 400, 10);
    let rate = pair.ends[0].sender().unwrap().rate().rate().bps() as f64 / 8.0 / 500.0;
    pair.millis(500);
    let sent = pair.kinds[0][2] + pair.kinds[0][4];
    assert!(
        pair.lost > 10 && pair.received(1) as u64 + pair.lost == sent,
        "{sent} {}",
        pair.lost
    );
    // RFC 5348 §3.1 with s = 500 B, R = 40 ms, p = 1/20: 1 / (R f(p)) = 92 packet/s.
    assert!((83.0..101.0).contains(&rate), "{rate}");
}

#[test]
fn every_packet_of_a_handshake_may_be_lost_once() {
    for kind in [1, 3] {
        let lose = match kind {
            1 => |pair: &mut Pair, _: usize, p: &Packet<'_>| p.kind.number() == 1 && pair.lost == 0,
            _ => |pair: &mut Pair, _: usize, p: &Packet<'_>| p.kind.number() == 3 && pair.lost == 0,
        };
        let mut pair = Pair::new(config(), config(), lose);
        pair.millis(3000);
        assert_eq!(pair.lost, 1);
        pair.stream(0, 10, 2);
        pair.stream(1, 10, 2);
        pair.millis(500);
        assert_eq!((pair.received(0), pair.received(1)), (20, 20), "{kind}");
        assert!(!pair.ends[0].features.is_changing() && !pair.ends[1].features.is_changing());
    }
}

#[test]
fn a_wrong_service_code_is_refused() {
    let now = Instant::ZERO;
    let mut client = Connection::client(config(), Fifo, ends(true), 5, now);
    let mut request = Vec::new();
    client.poll_transmit(now, &mut request);
    let other = Config {
        service: 7,
        ..config()
    };
    let reset = Connection::accept(other, Fifo, ends(false), 9, now, &request).unwrap_err();
    client.handle_packet(now, &reset.unwrap());
    assert_eq!(
        client.poll_event(),
        Some(Event::Ended(Reset::BAD_SERVICE_CODE))
    );
}

/// A client that has asked, and the packet of its server with this number of options.
fn answered(options: &[u8]) -> Connection<Fifo> {
    // CCID 2 is what both begin with: there is nothing to agree upon.
    let config = Config::new(SERVICE, Ccid::Two(Ccid2Params::default()));
    let mut client = Connection::client(config, Fifo, ends(true), 5, Instant::ZERO);
    assert!(client.poll_transmit(Instant::ZERO, &mut Vec::new()));
    let ack = Seq::new(5);
    let response = Kind::Response {
        ack,
        service: SERVICE,
    };
    client.handle_packet(Instant::ZERO, &from_server(response, 100, options));
    client
}

fn from_server(kind: Kind, seq: u64, options: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Packet {
        source: ends(false).local,
        destination: ends(false).remote,
        ccval: 0,
        coverage: Coverage::default(),
        kind,
        seq: Seq::new(seq),
        short: false,
        options,
        data: &[],
    }
    .encode(&ends(false).outward, &mut bytes);
    bytes
}

/// Init Cookies of this number of bytes each, as options.
fn cookies(lengths: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    for &length in lengths {
        Opt::InitCookie(&vec![9; length]).write(&mut out);
    }
    out
}

#[test]
fn init_cookies_of_a_response_go_back_as_they_came_and_no_others() {
    let given = cookies(&[3, 40]);
    let mut client = answered(&given);
    assert_eq!(client.state(), State::PartOpen);
    for n in 1..50 {
        let sync = Kind::Sync { ack: Seq::new(5) };
        client.handle_packet(Instant::ZERO, &from_server(sync, 100 + n, &cookies(&[250])));
    }
    client.pending.ack = true;
    let (mut out, mut acks) = (Vec::new(), 0);
    while client.poll_transmit(Instant::ZERO, &mut out) {
        let packet = Packet::decode(&out, &ends(true).outward).unwrap();
        let returned = |(_, option)| matches!(option, Opt::InitCookie(_)).then_some(option);
        let returned: Vec<_> = options(packet.options).filter_map(returned).collect();
        let expected: Vec<_> = options(&given).map(|(_, option)| option).collect();
        assert_eq!(returned, expected);
        acks += usize::from(matches!(packet.kind, Kind::Ack { .. }));
    }
    assert_eq!(acks, 1);
}

#[test]
fn more_init_cookies_than_fit_a_header_end_the_connection() {
    let mut client = answered(&cookies(&[250, 250, 250]));
    let refused = Some(Event::Ended(Reset::OPTION_ERROR));
    assert_eq!(client.poll_event(), refused);
    let mut out = Vec::new();
    assert!(client.poll_transmit(Instant::ZERO, &mut out));
    let Kind::Reset { data, .. } = Packet::decode(&out, &ends(true).outward).unwrap().kind else {
        panic!("{out:?}")
    };
    assert_eq!(data, [36, 9, 9]);
    assert_eq!(answered(&cookies(&[253])).state(), State::PartOpen);
}

#[test]
fn a_server_keeps_no_init_cookies() {
    let now = Instant::ZERO;
    let mut client = Connection::client(config(), Fifo, ends(true), 5, now);
    let mut request = Vec::new();
    client.poll_transmit(now, &mut request);
    let mut server = Connection::accept(config(), Fifo, ends(false), 9, now, &request).unwrap();
    let options = cookies(&[250, 250, 250]);
    for n in 1..20 {
        let again = Packet {
            seq: Seq::new(5 + n),
            options: &options,
            ..Packet::decode(&request, &ends(true).outward).unwrap()
        };
        let mut bytes = Vec::new();
        again.encode(&ends(true).outward, &mut bytes);
        server.handle_packet(now, &bytes);
    }
    assert_eq!(
        (server.state(), server.stats().invalid),
        (State::Respond, 0)
    );
    assert_eq!(server.cookie.capacity(), 0);
}

#[test]
fn a_burst_of_loss_longer_than_the_window_is_repaired_by_sync() {
    let narrow = Config {
        sequence_window: 32,
        ..config()
    };
    let mut pair = Pair::new(narrow, narrow, |pair, end, packet| {
        let n = pair.kinds[0][2];
        end == 0 && packet.kind.is_data() && (100..130).contains(&n)
    });
    pair.millis(200);
    pair.stream(0, 50, 8);
    assert!(pair.lost >= 30);
    assert!(
        pair.kinds[1][8] >= 1 && pair.kinds[0][9] >= 1,
        "{:?}",
        pair.kinds
    );
    assert!(pair.received(1) > 150, "{}", pair.received(1));
}

#[test]
fn a_client_without_a_server_gives_up() {
    let mut client = Connection::client(config(), Fifo, ends(true), 5, Instant::ZERO);
    let mut out = Vec::new();
    let mut requests = u32::from(client.poll_transmit(Instant::ZERO, &mut out));
    while let Some(at) = client.poll_timeout() {
        client.handle_timeout(at);
        while client.poll_transmit(at, &mut out) {
            let packet: Result<_, WireError> = Packet::decode(&out, &ends(true).outward);
            requests += u32::from(matches!(packet.unwrap().kind, Kind::Request { .. }));
        }
        assert!(at <= Instant::ZERO + Duration::from_secs(300));
    }
    // At 0, 1, 3, 7, 15, 31, 63 and 127 s.
    assert_eq!(requests, 8);
    assert_eq!(client.poll_event(), Some(Event::Ended(Reset::ABORTED)));
}

/// Another implementation reads what both ends send: Wireshark's.
#[test]
fn tshark_dissects_every_packet_without_complaint() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut expected = Vec::new();
    // pcap: magic, version, zone, accuracy, longest packet, raw IP.
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 101] {
        file.write_all(&word.to_le_bytes()).unwrap();
    }
    let two = Config {
        ccid: Ccid::Two(Ccid2Params::default()),
        ..config()
    };
    for config in [config(), two] {
        let mut pair = Pair::new(config, config, |pair, _, packet| {
            packet.kind.is_data() && (pair.kinds[0][2] + pair.kinds[0][4]) % 20 == 19
        });
        pair.millis(200);
        pair.stream(0, 100, 3);
        pair.ends[1].close(pair.now);
        pair.millis(500);
        for (at, end, packet) in &pair.packets {
            let (Pseudo::V4(from, to), len) = (ends(*end == 0).outward, packet.len() as u16) else {
                panic!()
            };
            let mut header =
                Ipv4Header::new(len, 64, IpNumber(PROTOCOL), from.octets(), to.octets()).unwrap();
            header.header_checksum = header.calc_header_checksum();
            let micros = at.as_nanos() / 1000;
            let length = 20 + u32::from(len);
            for word in [
                (micros / 1_000_000) as u32,
                (micros % 1_000_000) as u32,
                length,
                length,
            ] {
                file.write_all(&word.to_le_bytes()).unwrap();
            }
            file.write_all(&header.to_bytes()).unwrap();
            file.write_all(packet).unwrap();
            expected.push(format!("{}\tGood", packet[8] >> 1 & 15));
        }
    }
    let read = |more: &[&str]| {
        let mut tshark = Command::new("tshark");
        tshark
            .arg("-r")
            .arg(file.path())
            .args(["-o", "dccp.check_checksum:TRUE"])
            .args(more);
        let output = tshark.output().ok()?;
        assert!(output.status.success(), "{output:?}");
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let fields = [
        "-T",
        "fields",
        "-e",
        "dccp.type",
        "-e",
        "dccp.checksum.status",
    ];
    let Some(types) = read(&fields) else {
        return makeway_testing::skip("tshark is not installed: install the package tshark");
    };
    let types = types.replace("\t1\n", "\tGood\n");
    assert_eq!(types.lines().collect::<Vec<_>>(), expected);
    // Resets are worth a warning to it, nothing else is.
    let complaints = read(&[
        "-Y",
        "_ws.malformed || _ws.expert.severity >= 6291456 && dccp.type != 7",
    ]);
    assert_eq!(complaints.unwrap(), "");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Packets with right checksums and ports, and everything else by chance or close to what is expected.
    #[test]
    fn hostile_packets_never_panic_and_cannot_raise_the_rate(
        packets in proptest::collection::vec((0..10u8, -40i64..2000, -40i64..40, any::<[u8; 12]>(), 0..12usize), 1..40),
    ) {
        let mut pair = Pair::new(config(), config(), nothing);
        pair.millis(200);
        pair.stream(0, 20, 2);
        let before = pair.ends[0].sender().unwrap().rate().rate();
        for (kind, ahead, behind, noise, options) in packets {
            let client = &pair.ends[0];
            let seq = client.gsr.plus(ahead);
            let ack = client.gss.plus(1 + behind.unsigned_abs() as i64);
            let kind = match kind {
                0 => Kind::Request { service: SERVICE },
                1 => Kind::Response { ack, service: SERVICE },
                2 => Kind::Data,
                3 => Kind::Ack { ack },
                4 => Kind::DataAck { ack },
                5 => Kind::CloseReq { ack },
                6 => Kind::Close { ack },
                7 => Kind::Reset { ack, code: Reset(noise[0]), data: [0; 3] },
                8 => Kind::Sync { ack },
                _ => Kind::SyncAck { ack },
            };
            let ends = ends(false);
            let mut bytes = Vec::new();
            let mut given = Vec::new();
            Opt::ElapsedTime(Duration::ZERO).write(&mut given);
            Opt::LossEventRate(u32::MAX).write(&mut given);
            Opt::ReceiveRate(u32::MAX).write(&mut given);
            given.extend(&noise[..options]);
            Packet {
                source: ends.local, destination: ends.remote, ccval: noise[1] & 15, coverage: Coverage::default(),
                kind, seq, short: false, options: &given, data: &noise,
            }.encode(&ends.outward, &mut bytes);
            pair.ends[0].handle_packet(pair.now, &bytes);
            pair.millis(1);
        }
        prop_assert_eq!(pair.ends[0].state(), State::Open);
        // An attacker who does not see the packets acknowledges others.
        prop_assert!(pair.ends[0].sender().unwrap().rate().rate() <= before);
    }
}
