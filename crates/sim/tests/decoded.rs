// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that a report counts as shown, beside the pictures that ffmpeg decodes from the packets that arrived: H.264 of x264, whose
//! frames have their sizes and dependencies in the simulation.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use makeway_report::model::Freezes;
use makeway_scenario::departures::Units;
use makeway_scenario::model::{Scenario, Source};
use makeway_sim::trace::{Recorder, Taps};
use makeway_sim::{Options, run_traced};
use makeway_testing::skip;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, PcapBlockOwned, PcapNGSlice};

/// A picture each 40 ms, and as many as a run has; of each GROUP the first is a keyframe.
const PERIOD: u64 = 40 * MS;
const PICTURES: usize = 250;
const GROUP: usize = 25;
const MS: u64 = 1_000_000;
/// From when to when frames are measured, and their deadline.
const FROM: u64 = 1000 * MS;
const TO: u64 = 10_000 * MS;
const DEADLINE: u64 = 200 * MS;
/// The shortest freeze (W3C, "Identifiers for WebRTC's Statistics API", `freezeCount`).
const FREEZE: u64 = PERIOD + 150 * MS;
/// Headers of a packet in the scenario, and where the time of its frame is: behind those of IPv4 and UDP, in that of RTP.
const HEADERS: u64 = 36;
const TIMESTAMP: usize = 20 + 8 + 4;
/// RTP's clock in a period.
const TICKS: u32 = 3600;
/// Time zero of a capture (2000-01-01), in ns.
const EPOCH: u64 = 946_684_800_000_000_000;

/// A sender of 400 kbit/s for a video of 500, then a link that loses; packets are captured behind both.
const CALL: &str = r#"duration = "10s"
warmup = "1s"
seed = 7
[node.phone]
[node.router]
[node.friend]
[link.line]
between = ["phone", "router"]
rate = "2mbit"
delay = "40ms"
loss = [0.004, 0.0]
queue = { at = "phone", discipline = "fifo", limit = "100 packets" }
[link.tail]
between = ["router", "friend"]
[flow.call]
kind = "media"
from = "phone"
to = "friend"
rate = "400kbit"
queue = "128 packets"
deadline = "200ms"
one_way = "50ms"
headers = "36B"
video = { period = "40ms", largest = "1200B", trace = "decoded.csv" }
"#;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Output of a program; `None`, with a sentence, where it or its encoder is not installed.
fn run(program: &str, arguments: &str, file: &Path) -> Option<Vec<u8>> {
    let file = file.to_str().unwrap();
    let arguments = arguments.split_whitespace();
    let arguments = arguments.map(|word| if word == "FILE" { file } else { word });
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => Some(output.stdout),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("Unknown encoder"), "{program}: {said}");
            skip(format!("{}: install the package ffmpeg", said.trim()));
            None
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip(format!("{program}: {error}: install the package ffmpeg"));
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Digests of the pictures that ffmpeg decodes of a stream.
fn decode(stream: &[u8]) -> Option<Vec<String>> {
    let file = folder().join("decoded.h264");
    std::fs::write(&file, stream).unwrap();
    let pictures = run(
        "ffmpeg",
        "-hide_banner -nostdin -loglevel error -threads 1 -f h264 -i FILE -fps_mode passthrough -f framemd5 -",
        &file,
    )?;
    // A row: stream, dts, pts, duration, size, digest.
    let text = String::from_utf8(pictures).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let digests = rows.filter_map(|row| row.split(',').nth(5));
    Some(digests.map(|digest| digest.trim().to_owned()).collect())
}

/// Coded frames of a video of which no two pictures are equal.
struct Clip {
    frames: Vec<Vec<u8>>,
    /// Places of the decoded pictures by their digests.
    pictures: HashMap<String, usize>,
}

impl Clip {
    /// A clip, whose trace is written where [`CALL`] reads it.
    fn make() -> Option<Self> {
        let file = folder().join("clip.h264");
        run(
            "ffmpeg",
            "-hide_banner -nostdin -loglevel error -y -threads 1 -f lavfi \
             -i testsrc2=size=320x240:rate=25,noise=alls=8:allf=t:all_seed=1 -frames:v 250 \
             -c:v libx264 -preset veryfast -tune zerolatency -threads 1 -b:v 500k -maxrate 500k -bufsize 80k -g 25 \
             -x264-params scenecut=0:ref=1 -f h264 FILE",
            &file,
        )?;
        let packets = "-v error -show_entries packet=size,flags -of csv=p=0 FILE";
        let packets = String::from_utf8(run("ffprobe", packets, &file)?).unwrap();
        let stream = std::fs::read(&file).unwrap();
        let (mut rest, mut frames) = (&stream[..], Vec::new());
        let mut trace = String::from("time_ms,kind,bytes\n");
        for (n, packet) in packets.split_whitespace().enumerate() {
            let (size, flags) = packet.split_once(',').unwrap();
            let (frame, after) = rest.split_at(size.parse().unwrap());
            let is_key = flags.starts_with('K');
            assert_eq!(is_key, n % GROUP == 0, "{n}: {flags}");
            let kind = if is_key { 'I' } else { 'P' };
            trace += &format!("{},{kind},{size}\n", 40 * n);
            frames.push(frame.to_vec());
            rest = after;
        }
        assert_eq!((frames.len(), rest.len()), (PICTURES, 0));
        std::fs::write(folder().join("decoded.csv"), trace).unwrap();
        let pictures: HashMap<_, _> = decode(&stream)?.into_iter().zip(0..).collect();
        assert_eq!(pictures.len(), PICTURES, "each picture is another");
        Some(Self { frames, pictures })
    }

    /// The place in the clip at which the video of a run begins.
    fn begin(&self, scenario: &Scenario) -> usize {
        let Source::Media(media) = &scenario.flows[0].source else {
            panic!("no media");
        };
        let mut made = vec![0; PICTURES];
        for unit in Units::new(media, scenario.seed, 0) {
            match made.get_mut(unit.frame as usize) {
                Some(bytes) => *bytes += unit.bytes as usize,
                None => break,
            }
        }
        let begins = |at: &usize| {
            let mut sizes = made.iter().zip(*at..);
            sizes.all(|(bytes, place)| *bytes == self.frame(place).len())
        };
        (0..PICTURES).find(begins).unwrap()
    }

    /// The frame at a place of the repeated clip.
    fn frame(&self, place: usize) -> &[u8] {
        &self.frames[place % PICTURES]
    }
}

/// A file that the test can look into.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes of each frame that arrived, and the time of the last of them.
fn arrived(capture: &[u8]) -> BTreeMap<usize, (u64, u64)> {
    let mut frames = BTreeMap::new();
    for block in PcapNGSlice::from_slice(capture).unwrap() {
        let PcapBlockOwned::NG(Block::EnhancedPacket(block)) = block.unwrap() else {
            continue;
        };
        let timestamp = &block.packet_data()[TIMESTAMP..][..4];
        let timestamp = u32::from_be_bytes(timestamp.try_into().unwrap());
        let at = (u64::from(block.ts_high) << 32 | u64::from(block.ts_low)) - EPOCH;
        let frame: &mut (u64, u64) = frames.entry((timestamp / TICKS) as usize).or_default();
        *frame = (frame.0 + u64::from(block.origlen) - HEADERS, at);
    }
    frames
}

/// A run: what its report says, and what ffmpeg shows.
struct Run {
    told: Freezes,
    seen: Freezes,
    /// Frames that arrived whole, and those of them that were decoded as they were coded.
    whole: usize,
    decoded: usize,
}

fn run_call(clip: &Clip, policy: &str, has_frames: bool) -> Option<Run> {
    let set = [
        format!("flow.call.policy={policy}"),
        format!("flow.call.whole_frames={has_frames}"),
    ];
    let scenario = makeway_scenario::parse(CALL, "call.toml", folder(), &set).unwrap();
    let (mut recorder, file) = (Recorder::new(&scenario), Shared::default());
    let taps = Taps::find(&scenario, "tail:router").unwrap();
    let out = Box::new(file.clone());
    recorder.pcapng(&scenario, &taps, "test", out).unwrap();
    let outcome = run_traced(&scenario, &Options::default(), recorder, |_| {}).unwrap();
    let told = outcome.report.flows[0].media.as_ref().unwrap().classes[0].freezes;

    let begin = clip.begin(&scenario);
    let arrived = arrived(&file.0.lock().unwrap());
    let is_whole =
        |(n, (bytes, _)): &(&usize, &(u64, u64))| *bytes == clip.frame(begin + **n).len() as u64;
    let whole: Vec<_> = arrived.iter().filter(is_whole).collect();
    let stream = whole.iter().flat_map(|(n, _)| clip.frame(begin + **n));
    let pictures = decode(&stream.copied().collect::<Vec<u8>>())?;
    let places = pictures
        .iter()
        .filter_map(|digest| clip.pictures.get(digest));
    let decoded: HashSet<usize> = places.copied().collect();

    // When each picture can be shown: after the frames from its keyframe on.
    let (mut ready, mut shown) = (0_u64, Vec::new());
    for (n, (_, at)) in &whole {
        let place = (begin + **n) % PICTURES;
        ready = if place.is_multiple_of(GROUP) {
            *at
        } else {
            ready.max(*at)
        };
        let created = **n as u64 * PERIOD;
        if decoded.contains(&place) && created >= FROM && ready <= created + DEADLINE {
            shown.push(ready);
        }
    }
    let mut seen = Freezes {
        made: (TO - FROM) / PERIOD,
        frames: shown.len() as u64,
        ..Freezes::default()
    };
    shown.push(TO);
    shown.sort_unstable();
    let mut last = FROM;
    let mut frozen = 0_u64;
    for at in shown {
        let gap = at.saturating_sub(last);
        if gap >= FREEZE {
            seen.count += 1;
            frozen += gap;
        }
        last = last.max(at);
    }
    seen.seconds = frozen as f64 / 1e9;
    let run = Run {
        told: told.unwrap(),
        seen,
        whole: whole.len(),
        decoded: decoded.len(),
    };
    println!(
        "{policy}, frames {has_frames}: {:?}, {} whole, {} decoded",
        run.told, run.whole, run.decoded
    );
    Some(run)
}

/// The report has as many frames shown and as long freezes as ffmpeg's pictures of the frames that arrive, with the sender's knowledge of
/// frames and without.
#[test]
fn what_a_report_counts_as_shown_is_what_ffmpeg_decodes() {
    let Some(clip) = Clip::make() else {
        return;
    };
    let mut runs = Vec::new();
    for (policy, has_frames) in [
        ("sbpn2", true),
        ("sbpn2", false),
        ("weighted", true),
        ("late-last", true),
        ("fifo", false),
    ] {
        let Some(run) = run_call(&clip, policy, has_frames) else {
            return;
        };
        assert_eq!(run.told, run.seen, "{policy}, frames {has_frames}");
        runs.push(run);
    }
    let [with, without, ..] = &runs[..] else {
        unreachable!();
    };
    // Frames that arrive whole, and cannot be decoded.
    assert!(without.decoded < without.whole);
    // An encoder of 500 kbit/s and a sender of 400: a frame that is refused as a whole, with those after it, leaves time for the next
    // keyframe.
    assert!(with.told.frames > 2 * without.told.frames);
    assert!(with.told.seconds < without.told.seconds);
}
