// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames of media one behind the other in a stream of bytes: what `makeway send --stdin` reads.
//!
//! Each begins with [`HEADER`] bytes, numbers in network byte order: 1 byte stream, 0 audio or 1 video; 2 bytes deadline in ms,
//! 0 for none; 4 bytes length of the payload, 1 to [`LONGEST`]. The payload follows.

use std::io::{self, Read};

use makeway_core::units::Duration;

/// Bytes before each payload.
pub const HEADER: usize = 7;
/// The longest payload, in bytes.
pub const LONGEST: u32 = 4_000_000;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// 0 audio, 1 video.
    pub stream: u8,
    /// From the making of the frame until it is of no use; `None` if it does not say.
    pub deadline: Option<Duration>,
    /// 1 to [`LONGEST`] bytes.
    pub payload: Vec<u8>,
}

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The stream cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It ends after the first bytes of a header.
    #[error("it ends inside of the header of {HEADER} bytes")]
    Header,
    /// There is no such stream.
    #[error("stream {0} should be 0, audio, or 1, video")]
    Stream(u8),
    /// The length is out of range.
    #[error("a length of {0} should be 1 to {LONGEST} bytes")]
    Length(u32),
    /// It ends before the payload does.
    #[error("{announced} bytes were announced, and {came} came")]
    Payload {
        /// As the header says.
        announced: u32,
        /// Until the end.
        came: usize,
    },
}

/// The next frame; `None` at the end.
///
/// # Errors
/// Not a frame. The start of the next one is not known then.
pub fn read(input: &mut impl Read) -> Result<Option<Frame>, FrameError> {
    let mut header = Vec::with_capacity(HEADER);
    input.take(HEADER as u64).read_to_end(&mut header)?;
    if header.is_empty() {
        return Ok(None);
    }
    let [stream, d1, d0, l3, l2, l1, l0] = header[..] else {
        return Err(FrameError::Header);
    };
    let length = u32::from_be_bytes([l3, l2, l1, l0]);
    if stream > 1 {
        return Err(FrameError::Stream(stream));
    }
    if !(1..=LONGEST).contains(&length) {
        return Err(FrameError::Length(length));
    }
    // Memory for received bytes, not for announced ones.
    let mut payload = Vec::new();
    input.take(length.into()).read_to_end(&mut payload)?;
    if payload.len() < length as usize {
        return Err(FrameError::Payload {
            announced: length,
            came: payload.len(),
        });
    }
    let deadline = u16::from_be_bytes([d1, d0]);
    Ok(Some(Frame {
        stream,
        deadline: (deadline > 0).then(|| Duration::from_millis(deadline.into())),
        payload,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_or_refused() {
        let mut good: &[u8] = &[1, 0, 150, 0, 0, 0, 2, 8, 9, 0, 0, 0, 0, 0, 0, 1, 7];
        let first = read(&mut good).unwrap().unwrap();
        assert_eq!((first.stream, first.payload), (1, vec![8, 9]));
        assert_eq!(first.deadline, Some(Duration::from_millis(150)));
        let second = read(&mut good).unwrap().unwrap();
        assert_eq!((second.stream, second.deadline), (0, None));
        assert_eq!(read(&mut good).unwrap(), None);
        for (mut bad, said) in [
            (&[2, 0, 0, 0, 0, 0, 1, 1][..], "stream 2"),
            (&[0, 0, 0, 0, 0, 0, 0], "length of 0"),
            (&[0, 0, 0, 255, 0, 0, 0], "1 to 4000000"),
            (&[0, 0], "inside of the header"),
            (
                &[0, 0, 0, 0, 0, 0, 5, 1],
                "5 bytes were announced, and 1 came",
            ),
        ] {
            let error = read(&mut bad).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn memory_is_taken_for_what_comes() {
        let mut short: &[u8] = &[0, 0, 0, 0, 60, 0, 0, 1, 2, 3];
        assert!(matches!(
            read(&mut short),
            Err(FrameError::Payload { came: 3, .. })
        ));
    }
}
