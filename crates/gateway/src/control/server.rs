// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket of a running instance: several clients at once, none of which can hold up the others or the instance.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::Mode;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with, sockopt,
};

use super::protocol::{Answer, Request};

/// From the connection to the end of the request, and from there to the end of the answer: 1 s each, chosen by us.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most that are served at a time; one more replaces the oldest.
const MOST_CLIENTS: usize = 16;
/// Bytes of the longest request: the weights of a thousand users.
const LONGEST: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct Server {
    listener: UnixListener,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    since: Instant,
    asked: Vec<u8>,
    /// Rest of the answer that was not written yet.
    answer: Vec<u8>,
}

/// A connection whose client waits for the end.
#[derive(Debug)]
pub(super) struct Waiting(UnixStream);

impl Server {
    /// Listens at `path`, for this user alone, and replaces the socket of a killed instance: the lock is ours.
    pub fn new(path: &Path) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // The mode of the socket here is that of its name from the first moment.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, 64)?;
        Ok(Self {
            listener: UnixListener::from(socket),
            clients: Vec::new(),
        })
    }

    /// Events to wait for.
    pub fn waits_for(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let clients = self.clients.iter().map(|client| {
            let flags = match client.answer.is_empty() {
                true => PollFlags::IN,
                false => PollFlags::OUT,
            };
            (client.stream.as_fd(), flags)
        });
        [(self.listener.as_fd(), PollFlags::IN)]
            .into_iter()
            .chain(clients)
    }

    /// Reads and writes what can be, and has requests answered. The one that asks for the end is given back; its answer is
    /// due. A client that is slow or says nothing is left, and sees its connection end.
    pub fn serve(&mut self, mut answer: impl FnMut(Request) -> Answer) -> Option<Waiting> {
        while let Ok((stream, _)) = self.listener.accept() {
            let mine = sockopt::socket_peercred(&stream)
                .is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid());
            if !mine || stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.clients.len() == MOST_CLIENTS {
                self.clients.remove(0);
            }
            self.clients.push(Client {
                stream,
                since: Instant::now(),
                asked: Vec::new(),
                answer: Vec::new(),
            });
        }
        let mut i = 0;
        while i < self.clients.len() {
            let client = &mut self.clients[i];
            match client.go_on(&mut answer) {
                Step::Later if client.since.elapsed() < PATIENCE => i += 1,
                Step::Later | Step::Done => {
                    self.clients.swap_remove(i);
                }
                Step::Stop => return Some(Waiting(self.clients.swap_remove(i).stream)),
            }
        }
        None
    }
}

enum Step {
    Later,
    Done,
    Stop,
}

impl Client {
    fn go_on(&mut self, answer: &mut impl FnMut(Request) -> Answer) -> Step {
        if self.answer.is_empty() {
            let line = match self.read() {
                Ok(Some(line)) => line,
                Ok(None) => return Step::Later,
                Err(_) => return Step::Done,
            };
            let answer = match serde_json::from_slice(&line) {
                Ok(Request::Stop) => return Step::Stop,
                Ok(request) => answer(request),
                Err(_) => Answer::Error("this makeway does not know what was asked: it may be older, so end it by `makeway down` and start it again".into()),
            };
            self.answer = bytes(&answer);
            // Some changes take longer.
            self.since = Instant::now();
        }
        while !self.answer.is_empty() {
            match self.stream.write(&self.answer) {
                Ok(n) => drop(self.answer.drain(..n)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Step::Later,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Step::Done,
            }
        }
        Step::Done
    }

    /// The request, once it is whole.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.asked.extend(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if let Some(end) = self.asked.iter().position(|byte| *byte == b'\n') {
                self.asked.truncate(end);
                return Ok(Some(std::mem::take(&mut self.asked)));
            }
            if self.asked.len() >= LONGEST {
                return Err(ErrorKind::InvalidData.into());
            }
        }
    }
}

impl Waiting {
    /// Tells it. The connection ends when this is dropped.
    pub fn tell(&mut self, answer: &Answer) {
        let written = self.0.set_nonblocking(false).and_then(|()| {
            self.0.set_write_timeout(Some(PATIENCE))?;
            self.0.write_all(&bytes(answer))
        });
        // One that went away needs no answer.
        let _ = written;
    }
}

fn bytes(answer: &Answer) -> Vec<u8> {
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use crate::control::protocol::Status;

    fn serve(server: &mut Server) -> Option<Waiting> {
        server.serve(|_| Answer::Status(Status::default()))
    }

    fn ask(path: &Path, what: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(what).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        stream
    }

    fn answer(stream: UnixStream) -> String {
        let mut line = String::new();
        // One that was left in the middle of its request sees an error.
        let _ = io::BufReader::new(stream).read_line(&mut line);
        line
    }

    #[test]
    fn clients_that_drip_or_say_nothing_hold_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut server = Server::new(&path).unwrap();
        // More than are served at a time, each of which begins and does not end.
        let slow: Vec<_> = (0..3 * MOST_CLIENTS)
            .map(|_| ask(&path, b"\"sta"))
            .collect();
        assert!(serve(&mut server).is_none());
        let asked = ask(&path, b"\"status\"\n");
        let begin = Instant::now();
        assert!(serve(&mut server).is_none());
        assert!(answer(asked).contains("version"));
        // Each of them would have had a second.
        let many = PATIENCE * MOST_CLIENTS as u32 / 2;
        assert!(begin.elapsed() < many, "somebody was waited for");
        // One that goes on dripping has no longer than one that does not.
        let last = &slow[slow.len() - 1];
        while begin.elapsed() < PATIENCE + Duration::from_millis(300) {
            let _ = (&*last).write(b"t");
            serve(&mut server);
            thread::sleep(Duration::from_millis(20));
        }
        // The last look may have been before that.
        serve(&mut server);
        assert_eq!(server.clients.len(), 0);
        let mut ended = slow.into_iter().map(answer);
        assert!(ended.all(|said| said.is_empty()));
    }

    #[test]
    fn a_request_that_does_not_end_and_one_of_another_version_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut server = Server::new(&path).unwrap();
        let endless = ask(&path, &[b'x'; LONGEST + 1]);
        let strange = ask(&path, b"\"dance\"\n");
        let stops = ask(&path, b"\"stop\"\n");
        let mut waiting = None;
        while waiting.is_none() {
            waiting = serve(&mut server);
        }
        serve(&mut server);
        // Within its second: a request that is too long is not waited for.
        assert_eq!(server.clients.len(), 0);
        assert!(answer(strange).contains("does not know what was asked"));
        assert_eq!(answer(endless), "");
        waiting.unwrap().tell(&Answer::Stopped(Status::default()));
        assert!(answer(stops).contains("stopped"));
    }

    #[test]
    fn one_that_does_not_read_its_answer_holds_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut server = Server::new(&path).unwrap();
        let long = || Answer::Error("x".repeat(4 << 20));
        let deaf = ask(&path, b"\"status\"\n");
        assert!(server.serve(|_| long()).is_none());
        let asked = ask(&path, b"\"status\"\n");
        assert!(serve(&mut server).is_none());
        assert!(answer(asked).contains("version"));
        drop(deaf);
    }

    #[test]
    fn nobody_else_may_connect_from_the_first_moment_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let stop = AtomicBool::new(false);
        // SAFETY: no pointers. Nothing else of these tests depends on it.
        unsafe { libc::umask(0) };
        let seen = thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut seen = 0;
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(found) = fs::symlink_metadata(&path) {
                        seen |= found.permissions().mode() & 0o777;
                    }
                }
                seen
            });
            for _ in 0..3000 {
                Server::new(&path).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            watcher.join().unwrap()
        });
        assert_eq!(seen & 0o077, 0, "others could connect: {seen:o}");
    }
}
