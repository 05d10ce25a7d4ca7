// SPDX-License-Identifier: MIT OR Apache-2.0
//! A camera with an encoder: plays a clip of VP8 in three temporal layers as if it were live, and goes on at a keyframe where one is asked for.

use std::error::Error;
use std::fs;

use bytes::Bytes;

/// The clip, played in a loop.
pub struct Camera {
    clip: Vec<Bytes>,
    next: usize,
    /// Frames since the last keyframe: the layers repeat after four of them (0, 2, 1, 2).
    since: usize,
    /// Numbers of the latest frames of layers 0 and 1.
    base: u32,
    middle: u32,
    number: u32,
    /// Number of the latest keyframe, or of the one that was asked for.
    keyframe: u32,
}

/// A frame of the camera.
pub struct Picture {
    /// Frames before it.
    pub number: u32,
    /// Frame that it refers to; its own number: a keyframe.
    pub refers_to: u32,
    /// Temporal layer, 0 to 2.
    pub layer: u8,
    /// The frame as the encoder made it.
    pub data: Bytes,
}

impl Camera {
    /// Plays an IVF file: 32 bytes of header, then each frame with its length in 4 bytes and its time in 8, little endian.
    ///
    /// # Errors
    /// The file cannot be read, or is no IVF file of VP8 that begins with a keyframe.
    pub fn open(file: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut bytes = Bytes::from(fs::read(file)?);
        let wrong =
            || format!("{file} is no IVF file of VP8: make one with ffmpeg -c:v libvpx out.ivf");
        if bytes.len() < 32 || &bytes[..4] != b"DKIF" || &bytes[8..12] != b"VP80" {
            return Err(wrong().into());
        }
        let mut rest = bytes.split_off(32);
        let mut clip = Vec::new();
        while rest.len() > 12 {
            let length = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
            rest = rest.split_off(12);
            if length == 0 || length > rest.len() {
                return Err(wrong().into());
            }
            clip.push(rest.split_to(length));
        }
        if !clip.first().is_some_and(is_keyframe) {
            return Err(wrong().into());
        }
        Ok(Self {
            clip,
            next: 0,
            since: 0,
            base: 0,
            middle: 0,
            number: 0,
            keyframe: 0,
        })
    }

    /// The next frame.
    pub fn shoot(&mut self) -> Picture {
        let data = self.clip[self.next].clone();
        self.next = (self.next + 1) % self.clip.len();
        let number = self.number;
        self.number += 1;
        let is_keyframe = is_keyframe(&data);
        self.since = if is_keyframe { 0 } else { self.since + 1 };
        let (layer, refers_to) = match self.since % 4 {
            _ if is_keyframe => (0, number),
            0 => (0, self.base),
            1 => (2, self.base),
            2 => (1, self.base),
            _ => (2, self.middle),
        };
        match layer {
            0 => (self.base, self.middle) = (number, number),
            1 => self.middle = number,
            _ => {}
        }
        if is_keyframe {
            self.keyframe = number;
        }
        Picture {
            number,
            refers_to,
            layer,
            data,
        }
    }

    /// The next frame is a keyframe, unless there is one newer than the frame `lost`; whether it is.
    pub fn refresh(&mut self, lost: u32) -> bool {
        if self.keyframe > lost {
            return false;
        }
        let after = self.clip[self.next..].iter().position(is_keyframe);
        self.next = after.map_or(0, |after| self.next + after);
        self.keyframe = self.number;
        true
    }
}

/// RFC 6386 §9.1: bit 0 of a frame is 0 in a keyframe.
fn is_keyframe(frame: &Bytes) -> bool {
    frame[0] & 1 == 0
}
