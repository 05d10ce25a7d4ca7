// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of cases: each a link with a call and other traffic, as a scenario.

use std::fmt::Write;

use clap::ValueEnum;

use super::mobile::Mobile;

/// Use of a case while the first rules and constants of `makeway` were chosen; later ones were chosen on all cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Half {
    /// Rules and constants were chosen on it, or repaired after a look at it, with replications up to 60.
    Tuned,
    /// First run after the first rules were chosen, with replications from 101 on.
    Judged,
}

impl Half {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tuned => "tuned",
            Self::Judged => "judged",
        }
    }
}

/// One case. All but the uplink's begin at a server and end at a client behind `router`, which has the discipline.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// For `--case` and the tables.
    pub name: &'static str,
    pub half: Half,
    /// Link rate in Mbit/s.
    pub(super) rate: f64,
    /// RTT of the downloads in ms. The stream's is 40 ms at most.
    pub(super) rtt: f64,
    /// Buffer in packets.
    pub(super) limit: u32,
    pub(super) downloads: u32,
    /// Between the starts of two downloads, ms.
    pub(super) stagger: u32,
    pub(super) congestion_control: &'static str,
    pub(super) ecn: bool,
    /// Rate of each stream in Mbit/s; none if zero.
    pub(super) video: f64,
    pub(super) videos: u32,
    /// How packets of a frame are spread, as `pace` in a scenario.
    pub(super) pace: &'static str,
    /// Delay of each packet at the source, standard deviation in ms.
    pub(super) jitter: u32,
    /// Start of the stream or the call, s.
    pub(super) start: u32,
    /// Outage of the stream's access link at 10 s, ms.
    pub(super) stall: u32,
    /// From, to (s), and the link's rate meanwhile (Mbit/s).
    pub(super) dip: Option<(u32, u32, u32)>,
    /// A link whose rate changes each second, about `rate`: its kind and seed.
    pub(super) mobile: Option<(Mobile, u64)>,
    /// Instead of a stream, 60 packets/s of 100 B each way.
    pub(super) game: bool,
    /// A call whose encoder follows its sender's rate, instead of a stream: its highest rate, kbit/s.
    pub(super) follows: Option<u32>,
    /// Rate controller of that sender.
    pub(super) controller: &'static str,
    pub(super) beside: Beside,
    /// Three uploads and a stream of half the rate the other way, the discipline at both ends.
    pub(super) uplink: bool,
    /// Downloads go to another host behind the link.
    pub(super) users: bool,
    /// Whole run and warm-up, s.
    pub(super) duration: u32,
    pub(super) warmup: u32,
}

/// Traffic beside downloads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Beside {
    Nothing,
    /// UDP that ignores loss, from 15 s on, Mbit/s.
    Flood(u32),
    /// Thirty objects of 40 kB from this second on, each again after 4 s on average.
    Page(u32),
    /// Chunks of 1 MB.
    Dash,
    /// 200 flows of 60 B packets.
    Tiny,
    /// Two folders that are kept alike: files of 300 kB, half a second apart on average, each way.
    Files,
    /// 100 peers to one host.
    Torrent,
}

/// 10 Mbit/s, 100 packets, RTT 12 ms; a 5 Mbit/s stream, ten downloads.
const BASE: Case = Case {
    name: "",
    half: Half::Tuned,
    rate: 10.0,
    rtt: 12.0,
    limit: 100,
    downloads: 10,
    stagger: 20,
    congestion_control: "cubic",
    ecn: false,
    video: 5.0,
    videos: 1,
    pace: "480ms",
    jitter: 0,
    start: 0,
    stall: 0,
    dip: None,
    mobile: None,
    game: false,
    follows: None,
    controller: "tfrc",
    beside: Beside::Nothing,
    uplink: false,
    users: false,
    duration: 40,
    warmup: 4,
};

/// As [`BASE`], for rates, delays, buffers and traffic that differ more.
pub(super) const WIDE: Case = Case {
    duration: 30,
    ..BASE
};

/// Only downloads, and the audio.
const BULK: Case = Case {
    video: 0.0,
    duration: 15,
    warmup: 3,
    ..BASE
};

/// All cases, one a line.
#[rustfmt::skip]
pub const CASES: &[Case] = {
    use Beside::{Dash, Files, Flood, Page, Tiny, Torrent};
    use Half::{Judged, Tuned};
    use Mobile::{Fade, Handover, Shade, Walk};
    &[
        Case { name: "n1", half: Tuned, downloads: 1, ..BASE },
        Case { name: "n10", half: Tuned, ..BASE },
        Case { name: "n20", half: Tuned, downloads: 20, ..BASE },
        Case { name: "n40", half: Tuned, downloads: 40, ..BASE },
        Case { name: "n100", half: Tuned, downloads: 100, ..BASE },
        Case { name: "b50n20", half: Tuned, downloads: 20, limit: 50, ..BASE },
        Case { name: "frame", half: Tuned, pace: "frame", ..BASE },
        Case { name: "burst", half: Tuned, pace: "burst", ..BASE },
        Case { name: "jitter", half: Tuned, jitter: 5, ..BASE },
        Case { name: "stall40", half: Tuned, stall: 40, ..BASE },
        Case { name: "stall200", half: Tuned, stall: 200, ..BASE },
        Case { name: "dip", half: Tuned, dip: Some((15, 17, 4)), ..BASE },
        Case { name: "flood6", half: Tuned, beside: Flood(6), ..BASE },
        Case { name: "flood20", half: Tuned, beside: Flood(20), ..BASE },
        Case { name: "pages", half: Tuned, beside: Page(8), ..BASE },
        Case { name: "late", half: Tuned, start: 12, ..BASE },
        Case { name: "reno", half: Tuned, congestion_control: "reno", ..BASE },
        Case { name: "two", half: Tuned, video: 3.0, videos: 2, ..BASE },
        Case { name: "w1m", half: Tuned, rate: 1.0, video: 0.4, downloads: 4, limit: 50, rtt: 30.0, ..WIDE },
        Case { name: "w2m", half: Tuned, rate: 2.0, video: 1.0, rtt: 40.0, ..WIDE },
        Case { name: "w4m", half: Tuned, rate: 4.0, video: 2.0, downloads: 4, limit: 200, rtt: 20.0, pace: "frame", ..WIDE },
        Case { name: "w6m", half: Tuned, rate: 6.0, video: 4.0, downloads: 2, rtt: 30.0, ..WIDE },
        Case { name: "w20m", half: Tuned, rate: 20.0, limit: 200, rtt: 50.0, pace: "frame", ..WIDE },
        Case { name: "w50m", half: Tuned, rate: 50.0, downloads: 20, limit: 500, rtt: 30.0, ..WIDE },
        Case { name: "w100m", half: Tuned, rate: 100.0, limit: 1000, rtt: 20.0, duration: 15, ..WIDE },
        Case { name: "w100mr", half: Tuned, rate: 100.0, downloads: 4, limit: 1000, rtt: 100.0, congestion_control: "reno", warmup: 10, ..WIDE },
        Case { name: "w200ms", half: Tuned, rtt: 200.0, limit: 200, ..WIDE },
        Case { name: "w200n1", half: Tuned, rtt: 200.0, limit: 200, downloads: 1, ..WIDE },
        Case { name: "w5ms", half: Tuned, rtt: 5.0, downloads: 4, ..WIDE },
        Case { name: "w50n2", half: Tuned, rtt: 80.0, downloads: 2, limit: 50, congestion_control: "reno", ..WIDE },
        Case { name: "w1000", half: Tuned, limit: 1000, rtt: 40.0, pace: "frame", ..WIDE },
        Case { name: "w1000n1", half: Tuned, limit: 1000, downloads: 1, rtt: 40.0, ..WIDE },
        Case { name: "w3v20", half: Tuned, rate: 20.0, videos: 3, downloads: 6, rtt: 30.0, limit: 200, pace: "frame", ..WIDE },
        Case { name: "w2v12", half: Tuned, rate: 12.0, videos: 2, video: 4.5, downloads: 5, rtt: 30.0, pace: "frame", ..WIDE },
        Case { name: "w8of10", half: Tuned, video: 8.0, downloads: 5, rtt: 30.0, ..WIDE },
        Case { name: "w7of10", half: Tuned, video: 7.0, downloads: 12, rtt: 30.0, pace: "frame", ..WIDE },
        Case { name: "n2", half: Tuned, downloads: 2, ..WIDE },
        Case { name: "n3late", half: Tuned, downloads: 3, start: 8, ..WIDE },
        Case { name: "latefr", half: Tuned, start: 8, pace: "frame", rtt: 40.0, ..WIDE },
        Case { name: "n2dip", half: Tuned, downloads: 2, dip: Some((15, 17, 3)), ..WIDE },
        Case { name: "n1dip", half: Tuned, downloads: 1, dip: Some((15, 18, 4)), ..WIDE },
        Case { name: "longdip", half: Tuned, downloads: 6, dip: Some((10, 20, 2)), duration: 40, ..WIDE },
        Case { name: "stall1s", half: Tuned, stall: 1000, ..WIDE },
        Case { name: "flood12", half: Tuned, downloads: 6, rate: 25.0, video: 9.0, beside: Flood(12), limit: 200, rtt: 30.0, ..WIDE },
        Case { name: "flood4", half: Tuned, downloads: 6, beside: Flood(4), rtt: 30.0, ..WIDE },
        Case { name: "users", half: Tuned, users: true, ..WIDE },
        Case { name: "users4", half: Tuned, users: true, downloads: 4, rtt: 60.0, pace: "frame", ..WIDE },
        Case { name: "acks5m", half: Tuned, uplink: true, downloads: 6, rate: 5.0, video: 2.0, rtt: 20.0, ..WIDE },
        Case { name: "acks10m", half: Tuned, uplink: true, downloads: 3, rtt: 40.0, ..WIDE },
        Case { name: "tcp4", half: Tuned, downloads: 4, rtt: 5.0, warmup: 2, ..BULK },
        Case { name: "tcp4r", half: Tuned, downloads: 4, rtt: 100.0, congestion_control: "reno", ..BULK },
        Case { name: "tcp12", half: Tuned, downloads: 12, rtt: 20.0, warmup: 2, ..BULK },
        Case { name: "tcp12b", half: Tuned, downloads: 12, rtt: 100.0, limit: 200, ..BULK },
        Case { name: "ecn", half: Tuned, downloads: 6, ecn: true, rtt: 30.0, ..WIDE },
        Case { name: "ecn12", half: Tuned, downloads: 12, ecn: true, rtt: 50.0, pace: "frame", ..WIDE },
        Case { name: "voice200", half: Tuned, downloads: 2, beside: Tiny, video: 0.0, ..WIDE },
        Case { name: "call2m", half: Tuned, rate: 2.0, rtt: 40.0, follows: Some(1700), ..WIDE },
        Case { name: "call4m", half: Tuned, rate: 4.0, downloads: 4, rtt: 40.0, follows: Some(1700), ..WIDE },
        Case { name: "call10m", half: Tuned, rtt: 60.0, follows: Some(2500), ..WIDE },
        Case { name: "callpage", half: Tuned, downloads: 0, rtt: 50.0, follows: Some(2500), beside: Page(10), ..WIDE },
        Case { name: "calls2m", half: Tuned, rate: 2.0, rtt: 40.0, follows: Some(1700), start: 8, duration: 40, ..WIDE },
        Case { name: "calls4m", half: Tuned, rate: 4.0, downloads: 4, rtt: 40.0, follows: Some(1700), start: 8, duration: 40, ..WIDE },
        Case { name: "dash", half: Tuned, downloads: 6, beside: Dash, ..WIDE },
        Case { name: "apart", half: Tuned, stagger: 1000, duration: 30, ..BASE },
        Case { name: "walkt", half: Tuned, mobile: Some((Walk, 1)), video: 2.0, downloads: 4, rtt: 50.0, pace: "frame", ..WIDE },
        // The grid: rates, RTTs of 5 to 200 ms, buffers of 50 to 1000 packets.
        Case { name: "g1a", half: Judged, rate: 1.0, video: 0.4, downloads: 2, rtt: 60.0, limit: 50, ..WIDE },
        Case { name: "g1b", half: Judged, rate: 1.0, video: 0.3, downloads: 10, rtt: 20.0, limit: 100, pace: "frame", ..WIDE },
        Case { name: "g2a", half: Judged, rate: 2.0, video: 0.8, downloads: 1, rtt: 5.0, limit: 50, pace: "frame", ..WIDE },
        Case { name: "g2b", half: Judged, rate: 2.0, video: 1.2, downloads: 20, rtt: 100.0, limit: 200, ..WIDE },
        Case { name: "g4a", half: Judged, rate: 4.0, video: 2.5, downloads: 7, rtt: 10.0, limit: 50, ..WIDE },
        Case { name: "g4b", half: Judged, rate: 4.0, video: 1.5, downloads: 3, rtt: 200.0, limit: 1000, pace: "frame", ..WIDE },
        Case { name: "g20a", half: Judged, rate: 20.0, video: 5.0, downloads: 30, rtt: 5.0, limit: 100, pace: "frame", ..WIDE },
        Case { name: "g20b", half: Judged, rate: 20.0, video: 12.0, downloads: 5, rtt: 120.0, limit: 500, ..WIDE },
        Case { name: "g50a", half: Judged, rate: 50.0, video: 8.0, downloads: 3, rtt: 15.0, limit: 200, pace: "burst", ..WIDE },
        Case { name: "g50b", half: Judged, rate: 50.0, video: 5.0, downloads: 60, rtt: 70.0, limit: 1000, congestion_control: "reno", duration: 20, ..WIDE },
        Case { name: "g100a", half: Judged, rate: 100.0, video: 20.0, downloads: 8, rtt: 5.0, limit: 300, duration: 15, ..WIDE },
        Case { name: "g100b", half: Judged, rate: 100.0, video: 5.0, downloads: 2, rtt: 40.0, limit: 1000, pace: "frame", duration: 20, ..WIDE },
        Case { name: "late3", half: Judged, downloads: 9, stagger: 1700, start: 5, rtt: 35.0, pace: "frame", ..WIDE },
        Case { name: "jitter12", half: Judged, jitter: 12, downloads: 5, rtt: 25.0, video: 3.0, ..WIDE },
        Case { name: "stall500", half: Judged, stall: 500, downloads: 8, rtt: 25.0, video: 4.0, pace: "frame", ..WIDE },
        Case { name: "dip6s", half: Judged, dip: Some((12, 18, 6)), downloads: 5, video: 4.0, rtt: 45.0, ..WIDE },
        Case { name: "users12", half: Judged, users: true, downloads: 12, rtt: 25.0, video: 3.0, pace: "frame", ..WIDE },
        Case { name: "usersup", half: Judged, users: true, downloads: 2, rtt: 80.0, video: 4.0, start: 6, ..WIDE },
        Case { name: "flood9", half: Judged, beside: Flood(9), downloads: 3, video: 3.0, rtt: 20.0, pace: "frame", ..WIDE },
        Case { name: "acks20m", half: Judged, uplink: true, downloads: 8, rate: 20.0, video: 4.0, rtt: 25.0, limit: 200, ..WIDE },
        Case { name: "walk", half: Judged, mobile: Some((Walk, 2)), video: 2.0, downloads: 3, rtt: 60.0, ..WIDE },
        Case { name: "fade", half: Judged, mobile: Some((Fade, 3)), video: 2.5, downloads: 6, rtt: 40.0, pace: "frame", ..WIDE },
        Case { name: "handover", half: Judged, mobile: Some((Handover, 4)), video: 3.0, downloads: 2, rtt: 50.0, pace: "frame", ..WIDE },
        Case { name: "shade", half: Judged, mobile: Some((Shade, 5)), rate: 20.0, video: 4.0, downloads: 4, rtt: 70.0, limit: 300, ..WIDE },
        Case { name: "ledbat", half: Judged, congestion_control: "ledbat", downloads: 5, rtt: 40.0, limit: 300, pace: "frame", ..WIDE },
        Case { name: "torrent", half: Judged, beside: Torrent, downloads: 2, rtt: 50.0, limit: 300, video: 3.0, pace: "frame", ..WIDE },
        Case { name: "game", half: Judged, game: true, video: 0.0, downloads: 6, rate: 5.0, rtt: 30.0, ..WIDE },
        Case { name: "gameup", half: Judged, game: true, video: 0.0, downloads: 3, beside: Files, rate: 2.0, rtt: 50.0, ..WIDE },
        Case { name: "files", half: Judged, beside: Files, downloads: 1, video: 4.0, rtt: 30.0, pace: "frame", ..WIDE },
        Case { name: "dash4m", half: Judged, beside: Dash, rate: 4.0, video: 1.5, downloads: 2, rtt: 35.0, pace: "frame", ..WIDE },
        Case { name: "pages20", half: Judged, beside: Page(6), rate: 20.0, video: 6.0, downloads: 5, rtt: 45.0, limit: 200, pace: "frame", ..WIDE },
        Case { name: "call8m", half: Judged, rate: 8.0, downloads: 6, rtt: 30.0, follows: Some(2000), ..WIDE },
        Case { name: "call20m", half: Judged, rate: 20.0, downloads: 4, rtt: 80.0, limit: 200, follows: Some(3000), ..WIDE },
        Case { name: "gcc2m", half: Judged, rate: 2.0, rtt: 40.0, follows: Some(1700), controller: "gcc", ..WIDE },
        Case { name: "gcc4m", half: Judged, rate: 4.0, downloads: 4, rtt: 40.0, follows: Some(1700), controller: "gcc", ..WIDE },
        Case { name: "gccs4m", half: Judged, rate: 4.0, downloads: 4, rtt: 40.0, follows: Some(1700), controller: "gcc", start: 8, duration: 40, ..WIDE },
        Case { name: "gcc10m", half: Judged, rtt: 60.0, follows: Some(2500), controller: "gcc", ..WIDE },
        Case { name: "scream4m", half: Judged, rate: 4.0, downloads: 4, rtt: 40.0, follows: Some(1700), controller: "scream", ..WIDE },
        Case { name: "ccid4m", half: Judged, rate: 4.0, downloads: 4, rtt: 40.0, follows: Some(1700), controller: "ccid2", ..WIDE },
    ]
};

impl Case {
    /// The scenario under FIFO. `call` and `video` are the flows that are judged; where there is neither, `call` is the audio.
    pub fn scenario(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.network(&mut text).and_then(|()| self.flows(&mut text));
        text
    }

    fn network(&self, to: &mut String) -> std::fmt::Result {
        let Self { rate, limit, .. } = self;
        let access = if *rate > 50.0 { "1gbit" } else { "100mbit" };
        // One millisecond of each direction is the link's.
        let web = self.rtt / 2.0 - 1.0;
        let media = if self.rtt > 60.0 { 19.0 } else { web };
        let queue = |at: &str, users: &str| {
            format!(
                "{{ at = \"{at}\", discipline = \"fifo\", limit = \"{limit} packets\"{users} }}"
            )
        };
        let mut queues = queue("router", "");
        if self.uplink || self.game {
            queues += ", ";
            queues += &queue("client", ", users = \"src-host\"");
        }
        writeln!(
            to,
            "title = \"{}\"\nduration = \"{}s\"\nwarmup = \"{}s\"",
            self.name, self.duration, self.warmup
        )?;
        writeln!(
            to,
            "[node.web]\n[node.media]\n[node.router]\n[node.client]\n[node.second]"
        )?;
        writeln!(
            to,
            "[link.home]\nbetween = [\"client\", \"second\"]\nrate = \"1gbit\""
        )?;
        writeln!(
            to,
            "[link.web]\nbetween = [\"web\", \"router\"]\nrate = \"{access}\"\ndelay = \"{web}ms\""
        )?;
        writeln!(
            to,
            "[link.media]\nbetween = [\"media\", \"router\"]\nrate = \"{access}\"\ndelay = \"{media}ms\""
        )?;
        if self.stall > 0 {
            let end = 10.0 + f64::from(self.stall) / 1e3;
            writeln!(
                to,
                "changes = {{ at = \"media\", steps = [[\"10s\", \"0bit\"], [\"{end}s\", \"{access}\"]] }}"
            )?;
        }
        writeln!(
            to,
            "[link.bottleneck]\nbetween = [\"router\", \"client\"]\nrate = \"{rate}mbit\"\ndelay = \"1ms\"\nqueue = [{queues}]"
        )?;
        if let Some((from, until, low)) = self.dip {
            writeln!(
                to,
                "changes = {{ at = \"router\", steps = [[\"{from}s\", \"{low}mbit\"], [\"{until}s\", \"{rate}mbit\"]] }}"
            )?;
        }
        if let Some((kind, seed)) = self.mobile {
            let steps = kind.steps(seed, *rate, self.duration);
            writeln!(to, "changes = {{ at = \"router\", steps = {steps} }}")?;
        }
        Ok(())
    }

    fn flows(&self, to: &mut String) -> std::fmt::Result {
        const FROM_WEB: &str = "from = \"web\"\nto = \"client\"";
        const FROM_MEDIA: &str = "kind = \"rtp\"\nfrom = \"media\"\nto = \"client\"";
        const VIDEO: &str = "trace = \"traces/mpeg2-5m.csv\"";
        let Self {
            start,
            video,
            controller,
            ..
        } = self;
        if self.downloads > 0 {
            writeln!(
                to,
                "[flow.download]\nkind = \"bulk\"\nfrom = \"web\"\nto = \"{}\"\ncount = {}\nstagger = \"{}ms\"\ncongestion_control = \"{}\"",
                if self.users { "second" } else { "client" },
                self.downloads,
                self.stagger,
                self.congestion_control
            )?;
            if self.ecn {
                writeln!(to, "tcp = {{ ecn = true }}")?;
            }
        }
        if self.uplink {
            writeln!(
                to,
                "[flow.upload]\nkind = \"bulk\"\nfrom = \"client\"\nto = \"web\"\ncount = 3"
            )?;
            writeln!(
                to,
                "[flow.call]\nkind = \"rtp\"\nfrom = \"client\"\nto = \"media\"\n{VIDEO}\npace = \"frame\"\nrate = \"{}mbit\"",
                video / 2.0
            )?;
        }
        if let Some(highest) = self.follows {
            writeln!(
                to,
                "[flow.video]\nkind = \"media\"\nfrom = \"media\"\nto = \"client\"\nrate = \"{controller}\"\npolicy = \"weighted\"\nqueue = \"64 packets\"\ndeadline = \"150ms\"\nstart = \"{start}s\""
            )?;
            writeln!(
                to,
                "video = {{ period = \"40ms\", largest = \"1200B\", scenes = [{{ mean = \"12500B\", deviation = \"2500B\", for = \"10s\" }}], follows = [\"150kbit\", \"{highest}kbit\"] }}"
            )?;
        } else if *video > 0.0 {
            writeln!(
                to,
                "[flow.video]\n{FROM_MEDIA}\n{VIDEO}\nrate = \"{video}mbit\"\npace = \"{}\"\nstart = \"{start}s\"\ncount = {}\njitter = \"{}ms\"",
                self.pace, self.videos, self.jitter
            )?;
        }
        if self.game {
            for (name, from, to_) in [("call", "media", "client"), ("call-up", "client", "media")] {
                writeln!(
                    to,
                    "[flow.{name}]\nkind = \"cbr\"\nfrom = \"{from}\"\nto = \"{to_}\"\nrate = \"48kbit\"\npayload = \"100B\""
                )?;
            }
        }
        let is_seen = self.follows.is_some() || *video > 0.0 || self.game;
        let audio = if is_seen { "audio" } else { "call" };
        writeln!(
            to,
            "[flow.{audio}]\n{FROM_MEDIA}\ntrace = \"traces/audio-64k.csv\"\npace = \"burst\"\nvoice = {{ encoder_delay = \"20ms\" }}"
        )?;
        match self.beside {
            Beside::Nothing => Ok(()),
            Beside::Flood(mbps) => writeln!(
                to,
                "[flow.flood]\nkind = \"cbr\"\n{FROM_WEB}\nrate = \"{mbps}mbit\"\npayload = \"1400B\"\nstart = \"15s\""
            ),
            Beside::Page(at) => writeln!(
                to,
                "[flow.page]\nkind = \"bulk\"\n{FROM_WEB}\ncount = 30\nbytes = \"40kB\"\nthink = \"4s\"\nstart = \"{at}s\""
            ),
            Beside::Dash => writeln!(
                to,
                "[flow.dash]\nkind = \"bulk\"\n{FROM_WEB}\nbytes = \"1MB\"\nthink = \"4s\"\nstart = \"5s\""
            ),
            Beside::Files => writeln!(
                to,
                "[flow.sync-down]\nkind = \"bulk\"\n{FROM_WEB}\nbytes = \"300kB\"\nthink = \"500ms\"\n[flow.sync-up]\nkind = \"bulk\"\nfrom = \"client\"\nto = \"web\"\nbytes = \"300kB\"\nthink = \"500ms\""
            ),
            Beside::Torrent => writeln!(
                to,
                "[flow.torrent]\nkind = \"bulk\"\n{FROM_WEB}\ncount = 100\nstagger = \"70ms\"\ncongestion_control = \"ledbat\""
            ),
            Beside::Tiny => writeln!(
                to,
                "[flow.tiny]\nkind = \"cbr\"\n{FROM_WEB}\nrate = \"20kbit\"\npayload = \"60B\"\ncount = 200"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use makeway_core::rate::Config;

    use super::CASES;

    #[test]
    fn a_call_follows_each_controller_but_that_of_an_access_point() {
        let calls = || CASES.iter().filter(|case| case.follows.is_some());
        let followed: BTreeSet<&str> = calls().map(|case| case.controller).collect();
        let all = Config::NAMES.into_iter().filter(|name| *name != "abrc");
        assert_eq!(followed, all.collect::<BTreeSet<_>>());
        for case in calls() {
            let rate = format!("\nrate = \"{}\"\n", case.controller);
            assert!(case.scenario().contains(&rate), "{}", case.name);
        }
    }
}
