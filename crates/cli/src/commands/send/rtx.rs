// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--rtx`: streams whose RTX streams the other end knows without a signalling protocol.

use anyhow::bail;
use makeway_transport::rtp::{Rtx, Stream};

/// SSRC of the first stream, four for each; chosen by us, above the random ones of calls without `--rtx`.
const FIRST: u32 = 0xed77_0000;
/// A receiver takes 16 streams, RTX streams included.
const MOST_STREAMS: usize = 8;
/// Payload types of audio and of video, and of their RTX streams.
const TYPES: [(u8, u8); 2] = [(111, 112), (96, 97)];

/// The RTX streams of the stream with this index, if it is audio and if it is video.
fn of(stream: usize) -> impl Iterator<Item = Rtx> {
    let first = FIRST + 4 * stream as u32;
    (0..).zip(TYPES).map(move |(kind, (original, rtx))| Rtx {
        ssrc: first + 2 * kind + 1,
        payload_type: rtx,
        media_ssrc: first + 2 * kind,
        media_payload_type: original,
    })
}

/// RTX streams that a call may have.
pub fn all() -> Vec<Rtx> {
    (0..MOST_STREAMS).flat_map(of).collect()
}

/// RTX streams of a call; its streams take the SSRCs that the other end knows.
pub fn agree(streams: &mut [Stream]) -> anyhow::Result<Vec<Rtx>> {
    if streams.len() > MOST_STREAMS {
        bail!(
            "`--rtx` with {} traces: give `--trace` at most {MOST_STREAMS} times, since a receiver takes 16 streams, RTX streams included",
            streams.len()
        );
    }
    let agreed = streams.iter_mut().enumerate().filter_map(|(n, stream)| {
        let rtx = of(n).find(|rtx| rtx.media_payload_type == stream.payload_type)?;
        stream.ssrc = rtx.media_ssrc;
        Some(rtx)
    });
    Ok(agreed.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::source;
    use super::*;

    #[test]
    fn each_stream_of_a_call_has_an_rtx_stream_that_the_receiver_knows() {
        let names = ["audio", "video", "video", "audio"];
        let mut streams = source::streams(&names);
        let agreed = agree(&mut streams).unwrap();
        assert_eq!(agreed.len(), names.len());
        for (stream, rtx) in streams.iter().zip(&agreed) {
            let original = (rtx.media_ssrc, rtx.media_payload_type);
            assert_eq!(original, (stream.ssrc, stream.payload_type));
            assert!(all().contains(rtx));
        }
        let known = all();
        let ssrcs = known.iter().flat_map(|rtx| [rtx.ssrc, rtx.media_ssrc]);
        let each: BTreeSet<u32> = ssrcs.collect();
        assert_eq!(each.len(), 2 * known.len());
    }

    #[test]
    fn more_streams_than_a_receiver_takes_are_refused() {
        let mut streams = source::streams(&["video"; MOST_STREAMS + 1]);
        let error = agree(&mut streams).unwrap_err().to_string();
        assert!(
            error.contains("9 traces: give `--trace` at most 8 times"),
            "{error}"
        );
    }
}
