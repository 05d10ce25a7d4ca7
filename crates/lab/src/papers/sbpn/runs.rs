// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells of the SBPN paper: section 4.2 with loss, with congestion, and with one choice changed at a time.

use makeway_report::estimate::Estimate;
use makeway_report::model::{ClassReport, Report};
use makeway_report::summary::group;

use crate::experiment::{Cell, Key, Results, World};
use crate::papers::figures::{Figures, mean, paired};
use makeway::dccp::CALL;

const FILE: &str = "papers/sbpn/testbed.toml";
/// The same without what the kernel does not have.
const KERNEL_FILE: &str = "papers/sbpn/kernel.toml";
/// As long as the paper's.
const SECONDS: u64 = 60;
/// As many as the paper's.
const RUNS: usize = 30;
/// Loss in tenths of a percent.
const LOSS: [u32; 10] = [0, 1, 2, 5, 10, 20, 30, 50, 80, 100];
/// Rate limits in kbit/s; the load is the call's 374 and two TCP flows.
const RATES: [u32; 10] = [500, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 2000];
/// Rate limits at which one choice is changed.
const SOME: [u32; 4] = [600, 800, 1000, 1200];

/// Runs of one kind: `PREFIX/POLICY/X`, X being what is swept.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    prefix: &'static str,
    file: &'static str,
    /// The swept value, and its name in charts.
    pub x: Axis,
    /// Its values.
    pub points: &'static [u32],
    set: &'static [&'static str],
    runs: usize,
}

/// The swept value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Random loss at the router, in tenths of a percent.
    Loss,
    /// Rate limit of the router, in kbit/s, with two TCP flows beside.
    Rate,
    /// The same with nothing beside.
    Line,
}

/// On-time shares below which a rate counts as congested; chosen by us.
const CONGESTED: f64 = 0.95;

/// A choice that is changed.
pub struct Choice {
    /// Its name in tables.
    pub name: &'static str,
    pub sweep: Sweep,
}

const fn loss(prefix: &'static str, set: &'static [&'static str]) -> Sweep {
    Sweep {
        prefix,
        file: FILE,
        x: Axis::Loss,
        points: &LOSS,
        set,
        runs: RUNS,
    }
}

const fn congestion(prefix: &'static str, set: &'static [&'static str]) -> Sweep {
    Sweep {
        prefix,
        file: FILE,
        x: Axis::Rate,
        points: &RATES,
        set,
        runs: RUNS,
    }
}

const fn choice(name: &'static str, prefix: &'static str, set: &'static [&'static str]) -> Choice {
    Choice {
        name,
        sweep: Sweep {
            prefix,
            file: FILE,
            x: Axis::Rate,
            points: &SOME,
            set,
            runs: 10,
        },
    }
}

/// Fig. 1 to 3.
pub const LOSS_80: Sweep = loss("loss/80", &[]);
/// The same where feedback comes more often.
pub const LOSS_30: Sweep = loss("loss/30", &["link.line.delay=15ms"]);
/// The same where audio replaces video in a full queue.
pub const LOSS_EVICT: Sweep = loss("loss/evict", &["flow.call.when_full=evict"]);
/// Linux's DCCP of 2007: an expired packet uses its send time.
pub const SLOTS: &str = "flow.call.expired_use_slots=true";
/// As printed: Fig. 1 to 3, ...
pub const LOSS_PRINTED: Sweep = loss("printed/loss/80", &[SLOTS]);
/// ... 4, ...
pub const PRINTED_80: Sweep = congestion("printed/80", &[SLOTS]);
/// ... 5, ...
pub const PRINTED_32: Sweep = congestion("printed/80-32", &[SLOTS, "flow.call.queue=32 packets"]);
/// ... 6 and 7.
pub const PRINTED_30: Sweep = congestion("printed/30", &[SLOTS, "link.line.delay=15ms"]);
/// See [`PRINTED_30`].
pub const PRINTED_150: Sweep = congestion("printed/150", &[SLOTS, "link.line.delay=75ms"]);
const fn loss_choice(
    name: &'static str,
    prefix: &'static str,
    set: &'static [&'static str],
) -> Choice {
    Choice {
        name,
        sweep: Sweep {
            runs: 10,
            ..loss(prefix, set)
        },
    }
}

/// Fig. 1 with other policies than SBPN: which part of it moves audio and video.
pub const LOSS_POLICIES: Sweep = Sweep {
    runs: 10,
    ..loss("loss/policy", &[])
};
/// Fig. 1 and 2 with one thing changed.
pub const LOSS_CHOICES: [Choice; 14] = [
    loss_choice(
        "RFC 5348: no cap where data limits",
        "loss/5348",
        &["flow.call.rate.rfc=\"5348\""],
    ),
    // As many runs as Fig. 1 and 2 are judged by: with ten its interval reaches below zero.
    Choice {
        name: "RFC 3448: no initial window after a pause",
        sweep: loss("loss/3448", &["flow.call.rate.rfc=\"3448\""]),
    },
    loss_choice(
        "no credit for unused send times",
        "loss/credit",
        &["flow.call.rate.credit=false"],
    ),
    loss_choice(
        "sender's timer of 1 ms",
        "loss/fine",
        &["flow.call.tick=1ms", "flow.call.rate.granularity=1ms"],
    ),
    loss_choice(
        "deadline of 1 s",
        "loss/deadline",
        &["flow.call.deadline=1s"],
    ),
    loss_choice(
        "as printed, deadline of 1 s",
        "loss/printed-deadline",
        &[SLOTS, "flow.call.deadline=1s"],
    ),
    loss_choice(
        "frames dropped as a whole",
        "loss/frames",
        &["flow.call.whole_frames=true"],
    ),
    loss_choice(
        "a queue of 32 packets, not 5",
        "loss/queue-32",
        &["flow.call.queue=32 packets"],
    ),
    loss_choice(
        "one-way delay known, not half of the RTT",
        "loss/one-way",
        &["flow.call.one_way=40ms"],
    ),
    loss_choice(
        "segment size of 1464 B, the most that a datagram may have, not the mean of ten (the call's largest has 1026 B)",
        "loss/largest",
        &["flow.call.rate.segment=largest"],
    ),
    loss_choice(
        "segment size the mean of 128 packets, not of ten",
        "loss/mean-128",
        &["flow.call.rate.segment=128"],
    ),
    loss_choice(
        "the rate falls as the RTT rises",
        "loss/damping",
        &["flow.call.rate.damping=true"],
    ),
    loss_choice(
        "old loss intervals count less in a long one",
        "loss/discounting",
        &["flow.call.rate.discounting=true"],
    ),
    loss_choice(
        "faster restart after a pause",
        "loss/faster",
        &["flow.call.rate.faster_restart=true"],
    ),
];
/// Fig. 4.
pub const RTT_80: Sweep = congestion("congestion/80", &[]);
/// Fig. 5.
pub const QUEUE_32: Sweep = congestion("congestion/80-32", &["flow.call.queue=32 packets"]);
/// Fig. 6.
pub const RTT_30: Sweep = congestion("congestion/30", &["link.line.delay=15ms"]);
/// Fig. 7.
pub const RTT_150: Sweep = congestion("congestion/150", &["link.line.delay=75ms"]);
/// Fig. 8.
pub const RESTART: Sweep = congestion(
    "congestion/restart",
    &["flow.call.rate.faster_restart=true"],
);

const fn kernel(prefix: &'static str, set: &'static [&'static str]) -> Sweep {
    Sweep {
        file: KERNEL_FILE,
        points: &[600, 1000, 1500],
        runs: 10,
        ..congestion(prefix, set)
    }
}

/// Fig. 4 and 5 beside the kernel's TCP, and the same in simulated time.
pub const KERNEL: [Sweep; 2] = [
    kernel("kernel/5", &[]),
    kernel("kernel/32", &["flow.call.queue=32 packets"]),
];

/// Cells beside those sent to the kernel's DCCP, in simulated time; the call wants about 340 kbit/s with the headers of IP and DCCP.
pub const GUEST: Sweep = Sweep {
    prefix: "guest",
    file: CALL,
    x: Axis::Line,
    points: &[250, 300, 350],
    set: &[],
    runs: 10,
};

const fn guest_choice(
    name: &'static str,
    prefix: &'static str,
    set: &'static [&'static str],
) -> Choice {
    Choice {
        name,
        sweep: Sweep {
            prefix,
            set,
            ..GUEST
        },
    }
}

/// [`GUEST`] with one thing changed that is otherwise in the guest: its link counts bytes from IP on and counts the departing packet in its
/// limit; some of its DCCP headers are longer (DataAck, 24 B); its timers.
pub const GUEST_CHOICES: [Choice; 8] = [
    guest_choice(
        "bytes of the link rate from IP on, not Ethernet's",
        "guest/ip",
        &["link.line.framing=ip"],
    ),
    guest_choice(
        "room for 9 packets, not 10",
        "guest/room-9",
        &["link.line.queue.limit=9 packets"],
    ),
    guest_choice(
        "two changes: bytes from IP on, room for 9 packets",
        "guest/ip-room-9",
        &["link.line.framing=ip", "link.line.queue.limit=9 packets"],
    ),
    guest_choice(
        "headers of 44 B, not 36",
        "guest/headers",
        &["flow.call.headers=44B"],
    ),
    guest_choice(
        "sender's timer of 4 ms",
        "guest/tick",
        &["flow.call.tick=4ms"],
    ),
    guest_choice(
        "TFRC's granularity of 1 ms, not 4",
        "guest/fine",
        &["flow.call.rate.granularity=1ms"],
    ),
    guest_choice(
        "no credit for unused send times",
        "guest/credit",
        &["flow.call.rate.credit=false"],
    ),
    guest_choice(
        "one-way delay known, not half of the RTT",
        "guest/one-way",
        &["flow.call.one_way=40ms"],
    ),
];

/// One at a time, at RTT 80 ms and a queue of 5.
pub const CHOICES: [Choice; 13] = [
    choice("as above", "choice/none", &[]),
    choice(
        "audio replaces video in a full queue",
        "choice/evict",
        &["flow.call.when_full=evict"],
    ),
    choice(
        "frames dropped as a whole",
        "choice/frames",
        &["flow.call.whole_frames=true"],
    ),
    choice(
        "RFC 3448: no initial window after a pause",
        "choice/3448",
        &["flow.call.rate.rfc=\"3448\""],
    ),
    choice(
        "RFC 5348: no cap where data limits",
        "choice/5348",
        &["flow.call.rate.rfc=\"5348\""],
    ),
    choice(
        "no credit for unused send times",
        "choice/credit",
        &["flow.call.rate.credit=false"],
    ),
    choice(
        "sender's timer of 1 ms",
        "choice/fine",
        &["flow.call.tick=1ms", "flow.call.rate.granularity=1ms"],
    ),
    choice(
        "router's timer of 4 ms",
        "choice/coarse",
        &["link.line.tick=4ms"],
    ),
    choice(
        "router's buffer 8 kB",
        "choice/8kB",
        &["link.line.queue.limit=8kB"],
    ),
    choice(
        "router's buffer 24 kB",
        "choice/24kB",
        &["link.line.queue.limit=24kB"],
    ),
    choice(
        "router's buffer 20 packets",
        "choice/20",
        &["link.line.queue.limit=20 packets"],
    ),
    choice(
        "router's buffer 30 packets",
        "choice/30",
        &["link.line.queue.limit=30 packets"],
    ),
    choice(
        "headers within the 214 and 1026 B",
        "choice/headers",
        &[
            "flow.call.audio={ payload = \"178B\", period = \"20ms\" }",
            "flow.call.video={ period = \"100ms\", largest = \"990B\", scenes = [{ mean = \"4275B\", deviation = \"1000B\", for = \"10s\" }, { mean = \"1020B\", deviation = \"475B\", for = \"5s\" }, { mean = \"4275B\", deviation = \"1000B\", for = \"5s\" }] }",
        ],
    ),
];

/// Other policies beside the paper's: the kernel's own, and those of section 6.
pub const POLICIES: [&str; 4] = ["prio", "weighted", "when-full", "late-last"];

/// All of it.
pub fn cells(_full: bool, world: World) -> Vec<Cell> {
    if world == World::Netns {
        return kernel_cells();
    }
    let mut cells = Vec::new();
    for sweep in [LOSS_80, LOSS_30] {
        cells.extend(sweep.cells(&["fifo", "sbpn1", "sbpn2"]));
    }
    cells.extend(LOSS_EVICT.cells(&["sbpn1", "sbpn2"]));
    cells.extend(LOSS_POLICIES.cells(&POLICIES));
    for choice in &LOSS_CHOICES {
        cells.extend(choice.sweep.cells(&["fifo", "sbpn1", "sbpn2"]));
    }
    // The unmodified queue drops nothing: it is the same in both columns.
    cells.extend(LOSS_PRINTED.cells(&["sbpn1", "sbpn2"]));
    for sweep in [PRINTED_80, PRINTED_32, PRINTED_30, PRINTED_150] {
        cells.extend(sweep.cells(&["sbpn2"]));
    }
    for sweep in [RTT_80, QUEUE_32, RTT_30, RTT_150] {
        cells.extend(sweep.cells(&["fifo", "sbpn2"]));
    }
    cells.extend(RESTART.cells(&["fifo"]));
    for choice in &CHOICES {
        cells.extend(choice.sweep.cells(&["fifo", "sbpn2"]));
    }
    cells.extend(CHOICES[0].sweep.cells(&POLICIES));
    cells.extend(GUEST.cells(&["fifo", "sbpn2"]));
    for choice in &GUEST_CHOICES {
        cells.extend(choice.sweep.cells(&["fifo", "sbpn2"]));
    }
    cells
}

/// Cells beside the kernel's TCP.
fn kernel_cells() -> Vec<Cell> {
    let cells = KERNEL.iter().map(|sweep| sweep.cells(&["fifo", "sbpn2"]));
    cells.flatten().collect()
}

impl Sweep {
    fn cells(&self, policies: &[&str]) -> Vec<Cell> {
        let cell = |policy: &&str, x: u32| {
            let mut set = vec![format!("flow.call.policy={policy}")];
            match self.x {
                Axis::Loss => set.push(format!("link.line.loss=[{}, 0]", f64::from(x) / 1000.0)),
                Axis::Rate | Axis::Line => {
                    set.push(format!("link.line.rate=[\"{x}kbit\", \"100mbit\"]"));
                }
            }
            if self.x == Axis::Rate {
                set.push("flow.tcp.count=2".into());
            }
            set.extend(self.set.iter().map(|set| (*set).to_owned()));
            Cell {
                set,
                runs: Some(self.runs),
                ..Cell::new(self.key(policy, x), self.file, SECONDS)
            }
        };
        let cell = &cell;
        policies
            .iter()
            .flat_map(|policy| self.points.iter().map(move |x| cell(policy, *x)))
            .collect()
    }

    pub fn key(&self, policy: &str, x: u32) -> Key {
        Key::new(format!("{}/{policy}/{x}", self.prefix))
    }

    fn runs<'a>(&self, r: &'a Results, policy: &str, x: u32) -> &'a [Report] {
        &r[self.key(policy, x)]
    }

    /// A figure under `policy`, point by point.
    pub fn figures(&self, r: &Results, policy: &str, figure: impl Fn(&Report) -> f64) -> Figures {
        let each = |x: &u32| (*x, mean(self.runs(r, policy, *x), &figure));
        self.points.iter().map(each).collect()
    }

    /// How much more it is under `policy` here than under `other` in the sweep `there`, run by run.
    pub fn gain(
        &self,
        r: &Results,
        policy: &str,
        (there, other): (&Self, &str),
        figure: impl Fn(&Report) -> f64,
    ) -> Figures {
        let each = |x: &u32| {
            let [runs, others] = [self.runs(r, policy, *x), there.runs(r, other, *x)];
            (*x, paired(runs, others, &figure, |a, b| a - b))
        };
        self.points.iter().map(each).collect()
    }

    /// The mean over the sweep of a figure of single runs: replication by replication.
    fn over_all(&self, figure: impl Fn(u32, usize) -> Option<f64>) -> Estimate {
        let means = (0..self.runs).map_while(|run| {
            let each = self.points.iter().map(|x| figure(*x, run));
            let each: Option<Vec<f64>> = each.collect();
            Some(each?.iter().sum::<f64>() / self.points.len() as f64)
        });
        Estimate::of(means)
    }

    /// As [`Sweep::gain`], over the sweep.
    pub fn whole_gain(
        &self,
        r: &Results,
        policy: &str,
        (there, other): (&Self, &str),
        figure: impl Fn(&Report) -> f64,
    ) -> Estimate {
        self.over_all(|x, run| {
            let [here, there] = [self.runs(r, policy, x), there.runs(r, other, x)];
            Some(figure(here.get(run)?) - figure(there.get(run)?))
        })
    }

    /// A figure over the sweep.
    pub fn whole(&self, r: &Results, policy: &str, figure: impl Fn(&Report) -> f64) -> Estimate {
        self.over_all(|x, run| Some(figure(self.runs(r, policy, x).get(run)?)))
    }

    /// Gains of SBPN2 over the unmodified queue at the rates at which less than [`CONGESTED`] of its audio is on time:
    /// rate, its audio on time, the gain of audio, that of video.
    pub fn congested(&self, r: &Results) -> Vec<Gain> {
        self.congested_beside(r, self)
    }

    /// The same where the unmodified queue is another sweep's.
    pub fn congested_beside(&self, r: &Results, unmodified: &Self) -> Vec<Gain> {
        let audio = unmodified.figures(r, "fifo", on_time("audio"));
        let gains = ["audio", "video"]
            .map(|class| self.gain(r, "sbpn2", (unmodified, "fifo"), on_time(class)));
        let [gained, lost] = gains;
        let all = audio.iter().zip(gained).zip(lost);
        all.map(|((fifo, audio), video)| Gain {
            kbit: fifo.0,
            fifo: fifo.1,
            audio: audio.1,
            video: video.1,
        })
        .filter(Gain::is_congested)
        .collect()
    }
}

impl Choice {
    /// Gains of `policy` over the unmodified queue, the mean over some rates: audio, then video.
    pub fn gains(&self, r: &Results, policy: &str) -> [f64; 2] {
        ["audio", "video"].map(|class| {
            let gains = self
                .sweep
                .gain(r, policy, (&self.sweep, "fifo"), on_time(class));
            mean_of(&gains)
        })
    }

    /// Share on time of the unmodified queue's audio and video, likewise.
    pub fn unmodified(&self, r: &Results) -> [f64; 2] {
        ["audio", "video"].map(|class| mean_of(&self.sweep.figures(r, "fifo", on_time(class))))
    }
}

/// Effect of SBPN2 at a rate.
#[derive(Clone, Copy, Debug)]
pub struct Gain {
    /// The rate limit.
    pub kbit: u32,
    /// Audio on time with the unmodified queue.
    pub fifo: Estimate,
    /// More of it with SBPN2.
    pub audio: Estimate,
    /// More video on time.
    pub video: Estimate,
}

impl Gain {
    /// Whether less than [`CONGESTED`] of the unmodified queue's audio is on time. A rate that was not measured may be: it is not left out.
    pub fn is_congested(&self) -> bool {
        self.fifo.mean.is_nan() || self.fifo.mean < CONGESTED
    }
}

/// The mean over the points of a sweep.
pub fn mean_of(figures: &Figures) -> f64 {
    figures.iter().map(|(_, x)| x.mean).sum::<f64>() / figures.len() as f64
}

fn class(report: &Report, name: &str) -> ClassReport {
    let classes = group(report, "call").classes;
    classes
        .into_iter()
        .find(|class| class.name == name)
        .unwrap_or_default()
}

/// The share of a class that is on time.
pub fn on_time(name: &'static str) -> impl Fn(&Report) -> f64 + Copy {
    move |report| class(report, name).on_time_share().unwrap_or(f64::NAN)
}

/// The share of a class that came, on time or not.
pub fn received(name: &'static str) -> impl Fn(&Report) -> f64 + Copy {
    move |report| {
        let class = class(report, name);
        class.received as f64 / class.offered as f64
    }
}

/// The share of a class that came too late.
pub fn late(name: &'static str) -> impl Fn(&Report) -> f64 + Copy {
    move |report| received(name)(report) - on_time(name)(report)
}
