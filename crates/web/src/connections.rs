// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections: a bounded number, each of which makes progress or is ended.
//!
//! A connection takes no token. So a stranger's connections may cost neither the descriptors of the service nor another visitor's answer
//! one beyond the limit ends the oldest that waits for a request, or else the oldest request; streams have a limit of their own.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::io::Errno;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{Sleep, sleep, timeout};

/// Bytes of the longest head of a request, and of the buffer for each direction of a connection.
const BUFFER: usize = 32 << 10;
/// Bytes that the kernel keeps for a client that does not take them.
const KERNEL_BUFFER: usize = 64 << 10;
/// Pause after an accept that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections at a time.
    pub most: usize,
    /// Most connections of one address (IPv6: of one /64). Users of the machine itself share its addresses, and `most` alone limits them.
    pub of_one: usize,
    /// Bytes of the longest body of a request.
    pub longest: usize,
    /// Longest time from the connect, or from the answer before, to the end of a request's head.
    pub head: Duration,
    /// Longest time from there to the end of its body.
    pub body: Duration,
    /// Longest time until a client takes more of an answer or of a stream.
    pub taken: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            most: 128,
            of_one: 32,
            longest: 64 << 10,
            head: Duration::from_secs(10),
            body: Duration::from_secs(10),
            taken: Duration::from_secs(30),
        }
    }
}

/// Answers through `router` for as long as it is polled.
pub async fn serve(listener: TcpListener, router: Router, limits: Limits) {
    // Connections inherit these options of the listener; without them `Patient` alone ends a stream that is not taken.
    let _ = sockopt::set_socket_send_buffer_size(&listener, KERNEL_BUFFER);
    let _ = sockopt::set_tcp_user_timeout(&listener, limits.taken.as_millis() as u32);
    let all = Arc::new(Connections {
        limits,
        table: Mutex::default(),
    });
    loop {
        let made_room = match listener.accept().await {
            Ok((stream, from)) => all.add(stream, from, &router),
            Err(error) => {
                let full = [Errno::MFILE, Errno::NFILE].map(|one| Some(one.raw_os_error()));
                let ended = full.contains(&error.raw_os_error()) && all.end_one(None);
                if !ended {
                    // The accept would fail at once again.
                    sleep(PAUSE).await;
                }
                ended
            }
        };
        if made_room {
            // The task of the connection ends now, and closes its descriptor.
            yield_now().await;
        }
    }
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    /// No request is open.
    Waits,
    /// A request is read or answered.
    Asks,
    /// A stream goes on.
    Streams,
}

#[derive(Debug)]
struct Connection {
    from: Option<IpAddr>,
    doing: Doing,
    since: Instant,
    task: AbortHandle,
}

#[derive(Debug)]
struct Connections {
    limits: Limits,
    /// Connections by number, in the order of their start.
    table: Mutex<(u64, BTreeMap<u64, Connection>)>,
}

/// Address to which a limit applies: none on the machine itself.
fn stranger(from: IpAddr) -> Option<IpAddr> {
    match from.to_canonical() {
        own if own.is_loopback() => None,
        // The rest of the address is the host's own choice.
        IpAddr::V6(all) => {
            let bits = all.to_bits() & (u128::MAX << 64);
            Some(Ipv6Addr::from_bits(bits).into())
        }
        v4 => Some(v4),
    }
}

impl Connections {
    fn table(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Connection>)> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers on a connection, if there is room; returns whether another was ended for it.
    fn add(self: &Arc<Self>, stream: TcpStream, from: SocketAddr, router: &Router) -> bool {
        let from = stranger(from.ip());
        let (all, of_one) = {
            let (_, table) = &*self.table();
            let of_one = from.map(|_| table.values().filter(|one| one.from == from).count());
            (table.len(), of_one.unwrap_or(0))
        };
        let must_end = if of_one >= self.limits.of_one {
            Some(from)
        } else {
            (all >= self.limits.most).then_some(None)
        };
        let ended = must_end.is_some_and(|of| self.end_one(of));
        if must_end.is_some() && !ended {
            return false;
        }
        let mut locked = self.table();
        let (last, table) = &mut *locked;
        *last += 1;
        let row = Arc::new(Row {
            all: Arc::clone(self),
            number: *last,
        });
        let task = tokio::spawn(connection(stream, row, router.clone()));
        let connection = Connection {
            from,
            doing: Doing::Waits,
            since: Instant::now(),
            task: task.abort_handle(),
        };
        table.insert(*last, connection);
        ended
    }

    /// Ends the oldest connection that waits for a request, or else the oldest request, of this address or of all; returns false if only
    /// streams are there.
    fn end_one(&self, of: Option<IpAddr>) -> bool {
        let mut locked = self.table();
        let (_, table) = &mut *locked;
        let all = table.iter();
        let may_end = all.filter(|(_, one)| of.is_none() || one.from == of);
        let may_end = may_end.filter(|(_, one)| one.doing != Doing::Streams);
        let least = may_end.min_by_key(|(_, one)| (one.doing, one.since));
        let Some(number) = least.map(|(number, _)| *number) else {
            return false;
        };
        if let Some(one) = table.remove(&number) {
            one.task.abort();
        }
        true
    }
}

/// A connection's row in the table.
struct Row {
    all: Arc<Connections>,
    number: u64,
}

impl Row {
    fn is(&self, doing: Doing) {
        if let Some(one) = self.all.table().1.get_mut(&self.number) {
            one.doing = doing;
            one.since = Instant::now();
        }
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        self.all.table().1.remove(&self.number);
    }
}

async fn connection(stream: TcpStream, row: Arc<Row>, router: Router) {
    let limits = row.all.limits;
    let router = TowerToHyperService::new(router);
    let service = service_fn(|request: Request<Incoming>| {
        let (router, row) = (router.clone(), Arc::clone(&row));
        async move {
            row.is(Doing::Asks);
            let response = answer(&router, request, limits).await;
            let kind = response.headers().get(header::CONTENT_TYPE);
            if kind.is_some_and(|kind| kind == "text/event-stream") {
                row.is(Doing::Streams);
            }
            Ok::<_, Infallible>(response.map(|body| Answer { body, row }))
        }
    });
    let stream = Patient {
        stream,
        most: limits.taken,
        late: None,
    };
    let ended = http1::Builder::new()
        .timer(TokioTimer::new())
        // The timeout of a connection that is kept for a next request too.
        .header_read_timeout(limits.head)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    // Each side may break off at any time.
    let _ = ended.await;
}

/// Reads the request's body, whether or not the path takes one, and asks the router.
async fn answer(
    router: &TowerToHyperService<Router>,
    request: Request<Incoming>,
    limits: Limits,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let read = timeout(limits.body, to_bytes(Body::new(body), limits.longest));
    let refused = match read.await {
        Ok(Ok(body)) => {
            let asked = router.call(Request::from_parts(head, Body::from(body)));
            return asked.await.unwrap_or_else(|error| match error {});
        }
        Ok(Err(_)) => StatusCode::PAYLOAD_TOO_LARGE,
        Err(_) => StatusCode::REQUEST_TIMEOUT,
    };
    let mut response = refused.into_response();
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

/// Body of an answer; its connection waits after it.
struct Answer {
    body: Body,
    row: Arc<Row>,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.row.is(Doing::Waits);
    }
}

/// A stream that fails when the other end takes nothing for too long.
struct Patient {
    stream: TcpStream,
    most: Duration,
    late: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn timed<T>(
        &mut self,
        context: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.late = None;
            return wrote;
        }
        let most = self.most;
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(most)));
        let late = late.as_mut().poll(context);
        late.map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.timed(context, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
