// SPDX-License-Identifier: MIT OR Apache-2.0
//! Behaviours of a link: its rates in time, its probes, its load; and the scenario of each.

use std::fmt::Write;

use makeway_core::random::Rng;

/// Whole run in s.
pub const SECONDS: u32 = 90;
/// Load begins here, in s; until then every algorithm may learn what an idle link is like.
pub const LOAD: u32 = 8;
/// From here on figures count, in s.
pub const JUDGED: u32 = 12;
/// Paths that are probed.
pub const PATHS: u16 = 6;

/// One behaviour of a link.
#[derive(Clone, Copy)]
pub struct VaryingLink {
    /// For `--case` and the tables.
    pub name: &'static str,
    /// Nominal rates up and down, Mbit/s.
    pub nominal: [f64; 2],
    pub rates: Course,
    pub probes: Probes,
    /// Spans of load in s; transfers in both directions.
    pub load: &'static [(u32, u32)],
}

/// Rates in time, as shares of the nominal ones, up and down.
#[derive(Clone, Copy)]
pub enum Course {
    Constant,
    /// From these seconds on.
    Steps(&'static [(f64, f64, f64)]),
    /// Straight from one to the next, in steps of 100 ms.
    Ramp(&'static [(f64, f64, f64)]),
    /// The two, each for this long, in s.
    Flap(f64, [f64; 2]),
    /// A radio link's: the logarithm is a random walk that returns to its mean, in steps of 200 ms.
    Mobile,
    /// Rates of a recorded link, from each of these seconds on.
    Traced(&'static [(f64, f64, f64)]),
}

/// Departures of probes from a plain path.
#[derive(Clone, Copy, PartialEq)]
pub enum Probes {
    Plain,
    /// From this second on all paths are longer by 30 ms in each direction.
    Reroute(f64),
    /// An exponential delay of this mean in ms on each probe and direction, and one in 50 ten times as long.
    Jitter(f64),
    /// No probe returns between these seconds.
    Blackout(f64, f64),
    /// One path of the six is longer by 50 ms between these seconds.
    Reflector(f64, f64),
}

const BASE: VaryingLink = VaryingLink {
    name: "",
    nominal: [8.0, 20.0],
    rates: Course::Constant,
    probes: Probes::Plain,
    load: &[(LOAD, SECONDS)],
};

/// All of them.
pub const LINKS: &[VaryingLink] = &[
    VaryingLink {
        name: "step",
        rates: Course::Steps(&[(25.0, 0.5, 0.6), (50.0, 1.0, 1.0), (70.0, 0.75, 0.7)]),
        ..BASE
    },
    VaryingLink {
        name: "ramp",
        rates: Course::Ramp(&[(15.0, 1.0, 1.0), (45.0, 0.5, 0.5), (75.0, 1.0, 1.0)]),
        ..BASE
    },
    VaryingLink {
        name: "reroute",
        probes: Probes::Reroute(40.0),
        ..BASE
    },
    VaryingLink {
        name: "jitter",
        probes: Probes::Jitter(4.0),
        ..BASE
    },
    VaryingLink {
        name: "one-way",
        rates: Course::Steps(&[(30.0, 0.5, 1.0), (60.0, 1.0, 1.0)]),
        ..BASE
    },
    VaryingLink {
        name: "blackout",
        probes: Probes::Blackout(30.0, 55.0),
        ..BASE
    },
    VaryingLink {
        name: "burst",
        rates: Course::Steps(&[(30.0, 0.7, 0.7), (62.0, 1.0, 1.0)]),
        load: &[(LOAD, 24), (40, 56), (74, SECONDS)],
        ..BASE
    },
    VaryingLink {
        name: "mobile",
        rates: Course::Mobile,
        ..BASE
    },
    VaryingLink {
        name: "flap",
        rates: Course::Flap(8.0, [1.0, 0.8]),
        ..BASE
    },
    VaryingLink {
        name: "slow",
        nominal: [1.0, 6.0],
        rates: Course::Steps(&[(35.0, 0.8, 0.7), (65.0, 1.0, 1.0)]),
        ..BASE
    },
    VaryingLink {
        name: "reflector",
        probes: Probes::Reflector(30.0, 60.0),
        ..BASE
    },
];

impl VaryingLink {
    /// Shares of the nominal rates from each of these seconds on, up and down; the first is at 0.
    pub fn steps(&self, seed: u64) -> Vec<(f64, [f64; 2])> {
        let mut all = vec![(0.0, [1.0; 2])];
        match self.rates {
            Course::Constant => {}
            Course::Steps(steps) | Course::Traced(steps) => {
                all.extend(steps.iter().map(|(at, up, down)| (*at, [*up, *down])));
            }
            Course::Ramp(points) => {
                for pair in points.windows(2) {
                    let ((from, up, down), (to, later_up, later_down)) = (pair[0], pair[1]);
                    let count = ((to - from) * 10.0).round() as u32;
                    for n in 1..=count {
                        let part = f64::from(n) / f64::from(count);
                        let between = |a: f64, b: f64| a + (b - a) * part;
                        let at = between(from, to);
                        all.push((at, [between(up, later_up), between(down, later_down)]));
                    }
                }
            }
            Course::Flap(period, shares) => {
                let (mut at, mut n) = (f64::from(LOAD) + period, 1);
                while at < f64::from(SECONDS) {
                    all.push((at, [shares[n % 2]; 2]));
                    (at, n) = (at + period, n + 1);
                }
            }
            Course::Mobile => {
                // Of the logarithm: time constant 8 s, standard deviation a quarter; steps of 200 ms.
                let mut rng = Rng::new(seed ^ 0x6d6f_6269_6c65);
                let back: f64 = (-0.2 / 8.0_f64).exp();
                let step = 0.25 * (1.0 - back * back).sqrt();
                let mut log = [0.0; 2];
                for n in 1..SECONDS * 5 {
                    for log in &mut log {
                        *log = *log * back + step * normal(&mut rng);
                    }
                    all.push((f64::from(n) / 5.0, log.map(|log| log.exp().clamp(0.4, 2.0))));
                }
            }
        }
        all
    }

    /// Seconds after which the link, or the probes, are others for good.
    pub fn events(&self) -> Vec<f64> {
        match (self.rates, self.probes) {
            (Course::Steps(steps), _) => steps.iter().map(|step| step.0).collect(),
            (Course::Flap(..), _) => self.steps(0).iter().skip(1).map(|step| step.0).collect(),
            (_, Probes::Reroute(at) | Probes::Reflector(at, _)) => vec![at],
            (_, Probes::Blackout(from, to)) => vec![from, to],
            // From a cold start.
            _ => vec![f64::from(LOAD)],
        }
    }

    pub fn is_loaded(&self, at: f64) -> bool {
        let within = |span: &&(u32, u32)| {
            // A transfer needs a moment to begin.
            at >= f64::from(span.0 + JUDGED - LOAD) && at < f64::from(span.1)
        };
        self.load.iter().find(within).is_some()
    }

    /// The scenario: a shaper for each direction and, behind or before it, the link with a deep FIFO.
    pub fn scenario(&self, seed: u64, first: [f64; 2]) -> String {
        let [up, down] = self.nominal;
        let mut text = String::new();
        let mut changes = [String::new(), String::new()];
        for (at, shares) in &self.steps(seed)[1..] {
            for (n, changes) in changes.iter_mut().enumerate() {
                let comma = if changes.is_empty() { "" } else { ", " };
                let kbit = self.nominal[n] * shares[n] * 1000.0;
                // Writing to a string cannot fail.
                let _ = write!(changes, "{comma}[\"{at:.3}s\", \"{kbit:.0}kbit\"]");
            }
        }
        let changes = match changes[0].is_empty() {
            true => String::new(),
            false => format!(
                "changes = [{{ at = \"modem\", steps = [{}] }}, {{ at = \"isp\", steps = [{}] }}]\n",
                changes[0], changes[1]
            ),
        };
        // The link holds half a second, the shaper about 200 ms.
        let deep = [up, down].map(|mbit| (mbit * 1e6 / 8.0 * 0.5) as u64);
        let packets = [up, down].map(|mbit| ((mbit * 1e6 / 12_000.0 * 0.2) as u64).max(50));
        let _ = write!(
            text,
            r#"title = "{name}"
duration = "{SECONDS}s"
warmup = "0s"
[node.client]
[node.router]
[node.modem]
[node.isp]
[node.server]
[link.lan]
between = ["router", "client"]
rate = ["{first_down:.0}kbit", "1gbit"]
queue = {{ at = "router", discipline = "makeway", limit = "{down_packets} packets" }}
[link.shaped]
between = ["router", "modem"]
rate = ["{first_up:.0}kbit", "1gbit"]
queue = {{ at = "router", discipline = "makeway", limit = "{up_packets} packets" }}
[link.line]
between = ["modem", "isp"]
rate = ["{up}mbit", "{down}mbit"]
delay = "3ms"
queue = [{{ at = "modem", discipline = "fifo", limit = "{deep_up}B" }}, {{ at = "isp", discipline = "fifo", limit = "{deep_down}B" }}]
{changes}[link.far]
between = ["isp", "server"]
rate = "1gbit"
delay = "12ms"
"#,
            name = self.name,
            first_up = first[0] * 1000.0,
            first_down = first[1] * 1000.0,
            up_packets = packets[0],
            down_packets = packets[1],
            deep_up = deep[0],
            deep_down = deep[1],
        );
        for (n, (from, to)) in self.load.iter().enumerate() {
            for (kind, ends, count) in [
                ("download", "from = \"server\"\nto = \"client\"", 5),
                ("upload", "from = \"client\"\nto = \"server\"", 3),
            ] {
                let _ = write!(
                    text,
                    "[flow.{kind}-{n}]\nkind = \"bulk\"\n{ends}\ncount = {count}\nstagger = \"50ms\"\nstart = \"{from}s\"\nstop = \"{to}s\"\n"
                );
            }
        }
        text
    }
}

/// A number of the normal distribution: the sum of twelve uniform ones is near enough.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| uniform(rng)).sum::<f64>() - 6.0
}

/// From 0 to below 1.
pub fn uniform(rng: &mut Rng) -> f64 {
    f64::from(rng.next_u32()) / 4_294_967_296.0
}
