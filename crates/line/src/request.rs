// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first line of a client: `makeway-line/1 WORD TOKEN`.

use std::io::{self, ErrorKind, Read};
use std::time::Duration;

/// Version of the protocol.
const NAME: &str = "makeway-line/1";
/// Bytes of the longest line, its end included.
const LONGEST: usize = 128;
/// The server's line, if it does as asked; else a reason in one line.
pub const OK: &str = "ok\n";

/// Purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// An answer alone.
    Ping,
    /// The server sends until the client has closed.
    Down,
    /// The client sends; the server says each 100 ms how many bytes it has read ([`Count`]).
    Up,
}

impl Word {
    const ALL: [(Self, &str); 3] = [(Self::Ping, "ping"), (Self::Down, "down"), (Self::Up, "up")];

    /// The client's line.
    pub fn line(self, token: &str) -> String {
        let found = Self::ALL.iter().find(|(word, _)| *word == self);
        let name = found.map_or("", |(_, name)| name);
        format!("{NAME} {name} {token}\n")
    }

    /// Word and token of a line, if it is one.
    pub fn parse(line: &str) -> Option<(Self, &str)> {
        let mut parts = line.split(' ');
        let (name, word, token) = (parts.next()?, parts.next()?, parts.next()?);
        let word = Self::ALL.iter().find(|(_, name)| *name == word)?.0;
        (name == NAME && parts.next().is_none()).then_some((word, token))
    }
}

/// Bytes of an upload that the server has read, and when it had: on the path the message may be held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub bytes: u64,
    /// Time since the upload began.
    pub at: Duration,
}

impl Count {
    /// Bytes and microseconds, each in eight bytes, the highest first.
    pub fn message(self) -> [u8; 16] {
        let micros = u64::try_from(self.at.as_micros()).unwrap_or(u64::MAX);
        let (bytes, at) = (u128::from(self.bytes), u128::from(micros));
        (bytes << 64 | at).to_be_bytes()
    }

    pub fn parse(message: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(message);
        Self {
            bytes: (both >> 64) as u64,
            at: Duration::from_micros(both as u64),
        }
    }
}

/// A line without its end. The stream limits its time.
///
/// # Errors
/// The stream fails; or the line is too long, or no text.
pub fn read_line(stream: &mut impl Read) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte)?;
        if byte == *b"\n" {
            return String::from_utf8(line).map_err(|_| ErrorKind::InvalidData.into());
        }
        if line.len() == LONGEST - 1 {
            return Err(ErrorKind::InvalidData.into());
        }
        line.push(byte[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_client_is_read_as_it_was_written_and_no_other() {
        for (word, _) in Word::ALL {
            let line = word.line("0a1b");
            let mut rest = line.as_bytes();
            let read = read_line(&mut rest).unwrap_or_default();
            assert_eq!(Word::parse(&read), Some((word, "0a1b")));
        }
        for other in [
            "",
            "makeway-line/2 ping t",
            "makeway-line/1 pong t",
            "makeway-line/1 ping",
            "makeway-line/1 ping t t",
        ] {
            assert_eq!(Word::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_count_is_read_as_it_was_written() {
        let count = Count {
            bytes: 0x0102_0304_0506_0708,
            at: Duration::from_micros(1_500_000),
        };
        assert_eq!(Count::parse(count.message()), count);
        assert_eq!(count.message()[..3], [1, 2, 3]);
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let endless = vec![b'a'; 10 * LONGEST];
        let mut rest = &endless[..];
        assert!(read_line(&mut rest).is_err());
        assert_eq!(rest.len(), 9 * LONGEST);
        assert!(read_line(&mut &b"\xff\n"[..]).is_err());
        assert!(read_line(&mut &b"cut"[..]).is_err());
    }
}
