// SPDX-License-Identifier: MIT OR Apache-2.0

use std::io::{ErrorKind, Read, Write};
use std::net::{self, SocketAddr};
use std::thread;

use axum::response::{Sse, sse};
use axum::routing::{get, post};
use futures_util::stream;
use tokio::sync::oneshot;

use super::*;

/// Longer than any limit of these tests, on a machine that stalls too.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that is dropped with all of its connections.
struct Server {
    at: SocketAddr,
    _end: oneshot::Sender<()>,
}

impl Server {
    fn new(limits: Limits) -> Self {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let at = listener.local_addr().unwrap();
        let (end, ends) = oneshot::channel::<()>();
        let events = || async {
            let text = "x".repeat(4096);
            let all =
                stream::repeat_with(move || Ok::<_, Infallible>(sse::Event::default().data(&text)));
            Sse::new(all)
        };
        let router = Router::new()
            .route("/", get("here"))
            .route("/slow", get(|| sleep(PATIENCE)))
            .route("/events", get(events))
            .route("/body", post(|body: Bytes| async move { body }));
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! { () = serve(listener, router, limits) => {}, _ = ends => {} }
            });
        });
        Self { at, _end: end }
    }

    fn connect(&self, begin: &str) -> net::TcpStream {
        let mut stream = net::TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(begin.as_bytes()).unwrap();
        stream
    }

    /// The whole answer on a connection of its own.
    fn ask(&self, request: &str) -> String {
        rest(&mut self.connect(request)).unwrap_or_default()
    }
}

const ASK: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// All that comes until the other end closes; `None` if it does not.
fn rest(stream: &mut net::TcpStream) -> Option<String> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => None,
        _ => Some(String::from_utf8_lossy(&all).into()),
    }
}

fn is_open(stream: &net::TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let told = stream.peek(&mut [0; 1]);
    stream.set_nonblocking(false).unwrap();
    told.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn a_connection_too_many_ends_the_one_that_waits_for_longest() {
    let server = Server::new(Limits {
        most: 4,
        ..Limits::default()
    });
    let busy = server.connect("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // It is read before the others are there.
    assert!(server.ask(ASK).ends_with("here"));
    let mut waiting: Vec<_> = (0..3).map(|_| server.connect("")).collect();
    assert!(server.ask(ASK).ends_with("here"));
    assert_eq!(rest(&mut waiting[0]).as_deref(), Some(""));
    assert!(is_open(&busy) && is_open(&waiting[2]));
    // Many more, and still each request is answered at once.
    let begin = Instant::now();
    let many: Vec<_> = (0..100).map(|_| server.connect("")).collect();
    assert!(server.ask(ASK).ends_with("here"));
    assert!(begin.elapsed() < Duration::from_secs(8));
    let open = many.iter().filter(|one| is_open(one)).count();
    assert!(open <= 4, "{open} of 100 are open");
}

#[test]
fn streams_stay_when_others_come() {
    let server = Server::new(Limits {
        most: 3,
        ..Limits::default()
    });
    // It serves: before, connections have buffers without a bound, and of an ended stream more than is read below would be left.
    assert!(server.ask(ASK).ends_with("here"));
    let ask = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut event = server.connect(ask);
    event.read_exact(&mut [0; 5000]).unwrap();
    let _many: Vec<_> = (0..50).map(|_| server.connect("")).collect();
    assert!(server.ask(ASK).ends_with("here"));
    event.read_exact(&mut vec![0; 1_000_000]).unwrap();
}

#[test]
fn heads_and_bodies_that_do_not_end_are_ended() {
    let soon = Duration::from_millis(300);
    let server = Server::new(Limits {
        head: soon,
        body: soon,
        ..Limits::default()
    });
    for begin in ["", "GET / HTTP/1.1\r\nHost: loc"] {
        let mut stream = server.connect(begin);
        assert!(rest(&mut stream).is_some(), "{begin:?} stays");
    }
    // After an answer too.
    let mut kept = server.connect("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(rest(&mut kept).is_some_and(|answer| answer.ends_with("here")));
    let head = "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{";
    for path in ["/body", "/"] {
        let answer = server.ask(&head.replace("/body", path));
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    let whole = head.replace("10\r\n\r\n{", "1\r\nConnection: close\r\n\r\n{");
    assert!(server.ask(&whole).ends_with("\r\n\r\n{"));
    let long = head.replace("10\r\n", "70000\r\n") + &"x".repeat(69_999);
    let answer = server.ask(&long);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[test]
fn a_stream_that_nobody_takes_is_ended() {
    let server = Server::new(Limits {
        taken: Duration::from_millis(500),
        ..Limits::default()
    });
    let mut stream = server.connect("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.read_exact(&mut [0; 5000]).unwrap();
    thread::sleep(Duration::from_secs(4));
    // The kernel's buffers, and no more.
    let most = 50 << 20;
    let mut took = Vec::new();
    let _ = stream.take(most).read_to_end(&mut took);
    assert!((took.len() as u64) < most, "it goes on");
}

#[test]
fn an_address_has_a_share_of_its_own_and_the_machine_itself_has_not() {
    let of = |text: &str| stranger(text.parse().unwrap()).map(|one| one.to_string());
    assert_eq!(of("127.0.0.1"), None);
    assert_eq!(of("::1"), None);
    assert_eq!(of("::ffff:127.0.0.1"), None);
    assert_eq!(of("::ffff:192.0.2.7").as_deref(), Some("192.0.2.7"));
    assert_eq!(of("2001:db8::7:8:9:a").as_deref(), Some("2001:db8::"));

    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let all = Connections {
        limits: Limits::default(),
        table: Mutex::default(),
    };
    let (one, other) = (of("192.0.2.1"), of("192.0.2.2"));
    let now = Instant::now();
    let add = |number: u64, from: &Option<String>, doing| {
        let connection = Connection {
            from: from.as_ref().map(|one| one.parse().unwrap()),
            doing,
            since: now + Duration::from_secs(number),
            task: runtime.spawn(async {}).abort_handle(),
        };
        all.table().1.insert(number, connection);
    };
    add(1, &one, Doing::Waits);
    add(2, &other, Doing::Asks);
    add(3, &other, Doing::Waits);
    add(4, &other, Doing::Streams);
    let end = |of: &Option<String>| {
        let ended = all.end_one(of.as_ref().map(|one| one.parse().unwrap()));
        (ended, all.table().1.keys().copied().collect::<Vec<_>>())
    };
    assert_eq!(end(&other), (true, vec![1, 2, 4]));
    assert_eq!(end(&other), (true, vec![1, 4]));
    assert_eq!(end(&other), (false, vec![1, 4]));
    assert_eq!(end(&None), (true, vec![4]));
}
