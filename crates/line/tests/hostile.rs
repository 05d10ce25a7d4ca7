// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients and servers of ill will: a line that drips, places that are held, counts without end, words for a terminal.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use makeway_line::{Bounds, LineError, Measured, Phase, Plan, measure, serve};
use rustix::net::{AddressFamily, SocketType};

const TOKEN: &str = "0123456789abcdef";
/// Far above what an honest end waits, on a machine that is busy.
const LONG: Duration = Duration::from_secs(15);

fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || serve(&listener, TOKEN, Bounds::default()));
    address
}

/// A server that does with each connection as `each` says, once it has the client's word.
fn false_server(each: impl Fn(&mut TcpStream, &str) + Send + Sync + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, each) = (stream.unwrap(), each.clone());
            thread::spawn(move || {
                let (mut line, mut byte) = (Vec::new(), [0]);
                while stream.read_exact(&mut byte).is_ok() && byte != *b"\n" {
                    line.push(byte[0]);
                }
                let line = String::from_utf8(line).unwrap();
                each(&mut stream, line.split(' ').nth(1).unwrap_or_default());
            });
        }
    });
    address
}

/// A load ends by its bytes; one that has none goes on for longer than a machine stalls.
fn plan(server: SocketAddr) -> Plan {
    Plan {
        idle: Duration::from_millis(200),
        load: Duration::from_secs(4),
        most_bytes: 50_000_000,
        ..Plan::new(server, TOKEN.into())
    }
}

/// The measurement, if it ends in time.
fn measured(plan: Plan) -> Result<Measured, LineError> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let _ = tell.send(measure(&plan, &AtomicBool::new(false), |_| {}));
    });
    told.recv_timeout(LONG).expect("the client still waits")
}

#[test]
fn a_client_that_drips_its_line_is_closed_after_five_seconds() {
    let mut stream = TcpStream::connect(server()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let began = Instant::now();
    while stream.write_all(b"m").is_ok() {
        match stream.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // It says nothing, and closes.
            end => {
                assert_eq!(end.unwrap_or_default(), 0);
                break;
            }
        }
        assert!(began.elapsed() < LONG, "the server still waits");
    }
    let waited = began.elapsed();
    assert!(waited > Duration::from_secs(4), "{waited:?}");
}

#[test]
fn one_address_holds_sixteen_places_and_others_are_served() {
    let SocketAddr::V4(server) = server() else {
        panic!("an IPv4 address");
    };
    let answer = |from: &str| {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let from: SocketAddrV4 = from.parse().unwrap();
        rustix::net::bind(&socket, &from).unwrap();
        rustix::net::connect(&socket, &server).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(LONG)).unwrap();
        // One that is refused may find it closed.
        let _ = writeln!(stream, "makeway-line/1 ping {TOKEN}");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    // They are accepted in this order.
    let silent: Vec<TcpStream> = (0..16)
        .map(|_| TcpStream::connect(server).unwrap())
        .collect();
    assert_ne!(answer("127.0.0.1:0"), "ok\n");
    assert_eq!(answer("127.0.0.2:0"), "ok\n");
    drop(silent);
    let end = Instant::now() + LONG;
    while answer("127.0.0.1:0") != "ok\n" {
        assert!(Instant::now() < end, "places come back");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_that_drips_its_answer_is_given_up() {
    let server = false_server(|stream, _| {
        while stream.write_all(b"o").is_ok() {
            thread::sleep(Duration::from_millis(500));
        }
    });
    let told = measured(plan(server));
    assert!(
        matches!(told, Err(LineError::Unreachable { .. })),
        "{told:?}"
    );
}

#[test]
fn counts_without_end_break_an_upload_off_and_the_server_is_named() {
    let server = false_server(|stream, word| {
        stream.write_all(b"ok\n").unwrap();
        let zeros = [0; 16_384];
        while word != "ping" && stream.write_all(&zeros).is_ok() {}
    });
    let error = measured(plan(server)).unwrap_err().to_string();
    assert!(error.contains(&server.to_string()), "{error}");
    assert!(error.contains("counts"), "{error}");
}

#[test]
fn words_of_a_server_are_no_commands_of_a_terminal() {
    let server = false_server(|stream, _| {
        stream.write_all(b"\x1b]0;owned\x07 no\n").unwrap();
    });
    let error = measured(plan(server)).unwrap_err().to_string();
    assert!(!error.chars().any(char::is_control), "{error:?}");
    assert!(error.contains(r"\u{1b}]0;owned\u{7} no"), "{error}");
}

#[test]
fn a_measurement_ends_between_two_connections_of_a_load() {
    let server = false_server(|stream, _| {
        thread::sleep(Duration::from_secs(1));
        let _ = stream.write_all(b"ok\n");
        thread::sleep(LONG);
    });
    let many = Plan {
        connections: 16,
        ..plan(server)
    };
    let (stop, mut load) = (AtomicBool::new(false), Instant::now());
    let told = measure(&many, &stop, |stage| {
        if stage.phase == Phase::Download {
            load = Instant::now();
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(told, Err(LineError::Stopped)), "{told:?}");
    // One connection, and a probe that goes on.
    let waited = load.elapsed();
    assert!(waited < Duration::from_secs(8), "{waited:?}");
}
