// SPDX-License-Identifier: MIT OR Apache-2.0
//! Server behind a link: answers probes, sends downloads, counts uploads, for clients with the token.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::request::{Count, OK, Word, read_line};
use crate::socket::{self, Until};

/// Time between two counts of an upload.
pub const COUNTS: Duration = Duration::from_millis(100);
/// Longest time for a client's request, and for each write to it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Refusals; a client without the token learns nothing else.
const NOT_ALLOWED: &str = "not the token\n";
const BUSY: &str = "busy\n";

/// Bounds of all clients together.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at a time.
    pub connections: usize,
    /// Connections of one address at a time, or of one /64 of IPv6: a host has all of it.
    pub of_address: usize,
    /// Downloads and uploads among the connections.
    pub loads: usize,
    /// Bytes of a download or an upload.
    pub bytes: u64,
    /// Duration of a download or an upload.
    pub time: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 64,
            of_address: 16,
            loads: 16,
            bytes: 2_000_000_000,
            time: Duration::from_secs(20),
        }
    }
}

/// 128 random bits as text.
///
/// # Errors
/// If the system has none.
pub fn secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    let got = getrandom(&mut bytes, GetRandomFlags::empty())?;
    if got < bytes.len() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Permit for one of a bounded number, as long as it lives.
struct Permit(Arc<AtomicUsize>);

impl Permit {
    fn of(all: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        // Counted again when this is dropped, also if there are too many.
        let permit = Self(Arc::clone(all));
        let before = all.fetch_add(1, Ordering::Relaxed);
        (before < most).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connections of each address that has any.
type Addresses = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// Permit for one of a bounded number of an address, as long as it lives.
struct Share {
    all: Addresses,
    address: IpAddr,
}

impl Share {
    fn of(all: &Addresses, address: IpAddr, most: usize) -> Option<Self> {
        let address = match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
            address => address,
        };
        let mut counts = all.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        (*count < most).then(|| {
            *count += 1;
            Self {
                all: Arc::clone(all),
                address,
            }
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut counts = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// Serves clients until the listener fails.
///
/// # Errors
/// The listener fails.
pub fn serve(listener: &TcpListener, token: &str, bounds: Bounds) -> io::Result<()> {
    let (connections, loads) = (Arc::default(), Arc::default());
    let addresses = Addresses::default();
    loop {
        let (mut stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            // A client that has disconnected since, or no descriptor left for it.
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(error),
            Err(_) => {
                thread::sleep(Duration::from_millis(10));
                continue;
            }
        };
        let Some(permit) = Permit::of(&connections, bounds.connections) else {
            continue;
        };
        let Some(share) = Share::of(&addresses, peer.ip(), bounds.of_address) else {
            // The buffer of a new socket has room for it.
            let _ = stream.write_all(BUSY.as_bytes());
            continue;
        };
        let (token, loads) = (token.to_owned(), Arc::clone(&loads));
        let answer = move || {
            let _permits = (permit, share);
            // A client that breaks off reports that to its user itself.
            let _ = answer(socket::prepared(stream), &token, &loads, bounds);
        };
        // Without a thread the connection is closed.
        let _ = thread::Builder::new().name("line".into()).spawn(answer);
    }
}

fn answer(
    mut stream: TcpStream,
    token: &str,
    loads: &Arc<AtomicUsize>,
    bounds: Bounds,
) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let line = read_line(&mut Until {
        stream: &stream,
        end: Instant::now() + PATIENCE,
    })?;
    let word = match Word::parse(&line) {
        Some((word, given)) if is_same(given, token) => word,
        _ => return stream.write_all(NOT_ALLOWED.as_bytes()),
    };
    if word == Word::Ping {
        return stream.write_all(OK.as_bytes());
    }
    let Some(_load) = Permit::of(loads, bounds.loads) else {
        return stream.write_all(BUSY.as_bytes());
    };
    stream.write_all(OK.as_bytes())?;
    match word {
        Word::Down => send(&mut stream, bounds),
        _ => count(&mut stream, bounds),
    }
}

fn send(stream: &mut TcpStream, bounds: Bounds) -> io::Result<()> {
    let chunk = [0; 16_384];
    let (end, mut sent) = (Instant::now() + bounds.time, 0);
    while Instant::now() < end && sent < bounds.bytes {
        sent += stream.write(&chunk)? as u64;
    }
    Ok(())
}

fn count(stream: &mut TcpStream, bounds: Bounds) -> io::Result<()> {
    let mut chunk = vec![0; 65_536];
    stream.set_read_timeout(Some(COUNTS))?;
    let (began, mut told, mut read) = (Instant::now(), Instant::now(), 0_u64);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(bytes) => read += bytes as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if told.elapsed() >= COUNTS {
            told = Instant::now();
            let (bytes, at) = (read, began.elapsed());
            stream.write_all(&Count { bytes, at }.message())?;
        }
        if read > bounds.bytes || began.elapsed() > bounds.time {
            return Ok(());
        }
    }
}

/// Compares in a time that does not depend on the first difference.
fn is_same(a: &str, b: &str) -> bool {
    let pairs = a.bytes().zip(b.bytes());
    let differ = pairs.fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differ) == 0
}
