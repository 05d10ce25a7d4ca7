// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hostile users of the page: thousands of connections that ask for nothing must not stop the service, whose death would end every shaper.

use std::net::Shutdown;
use std::os::unix::net::UnixDatagram;

use super::metrics::get;
use super::service::{Service, signal, status_of};
use super::*;

const PAGE: &str = "127.0.0.1:8480";
const FILE: &str = "[web]\n[interface.near]\nupload = \"8mbit\"\nbackend = \"nfqueue\"\n";
/// More than the usual limit on descriptors, of 1024.
const IDLE: usize = 1100;

/// The place of systemd: takes the service's signs of life.
struct Systemd {
    socket: UnixDatagram,
    folder: tempfile::TempDir,
}

impl Systemd {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, folder }
    }

    /// A service of `FILE` with `descriptors` of them at most.
    fn starts(&self, descriptors: u64) -> Service {
        let path = self.folder.path().join("notify");
        let variables = [
            ("NOTIFY_SOCKET", path.as_path()),
            ("WATCHDOG_USEC", Path::new("5000000")),
        ];
        let service = Service::start_limited(FILE, &variables, descriptors);
        service.shapes("near", 8_000_000);
        service.says("page: http://127.0.0.1:8480/");
        service
    }

    fn hears(&self) -> bool {
        let mut text = [0; 64];
        let mut any = false;
        while let Ok(n) = self.socket.recv(&mut text) {
            any |= &text[..n] == b"WATCHDOG=1";
        }
        any
    }

    /// Waits for a sign of life that is not from before; it fails long before systemd's 5 s have passed three times.
    fn sees_it_alive(&self, service: &Service) {
        self.hears();
        let end = Instant::now() + Duration::from_secs(15);
        while !self.hears() {
            assert!(Instant::now() < end, "no sign of life: {}", service.said());
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Connections that ask for nothing.
fn idle() -> Vec<TcpStream> {
    let most = libc::rlimit {
        rlim_cur: 4096,
        rlim_max: 4096,
    };
    // SAFETY: `most` lives until the call returns.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &most) }, 0);
    let one = |_| TcpStream::connect_timeout(&PAGE.parse().unwrap(), Duration::from_secs(5));
    // Beyond the length of the queue of those that were not accepted yet, the kernel does not answer.
    (0..IDLE).map_while(|n| one(n).ok()).collect()
}

/// The answer to a request within some seconds.
fn answers(path: &'static str) -> bool {
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || tell.send(get(PAGE, path, &[])));
    let answer = told.recv_timeout(Duration::from_secs(10));
    matches!(answer, Ok(Some((head, _))) if head.starts_with("HTTP/1.1 200"))
}

#[test]
fn idle_connections_take_neither_the_page_nor_its_sign_of_life() {
    if !inside_in_order("idle::idle_connections_take_neither_the_page_nor_its_sign_of_life") {
        return;
    }
    let _far = Far::new();
    let systemd = Systemd::new();
    let service = systemd.starts(256);
    let pid = service.shapes("near", 8_000_000);
    let held = idle();
    systemd.sees_it_alive(&service);
    assert!(answers("/metrics"), "no answer beside {}", held.len());
    // Descriptors of ended connections are free again: another process starts.
    signal(pid, libc::SIGKILL);
    until("another process", || {
        let now = status_of("near")?["pid"].as_i64()?;
        (now != i64::from(pid)).then_some(())
    });
    systemd.sees_it_alive(&service);
    drop(held);
}

#[test]
fn the_sign_of_life_takes_no_descriptor() {
    if !inside_in_order("idle::the_sign_of_life_takes_no_descriptor") {
        return;
    }
    let _far = Far::new();
    let systemd = Systemd::new();
    // Fewer than the page may take.
    let service = systemd.starts(80);
    let held = idle();
    for _ in 0..5 {
        systemd.sees_it_alive(&service);
    }
    assert!(held.len() > 80, "{}", held.len());
}

#[test]
fn a_request_that_does_not_end_is_ended() {
    if !inside_in_order("idle::a_request_that_does_not_end_is_ended") {
        return;
    }
    let _far = Far::new();
    let systemd = Systemd::new();
    let _service = systemd.starts(1024);
    let head = "POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{";
    let ended = ["", "GET / HTTP/1.1\r\nHost: loc", head].map(|begin| {
        thread::spawn(move || {
            let mut stream = TcpStream::connect(PAGE).unwrap();
            stream.write_all(begin.as_bytes()).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(25)))
                .unwrap();
            let mut answer = String::new();
            let ended = stream.read_to_string(&mut answer);
            let _ = stream.shutdown(Shutdown::Both);
            (begin, ended.is_ok(), answer)
        })
    });
    for one in ended {
        let (begin, ended, answer) = one.join().unwrap();
        assert!(ended, "{begin:?} is still open after 25 s: {answer}");
    }
}
