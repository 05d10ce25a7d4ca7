// SPDX-License-Identifier: MIT OR Apache-2.0
//! RFC 8867, "Test Cases for Evaluating Congestion Control for Interactive Real-Time Media", 2021: its cases 5.1 to 5.8 with the best
//! packet next and with a plain queue, over the same controllers; and five controllers by absolute bars.

mod bars;

use makeway_report::estimate::Estimate;
use makeway_report::model::{ClassReport, FlowReport, Report};

use super::claim::{Claim, Column, Table};
use super::figures::{in_percent, largest, mean, only, plain, share, smallest};
use super::paper::Paper;
use crate::experiment::{Cell, Key, Results, World};

/// How it is run again.
pub const RFC8867: Paper = Paper {
    id: "rfc8867",
    title: "Test cases of interactive media (RFC 8867)",
    source: "Z. Sarker, V. Singh, X. Zhu, M. Ramalho, RFC 8867, 2021",
    worlds: &[World::Sim],
    shortened: "Each case as long as the RFC has it.",
    full: "Each case as long as the RFC has it.",
    cells,
    claims,
    beside: None,
};

/// A section of the RFC.
struct Case {
    id: &'static str,
    file: &'static str,
    says: &'static str,
    seconds: u64,
    /// Groups of flows that are calls.
    calls: &'static [&'static str],
    /// Buffers behind which no packet of audio waits beyond its deadline; none where those of the case are such.
    short: &'static [&'static str],
}

const fn case(
    id: &'static str,
    file: &'static str,
    says: &'static str,
    seconds: u64,
    calls: &'static [&'static str],
    short: &'static [&'static str],
) -> Case {
    Case {
        id,
        file,
        says,
        seconds,
        calls,
        short,
    }
}

const BY_DELAY: [&str; 5] = ["call-10", "call-25", "call-50", "call-100", "call-150"];
const CASES: [Case; 8] = [
    case(
        "rfc8867.5_1",
        "rfc8867/5-1.toml",
        "one call over 1, 2.5, 0.6, 1 Mbit/s",
        100,
        &["call"],
        &["link.line.queue.limit=22500B"],
    ),
    case(
        "rfc8867.5_2",
        "rfc8867/5-2.toml",
        "two calls over 4, 2, 3.5, 1, 2 Mbit/s",
        125,
        &["call"],
        &["link.line.queue.limit=37500B"],
    ),
    case(
        "rfc8867.5_3",
        "rfc8867/5-3.toml",
        "a call in both directions, both rates change",
        100,
        &["call", "answer"],
        &[
            "link.line.queue.0.limit=18750B",
            "link.line.queue.1.limit=18750B",
        ],
    ),
    case(
        "rfc8867.5_4",
        "rfc8867/5-4.toml",
        "three calls begin 20 s apart, 3.5 Mbit/s",
        120,
        &["call"],
        &[],
    ),
    case(
        "rfc8867.5_5",
        "rfc8867/5-5.toml",
        "five calls over 10 to 150 ms, 4 Mbit/s",
        300,
        &BY_DELAY,
        &["link.line.queue.limit=100000B"],
    ),
    case(
        "rfc8867.5_6",
        "rfc8867/5-6.toml",
        "a call beside a long download, 2 Mbit/s",
        120,
        &["call"],
        &[],
    ),
    case(
        "rfc8867.5_7",
        "rfc8867/5-7.toml",
        "two calls beside ten short downloads, 2 Mbit/s",
        300,
        &["call"],
        &[],
    ),
    case(
        "rfc8867.5_8",
        "rfc8867/5-8.toml",
        "three calls, one is silent from 40 to 60 s, 3.5 Mbit/s",
        120,
        &["call", "pausing"],
        &[],
    ),
];
const CONTROLLERS: [&str; 2] = ["tfrc", "abrc"];
const POLICIES: [&str; 2] = ["sbpn2", "fifo"];
const RUNS: usize = 10;

/// A thing that is changed alone, with SBPN2.
struct Change {
    /// As the cells are named.
    name: &'static str,
    says: &'static str,
    controller: &'static str,
    /// Keys of the controller.
    keys: &'static str,
    /// Whether the case's short buffers are taken.
    short: bool,
}

const fn of_abrc(name: &'static str, says: &'static str, keys: &'static str) -> Change {
    Change {
        name,
        says,
        controller: "abrc",
        keys,
        short: false,
    }
}

const CHANGES: [Change; 8] = [
    Change {
        controller: "tfrc",
        ..SHORT
    },
    SHORT,
    of_abrc(
        "packets",
        "ABRC, occupancy in packets",
        ", unit = \"packets\"",
    ),
    of_abrc(
        "no-path",
        "ABRC, the least B_T without the path's packets, as printed",
        ", path = \"none\"",
    ),
    of_abrc(
        "shortest",
        "ABRC, T_UDP the shortest",
        ", t_udp = \"shortest\"",
    ),
    of_abrc(
        "k-0.2",
        "ABRC, k_T = 0.2: the sum of beta is below 1",
        ", k = 0.2",
    ),
    of_abrc(
        "packets-0.2",
        "ABRC, both: packets, k_T = 0.2",
        ", unit = \"packets\", k = 0.2",
    ),
    of_abrc(
        "interval",
        "ABRC, a report each 0.2 s",
        ", interval = \"200ms\"",
    ),
];
const SHORT: Change = Change {
    short: true,
    ..of_abrc(
        "short",
        "the network's buffers shorter than the audio's deadline",
        "",
    )
};

impl Change {
    fn applies(&self, case: &Case) -> bool {
        !self.short || !case.short.is_empty()
    }

    fn key(&self, case: &Case) -> Key {
        Key::new(format!(
            "{}/changed/{}/{}",
            case.id, self.controller, self.name
        ))
    }

    fn set(&self, case: &Case) -> Vec<String> {
        let (kind, keys) = (self.controller, self.keys);
        let rate = |call: &&str| format!("flow.{call}.rate={{ kind = \"{kind}\"{keys} }}");
        let buffers = case.short.iter().filter(|_| self.short);
        case.calls
            .iter()
            .map(rate)
            .chain(buffers.map(|set| (*set).to_owned()))
            .collect()
    }
}

impl Case {
    fn key(&self, controller: &str, policy: &str) -> Key {
        Key::new(format!("{}/{controller}/{policy}", self.id))
    }

    fn flows<'a>(&self, report: &'a Report) -> impl Iterator<Item = &'a FlowReport> {
        let calls = self.calls;
        report
            .flows
            .iter()
            .filter(move |flow| calls.contains(&flow.group.as_str()))
    }

    /// Share of the packets that arrived in time, in `class` of all calls.
    fn on_time(&self, report: &Report, class: &str) -> f64 {
        let classes: Vec<&ClassReport> = self
            .flows(report)
            .filter_map(|flow| flow.media.as_ref())
            .flat_map(|media| media.classes.iter().filter(|of| of.name == class))
            .collect();
        let sum =
            |of: fn(&ClassReport) -> u64| classes.iter().map(|class| of(class)).sum::<u64>() as f64;
        sum(|class| class.on_time) / sum(|class| class.offered)
    }

    fn mbit(&self, report: &Report) -> f64 {
        self.flows(report).map(|flow| flow.goodput_bps).sum::<f64>() / 1e6
    }

    fn p99(&self, report: &Report) -> f64 {
        let delays = self
            .flows(report)
            .filter_map(|flow| flow.datagrams.as_ref());
        largest(delays.map(|datagrams| datagrams.delay_ms.p99))
    }

    /// Each change beside the case as it is.
    fn changed(&self, r: &Results) -> Table {
        let row = |says: String, runs: &[Report]| {
            vec![
                says,
                plain(&mean(runs, |run| self.mbit(run))),
                share(&mean(runs, |run| self.on_time(run, "audio"))),
                share(&mean(runs, |run| self.on_time(run, "video"))),
                format!("{:.0}", mean(runs, |run| self.p99(run)).mean),
            ]
        };
        let none = CONTROLLERS.map(|controller| {
            let says = format!("{}, nothing changed", controller.to_uppercase());
            row(says, &r[self.key(controller, "sbpn2")])
        });
        let changes = CHANGES.iter().filter(|change| change.applies(self));
        let changes = changes.map(|change| {
            let says = match change.short {
                true => format!("{}, {}", change.controller.to_uppercase(), change.says),
                false => change.says.into(),
            };
            row(says, &r[change.key(self)])
        });
        let head = [
            "with SBPN2 and",
            "calls, Mbit/s",
            "audio on time",
            "video on time",
            "p99 in the network, ms",
        ];
        Table {
            title: "With one thing changed".into(),
            head: head.map(String::from).into(),
            rows: none.into_iter().chain(changes).collect(),
        }
    }

    fn claim(&self, r: &Results) -> Claim {
        let of = |controller: &str, policy: &str, figure: &dyn Fn(&Report) -> f64| -> Estimate {
            mean(&r[self.key(controller, policy)], figure)
        };
        let audio = |controller: &str, policy: &str| {
            of(controller, policy, &|run| self.on_time(run, "audio"))
        };
        let rows = CONTROLLERS.iter().flat_map(|controller| {
            POLICIES.map(|policy| {
                vec![
                    controller.to_uppercase(),
                    policy.to_uppercase(),
                    plain(&of(controller, policy, &|run| self.mbit(run))),
                    share(&audio(controller, policy)),
                    share(&of(controller, policy, &|run| self.on_time(run, "video"))),
                    format!("{:.0}", of(controller, policy, &|run| self.p99(run)).mean),
                ]
            })
        });
        let head = [
            "controller",
            "queue",
            "calls, Mbit/s",
            "audio on time",
            "video on time",
            "p99 in the network, ms",
        ];
        let each = CONTROLLERS.iter().flat_map(|controller| {
            let name = controller.to_uppercase();
            let mbit = of(controller, "sbpn2", &|run| self.mbit(run));
            [
                (
                    format!("audio in time with SBPN2 over {name}, %"),
                    in_percent(audio(controller, "sbpn2")),
                ),
                (format!("calls with SBPN2 over {name}, Mbit/s"), mbit),
            ]
        });
        let more = CONTROLLERS
            .map(|controller| audio(controller, "sbpn2").mean - audio(controller, "fifo").mean);
        let ours = Column::of(each).with(
            "audio in time, SBPN2 less a plain queue, lesser controller, points",
            only(smallest(more) * 100.0),
        );
        Claim {
            id: self.id,
            ours,
            paper: format!(
                "{}: the best packet next brings the audio in time, and the calls carry their part.",
                self.says
            ),
            said: CONTROLLERS
                .map(|controller| {
                    format!(
                        "over {}: {} of the audio in time, with a plain queue {}",
                        controller.to_uppercase(),
                        share(&audio(controller, "sbpn2")),
                        share(&audio(controller, "fifo"))
                    )
                })
                .join("; "),
            ideal: "100 %".into(),
            why: "No sender's queue can shorten the network's queue: where the network's buffers are shorter than the audio's deadline, the audio comes in time over both controllers. Several calls of ABRC with k_T = 1 ask for all of the link (section 4 of its paper): with k_T = 0.2 more than 99 % of the audio is in time, at a third to nine tenths of the goodput. ABRC counts in bytes, since calls have packets of two lengths: in packets the call of 5.6 has 1.45 of 2 Mbit/s beside one download. Its least B_T has the packets of the path beside the paper's five: without them the calls of 5.1 and 5.3 carry a quarter less.".into(),
            setup: "one way 50 ms where nothing else is said, a FIFO of 300 ms; audio 64 kbit/s beside a video encoder that follows the target from 0.15 to 1.5 Mbit/s; in time is within 400 ms",
            from: &["rfc8867."],
            tables: vec![
                Table {
                    title: self.says.into(),
                    head: head.map(String::from).into(),
                    rows: rows.collect(),
                },
                self.changed(r),
            ],
            ..Claim::default()
        }
    }
}

fn cells(_full: bool, _world: World) -> Vec<Cell> {
    let mut cells = Vec::new();
    for case in &CASES {
        for controller in CONTROLLERS {
            for policy in POLICIES {
                let set = case.calls.iter().flat_map(|call| {
                    [
                        format!("flow.{call}.rate={controller}"),
                        format!("flow.{call}.policy={policy}"),
                    ]
                });
                cells.push(Cell {
                    set: set.collect(),
                    runs: Some(RUNS),
                    ..Cell::new(case.key(controller, policy), case.file, case.seconds)
                });
            }
        }
        for change in CHANGES.iter().filter(|change| change.applies(case)) {
            let mut set = change.set(case);
            set.extend(
                case.calls
                    .iter()
                    .map(|call| format!("flow.{call}.policy=sbpn2")),
            );
            cells.push(Cell {
                set,
                runs: Some(RUNS),
                ..Cell::new(change.key(case), case.file, case.seconds)
            });
        }
    }
    cells.extend(bars::cells());
    cells
}

fn claims(r: &Results) -> Vec<Claim> {
    let cases = CASES.iter().map(|case| case.claim(r));
    cases.chain(bars::claims(r)).collect()
}

#[cfg(test)]
mod tests {
    use makeway_report::model::{DatagramReport, MediaReport};

    use super::*;
    use crate::papers::claim::Verdict;
    use crate::papers::tests::{
        all_are, every_figure_is_refused_when_it_is_wrong, judged, made_up,
    };

    /// Calls that carry enough and lose little of the audio.
    fn perfect() -> Results {
        let report = |case: &Case, policy: &str| {
            let on_time = if policy == "fifo" { 9_000 } else { 9_900 };
            let is_narrow = ["rfc8867.5_1", "rfc8867.5_6"].contains(&case.id);
            let all = if is_narrow { 1.2e6 } else { 3e6 };
            let audio = ClassReport {
                name: "audio".into(),
                offered: 10_000,
                received: on_time,
                on_time,
                ..ClassReport::default()
            };
            let mut datagrams = DatagramReport::default();
            datagrams.delay_ms.p99 = 100.0;
            let call = |name: &&str| FlowReport {
                name: (*name).into(),
                datagrams: Some(datagrams.clone()),
                group: (*name).into(),
                kind: "media".into(),
                goodput_bps: all / (2 * case.calls.len()) as f64,
                media: Some(MediaReport {
                    classes: vec![audio.clone()],
                    ..MediaReport::default()
                }),
                ..FlowReport::default()
            };
            // The flow of a group has its name; some groups have two.
            let calls = case.calls.iter().chain(case.calls);
            let mut flows: Vec<FlowReport> = calls.map(call).collect();
            flows.extend(["download", "page"].map(|name| FlowReport {
                name: name.into(),
                group: name.into(),
                kind: "bulk".into(),
                goodput_bps: 0.4e6,
                ..FlowReport::default()
            }));
            made_up(100.0, flows, vec![])
        };
        let mut r = Results::default();
        for case in &CASES {
            for controller in CONTROLLERS {
                for policy in POLICIES {
                    r.push(&case.key(controller, policy), report(case, policy));
                }
            }
            for change in CHANGES.iter().filter(|change| change.applies(case)) {
                r.push(&change.key(case), report(case, "sbpn2"));
            }
            for key in bars::keys(case) {
                r.push(&key, report(case, "sbpn2"));
            }
        }
        r
    }

    #[test]
    fn every_case_follows_its_figures() {
        let claims = judged(&RFC8867, World::Sim, &perfect());
        let no_figure = [Verdict::NotMeasurable, Verdict::Reproduced];
        let all: Vec<_> = claims.iter().map(|claim| (claim.id, no_figure)).collect();
        all_are(Verdict::Reproduced, &claims, &all);
        every_figure_is_refused_when_it_is_wrong(&RFC8867, World::Sim, &perfect());
    }
}
