// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real clip: made and decoded by ffmpeg, carried as RTP (RFC 2250).
//!
//! [`Clip::make`] gives the packets to send; [`Clip::view`] what a viewer makes of those that arrived.

mod ffmpeg;
pub mod mpv;

use std::path::PathBuf;
use std::sync::Arc;

use makeway_core::units::{Bytes, Duration};
use makeway_scenario::model::{Frame, Scenario, Source};

use crate::Content;
use ffmpeg::{Decoded, Ffmpeg};
use mpv::Picture;

/// Pictures a second (ITU-R BT.601, 625 lines).
pub const FRAME_RATE: u64 = 25;
/// Time of an audio frame: 1152 samples at 48 kHz.
const AUDIO_PERIOD: Duration = Duration::from_millis(24);
/// Largest RTP payload: the 1316 bytes that VLC and MPEG-TS senders use.
const PAYLOAD: usize = 1316;

/// Why a clip could not be made or looked at.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// ffmpeg is not there.
    #[error(
        "ffmpeg was not found: install it (Debian, Ubuntu: apt-get install ffmpeg), or run the demo without --media"
    )]
    NoFfmpeg(#[source] std::io::Error),
    /// ffmpeg ended with an error.
    #[error("ffmpeg could not {doing}: {stderr}")]
    Ffmpeg {
        /// The request.
        doing: &'static str,
        /// The end of what it said.
        stderr: String,
    },
    /// The clip is not what was expected of ffmpeg.
    #[error(transparent)]
    Stream(#[from] mpv::StreamError),
    /// The folder for intermediate files.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// The fault.
        source: std::io::Error,
    },
}

/// A clip in packets: MPEG-2 video of 5 Mbit/s, MPEG layer II audio of 64 kbit/s.
#[derive(Debug)]
pub struct Clip {
    ffmpeg: Ffmpeg,
    video: Vec<Picture>,
    audio: Vec<Vec<u8>>,
    original: Decoded,
}

/// The received picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewed {
    /// Pictures in the clip.
    pub pictures: u32,
    /// Pictures that were decoded at all.
    pub decoded: u32,
    /// Decoded pictures that are equal to the original bit by bit.
    pub intact: u32,
    /// Errors that the decoder reported.
    pub errors: u32,
    /// The screen at the instants that were asked for.
    pub stills: Vec<Still>,
}

/// The screen at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Still {
    /// The picture due.
    pub due: u32,
    /// The picture shown: an older one where the one due was lost; `None` before the first.
    pub shown: Option<u32>,
    /// Whether it is the picture due, undamaged.
    pub intact: bool,
    /// As JPEG; empty where nothing is shown.
    pub jpeg: Vec<u8>,
}

impl Clip {
    /// Makes a clip of `length` with motion everywhere, so that damage shows.
    ///
    /// # Errors
    /// ffmpeg is missing or fails, or its output is not MPEG-2.
    pub fn make(length: Duration) -> Result<Self, MediaError> {
        let ffmpeg = Ffmpeg::new()?;
        let stream = ffmpeg.encode_video(length)?;
        let audio = ffmpeg.encode_audio(length)?;
        let video = mpv::packetise(&stream, PAYLOAD)?;
        let whole: Vec<_> = video
            .iter()
            .map(|p| (p.display, join(p, |_| true)))
            .collect();
        let original = ffmpeg.decode(&whole)?;
        Ok(Self {
            ffmpeg,
            video,
            audio,
            original,
        })
    }

    /// Pictures in coding order, one each 40 ms.
    pub fn video(&self) -> &[Picture] {
        &self.video
    }

    /// Audio frames as RTP payloads (RFC 2250 section 3.5), one each 24 ms.
    pub fn audio(&self) -> &[Vec<u8>] {
        &self.audio
    }

    /// Makes the flow `video` of a scenario this clip's pictures and the flow `audio` its sound, each
    /// packet of the clip a frame of the trace; gives what they carry. Packet `n` of the flow is then
    /// packet `n` of the clip, which is what [`Clip::view`] asks for.
    pub fn carry(&self, scenario: &mut Scenario, video: &str, audio: &str) -> Vec<Content> {
        let pictures = self.video.iter().enumerate();
        let video_frames = pictures.flat_map(|(n, picture)| {
            let at = Duration::from_secs(n as u64) / FRAME_RATE;
            picture
                .packets
                .iter()
                .map(move |packet| (at, picture.kind, packet))
        });
        let audio_frames = self
            .audio
            .iter()
            .enumerate()
            .map(|(n, frame)| (AUDIO_PERIOD * n as u64, 'A', frame));
        let length = Duration::from_secs(self.video.len() as u64) / FRAME_RATE;
        // Payload types of RFC 3551: MPV and MPA.
        vec![
            replace(scenario, video, 32, length, video_frames),
            replace(
                scenario,
                audio,
                14,
                AUDIO_PERIOD * self.audio.len() as u64,
                audio_frames,
            ),
        ]
    }

    /// Decodes what arrived: `arrived(n)` tells of the n-th video packet, counted over the clip.
    /// `instants` are places in display order for the stills.
    ///
    /// # Errors
    /// ffmpeg fails; damage in the stream is no error.
    pub fn view(
        &self,
        arrived: impl Fn(usize) -> bool,
        instants: &[u32],
    ) -> Result<Viewed, MediaError> {
        let mut first = 0;
        let received: Vec<_> = self
            .video
            .iter()
            .map(|picture| {
                let base = first;
                first += picture.packets.len();
                (picture.display, join(picture, |n| arrived(base + n)))
            })
            .collect();
        let decoded = self.ffmpeg.decode(&received)?;
        let intact = |n: u32| {
            decoded
                .md5
                .get(&n)
                .is_some_and(|md5| self.original.md5.get(&n) == Some(md5))
        };
        let mut stills: Vec<_> = instants
            .iter()
            .map(|&due| {
                let shown = decoded.md5.range(..=due).next_back().map(|(&n, _)| n);
                Still {
                    due,
                    shown,
                    intact: shown == Some(due) && intact(due),
                    jpeg: Vec::new(),
                }
            })
            .collect();
        let shown: Vec<u32> = stills.iter().filter_map(|s| s.shown).collect();
        let jpegs = self.ffmpeg.stills(&received, &shown)?;
        for still in &mut stills {
            still.jpeg = still
                .shown
                .and_then(|n| jpegs.get(&n).cloned())
                .unwrap_or_default();
        }
        Ok(Viewed {
            pictures: self.video.len() as u32,
            decoded: decoded.md5.len() as u32,
            intact: decoded.md5.keys().filter(|&&n| intact(n)).count() as u32,
            errors: decoded.errors,
            stills,
        })
    }
}

/// Replaces the trace of flow `name` by packets.
fn replace<'a>(
    scenario: &mut Scenario,
    name: &str,
    payload_type: u8,
    length: Duration,
    packets: impl Iterator<Item = (Duration, char, &'a Vec<u8>)>,
) -> Content {
    let mut trace = Vec::new();
    let mut payloads = Vec::new();
    for (at, kind, packet) in packets {
        trace.push(Frame {
            at,
            bytes: Bytes::new(Content::size(packet) as u64),
            kind,
        });
        payloads.push(packet.clone());
    }
    for flow in scenario.flows.iter_mut().filter(|flow| flow.name == name) {
        if let Source::Rtp {
            frames,
            period,
            payload,
            ..
        } = &mut flow.source
        {
            *frames = trace.as_slice().into();
            *period = length;
            *payload = Bytes::new(Content::size(&[0; PAYLOAD]) as u64);
        }
    }
    Content {
        flow: name.to_owned(),
        payload_type,
        payloads: Arc::new(payloads),
    }
}

/// The data of those packets of a picture that `arrived` tells of.
fn join(picture: &Picture, arrived: impl Fn(usize) -> bool) -> Vec<u8> {
    let packets = picture
        .packets
        .iter()
        .enumerate()
        .filter(|&(n, _)| arrived(n));
    mpv::depacketise(packets.map(|(_, p)| p.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untouched_clip_is_intact_and_a_torn_one_is_not() {
        let clip = match Clip::make(Duration::from_secs(2)) {
            Ok(clip) => clip,
            Err(MediaError::NoFfmpeg(_)) => {
                return makeway_testing::skip("ffmpeg is not installed");
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(clip.video().len(), 50);
        let bits: usize = clip
            .video()
            .iter()
            .flat_map(|p| &p.packets)
            .map(|p| p.len() * 8)
            .sum();
        assert!(
            (4.0e6..6.5e6).contains(&(bits as f64 / 2.0)),
            "{bits} bits in two seconds"
        );

        let whole = clip.view(|_| true, &[10, 49]).unwrap();
        assert_eq!((whole.decoded, whole.intact, whole.errors), (50, 50, 0));
        assert!(
            whole
                .stills
                .iter()
                .all(|s| s.intact && s.jpeg.starts_with(&[0xff, 0xd8]))
        );

        let torn = clip.view(|n| n % 10 != 3, &[10, 49]).unwrap();
        assert!(
            torn.errors > 0 && torn.intact < 10,
            "{} intact",
            torn.intact
        );
        assert!(torn.stills.iter().all(|s| !s.intact && !s.jpeg.is_empty()));

        let dark = clip.view(|_| false, &[10]).unwrap();
        assert_eq!((dark.decoded, dark.stills[0].shown), (0, None));
    }
}
