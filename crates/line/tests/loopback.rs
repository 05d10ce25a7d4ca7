// SPDX-License-Identifier: MIT OR Apache-2.0
//! Client and server on the loopback device.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use makeway_line::{Bounds, LineError, Phase, Plan, measure, serve};

const TOKEN: &str = "0123456789abcdef";

fn server(bounds: Bounds) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || serve(&listener, TOKEN, bounds));
    address
}

/// A phase goes on for longer than a machine stalls, or until a load's bytes are there, which take several turns of the probes, 50 ms apart.
fn plan(server: SocketAddr, token: &str) -> Plan {
    Plan {
        idle: Duration::from_secs(3),
        load: Duration::from_secs(4),
        most_bytes: 500_000_000,
        ..Plan::new(server, token.into())
    }
}

#[test]
fn phases_come_in_order_and_each_has_probes_and_bytes() {
    let server = server(Bounds::default());
    let mut phases = Vec::new();
    let told = measure(&plan(server, TOKEN), &AtomicBool::new(false), |stage| {
        phases.push(stage.phase);
    });
    let told = told.unwrap();
    assert_eq!(phases, [Phase::Idle, Phase::Download, Phase::Upload]);
    assert!(told.idle.answered >= 4, "{:?}", told.idle);
    for load in [told.download, told.upload] {
        assert!(load.payload_bps > 1e6, "{load:?}");
    }
    for phase in phases {
        assert!(
            told.probes.iter().any(|one| one.phase == phase),
            "{phase:?}"
        );
    }
    assert!(told.probes.is_sorted_by(|a, b| a.at_s <= b.at_s));
}

#[test]
fn a_server_serves_those_who_have_the_token_and_no_more_than_its_bounds() {
    let refusal = |address, token: &str| {
        let stop = AtomicBool::new(false);
        match measure(&plan(address, token), &stop, |_| {}) {
            Err(LineError::Refused { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    };
    let open = server(Bounds::default());
    assert_eq!(refusal(open, "0123456789abcdeg"), "not the token");
    let loads = 3;
    let bounds = Bounds {
        loads,
        ..Bounds::default()
    };
    // A download takes four.
    assert_eq!(refusal(server(bounds), TOKEN), "busy");

    // Bytes and time of a download end as well, also for a client that reads all of them.
    let small = server(Bounds {
        bytes: 100_000,
        ..Bounds::default()
    });
    let mut stream = TcpStream::connect(small).unwrap();
    writeln!(stream, "makeway-line/1 down {TOKEN}").unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!((100_000..150_000).contains(&all.len()), "{}", all.len());
    let short = server(Bounds {
        time: Duration::from_millis(300),
        ..Bounds::default()
    });
    let mut stream = TcpStream::connect(short).unwrap();
    writeln!(stream, "makeway-line/1 up {TOKEN}").unwrap();
    let began = Instant::now();
    // It says nothing but counts, and closes.
    while stream.read(&mut [0; 8]).unwrap() > 0 {
        assert!(began.elapsed() < Duration::from_secs(4));
    }
}

#[test]
fn a_measurement_ends_when_it_is_asked_to() {
    let server = server(Bounds::default());
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    let long = Plan {
        idle: Duration::from_secs(60),
        ..plan(server, TOKEN)
    };
    let told = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        measure(&long, &stop, |_| {})
    });
    assert!(matches!(told, Err(LineError::Stopped)), "{told:?}");
    assert!(began.elapsed() < Duration::from_secs(5));
}
