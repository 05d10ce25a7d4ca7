// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of coded frames: CSV with the columns `time_ms,kind,bytes`; lines with `#` are comments.

use makeway_core::units::{Bytes, Duration};

use crate::model::Frame;

/// The first line that is not a comment.
const HEADER: &str = "time_ms,kind,bytes";
/// The largest frame: 16 MB, so that a slip of a unit is seen.
const LARGEST: u64 = 16_000_000;

/// Reads a trace. Gives its frames and the time after which they repeat: the last frame lasts as
/// long as the mean of the others. On error: the line, from 1, and what is wrong.
pub(crate) fn parse(text: &str) -> Result<(Vec<Frame>, Duration), (usize, String)> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    match lines.next() {
        Some((_, HEADER)) => {}
        Some((n, other)) => {
            return Err((n, format!("`{other}` should be the header `{HEADER}`")));
        }
        None => return Err((1, format!("the trace is empty: begin with `{HEADER}`"))),
    }
    let mut frames: Vec<Frame> = Vec::new();
    for (n, line) in lines {
        let frame = frame(line).map_err(|e| (n, e))?;
        if frames.last().is_some_and(|last| last.at >= frame.at) {
            return Err((n, "a frame must be later than the one before it".into()));
        }
        frames.push(frame);
    }
    let (Some(first), Some(last)) = (frames.first(), frames.last()) else {
        return Err((1, "the trace has no frame".into()));
    };
    if frames.len() < 2 {
        return Err((
            1,
            "the trace has one frame: two at least give a rate".into(),
        ));
    }
    let span = Duration::from_nanos(last.at.as_nanos() - first.at.as_nanos());
    let period = last.at + span / (frames.len() as u64 - 1);
    Ok((frames, period))
}

fn frame(line: &str) -> Result<Frame, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [at, kind, bytes] = fields[..] else {
        return Err(format!("`{line}` should have three fields: {HEADER}"));
    };
    let ms: f64 = at
        .parse()
        .ok()
        .filter(|ms| (0.0..=86_400_000.0).contains(ms))
        .ok_or_else(|| format!("`{at}` should be a time in ms, from 0 to one day"))?;
    let kind = match kind.as_bytes() {
        [c @ (b'I' | b'P' | b'B' | b'A')] => char::from(*c),
        _ => {
            return Err(format!(
                "`{kind}` should be I, P or B for video, A for audio"
            ));
        }
    };
    let bytes = bytes
        .parse()
        .ok()
        .filter(|b| (1..=LARGEST).contains(b))
        .ok_or_else(|| format!("`{bytes}` should be a size in bytes, from 1 to {LARGEST}"))?;
    Ok(Frame {
        at: Duration::from_nanos((ms * 1e6).round() as u64),
        bytes: Bytes::new(bytes),
        kind,
    })
}

/// Mean rate of the frames in bit/s.
pub(crate) fn mean_bps(frames: &[Frame], period: Duration) -> f64 {
    let bytes: u64 = frames.iter().map(|f| f.bytes.get()).sum();
    bytes as f64 * 8.0 / period.as_secs_f64()
}

/// Sizes scaled so that the mean becomes `bps`. The remainder is carried on, so that the sum is
/// right; no frame is smaller than one byte.
pub(crate) fn scale(frames: &mut [Frame], period: Duration, bps: f64) {
    let factor = bps / mean_bps(frames, period);
    let (mut exact, mut given) = (0.0, 0u64);
    for frame in frames {
        exact += frame.bytes.get() as f64 * factor;
        let bytes = (exact.round() as u64).saturating_sub(given).max(1);
        given += bytes;
        frame.bytes = Bytes::new(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_frame_lasts_as_long_as_the_others() {
        let (frames, period) =
            parse("# c\ntime_ms,kind,bytes\n0,I,100\n40,P,50\n80,B,50\n").unwrap();
        assert_eq!(frames.len(), 3);
        assert_eq!(period, Duration::from_millis(120));
        assert!((mean_bps(&frames, period) - 200.0 * 8.0 / 0.12).abs() < 1e-9);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line) in [
            ("", 1),
            ("t,b\n", 1),
            ("time_ms,kind,bytes\n0,I,1\n0,P,1\n", 3),
            ("time_ms,kind,bytes\n0,I,1\n\n1,X,1\n", 4),
            ("time_ms,kind,bytes\n0,I,0\n", 2),
            ("time_ms,kind,bytes\n-1,I,9\n", 2),
            ("time_ms,kind,bytes\n1,I\n", 2),
        ] {
            assert_eq!(parse(text).unwrap_err().0, line, "{text}");
        }
    }

    #[test]
    fn scaling_keeps_the_sum() {
        let (mut frames, period) =
            parse("time_ms,kind,bytes\n0,I,100\n10,P,33\n20,B,33\n").unwrap();
        scale(&mut frames, period, 66_666.6);
        let sum: u64 = frames.iter().map(|f| f.bytes.get()).sum();
        assert_eq!(sum, 250);
    }
}
