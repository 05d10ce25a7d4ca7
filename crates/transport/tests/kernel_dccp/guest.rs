//! What runs in the guest.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::mpsc;
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
use makeway_transport::dccp::feature::{self, Place};
use makeway_transport::dccp::kernel::Dccp;
use makeway_transport::dccp::link::Link;
use makeway_transport::dccp::tun::Tun;
use makeway_transport::dccp::wire::{Pseudo, Reset};
use makeway_transport::dccp::{Ccid, Connection, Ends, Event};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const SERVICE: u32 = 0x6d6b_7779;
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
                    Event::Sender(_) => {}
                }
            }
        }
    }

    fn millis(&mut self, ms: u64) {
        self.until(self.now() + Duration::from_millis(ms));
    }

    /// Offers so many datagrams per second.
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
    let mut ours = Ours {
        connection,
        link,
        clock,
        received: 0,
        ended: None,
        established: false,
    };
    ours.millis(500);
    assert!(
        ours.established,
        "{:?} {:?}",
        ours.connection.state(),
        ours.connection.stats()
    );
    assert_eq!(
        ours.connection.feature(feature::CCID, Place::Local),
        ccid.into()
    );

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
    let kernel = thread::spawn(move || {
        let socket = Dccp::new(SERVICE, ccid).unwrap();
        socket.connect(OURS, PORT).unwrap();
        done.send(None).unwrap();
        let mut infos = Vec::new();
        let begin = std::time::Instant::now();
        while begin.elapsed().as_secs() < 10 {
            // Its queue holds five packets, and it does not wait for room.
            match socket.send(&[9; PAYLOAD]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(TICK),
                result => result.unwrap(),
            }
            if ccid == 3 {
                infos.push((begin.elapsed().as_millis() as u64, socket.tfrc().unwrap()));
            }
        }
        done.send(Some(infos)).unwrap();
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
    let mut ours = Ours {
        connection,
        link,
        clock,
        received: 0,
        ended: None,
        established: false,
    };
    ours.millis(500);
    assert!(
        ours.established,
        "{:?} {:?}",
        ours.connection.state(),
        ours.connection.stats()
    );
    assert_eq!(
        ours.connection.feature(feature::CCID, Place::Remote),
        ccid.into()
    );
    assert!(ready.recv().unwrap().is_none());

    ours.millis(4000);
    let first = ours.received;
    ours.link.back.lose_each = 20;
    ours.millis(2000);
    let middle = ours.received;
    ours.millis(2000);
    let last = ours.received - middle;
    let mut infos = None;
    while infos.is_none() {
        ours.millis(200);
        infos = match ready.try_recv() {
            Err(mpsc::TryRecvError::Disconnected) => panic!("the kernel's end is gone"),
            result => result.ok().flatten(),
        };
    }
    println!(
        "CCID {ccid}, the kernel sends: {first} in 4 s, then with 5 % loss {last} in 2 s, {:?}",
        ours.connection.stats()
    );
    assert!(last * 2 < first, "{first} {last}");
    assert!(last > 30, "{last}");
    if ccid == 3 {
        let infos = infos.unwrap();
        let at = |ms: u64| infos.iter().rev().find(|(at, _)| *at <= ms).unwrap().1;
        let (start, fast, slow) = (infos[0].1, at(4000), at(9000));
        println!("{start:?}\n{fast:?}\n{slow:?}");
        // A guest on a busy machine is not asked for the rate at a moment.
        let clear = infos.iter().take_while(|(at, _)| *at <= 4000);
        let most = clear.map(|(_, info)| info.x).max().unwrap();
        assert!(most > start.x && fast.p == 0, "{most} {start:?} {fast:?}");
        assert!(
            slow.x < most && (20_000..100_000).contains(&slow.p),
            "{most} {slow:?}"
        );
        assert!((38_000..100_000).contains(&slow.rtt), "{slow:?}");
    }
    ours.link.back.lose_each = 0;
    close.send(()).unwrap();
    ours.millis(1500);
    println!("ended {:?} {:?}", ours.ended, ours.connection.state());
    assert_eq!(ours.ended, Some(Reset::CLOSED));
    kernel.join().unwrap();
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
