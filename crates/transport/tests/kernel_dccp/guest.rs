// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that run in the guest.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use bytes::Bytes;
use makeway_core::rate::RateController;
use makeway_core::rate::ccid2::Ccid2Params;
use makeway_core::rate::tfrc::TfrcParams;
use makeway_core::send::Datagram;
use makeway_core::send::fifo::Fifo;
use makeway_core::units::{Duration, Instant};
use makeway_transport::dccp::connection::{Config, State};
use makeway_transport::dccp::driver::{Clock, Wire, drive, wait};
use makeway_transport::dccp::feature::{self, End};
use makeway_transport::dccp::kernel::{Dccp, TfrcInfo};
use makeway_transport::dccp::link::Link;
use makeway_transport::dccp::tun::Tun;
use makeway_transport::dccp::wire::{Pseudo, Reset};
use makeway_transport::dccp::{Ccid, Connection, Ends, Event};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const SERVICE: u32 = 0x6d6b_7779;
/// After how many losses p is looked at.
const LOSSES: u64 = 24;
const PORT: u16 = 5004;
const PAYLOAD: usize = 500;
const TICK: std::time::Duration = std::time::Duration::from_millis(2);

fn network(name: &str, clock: Clock) -> Link<Tun> {
    let tun = Tun::open(name, OURS, KERNEL).unwrap();
    for words in [
        format!("addr add {KERNEL}/24 dev {name}"),
        format!("link set {name} up"),
    ] {
        let done = Command::new("ip").args(words.split(' ')).status().unwrap();
        assert!(done.success(), "ip {words}");
    }
    Link::new(tun, clock, Duration::from_millis(20))
}

fn ends(local: u16, remote: u16) -> Ends {
    let outward = Pseudo::V4(OURS, KERNEL);
    Ends {
        local,
        remote,
        outward,
    }
}

/// Our end, driven.
struct Ours {
    connection: Connection<Fifo>,
    link: Link<Tun>,
    clock: Clock,
    received: usize,
    ended: Option<Reset>,
    established: bool,
}

impl Ours {
    /// Half a second later: the connection is there, with the CCID at that place.
    fn established(
        connection: Connection<Fifo>,
        link: Link<Tun>,
        clock: Clock,
        (place, ccid): (End, u8),
    ) -> Self {
        let mut ours = Self {
            connection,
            link,
            clock,
            received: 0,
            ended: None,
            established: false,
        };
        ours.millis(500);
        let (state, stats) = (ours.connection.state(), ours.connection.stats());
        assert!(ours.established, "{state:?} {stats:?}");
        let agreed = ours.connection.feature(feature::CCID, place);
        assert_eq!(agreed, ccid.into());
        ours
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn until(&mut self, until: Instant) {
        while self.now() < until {
            drive(&mut self.connection, &mut self.link, &self.clock, until).unwrap();
            while let Some(event) = self.connection.poll_event() {
                match event {
                    Event::Received(data) => self.received += usize::from(data.len() == PAYLOAD),
                    Event::Established => self.established = true,
                    Event::Ended(code) => self.ended = Some(code),
                    _ => {}
                }
            }
        }
    }

    fn millis(&mut self, ms: u64) {
        self.until(self.now() + Duration::from_millis(ms));
    }

    /// Offers this number of datagrams per second.
    fn stream(&mut self, per_second: u64, seconds: u64) {
        let begin = self.now();
        for n in 0..per_second * seconds {
            let datagram = Datagram {
                class: 0,
                len: PAYLOAD as u32,
                deadline: Instant::FAR_FUTURE,
                frame: None,
            };
            let payload = Bytes::from_static(&[9; PAYLOAD]);
            let now = self.now();
            self.connection.enqueue(now, datagram, payload).unwrap();
            self.until(begin + Duration::from_secs(1) * (n + 1) / per_second);
        }
    }

    /// byte/s.
    fn rate(&self) -> u64 {
        self.connection.sender().unwrap().rate().rate().bps() / 8
    }
}

/// State of the kernel's end.
#[derive(Clone, Copy)]
struct Said {
    at: Instant,
    /// Datagrams that it has taken.
    taken: usize,
    /// With CCID 3.
    tfrc: TfrcInfo,
}

/// States over some time.
struct Span<'a>(&'a [Said]);

impl<'a> Span<'a> {
    fn new(all: &'a [Said], [from, to]: [Instant; 2]) -> Self {
        let at = |time| all.partition_point(|said| said.at < time);
        Self(&all[at(from)..at(to)])
    }

    /// Mean in time.
    fn mean(&self, of: impl Fn(&TfrcInfo) -> f64) -> f64 {
        let seconds = |pair: &[Said]| pair[1].at.saturating_since(pair[0].at).as_secs_f64();
        let sum: f64 = self
            .0
            .windows(2)
            .map(|pair| of(&pair[0].tfrc) * seconds(pair))
            .sum();
        sum / seconds(&[self.0[0], self.0[self.0.len() - 1]])
    }

    /// Rate that it took, in byte/s.
    fn rate(&self) -> f64 {
        let [first, last] = [self.0[0], self.0[self.0.len() - 1]];
        let seconds = last.at.saturating_since(first.at).as_secs_f64();
        ((last.taken - first.taken) * PAYLOAD) as f64 / seconds
    }
}

fn config(ccid: u8) -> Config {
    let ccid = match ccid {
        2 => Ccid::Two(Ccid2Params::default()),
        _ => Ccid::Three(TfrcParams::default()),
    };
    let mut config = Config::new(SERVICE, ccid);
    config.their_ccid = Some(ccid.number());
    config
}

/// We are the client and send; the kernel is the server and receives.
fn we_send(ccid: u8, name: &str) {
    let clock = Clock::new();
    let link = network(name, clock);
    let server = Dccp::new(SERVICE, ccid).unwrap();
    server.listen(KERNEL, PORT).unwrap();
    let (count, counted) = mpsc::channel();
    let kernel = thread::spawn(move || {
        let socket = server.accept().unwrap();
        let mut data = [0; 2048];
        while let Ok(length @ 1..) = socket.receive(&mut data) {
            assert_eq!(length, PAYLOAD);
            count.send(()).unwrap();
        }
    });
    let ends = ends(40_000 + u16::from(ccid), PORT);
    let connection = Connection::client(config(ccid), Fifo, ends, 1 << 40, clock.now());
    let mut ours = Ours::established(connection, link, clock, (End::Local, ccid));

    ours.stream(100, 4);
    let open = ours.connection.state();
    assert_eq!(open, State::Open);
    let before = ours.rate();
    println!(
        "CCID {ccid}, we send: no loss: {before} byte/s, {:?}",
        ours.connection.stats()
    );
    ours.millis(200);
    let came = counted.try_iter().count();
    println!("the kernel got {came} of 400");
    assert_eq!(came, 400);

    ours.link.there.lose_each = 20;
    ours.stream(200, 5);
    let after = ours.rate();
    ours.millis(500);
    let stats = *ours.connection.stats();
    println!("CCID {ccid}, we send: 5 % loss: {after} byte/s, {stats:?}");
    assert!(after < before, "{before} {after}");
    assert!(stats.feedback > 100 && stats.refused == 0, "{stats:?}");

    ours.link.there.lose_each = 0;
    let now = ours.now();
    ours.connection.close(now);
    ours.millis(1000);
    println!("ended {:?} {:?}", ours.ended, ours.connection.state());
    assert_eq!(ours.ended, Some(Reset::CLOSED));
    kernel.join().unwrap();
}

/// The kernel is the client and sends; we are the server and receive.
fn the_kernel_sends(ccid: u8, name: &str) {
    let clock = Clock::new();
    let mut link = network(name, clock);
    let (done, ready) = mpsc::channel();
    let (close, closing) = mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let enough = Arc::clone(&stop);
    let kernel = thread::spawn(move || {
        let socket = Dccp::new(SERVICE, ccid).unwrap();
        socket.connect(OURS, PORT).unwrap();
        done.send(None).unwrap();
        let (mut said, mut taken) = (Vec::new(), 0);
        while !enough.load(Ordering::Relaxed) {
            // Its queue holds five packets, and it does not wait for room.
            match socket.send(&[9; PAYLOAD]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(TICK),
                result => taken += result.map(|()| 1).unwrap(),
            }
            let tfrc = match ccid {
                3 => socket.tfrc().unwrap(),
                _ => TfrcInfo::default(),
            };
            let at = clock.now();
            said.push(Said { at, taken, tfrc });
        }
        done.send(Some(said)).unwrap();
        closing.recv().unwrap();
    });
    let mut request = Vec::new();
    while !link.receive(&mut request).unwrap() {
        wait(link.descriptor(), Duration::from_millis(10)).unwrap();
    }
    let source = u16::from_be_bytes([request[0], request[1]]);
    let ends = ends(PORT, source);
    let connection =
        Connection::accept(config(ccid), Fifo, ends, 1 << 20, clock.now(), &request).unwrap();
    let mut ours = Ours::established(connection, link, clock, (End::Remote, ccid));
    assert!(ready.recv().unwrap().is_none());

    ours.millis(1500);
    let mut clear = [ours.now(); 2];
    ours.millis(2000);
    clear[1] = ours.now();
    let first = ours.received;
    ours.link.back.lose_each = 20;
    ours.millis(3500);
    // p is of the last eight intervals between losses (RFC 5348 §5.4).
    while ours.link.back.lost < LOSSES {
        ours.millis(100);
    }
    let mut lossy = [ours.now(); 2];
    let middle = ours.received;
    ours.millis(2000);
    lossy[1] = ours.now();
    let last = ours.received - middle;
    stop.store(true, Ordering::Relaxed);
    let said = loop {
        ours.millis(200);
        match ready.try_recv() {
            Err(mpsc::TryRecvError::Disconnected) => panic!("the kernel's end is gone"),
            Ok(said) => break said.unwrap(),
            Err(mpsc::TryRecvError::Empty) => {}
        }
    };
    println!(
        "CCID {ccid}, the kernel sends: {first} in 4 s, then with 5 % loss {last} in 2 s, {:?}",
        ours.connection.stats()
    );
    assert!(last * 2 < first, "{first} {last}");
    assert!(last > 30, "{last}");
    if ccid == 3 {
        let spans = [clear, lossy].map(|span| Span::new(&said, span));
        the_rate_follows_from_the_reports(&said, spans);
    }
    ours.link.back.lose_each = 0;
    close.send(()).unwrap();
    ours.millis(1500);
    println!("ended {:?} {:?}", ours.ended, ours.connection.state());
    assert_eq!(ours.ended, Some(Reset::CLOSED));
    kernel.join().unwrap();
}

/// RFC 5348's rate of the kernel's CCID 3: at each moment the one that follows from the RTT and the reports, over
/// seconds what it took. A busy machine changes RTT and reports, but not that.
fn the_rate_follows_from_the_reports(all: &[Said], [clear, lossy]: [Span; 2]) {
    let x = |info: &TfrcInfo| info.x as f64 / 64.0;
    let x_recv = |info: &TfrcInfo| info.x_recv as f64 / 64.0;
    let p = |info: &TfrcInfo| f64::from(info.p) / 1e6;
    let rtt = |info: &TfrcInfo| f64::from(info.rtt) / 1e6;

    // §4.2: four packets in the first RTT.
    let start = all[0].tfrc;
    let window = x(&start) * rtt(&start);
    println!("it begins with {window:.1} B per RTT");
    assert!(
        (window / (4 * PAYLOAD) as f64 - 1.0).abs() < 0.001,
        "{start:?}"
    );

    // §4.3: without loss at most twice what was received, and soon more than at the beginning.
    let mut most = 0;
    let end = clear.0[clear.0.len() - 1].at;
    for said in all.iter().take_while(|said| said.at < end) {
        let info = said.tfrc;
        most = most.max(info.x_recv);
        assert!(
            info.p == 0 && (most == 0 || info.x <= 2 * most),
            "{most} {info:?}"
        );
    }
    let (mean, took) = (clear.mean(x), clear.rate());
    println!("no loss: X {mean:.0} byte/s, {took:.0} taken");
    assert!(mean > 2.0 * x(&start), "{mean} {start:?}");
    assert!((0.45..1.1).contains(&(took / mean)), "{took} of {mean}");

    // §3.1, §4.3: with loss the equation's, or twice what was received; never more than the equation's.
    let equation = |info: &TfrcInfo| {
        let p = p(info);
        let f = (2.0 * p / 3.0).sqrt() + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
        PAYLOAD as f64 / (rtt(info) * f)
    };
    let follows = |info: &TfrcInfo| {
        let allowed = equation(info).min(2.0 * x_recv(info));
        (0.99 * allowed..=1.01 * equation(info)).contains(&x(info))
    };
    // One in a hundred may be read just when a report is taken in.
    let odd = lossy.0.iter().filter(|said| !follows(&said.tfrc)).count();
    assert!(odd * 100 <= lossy.0.len(), "{odd} of {}", lossy.0.len());
    let (mean, took) = (lossy.mean(x), lossy.rate());
    let mut reported: Vec<f64> = lossy.0.iter().map(|said| x_recv(&said.tfrc)).collect();
    reported.sort_by(f64::total_cmp);
    let reported = reported[reported.len() / 2];
    let (rtt, p) = (lossy.mean(rtt), lossy.mean(p));
    println!(
        "5 % loss: X {mean:.0} byte/s, {took:.0} taken, {reported:.0} reported; p {p:.4}, RTT {rtt:.4} s"
    );
    assert!((took / mean - 1.0).abs() < 0.1, "{took} of {mean}");
    assert!(
        (reported / (0.95 * took) - 1.0).abs() < 0.15,
        "{reported} for {took}"
    );
    assert!((0.04..0.055).contains(&p), "{p}");
    assert!((0.040..0.100).contains(&rtt), "{rtt}");
}

#[test]
#[ignore = "runs in the guest"]
fn ccid_3_we_send() {
    we_send(3, "t3a");
}

#[test]
#[ignore = "runs in the guest"]
fn ccid_2_we_send() {
    we_send(2, "t2a");
}

#[test]
#[ignore = "runs in the guest"]
fn ccid_3_the_kernel_sends() {
    the_kernel_sends(3, "t3b");
}

#[test]
#[ignore = "runs in the guest"]
fn ccid_2_the_kernel_sends() {
    the_kernel_sends(2, "t2b");
}
