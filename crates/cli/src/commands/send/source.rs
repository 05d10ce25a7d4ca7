// SPDX-License-Identifier: MIT OR Apache-2.0
//! Input of `makeway send`: frames with a stream and a time.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::Context;
use makeway_core::rate;
use makeway_core::send::{self, AnyPolicy};
use makeway_core::units::{self, Bytes, Rate};
use makeway_scenario::departures::Units;
use makeway_scenario::model::{Frame, Media};
use makeway_transport::framed;
use makeway_transport::rtp::Stream;

/// Frames of standard input that wait to be taken.
const WAITING: usize = 64;

/// One frame to send.
#[derive(Debug)]
pub struct Unit {
    /// From the start, in ns; frames of standard input are due on arrival.
    pub at: u64,
    pub stream: usize,
    pub payload: Vec<u8>,
    /// `None`: that of the command line.
    pub deadline: Option<units::Duration>,
}

/// The next frame to send, if any.
pub enum Next {
    Unit(Unit),
    /// Nothing yet.
    Wait,
    End,
}

/// Source of frames.
pub enum Source {
    /// An application's model.
    Model(Box<Units>),
    /// Traces, each a stream.
    Traces(Vec<Trace>),
    /// Standard input, read by a thread.
    Input(Receiver<anyhow::Result<Unit>>),
}

/// A trace, repeated for ever.
pub struct Trace {
    frames: Arc<[Frame]>,
    period: u64,
    next: usize,
}

impl Trace {
    fn at(&self) -> u64 {
        let round = (self.next / self.frames.len()) as u64 * self.period;
        round + self.frames[self.next % self.frames.len()].at.as_nanos()
    }
}

/// Names of the streams, and the streams, of which the first is the most important.
pub fn streams(names: &[&'static str]) -> Vec<Stream> {
    let stream = |(class, name): (u8, &&str)| {
        let (payload_type, clock_rate) = match *name {
            "audio" => (111, 48_000),
            _ => (96, 90_000),
        };
        Stream {
            ssrc: rand_ssrc().wrapping_add(class.into()),
            payload_type,
            clock_rate,
            class,
        }
    };
    (0..).zip(names).map(stream).collect()
}

/// From the system's own randomness (RFC 3550 §8.1), below the top so that a few more follow it.
pub fn rand_ssrc() -> u32 {
    (super::seed() >> 33) as u32
}

impl Source {
    /// The SBPN paper's model of Ekiga.
    pub fn ekiga(seed: u64) -> (Self, Vec<&'static str>) {
        let classes = makeway_scenario::ekiga();
        let names = classes.iter().map(|class| class.name).collect();
        let media = Media {
            policy: AnyPolicy::all()[0],
            rate: rate::Config::Fixed(Rate::from_bps(1)),
            queue: send::Config::default(),
            deadline: units::Duration::ZERO,
            headers: Bytes::ZERO,
            tick: None,
            ecn: makeway_core::packet::Ecn::NotCapable,
            whole_frames: true,
            pause: None,
            classes,
        };
        (Self::Model(Box::new(Units::new(&media, seed, 0))), names)
    }

    /// A stream for each file.
    pub fn traces(files: &[PathBuf]) -> anyhow::Result<(Self, Vec<&'static str>)> {
        let mut traces = Vec::new();
        let mut names = Vec::new();
        for file in files {
            let (frames, period) = makeway_scenario::frames(file)?;
            names.push(match frames[0].kind {
                'A' => "audio",
                _ => "video",
            });
            traces.push(Trace {
                frames: frames.into(),
                period: period.as_nanos(),
                next: 0,
            });
        }
        Ok((Self::Traces(traces), names))
    }

    /// Frames from standard input, see `makeway send --help`.
    pub fn input() -> (Self, Vec<&'static str>) {
        let (frames, input) = sync_channel(WAITING);
        std::thread::spawn(move || {
            let mut stdin = io::stdin().lock();
            let mut number = 0;
            while let Some(unit) = read(&mut stdin, number).transpose() {
                let failed = unit.is_err();
                if frames.send(unit).is_err() || failed {
                    return;
                }
                number += 1;
            }
        });
        (Self::Input(input), vec!["audio", "video"])
    }

    /// The next frame. Standard input is waited for, `patience` long.
    pub fn next(&mut self, patience: Duration) -> anyhow::Result<Next> {
        Ok(match self {
            Self::Model(units) => match units.next() {
                None => Next::End,
                Some(first) => {
                    // Its datagrams are one frame for us.
                    let others = (1..first.parts).filter_map(|_| units.next());
                    let bytes =
                        u64::from(first.bytes) + others.map(|u| u64::from(u.bytes)).sum::<u64>();
                    Next::Unit(Unit {
                        at: first.at,
                        stream: first.class.into(),
                        payload: vec![0; bytes as usize],
                        deadline: None,
                    })
                }
            },
            Self::Traces(traces) => {
                let next = traces.iter_mut().enumerate().min_by_key(|(_, t)| t.at());
                let Some((stream, trace)) = next else {
                    return Ok(Next::End);
                };
                let at = trace.at();
                let bytes = trace.frames[trace.next % trace.frames.len()].bytes;
                trace.next += 1;
                Next::Unit(Unit {
                    at,
                    stream,
                    payload: vec![0; bytes.get() as usize],
                    deadline: None,
                })
            }
            Self::Input(frames) => match frames.recv_timeout(patience) {
                Ok(unit) => Next::Unit(unit?),
                Err(RecvTimeoutError::Timeout) => Next::Wait,
                Err(RecvTimeoutError::Disconnected) => Next::End,
            },
        })
    }
}

/// A frame of standard input; `None` at its end.
fn read(input: &mut impl Read, number: u64) -> anyhow::Result<Option<Unit>> {
    let frame = framed::read(input).with_context(|| format!("standard input, frame {number}"))?;
    Ok(frame.map(|frame| Unit {
        at: 0,
        stream: frame.stream.into(),
        payload: frame.payload,
        deadline: frame.deadline,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_cannot_be_read_is_told_with_its_number() {
        let mut input: &[u8] = &[2, 0, 0, 0, 0, 0, 1, 1];
        let error = format!("{:#}", read(&mut input, 3).unwrap_err());
        assert!(error.contains("frame 3: stream 2"), "{error}");
    }
}
