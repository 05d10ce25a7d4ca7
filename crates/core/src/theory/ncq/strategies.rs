// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does it pay to cut one's packets down to what NCQ favours? Section 4.2: an application sends 5 MB in packets
//! of its own length, or in packets of 120 B that NCQ takes for small.
//!
//! | paper | here |
//! | --- | --- |
//! | NP_n, eq. (20) | [`packets`] |
//! | ST_n, eq. (21) | [`Completion`], s |
//! | Fig. 3, 4, 5 and 6 | [`ftp`], [`congestive_multimedia`], [`non_congestive_multimedia`] |
//!
//! Eq. (21) has each packet sent when the one before is through: a task takes `NP_n` delays.
//!
//! Values that the paper does not state are in [`Setting`]: the service times, and whether the small packets stay 10 %
//! of all packets or carry the same data. If the equations are taken as printed and the data are the same, the times
//! of its text, 1 + percentage, are met within 11 % where a packet costs as much as 170 B more; nearest by the
//! percentages themselves is 205 B. The tests have the former, and what the corrected equations say.

use super::{Classes, Delays};

/// Bytes of each task.
const TASK: f64 = 5e6;
/// Header bytes of each packet.
const OVERHEAD: f64 = 40.0;
/// Packets that NCQ favours, bytes.
const SMALL: f64 = 120.0;
/// Packets of the other class, bytes: 1 KB.
const LARGE: f64 = 1000.0;
/// Share of the application's packets in all packets.
const SHARE: f64 = 0.10;
/// `ncqthresh` of section 4.2.
const THRESHOLD: f64 = 0.05;

/// Parameters of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Load of the server, above 0 and below 1; the paper's figures of the text are at 0.60.
    pub load: f64,
    /// Rate of the server, byte/s. All times are in proportion to it.
    pub rate: f64,
    /// Cost of a packet at the server besides its length, in bytes, 0 or more.
    pub per_packet: f64,
    /// How many small packets there are.
    pub traffic: Traffic,
    /// The paper's equations as printed, or corrected ([`super`]).
    pub as_printed: bool,
}

/// How many packets the class of the application sends once they are small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Still 10 % of all packets.
    SameShare,
    /// As many as its data need.
    SameData,
}

/// How long the task takes, s; NaN at a load of 1 or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completion {
    /// With the application's own packets, in order of arrival.
    pub whole: f64,
    /// With 120 B packets that always go first.
    pub priority: f64,
    /// With 120 B packets under NCQ with a threshold of 0.05.
    pub threshold: f64,
    /// The delay of a packet in each of the three, s: Fig. 5.
    pub delays: [f64; 3],
}

impl Completion {
    /// How much longer the task takes with small packets: without a threshold, and with it. 2.4 is 240 %.
    pub fn worse(&self) -> [f64; 2] {
        [self.priority, self.threshold].map(|time| time / self.whole - 1.0)
    }
}

/// Packets of `size` bytes that a task needs: eq. (20), not rounded up.
pub fn packets(size: f64) -> f64 {
    TASK / (size - OVERHEAD)
}

/// Section 4.2.1: packets of 1 KB, or of 120 B.
pub fn ftp(setting: &Setting) -> Completion {
    setting.completion(LARGE)
}

/// Section 4.2.2: packets of 500 B, or of 120 B.
pub fn congestive_multimedia(setting: &Setting) -> Completion {
    setting.completion(500.0)
}

/// Section 4.2.3: packets of 140 B, or of 120 B.
pub fn non_congestive_multimedia(setting: &Setting) -> Completion {
    setting.completion(140.0)
}

impl Setting {
    fn completion(&self, size: f64) -> Completion {
        let whole = self.classes(SHARE, size);
        let cut = self.classes(self.share(size), SMALL);
        let delays = [self.fifo(&whole), cut.priority(), self.ncq(&cut)].map(|d| d.delays[0]);
        let times = [packets(size), packets(SMALL), packets(SMALL)];
        Completion {
            whole: times[0] * delays[0], // (21)
            priority: times[1] * delays[1],
            threshold: times[2] * delays[2],
            delays,
        }
    }

    /// The small among all packets.
    fn share(&self, size: f64) -> f64 {
        match self.traffic {
            Traffic::SameShare => SHARE,
            Traffic::SameData => {
                let small = SHARE * packets(SMALL) / packets(size);
                small / (small + 1.0 - SHARE)
            }
        }
    }

    fn classes(&self, share: f64, size: f64) -> Classes {
        let service = |bytes: f64| (bytes + self.per_packet) / self.rate;
        Classes::of_load(self.load, share, [service(size), service(LARGE)])
    }

    fn fifo(&self, classes: &Classes) -> Delays {
        match self.as_printed {
            true => classes.fifo_as_printed(),
            false => classes.fifo(),
        }
    }

    fn ncq(&self, classes: &Classes) -> Delays {
        match self.as_printed {
            true => classes.threshold_as_printed(classes.favoured_as_printed(THRESHOLD)),
            false => classes.threshold(classes.favoured(THRESHOLD)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASKS: [fn(&Setting) -> Completion; 3] =
        [ftp, congestive_multimedia, non_congestive_multimedia];

    /// As printed, a setting by which the paper's six times, 1 + percentage, are met within 11 %; by the percentages
    /// themselves 205 B are nearest.
    const WITHIN_11: Setting = Setting {
        load: 0.6,
        rate: 2e5, // 1000 B in 5 ms
        per_packet: 170.0,
        traffic: Traffic::SameData,
        as_printed: true,
    };

    /// Every service time from "in proportion to the length" to "a packet costs as much as 1000 B", both ways to
    /// count packets, at `load`.
    fn settings(load: f64) -> impl Iterator<Item = Setting> {
        (0..=50).flat_map(move |n| {
            [Traffic::SameShare, Traffic::SameData].map(|traffic| Setting {
                load,
                per_packet: 20.0 * f64::from(n),
                traffic,
                as_printed: false,
                ..WITHIN_11
            })
        })
    }

    /// From where on a task is done sooner with small packets, without a threshold.
    fn pays_from(setting: Setting) -> f64 {
        let pays = |load: &f64| {
            let setting = Setting {
                load: *load,
                ..setting
            };
            non_congestive_multimedia(&setting).worse()[0] < 0.0
        };
        let loads = (1..1000).map(|n| f64::from(n) / 1000.0);
        loads.into_iter().find(pays).unwrap()
    }

    #[test]
    fn a_task_needs_so_many_packets() {
        assert!((packets(1000.0) - 5208.33).abs() < 0.01);
        assert_eq!(packets(120.0), 62_500.0);
        assert_eq!(packets(140.0), 50_000.0);
    }

    #[test]
    fn the_papers_times_are_those_of_its_equations_as_printed() {
        let paper = [[2.40, 3.71], [1.43, 2.53], [-0.21, 0.19]];
        for (task, paper) in TASKS.iter().zip(paper) {
            for (got, paper) in task(&WITHIN_11).worse().into_iter().zip(paper) {
                let apart = (1.0 + got) / (1.0 + paper) - 1.0;
                assert!(apart.abs() < 0.11, "{got} for {paper}");
            }
        }
    }

    #[test]
    fn cutting_long_packets_never_pays_whatever_a_packet_costs() {
        for setting in [0.1, 0.3, 0.6, 0.8].into_iter().flat_map(settings) {
            for task in [ftp, congestive_multimedia] {
                let [priority, threshold] = task(&setting).worse();
                assert!(0.0 < priority && priority < threshold, "{setting:?}");
            }
            let of = |task: fn(&Setting) -> Completion| task(&setting).worse()[0];
            assert!(of(congestive_multimedia) < of(ftp), "{setting:?}");
        }
    }

    #[test]
    fn at_0_6_cutting_long_packets_costs_twice_to_six_times_the_time() {
        // Fig. 3: 240 and 371 %. Fig. 4: 143 and 253 %. The bounds are all service times' and both traffics'.
        let range = |task: fn(&Setting) -> Completion, n: usize| {
            let values = settings(0.6).map(|setting| task(&setting).worse()[n]);
            values.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)))
        };
        for (task, n, low, high) in [
            (ftp as fn(&Setting) -> Completion, 0, 1.79, 5.09),
            (ftp, 1, 3.39, 6.89),
            (congestive_multimedia, 0, 0.93, 2.39),
            (congestive_multimedia, 1, 1.99, 3.59),
        ] {
            let (least, most) = range(task, n);
            assert!(
                (least - low).abs() < 0.01 && (most - high).abs() < 0.01,
                "{least} {most}"
            );
        }
    }

    #[test]
    fn cutting_140_b_to_120_b_pays_without_a_threshold_from_a_load_on() {
        // The paper: from 0.48 on. Each service time has such a load, from 0.25 to 0.47.
        for setting in settings(0.6) {
            let from = pays_from(setting);
            assert!((0.25..0.48).contains(&from), "{from} {setting:?}");
            let gain = -non_congestive_multimedia(&setting).worse()[0];
            // The paper: 21 %.
            assert!((0.16..0.41).contains(&gain), "{gain} {setting:?}");
        }
    }

    #[test]
    fn with_the_threshold_fig_6_rests_on_kthresh_as_printed() {
        // The paper: 19 % worse, and worse at every load. Right, it depends on the service time, between 9 % sooner
        // and 8 % later; as printed it is about the paper's for any service time.
        for setting in settings(0.6) {
            let worse = |as_printed| {
                let setting = Setting {
                    as_printed,
                    ..setting
                };
                non_congestive_multimedia(&setting).worse()[1]
            };
            assert!((0.19..0.24).contains(&worse(true)), "{}", worse(true));
            assert!((-0.095..0.08).contains(&worse(false)), "{}", worse(false));
        }
        let proportional = Setting {
            load: 0.8,
            per_packet: 0.0,
            as_printed: false,
            ..WITHIN_11
        };
        assert!(non_congestive_multimedia(&proportional).worse()[1] < -0.1);
    }

    #[test]
    fn fig_5_small_packets_wait_less_under_both() {
        for setting in settings(0.6) {
            let [whole, priority, threshold] = non_congestive_multimedia(&setting).delays;
            assert!(priority < threshold && threshold < whole);
        }
    }

    #[test]
    fn a_faster_server_does_all_of_it_in_proportion() {
        for task in TASKS {
            let fast = task(&Setting {
                rate: 2e6,
                ..WITHIN_11
            });
            assert!((task(&WITHIN_11).whole / fast.whole - 10.0).abs() < 1e-9);
            assert!((task(&WITHIN_11).worse()[1] - fast.worse()[1]).abs() < 1e-9);
        }
    }
}
