// SPDX-License-Identifier: MIT OR Apache-2.0
//! Section 4 with one equation corrected at a time, and with another cost of a packet: closed forms.

use makeway_core::theory::ncq::strategies::{Setting, Traffic, packets};
use makeway_core::theory::ncq::{Classes, Delays};

use crate::papers::claim::Table;

/// Equations that are corrected; the others are as printed.
#[derive(Clone, Copy)]
pub struct Forms {
    /// Eq. (9) has the mean square of the service time.
    fifo: bool,
    /// kthresh is min(1, ncqthresh lambda / lambda1).
    share: bool,
    /// Eq. (13) and (14) have the mean square.
    threshold: bool,
}

const PRINTED: Forms = Forms {
    fifo: false,
    share: false,
    threshold: false,
};

/// The first is as printed, the last has no error that is known.
pub const EACH: [(&str, Forms); 6] = [
    ("as printed", PRINTED),
    (
        "eq. (9) with the mean square",
        Forms {
            fifo: true,
            ..PRINTED
        },
    ),
    (
        "kthresh the right way round",
        Forms {
            share: true,
            ..PRINTED
        },
    ),
    (
        "eq. (13) and (14) with the mean square",
        Forms {
            threshold: true,
            ..PRINTED
        },
    ),
    (
        "all corrected but kthresh",
        Forms {
            fifo: true,
            threshold: true,
            ..PRINTED
        },
    ),
    (
        "all corrected",
        Forms {
            fifo: true,
            share: true,
            threshold: true,
        },
    ),
];

/// Section 4.2: packets of the three tasks, in bytes, and how much longer the paper has them take, in percent: without a threshold, with 5 %.
const TASKS: [(f64, [f64; 2]); 3] = [
    (1000.0, [240.0, 371.0]),
    (500.0, [143.0, 253.0]),
    (140.0, [-21.0, 19.0]),
];
const SMALL: f64 = 120.0;
const LARGE: f64 = 1000.0;
/// Share of the task's packets.
const SHARE: f64 = 0.1;
const THRESHOLD: f64 = 0.05;
/// Costs of a packet that are shown, in bytes by which it is longer.
const COSTS: [u32; 3] = [0, 150, 500];

/// A task with packets of 120 B against its own, in percent: without a threshold, with 5 %.
struct Cut {
    /// The task takes longer by.
    longer: [f64; 2],
    /// A packet waits less by.
    less: [f64; 2],
}

impl Forms {
    /// Case 2: no priority.
    pub fn fifo(self, classes: &Classes) -> Delays {
        match self.fifo {
            true => classes.fifo(),
            false => classes.fifo_as_printed(),
        }
    }

    /// Case 3: priority within a threshold.
    pub fn ncq(self, classes: &Classes, threshold: f64) -> Delays {
        let favoured = match self.share {
            true => classes.favoured(threshold),
            false => classes.favoured_as_printed(threshold),
        };
        match self.threshold {
            true => classes.threshold(favoured),
            false => classes.threshold_as_printed(favoured),
        }
    }

    /// Eq. (20) and (21) for packets of `size` bytes.
    fn cut(self, setting: &Setting, size: f64) -> Cut {
        let ([whole, small], more) = classes(setting, size);
        let whole = self.fifo(&whole).delays[0];
        let both = [small.priority(), self.ncq(&small, THRESHOLD)];
        let parts = both.map(|delays| delays.delays[0] / whole);
        Cut {
            longer: parts.map(|part| (part * more - 1.0) * 100.0),
            less: parts.map(|part| (1.0 - part) * 100.0),
        }
    }

    /// Load from which on the task of Fig. 6 is done sooner without a threshold; not a number if from none.
    fn pays_from(self, setting: &Setting) -> f64 {
        let pays = |load: &f64| {
            let setting = Setting {
                load: *load,
                ..*setting
            };
            let ([whole, small], more) = classes(&setting, TASKS[2].0);
            small.priority().delays[0] * more < self.fifo(&whole).delays[0]
        };
        let mut loads = (1..100).map(|n| f64::from(n) / 100.0);
        loads.find(pays).unwrap_or(f64::NAN)
    }

    /// The least and the most that the task of Fig. 6 takes longer with 5 %, over costs of a packet and both kinds of traffic.
    fn over_costs(self, setting: &Setting) -> [f64; 2] {
        let all = (0..=50).flat_map(|step| {
            [Traffic::SameShare, Traffic::SameData].map(|traffic| {
                let setting = Setting {
                    per_packet: 20.0 * f64::from(step),
                    traffic,
                    ..*setting
                };
                self.cut(&setting, TASKS[2].0).longer[1]
            })
        });
        all.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], x| {
            [low.min(x), high.max(x)]
        })
    }
}

/// Traffic where the task has packets of `size` bytes, then where it has packets of 120 B; and the number of these for each of its own.
fn classes(setting: &Setting, size: f64) -> ([Classes; 2], f64) {
    let of = |share: f64, bytes: f64| {
        let service = |bytes: f64| (bytes + setting.per_packet) / setting.rate;
        Classes::of_load(setting.load, share, [service(bytes), service(LARGE)])
    };
    let more = packets(SMALL) / packets(size);
    let share = match setting.traffic {
        Traffic::SameShare => SHARE,
        Traffic::SameData => SHARE * more / (SHARE * more + 1.0 - SHARE),
    };
    ([of(SHARE, size), of(share, SMALL)], more)
}

fn both(values: [f64; 2]) -> String {
    values.map(|x| format!("{x:.0} %")).join(", ")
}

/// Costs of a packet at which a figure of the text is met within a tenth, as printed.
fn met(setting: &Setting, size: f64, paper: f64, n: usize) -> String {
    let is_met = |cost: &u32| {
        let setting = Setting {
            per_packet: f64::from(*cost),
            ..*setting
        };
        let found = PRINTED.cut(&setting, size).longer[n];
        (found / paper - 1.0).abs() <= 0.1
    };
    let costs: Vec<u32> = (0..=1000).step_by(5).filter(is_met).collect();
    match (costs.first(), costs.last()) {
        (Some(first), Some(last)) => format!("{first} to {last} B"),
        _ => "none".into(),
    }
}

/// Fig. 3 to 6 with one thing changed; `nearest` is the setting of the column as printed.
pub fn of_tasks(nearest: &Setting) -> Table {
    let row = |says: String, forms: Forms, setting: &Setting| {
        let [fig3, fig4, fig6] = TASKS.map(|(size, _)| forms.cut(setting, size));
        vec![
            says,
            both(fig3.longer),
            both(fig4.longer),
            both(fig6.less),
            both(fig6.longer),
        ]
    };
    let [fig3, fig4, fig6] = TASKS.map(|(_, paper)| both(paper));
    let empty = String::new;
    let mut rows = vec![vec![
        "the paper's text".into(),
        fig3,
        fig4,
        empty(),
        fig6,
        empty(),
    ]];
    rows.extend(EACH.iter().map(|(says, forms)| {
        let mut row = row((*says).to_owned(), *forms, nearest);
        let [low, high] = forms.over_costs(nearest);
        row.push(format!("{low:.0} to {high:.0} %"));
        row
    }));
    let (says, traffic) = match nearest.traffic {
        Traffic::SameData => ("one packet in ten is the task's", Traffic::SameShare),
        Traffic::SameShare => ("packets as the data need", Traffic::SameData),
    };
    let other = Setting {
        traffic,
        ..*nearest
    };
    let costs = COSTS.map(|cost| {
        let setting = Setting {
            per_packet: f64::from(cost),
            ..*nearest
        };
        let says = format!("as printed, cost of a packet {cost} B added to its length");
        (says, setting)
    });
    let changed = [(format!("as printed, {says}"), other)];
    rows.extend(changed.into_iter().chain(costs).map(|(says, setting)| {
        let mut row = row(says, PRINTED, &setting);
        row.push(empty());
        row
    }));
    let [fig3, fig4, fig6] =
        TASKS.map(|(size, paper)| [0, 1].map(|n| met(nearest, size, paper[n], n)).join("; "));
    rows.push(vec![
        "costs that meet it within 10 %, as printed".into(),
        fig3,
        fig4,
        empty(),
        fig6,
        empty(),
    ]);
    let head = [
        "with",
        "Fig. 3: longer by",
        "Fig. 4: longer by",
        "Fig. 5: waits less by",
        "Fig. 6: longer by",
        "Fig. 6, 5 %, over all costs",
    ];
    Table {
        title: format!(
            "Without a threshold and with 5 %, one thing changed; cost of a packet {} B added to its length, as in the column as printed: the least sum of squares of relative distances to the six percentages",
            nearest.per_packet
        ),
        head: head.map(String::from).into(),
        rows,
    }
}

/// Load from which on the task of Fig. 6 is done sooner without a threshold, by the cost of a packet.
pub fn loads(nearest: &Setting) -> Table {
    const PAPER: f64 = 0.48;
    let kinds = [
        (PRINTED, Traffic::SameData),
        (PRINTED, Traffic::SameShare),
        (EACH[1].1, Traffic::SameData),
        (EACH[1].1, Traffic::SameShare),
    ];
    let from = |cost: u32, (forms, traffic): (Forms, Traffic)| {
        let setting = Setting {
            per_packet: f64::from(cost),
            traffic,
            ..*nearest
        };
        forms.pays_from(&setting)
    };
    let shown = |load: f64| match load.is_nan() {
        false => format!("{load:.2}"),
        true => "at no load".into(),
    };
    let row = |cost: u32| {
        let each = kinds.map(|kind| shown(from(cost, kind)));
        let says = format!("{cost} B");
        [says].into_iter().chain(each).collect::<Vec<String>>()
    };
    let met = kinds.map(|kind| {
        let is_met = |cost: &u32| (from(*cost, kind) / PAPER - 1.0).abs() <= 0.1;
        let costs: Vec<u32> = (0..=1000).step_by(20).filter(is_met).collect();
        match (costs.first(), costs.last()) {
            (Some(first), Some(last)) => format!("{first} to {last} B"),
            _ => "none".into(),
        }
    });
    let says = String::from("costs that give the paper's 0.48 within 10 %");
    let met = [says].into_iter().chain(met).collect();
    let costs = [0, 50, 100, 200, 300, 400, 500, 700, 1000];
    let head = [
        "cost of a packet, in bytes added to its length",
        "as printed, packets as the data need",
        "as printed, one packet in ten is the task's",
        "eq. (9) with the mean square, packets as the data need",
        "eq. (9) with the mean square, one packet in ten is the task's",
    ];
    Table {
        title: "Fig. 6: load from which on the task is done sooner without a threshold".into(),
        head: head.map(String::from).into(),
        rows: costs.map(row).into_iter().chain([met]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use makeway_core::theory::ncq::strategies::{
        congestive_multimedia, ftp, non_congestive_multimedia,
    };

    use super::*;

    #[test]
    fn as_printed_and_all_corrected_are_those_of_core() {
        let tasks = [ftp, congestive_multimedia, non_congestive_multimedia];
        for (as_printed, (_, forms)) in [(true, EACH[0]), (false, EACH[5])] {
            for traffic in [Traffic::SameShare, Traffic::SameData] {
                let setting = Setting {
                    load: 0.6,
                    rate: 2e5,
                    per_packet: 170.0,
                    traffic,
                    as_printed,
                };
                for (task, (size, _)) in tasks.iter().zip(TASKS) {
                    let expected = task(&setting).worse();
                    let found = forms.cut(&setting, size).longer;
                    for (found, expected) in found.into_iter().zip(expected) {
                        assert!((found - expected * 100.0).abs() < 1e-9, "{found}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_load_at_which_it_pays_is_that_of_core() {
        let nearest = Setting {
            load: 0.6,
            rate: 2e5,
            per_packet: 200.0,
            traffic: Traffic::SameData,
            as_printed: true,
        };
        let pays = |load: &f64| {
            let setting = Setting {
                load: *load,
                ..nearest
            };
            non_congestive_multimedia(&setting).worse()[0] < 0.0
        };
        let from = (1..100).map(|n| f64::from(n) / 100.0).find(pays);
        let table = loads(&nearest);
        let row = table.rows.iter().find(|row| row[0] == "200 B");
        assert_eq!(row.unwrap()[1], format!("{:.2}", from.unwrap()));
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
    }

    /// By an independent computation of the equations.
    #[test]
    fn the_table_has_each_correction_alone() {
        let nearest = Setting {
            load: 0.6,
            rate: 2e5,
            per_packet: 170.0,
            traffic: Traffic::SameData,
            as_printed: true,
        };
        let table = of_tasks(&nearest);
        let row = |says: &str| {
            let found = table.rows.iter().find(|row| row[0] == says);
            found.unwrap()[1..].join(" | ")
        };
        for (says, expected) in [
            (
                "as printed",
                "267 %, 361 % | 141 %, 245 % | 43 %, 3 % | -29 %, 21 % | 19 to 24 %",
            ),
            (
                "kthresh the right way round",
                "267 %, 356 % | 141 %, 236 % | 43 %, 19 % | -29 %, 2 % | -6 to 8 %",
            ),
            (
                "all corrected but kthresh",
                "267 %, 483 % | 139 %, 303 % | 45 %, 2 % | -32 %, 22 % | 22 to 24 %",
            ),
            (
                "costs that meet it within 10 %, as printed",
                "70 to 160 B; 130 to 250 B | 120 to 250 B; 110 to 315 B |  | 400 to 685 B; 0 to 200 B | ",
            ),
        ] {
            assert_eq!(row(says), expected);
        }
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
    }
}
