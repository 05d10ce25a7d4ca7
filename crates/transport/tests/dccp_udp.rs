// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two ends of ours over UDP (RFC 6773), on the loopback interface.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::net::{SocketAddr, UdpSocket};

use bytes::Bytes;
use makeway_core::rate::tfrc::TfrcParams;
use makeway_core::send::Datagram;
use makeway_core::send::sbpn2::Sbpn2;
use makeway_core::units::{Duration, Instant};
use makeway_transport::dccp::connection::Config;
use makeway_transport::dccp::driver::{Clock, drive};
use makeway_transport::dccp::udp::Udp;
use makeway_transport::dccp::wire::{Pseudo, Reset};
use makeway_transport::dccp::{Ccid, Connection, Ends, Event};

const LOCAL: &str = "127.0.0.1:0";

fn ends(local: u16, remote: u16) -> Ends {
    Ends {
        local,
        remote,
        outward: Pseudo::Udp,
    }
}

#[test]
fn a_stream_passes_in_udp() {
    let config = Config::new(7, Ccid::Three(TfrcParams::default()));
    let listener = UdpSocket::bind(LOCAL).unwrap();
    let at: SocketAddr = listener.local_addr().unwrap();
    let clock = Clock::new();
    let server = std::thread::spawn(move || {
        let mut request = [0; 2048];
        let (length, from) = listener.recv_from(&mut request).unwrap();
        let mut wire = Udp::over(listener, from).unwrap();
        let request = &request[..length];
        let policy = Sbpn2::default();
        let accepted = Connection::accept(config, policy, ends(2, 1), 99, clock.now(), request);
        let (mut connection, mut received) = (accepted.unwrap(), 0);
        let end = clock.now() + Duration::from_secs(20);
        while clock.now() < end {
            drive(&mut connection, &mut wire, &clock, end).unwrap();
            match connection.poll_event() {
                Some(Event::Received(data)) => received += usize::from(data == [5u8; 300][..]),
                Some(Event::Ended(code)) => {
                    // The answer to Close leaves.
                    drive(&mut connection, &mut wire, &clock, clock.now()).unwrap();
                    return (received, code);
                }
                _ => {}
            }
        }
        panic!("the stream does not end");
    });

    let mut wire = Udp::connect(LOCAL.parse().unwrap(), at).unwrap();
    let mut client = Connection::client(config, Sbpn2::default(), ends(1, 2), 5, clock.now());
    let end = clock.now() + Duration::from_secs(20);
    let (mut enqueued, mut ended) = (0, None);
    while ended.is_none() && clock.now() < end {
        let soon = clock.now() + Duration::from_millis(2);
        drive(&mut client, &mut wire, &clock, soon).unwrap();
        while let Some(event) = client.poll_event() {
            if let Event::Ended(code) = event {
                ended = Some(code);
            }
        }
        let backlog = client.sender().map_or(1, |sender| sender.backlog().packets);
        if backlog == 0 && enqueued < 50 {
            let datagram = Datagram {
                class: 0,
                len: 300,
                deadline: Instant::FAR_FUTURE,
                frame: None,
            };
            let payload = Bytes::from_static(&[5; 300]);
            client.enqueue(clock.now(), datagram, payload).unwrap();
            enqueued += 1;
        } else if backlog == 0 {
            client.close(clock.now());
        }
    }
    assert_eq!(ended, Some(Reset::CLOSED), "{:?}", client.stats());
    assert_eq!(server.join().unwrap(), (50, Reset::CLOSED));
}
