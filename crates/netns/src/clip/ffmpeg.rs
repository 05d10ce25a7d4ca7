// SPDX-License-Identifier: MIT OR Apache-2.0
//! ffmpeg as a child process: the clip's encoder and its decoder.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use makeway_core::units::Duration;

use super::{FRAME_RATE, MediaError};

/// Layer II at 48 kHz and 64 kbit/s: 1152 samples in 192 bytes, each 24 ms (ISO 11172-3).
const AUDIO_FRAME: usize = 192;

/// A found ffmpeg, with a folder that goes when this value does.
#[derive(Debug)]
pub(super) struct Ffmpeg {
    folder: tempfile::TempDir,
}

/// Output of the decoder.
#[derive(Debug)]
pub(super) struct Decoded {
    /// Digest of each decoded picture by its place in display order.
    pub(super) md5: BTreeMap<u32, String>,
    /// Errors reported.
    pub(super) errors: u32,
}

impl Ffmpeg {
    pub(super) fn new() -> Result<Self, MediaError> {
        Command::new("ffmpeg")
            .arg("-version")
            .stdout(Stdio::null())
            .status()
            .map_err(MediaError::NoFfmpeg)?;
        let folder = tempfile::tempdir().map_err(|source| MediaError::File {
            path: std::env::temp_dir(),
            source,
        })?;
        Ok(Self { folder })
    }

    /// An MPEG-2 elementary stream: a zoom with a moving clock on it, VBV-bounded, short slices.
    pub(super) fn encode_video(&self, length: Duration) -> Result<Vec<u8>, MediaError> {
        let seconds = length.as_secs_f64().to_string();
        let background = format!(
            "mandelbrot=size=720x576:rate={FRAME_RATE}:start_scale=1.5:end_scale=0.0001:end_pts=400"
        );
        let clock = format!("testsrc2=size=240x180:rate={FRAME_RATE}");
        let overlay = "[0:v][1:v]overlay=x='240+200*sin(t*1.3)':y='190+150*cos(t)'";
        self.encode(
            "encode the video",
            "clip.m2v",
            &[
                "-f",
                "lavfi",
                "-i",
                &background,
                "-f",
                "lavfi",
                "-i",
                &clock,
                "-filter_complex",
                overlay,
                "-t",
                &seconds,
                "-threads",
                "1",
                "-c:v",
                "mpeg2video",
                "-b:v",
                "5M",
                "-maxrate",
                "6M",
                "-bufsize",
                "600k",
                "-g",
                "12",
                "-bf",
                "2",
                "-ps",
                "1200",
                "-f",
                "mpeg2video",
            ],
        )
    }

    /// Layer II frames as RTP payloads.
    pub(super) fn encode_audio(&self, length: Duration) -> Result<Vec<Vec<u8>>, MediaError> {
        let seconds = length.as_secs_f64().to_string();
        let stream = self.encode(
            "encode the audio",
            "clip.mp2",
            &[
                "-f",
                "lavfi",
                "-i",
                "sine=frequency=440:beep_factor=4:sample_rate=48000",
                "-t",
                &seconds,
                "-c:a",
                "mp2",
                "-b:a",
                "64k",
                "-ac",
                "1",
                "-f",
                "mp2",
            ],
        )?;
        // RFC 2250 section 3.5: four bytes of zero before a frame that is not fragmented.
        Ok(stream
            .chunks(AUDIO_FRAME)
            .map(|frame| [&[0; 4], frame].concat())
            .collect())
    }

    /// Decodes pictures given with their place in display order.
    pub(super) fn decode(&self, pictures: &[(u32, Vec<u8>)]) -> Result<Decoded, MediaError> {
        if pictures.iter().all(|(_, data)| data.is_empty()) {
            return Ok(Decoded {
                md5: BTreeMap::new(),
                errors: 0,
            });
        }
        let input = self.write_ivf(pictures)?;
        let output = run(
            "decode the video",
            Command::new("ffmpeg")
                .args([
                    "-hide_banner",
                    "-nostdin",
                    "-loglevel",
                    "repeat+error",
                    "-threads",
                    "1",
                    "-i",
                ])
                .arg(&input)
                .args(["-copyts", "-fps_mode", "passthrough", "-f", "framemd5", "-"]),
        )?;
        // A row: stream, dts, pts, duration, size, digest.
        let md5 = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| {
                let columns: Vec<_> = line.split(',').map(str::trim).collect();
                Some((columns.get(2)?.parse().ok()?, (*columns.get(5)?).to_owned()))
            })
            .collect();
        Ok(Decoded {
            md5,
            errors: String::from_utf8_lossy(&output.stderr).lines().count() as u32,
        })
    }

    /// The given pictures as JPEG, after decoding the whole.
    pub(super) fn stills(
        &self,
        pictures: &[(u32, Vec<u8>)],
        wanted: &[u32],
    ) -> Result<BTreeMap<u32, Vec<u8>>, MediaError> {
        if wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        let input = self.write_ivf(pictures)?;
        let mut places = wanted.to_vec();
        places.sort_unstable();
        places.dedup();
        let select: Vec<_> = places.iter().map(|n| format!("eq(pts\\,{n})")).collect();
        let pattern = self.folder.path().join("still-%d.jpg");
        run(
            "extract stills",
            Command::new("ffmpeg")
                .args([
                    "-hide_banner",
                    "-nostdin",
                    "-loglevel",
                    "error",
                    "-y",
                    "-threads",
                    "1",
                    "-i",
                ])
                .arg(&input)
                .args(["-vf", &format!("select={}", select.join("+"))])
                .args([
                    "-copyts",
                    "-fps_mode",
                    "passthrough",
                    "-q:v",
                    "4",
                    "-f",
                    "image2",
                ])
                .arg(&pattern),
        )?;
        let mut stills = BTreeMap::new();
        for (index, place) in places.into_iter().enumerate() {
            let path = self.folder.path().join(format!("still-{}.jpg", index + 1));
            stills.insert(place, read(&path)?);
            fs::remove_file(&path).map_err(|source| MediaError::File { path, source })?;
        }
        Ok(stills)
    }

    fn encode(
        &self,
        doing: &'static str,
        name: &str,
        args: &[&str],
    ) -> Result<Vec<u8>, MediaError> {
        let path = self.folder.path().join(name);
        run(
            doing,
            Command::new("ffmpeg")
                .args(["-hide_banner", "-nostdin", "-loglevel", "error", "-y"])
                .args(args)
                .arg(&path),
        )?;
        read(&path)
    }

    /// IVF: the one container in which a picture's time stamp stands beside it, for any loss.
    fn write_ivf(&self, pictures: &[(u32, Vec<u8>)]) -> Result<PathBuf, MediaError> {
        let mut ivf = Vec::new();
        ivf.extend(b"DKIF\0\0\x20\0mpg2");
        ivf.extend(720_u16.to_le_bytes());
        ivf.extend(576_u16.to_le_bytes());
        ivf.extend((FRAME_RATE as u32).to_le_bytes());
        ivf.extend(1_u32.to_le_bytes());
        ivf.extend((pictures.len() as u32).to_le_bytes());
        ivf.extend([0; 4]);
        for (display, data) in pictures.iter().filter(|(_, data)| !data.is_empty()) {
            ivf.extend((data.len() as u32).to_le_bytes());
            ivf.extend(u64::from(*display).to_le_bytes());
            ivf.extend(data);
        }
        let path = self.folder.path().join("received.ivf");
        fs::File::create(&path)
            .and_then(|mut file| file.write_all(&ivf))
            .map_err(|source| MediaError::File {
                path: path.clone(),
                source,
            })?;
        Ok(path)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, MediaError> {
    fs::read(path).map_err(|source| MediaError::File {
        path: path.to_owned(),
        source,
    })
}

fn run(doing: &'static str, command: &mut Command) -> Result<Output, MediaError> {
    let output = command.output().map_err(MediaError::NoFfmpeg)?;
    if output.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let tail: Vec<_> = stderr.lines().rev().take(3).collect();
    Err(MediaError::Ffmpeg {
        doing,
        stderr: tail.join("; "),
    })
}
