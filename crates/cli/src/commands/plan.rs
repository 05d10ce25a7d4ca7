// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway plan`: the service of a video beside downloads on a link, as `makeway` promises it and by the SQF paper's model.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::ensure;
use clap::{Args, value_parser};
use comfy_table::{CellAlignment, Table, presets};
use makeway_core::sched::MakewayParams;
use makeway_core::theory::makeway::{Downloads, Link};
use makeway_core::theory::sqf::Bottleneck;
use makeway_core::units::{Bytes, Duration, Rate};
use serde_json::{Value, json};

use crate::text;

/// Computes the service of a video beside downloads on a link: under makeway, under SQF, and under fair queueing.
///
/// For makeway: the rate for which streams go first, and the delay of a packet at most, if the video keeps to its
/// rate but for one frame of the given size, has earned its priority and nothing else has. For SQF: the closed forms of the
/// paper on shortest queue first (Bonald, Muscariello, Ostallo, ICC 2011, section IV). Nothing is sent and no link is
/// touched. The downloads are assumed to fill the buffer all the time, and under SQF the packets of the video to arrive
/// at random at its peak rate: real video is smoother and fares better.
#[derive(Args)]
#[command(after_help = "Examples:
  makeway plan --rate 10mbit --downloads 20 --video 5mbit
  makeway plan --rate 20mbit --downloads 4 --video 4mbit --frame 80kB
  makeway plan --rate 50mbit --downloads 8 --video 8mbit --streams 3 --duration 2h
  makeway plan --rate 100mbit --downloads 50 --video 25mbit --buffer 1000 --packet 1514B --json")]
pub struct Plan {
    /// Rate of the link: 10mbit, 1gbit.
    #[arg(long)]
    rate: Rate,
    /// Concurrent downloads, each as fast as possible.
    #[arg(long, value_parser = value_parser!(u32).range(1..=10_000))]
    downloads: u32,
    /// Peak rate of one video, headers included: 5mbit.
    #[arg(long)]
    video: Rate,
    /// Videos of that rate at the same time; they count as one of the sum of their rates.
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = value_parser!(u32).range(1..=10_000))]
    streams: u32,
    /// Size of the largest frame of one video, sent at once [default: 100 ms at its rate].
    #[arg(long, value_name = "SIZE")]
    frame: Option<Bytes>,
    /// Buffer of the link in packets.
    #[arg(long, value_name = "PACKETS", default_value_t = 200, value_parser = value_parser!(u32).range(1..=10_000))]
    buffer: u32,
    /// Size of a packet, headers included.
    #[arg(long, value_name = "SIZE", default_value = "1250B")]
    packet: Bytes,
    /// Time for which the video has to keep its priority.
    #[arg(long, value_name = "TIME", default_value = "10min")]
    duration: Duration,
    /// Prints JSON; times in seconds (null: longer than a float holds), rates in bit/s.
    #[arg(long)]
    json: bool,
}

/// The largest risk that counts as small.
const SMALL: f64 = 0.01;

/// Downloads in the table, beside the user's own number.
const OTHERS: [u32; 6] = [1, 2, 5, 10, 20, 50];

/// Runs it.
pub fn run(args: &Plan) -> anyhow::Result<ExitCode> {
    args.check()?;
    if args.json {
        text::say!("{:#}", args.value());
    } else {
        text::say!("{}", args.text()?.trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

/// Results of the model for one number of downloads. Rates in bit/s.
struct Answer {
    downloads: u32,
    /// Packets the videos may hold in the buffer.
    allowance: f64,
    /// Probability that priority is lost within the duration.
    risk: f64,
    /// Mean time until priority is lost, in seconds.
    mean_time: f64,
    /// The largest rate of one video that stays under the small risk.
    largest: f64,
    /// Fair share of one flow.
    fair_share: f64,
}

/// The promise of `makeway`, beside downloads of the video's user or of others. Rates in bit/s.
struct Promise {
    /// For which all streams together go first.
    room: f64,
    /// The longest delay in seconds; infinite without room.
    delay: f64,
    /// The rest of the link for each download.
    download: f64,
}

impl Plan {
    fn check(&self) -> anyhow::Result<()> {
        let some = |zero: bool, option: &str, example: &str| {
            ensure!(!zero, "{option} must exceed 0: write {example}");
            Ok(())
        };
        some(self.rate.bps() == 0, "--rate", "10mbit")?;
        some(self.video.bps() == 0, "--video", "5mbit")?;
        some(self.packet == Bytes::ZERO, "--packet", "1250B")?;
        some(self.frame == Some(Bytes::ZERO), "--frame", "60kB")?;
        some(self.duration == Duration::ZERO, "--duration", "10min")?;
        ensure!(
            self.total() < self.rate.bps(),
            "{} {} not fit a link of {}, so no scheduler can help: take a lower --video{}",
            self.videos(),
            if self.streams == 1 { "does" } else { "do" },
            self.rate,
            if self.streams == 1 {
                ""
            } else {
                " or fewer --streams"
            },
        );
        Ok(())
    }

    fn total(&self) -> u64 {
        self.video.bps().saturating_mul(self.streams.into())
    }

    /// Bytes of the largest frame of a video.
    fn frame(&self) -> Bytes {
        let tenth = Bytes::new(self.video.bps() / 80);
        self.frame.unwrap_or(tenth).max(self.packet)
    }

    fn link(&self) -> Link {
        Link {
            rate: self.rate,
            quantum: MakewayParams::default().quantum,
            packet: self.packet,
            buffer: Bytes::new(self.packet.get().saturating_mul(self.buffer.into())),
        }
    }

    /// Bytes of the largest frame of each video that the buffer holds beside the downloads.
    fn largest_frame(&self) -> f64 {
        self.link().burst(self.streams, self.downloads)
    }

    fn frames_fit(&self) -> bool {
        self.frame().get() as f64 <= self.largest_frame()
    }

    fn promise(&self, downloads: Downloads) -> Promise {
        let link = self.link();
        let (rate, streams) = (self.total() as f64, f64::from(self.streams));
        let burst = self.frame().get() as f64 * 8.0 * streams;
        let delay = link.delay(downloads, self.streams, rate, burst);
        let capacity = self.rate.bps() as f64;
        let download = match delay.is_finite() {
            true => (capacity - rate) / f64::from(self.downloads),
            // Bulk among bulk.
            false => capacity / (f64::from(self.downloads) + streams),
        };
        Promise {
            room: link.room(downloads),
            delay,
            download,
        }
    }

    /// One answer; the streams count as one of the sum of their rates (section IV.B).
    fn answer(&self, downloads: u32) -> Answer {
        let packet_bits = self.packet.get() as f64 * 8.0;
        let bottleneck = Bottleneck {
            capacity: self.rate.bps() as f64 / packet_bits,
            buffer: self.buffer.into(),
            downloads,
        };
        let rate = self.total() as f64 / packet_bits;
        let seconds = self.duration.as_secs_f64();
        Answer {
            downloads,
            allowance: bottleneck.allowance(),
            risk: bottleneck.deprioritised(rate, seconds),
            mean_time: bottleneck.prioritised_time(rate),
            largest: bottleneck.safe_rate(seconds, SMALL) * packet_bits / f64::from(self.streams),
            fair_share: self.rate.bps() as f64 / (f64::from(downloads) + f64::from(self.streams)),
        }
    }

    fn answers(&self) -> Vec<Answer> {
        let all: BTreeSet<u32> = OTHERS.into_iter().chain([self.downloads]).collect();
        all.into_iter().map(|n| self.answer(n)).collect()
    }

    fn text(&self) -> Result<String, std::fmt::Error> {
        let one = self.streams == 1;
        let (it, keeps, each) = if one {
            ("it", "keeps", "A video")
        } else {
            ("they", "keep", "Videos")
        };
        let own = self.answer(self.downloads);
        let duration = span(self.duration.as_secs_f64());
        let mut out = String::new();
        writeln!(
            out,
            "{} beside {} on a link of {}, for {duration}:\n",
            self.videos(),
            text::some(self.downloads.into(), "download"),
            rate(self.rate.bps() as f64),
        )?;
        self.write_promise(&mut out)?;
        writeln!(
            out,
            "\nUnder SQF (shortest queue first) {it} {keeps} priority while no more than a burst of {:.1} \
             packets waits.\nThe probability that priority is lost at least once in {duration} is {}; \
             on average {it} {keeps} it for {}.",
            own.allowance,
            percent(own.risk),
            span(own.mean_time),
        )?;
        if own.largest < 1000.0 {
            writeln!(
                out,
                "No rate stays under 1 %: the buffer has no room for {it} beside {}.",
                text::some(self.downloads.into(), "download"),
            )?;
        } else {
            writeln!(
                out,
                "{each} of up to {}{} would stay under 1 %.",
                rate(own.largest),
                if one { "" } else { " each" },
            )?;
        }
        let needs = self.video.bps() as f64 / own.fair_share;
        writeln!(
            out,
            "\nUnder FQ (fair queueing) each flow gets {}: {}",
            rate(own.fair_share),
            if needs < 1.0 {
                format!(
                    "enough for {}.",
                    if one { "this video" } else { "each video" }
                )
            } else {
                format!(
                    "{} {needs:.1} times that, so packets would be lost all the time.",
                    if one {
                        "this video needs"
                    } else {
                        "each video needs"
                    },
                )
            },
        )?;
        writeln!(out, "\n{}\n", self.table())?;
        writeln!(
            out,
            "Assumed: downloads that fill a buffer of {} packets of {}, and video packets that come at \
             random\n(Poisson) at the peak rate, which is pessimistic: real video is smoother.",
            self.buffer, self.packet,
        )?;
        Ok(out)
    }

    /// The paragraph on `makeway`.
    fn write_promise(&self, out: &mut String) -> std::fmt::Result {
        let (it, goes, has) = match self.streams {
            1 => ("it", "goes", "has"),
            _ => ("they", "go", "have"),
        };
        for downloads in [Downloads::Own, Downloads::OfOthers] {
            let Promise {
                room,
                delay,
                download,
            } = self.promise(downloads);
            let whose = match downloads {
                Downloads::Own => "Under makeway, with downloads of the same user,",
                Downloads::OfOthers => "With downloads of other users",
            };
            if delay.is_infinite() {
                writeln!(
                    out,
                    "{whose} streams have {} at most: {it} {has} no lasting priority.",
                    rate(room),
                )?;
                continue;
            }
            if delay > Link::LASTS {
                writeln!(
                    out,
                    "{whose} {it} {goes} first, up to {}, but a frame takes {}: packets that wait for longer than {} are dropped.",
                    rate(room),
                    span(delay),
                    span(Link::LASTS),
                )?;
                continue;
            }
            writeln!(
                out,
                "{whose} {it} {goes} first, up to {}: a packet waits {} at most, and each download has {}.",
                rate(room),
                span(delay),
                rate(download),
            )?;
        }
        let frame = self.frame();
        match self.frames_fit() {
            true => writeln!(out, "This holds for frames of up to {frame}."),
            false => writeln!(
                out,
                "Frames of {frame} lose packets: beside {} that fill the buffer it has room for {:.0} kB of each video.",
                text::some(self.downloads.into(), "download"),
                (self.largest_frame() / 1e3).floor(),
            ),
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header([
            "downloads",
            "SQF: risk",
            "SQF: mean time",
            "SQF: video under 1 %",
            "FQ: each flow",
            "",
        ]);
        for a in self.answers() {
            table.add_row([
                a.downloads.to_string(),
                percent(a.risk),
                span(a.mean_time),
                rate(a.largest),
                rate(a.fair_share),
                (if a.downloads == self.downloads {
                    "<- yours"
                } else {
                    ""
                })
                .into(),
            ]);
        }
        for column in table.column_iter_mut().take(5) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    fn value(&self) -> Value {
        let answer = |a: &Answer| {
            json!({
                "downloads": a.downloads,
                "sqf": {
                    "allowance_packets": a.allowance,
                    "risk": a.risk,
                    "mean_time_s": a.mean_time,
                    "largest_video_bps": a.largest.round(),
                },
                "fq": {
                    "fair_share_bps": a.fair_share.round(),
                    "enough": (self.video.bps() as f64) < a.fair_share,
                },
            })
        };
        let promise = |downloads| {
            let Promise {
                room,
                delay,
                download,
            } = self.promise(downloads);
            json!({
                "room_bps": room.round(),
                "fits": delay.is_finite(),
                "delay_s": delay.is_finite().then_some(delay),
                "in_time": delay <= Link::LASTS,
                "download_bps": download.round(),
            })
        };
        json!({
            "version": 1,
            "rate_bps": self.rate.bps(),
            "video_bps": self.video.bps(),
            "streams": self.streams,
            "buffer_packets": self.buffer,
            "packet_bytes": self.packet.get(),
            "duration_s": self.duration.as_secs_f64(),
            "largest_video_risk": SMALL,
            "makeway": {
                "frame_bytes": self.frame().get(),
                "frames_fit": self.frames_fit(),
                "largest_frame_bytes": self.largest_frame().floor(),
                "own_downloads": promise(Downloads::Own),
                "downloads_of_others": promise(Downloads::OfOthers),
            },
            "yours": answer(&self.answer(self.downloads)),
            "table": self.answers().iter().map(answer).collect::<Vec<_>>(),
        })
    }

    fn videos(&self) -> String {
        let each = rate(self.video.bps() as f64);
        match self.streams {
            1 => format!("A video of {each}"),
            m => format!("{m} videos of {each} each"),
        }
    }
}

/// A rate in bit/s with three digits.
fn rate(bps: f64) -> String {
    let (value, unit) = match bps {
        b if b >= 999.5e6 => (b / 1e9, "Gbit/s"),
        b if b >= 999.5e3 => (b / 1e6, "Mbit/s"),
        b if b >= 999.5 => (b / 1e3, "kbit/s"),
        b => (b, "bit/s"),
    };
    format!("{} {unit}", digits(value))
}

/// A time in the unit that people would use.
fn span(seconds: f64) -> String {
    const YEAR: f64 = 365.25 * 86_400.0;
    let (value, unit) = match seconds {
        s if s < 1.0 => (s * 1e3, "ms"),
        s if s < 120.0 => (s, "s"),
        s if s < 7_200.0 => (s / 60.0, "min"),
        s if s < 2.0 * 86_400.0 => (s / 3_600.0, "h"),
        s if s < 2.0 * YEAR => (s / 86_400.0, "days"),
        s if s < 1_000.0 * YEAR => (s / YEAR, "years"),
        _ => return "over 1000 years".into(),
    };
    format!("{} {unit}", digits(value))
}

fn percent(p: f64) -> String {
    match p * 100.0 {
        x if x < 1e-4 => "under 0.0001 %".into(),
        x if x > 99.95 => "over 99.9 %".into(),
        x if x < 0.01 => format!("{x:.4} %"),
        x if x < 10.0 => format!("{} %", digits(x)),
        x => format!("{x:.1} %"),
    }
}

/// Three digits or the whole number, without zeros that say nothing.
fn digits(value: f64) -> String {
    let text = match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => return format!("{v:.0}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').into()
}

#[cfg(test)]
mod tests;
