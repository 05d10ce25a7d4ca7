// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments of the PPS paper: its topologies, and what each is run with.

use crate::experiment::{Cell, Key};

/// A table of the paper, or Fig. 5.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// `table1`: as the cells are named.
    pub name: &'static str,
    file: &'static str,
    set: &'static [&'static str],
    /// Links whose queue is `tred`.
    queues: &'static [&'static str],
    /// Rates by the paper's definition of fairness, Mbit/s, in the order of the scenario's flows.
    pub ideal: &'static [f64],
    /// The paper's figures, in the same order; none for Fig. 5, which is a drawing.
    pub paper: &'static [f64],
    /// The queues that are full, as reports name them.
    pub full: &'static [&'static str],
}

const THIRD: f64 = 1.0 / 3.0;
const BOTTLENECKS: &str = "papers/pps/bottlenecks.toml";
const OF_BOTTLENECKS: &[&str] = &["x", "y", "q", "r"];

pub const FIG5: Setup = Setup {
    name: "fig5",
    file: "papers/pps/one-hop.toml",
    set: &[],
    queues: &["line"],
    ideal: &[
        0.1 * THIRD,
        0.2 * THIRD,
        0.3 * THIRD,
        0.4 * THIRD,
        0.5 * THIRD,
        0.6 * THIRD,
        0.7 * THIRD,
        0.8 * THIRD,
        0.9 * THIRD,
    ],
    paper: &[],
    full: &["router -> sink"],
};

const TABLE1: Setup = Setup {
    name: "table1",
    file: "papers/pps/multi-hop.toml",
    set: &[],
    queues: &["line"],
    ideal: &[0.50, 0.25, 0.25],
    paper: &[0.48, 0.25, 0.25],
    full: &["s5 -> s6"],
};

/// Tables 1 to 6; that of PPS in 7 to 9 is one, for it knows no profiles.
pub const TABLES: [Setup; 8] = [
    TABLE1,
    Setup {
        name: "table2",
        file: "papers/pps/unused.toml",
        ideal: &[0.56, 0.16, 0.28],
        paper: &[0.53, 0.16, 0.29],
        ..TABLE1
    },
    Setup {
        name: "table3",
        file: BOTTLENECKS,
        queues: OF_BOTTLENECKS,
        ideal: &[4.0 * THIRD, 2.0 * THIRD, 1.0],
        paper: &[1.24, 0.70, 0.98],
        full: &["s3 -> s5", "s4 -> s5"],
        ..TABLE1
    },
    Setup {
        name: "table4",
        file: BOTTLENECKS,
        set: &["link.q.rate=10mbit", "link.r.rate=1mbit"],
        queues: OF_BOTTLENECKS,
        ideal: &[2.0 * THIRD, 4.0 * THIRD, THIRD],
        paper: &[0.63, 1.28, 0.35],
        full: &["s3 -> s5", "s6 -> s8"],
    },
    Setup {
        name: "table5",
        file: BOTTLENECKS,
        set: &["link.r.rate=1mbit"],
        queues: OF_BOTTLENECKS,
        ideal: &[2.0 * THIRD, 1.0, THIRD],
        paper: &[0.64, 0.98, 0.34],
        full: &["s6 -> s7", "s6 -> s8"],
    },
    Setup {
        name: "table6a",
        file: "papers/pps/rtt-equal.toml",
        ideal: &[0.1; 10],
        paper: &[
            0.100, 0.099, 0.100, 0.099, 0.100, 0.099, 0.100, 0.100, 0.100, 0.100,
        ],
        full: &["router -> sink"],
        ..TABLE1
    },
    Setup {
        name: "table6b",
        file: "papers/pps/rtt.toml",
        ideal: &[0.1; 10],
        paper: &[
            0.103, 0.102, 0.101, 0.099, 0.099, 0.097, 0.095, 0.095, 0.093, 0.093,
        ],
        full: &["router -> sink"],
        ..TABLE1
    },
    Setup {
        name: "table7",
        file: "papers/pps/diffserv.toml",
        ideal: &[0.60, 0.40, 0.20],
        paper: &[0.58, 0.40, 0.21],
        full: &["p -> q"],
        ..TABLE1
    },
];

/// Another choice than ours.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// As the cells are named.
    pub name: &'static str,
    /// For the report.
    pub says: &'static str,
    /// Settings of the scenario.
    set: &'static [&'static str],
    /// Settings of each queue that is `tred`.
    queue: &'static [&'static str],
}

/// The parameters of this project: the defaults.
pub const OURS: Variant = Variant {
    name: "ours",
    says: "ours: power 6, the links' window of 1 s, logarithmic codes, silence counts",
    set: &[],
    queue: &[],
};

/// As printed: the paper's own with policing (section 2.8); where it says nothing, ns-2's defaults, as ours.
pub const PAPERS: Variant = Variant {
    name: "printed",
    says: "as printed: power 3, window of 60 s, linear codes of 8 bits, no silence, policing",
    set: &[
        "tags.scale=linear",
        "tags.silence=false",
        "tags.policing=true",
    ],
    queue: &["tred.exponent=3", "tred.window=60s"],
};

/// The same without policing.
pub const UNPOLICED: Variant = Variant {
    name: "unpoliced",
    says: "as printed, no policing",
    set: &["tags.scale=linear", "tags.silence=false"],
    ..PAPERS
};

/// The same where tickets weigh RED's probability after it has spaced its drops: the other way to read section 2.4.2.
const SPACED: Variant = Variant {
    name: "printed-spaced",
    says: "as printed, tickets weigh RED's probability after spacing",
    queue: &["tred.exponent=3", "tred.window=60s", "tred.spaced=true"],
    ..PAPERS
};

/// As printed with one choice of ours.
pub const PRINTED_WINDOW: Variant = Variant {
    name: "printed-window-1s",
    says: "as printed, the links' window of 1 s",
    queue: &["tred.exponent=3"],
    ..PAPERS
};
pub const PRINTED_POWER: Variant = Variant {
    name: "printed-power-6",
    says: "as printed, power 6",
    queue: &["tred.window=60s"],
    ..PAPERS
};
pub const PRINTED_LOGARITHMIC: Variant = Variant {
    name: "printed-logarithmic",
    says: "as printed, logarithmic codes",
    set: &["tags.silence=false", "tags.policing=true"],
    ..PAPERS
};
pub const PRINTED_SILENCE: Variant = Variant {
    name: "printed-silence",
    says: "as printed, silence counts",
    set: &["tags.scale=linear", "tags.policing=true"],
    ..PAPERS
};
/// As printed with a shorter window at sources and links, for Fig. 7.
pub const PRINTED_10: Variant = Variant {
    name: "printed-window-10s",
    says: "as printed, windows of 10 s at sources and links, not 60",
    set: &[
        "tags.scale=linear",
        "tags.silence=false",
        "tags.policing=true",
        "tags.window=10s",
    ],
    queue: &["tred.exponent=3", "tred.window=10s"],
};

/// As printed with another RED than the default, of which the paper says nothing: for Table 3 and Table 6 (b), whose flows are not
/// where the paper has them.
pub const PRINTED_RED: [Variant; 2] = [
    red(
        "printed-no-wait",
        "as printed, RED without `wait`",
        &["tred.exponent=3", "tred.window=60s", "red.wait=false"],
    ),
    red(
        "printed-not-gentle",
        "as printed, RED that is not gentle",
        &["tred.exponent=3", "tred.window=60s", "red.gentle=false"],
    ),
];
/// As printed, for all tables, some of whose links are used less than the paper's: RED with a longer queue; the links' window between those
/// of the two columns (60 s and 1 s).
const PRINTED_LONGER: Variant = red(
    "printed-longer",
    "as printed, RED from 10 to 30 packets, not 5 to 15",
    &[
        "tred.exponent=3",
        "tred.window=60s",
        "red.min=10",
        "red.max=30",
    ],
);
const PRINTED_LINKS_10: Variant = red(
    "printed-links-10s",
    "as printed, the links' window of 10 s",
    &["tred.exponent=3", "tred.window=10s"],
);
const PRINTED_LINKS_30: Variant = red(
    "printed-links-30s",
    "as printed, the links' window of 30 s",
    &["tred.exponent=3", "tred.window=30s"],
);
/// As printed with two things changed.
const PRINTED_TWO: [Variant; 3] = [
    red(
        "printed-longer-no-wait",
        "as printed, two changes: RED without `wait`, from 10 to 30 packets, not 5 to 15",
        &[
            "tred.exponent=3",
            "tred.window=60s",
            "red.wait=false",
            "red.min=10",
            "red.max=30",
        ],
    ),
    Variant {
        set: UNPOLICED.set,
        ..red(
            "printed-longer-unpoliced",
            "as printed, two changes: no policing, RED from 10 to 30 packets, not 5 to 15",
            PRINTED_LONGER.queue,
        )
    },
    Variant {
        set: UNPOLICED.set,
        ..red(
            "printed-window-1s-unpoliced",
            "as printed, two changes: no policing, the links' window of 1 s",
            PRINTED_WINDOW.queue,
        )
    },
];
/// Set-ups of [`PRINTED_RED`].
pub const OTHER_RED: [&Setup; 2] = [&TABLES[2], &TABLES[6]];

const fn red(name: &'static str, says: &'static str, queue: &'static [&'static str]) -> Variant {
    Variant {
        name,
        says,
        queue,
        ..PAPERS
    }
}

/// Choices of the printed column: one thing changed, or two ([`PRINTED_TWO`]).
pub fn as_printed() -> impl Iterator<Item = &'static Variant> {
    let is_printed = |variant: &&Variant| {
        let names = [PAPERS.name, UNPOLICED.name];
        names.contains(&variant.name) || variant.name.starts_with("printed-")
    };
    VARIANTS.iter().filter(is_printed)
}

/// A shorter window at sources; that of links is 1 s already. For Fig. 7.
pub const WINDOW_10: Variant = Variant {
    name: "window-10s",
    says: "ours, the sources' window of 10 s, not 60",
    set: &["tags.window=10s"],
    ..OURS
};

/// Ours with policing, for Fig. 7.
const OURS_POLICED: Variant = Variant {
    name: "policing",
    says: "ours, policing",
    set: &["tags.policing=true"],
    ..OURS
};

/// Ours with one of the paper's choices.
const OURS_WINDOW: Variant = queue(
    "window",
    "ours, the links' window of 60 s, not 1",
    &["tred.window=60s"],
);
const OURS_POWER: Variant = queue("power-3", "ours, power 3", &["tred.exponent=3"]);
const OURS_SILENT: Variant = Variant {
    set: &["tags.silence=false"],
    ..queue("silence", "ours, no silence", &[])
};

/// Fig. 7 with tickets of receivers and one thing changed: as printed, then ours.
pub const FIG7_PRINTED: [Variant; 7] = [
    PRINTED_10,
    Variant {
        set: &[
            "tags.scale=linear",
            "tags.silence=false",
            "tags.policing=true",
            "tags.window=3s",
        ],
        ..red(
            "printed-window-3s",
            "as printed, windows of 3 s at sources and links, not 60",
            &["tred.exponent=3", "tred.window=3s"],
        )
    },
    UNPOLICED,
    PRINTED_WINDOW,
    PRINTED_POWER,
    PRINTED_LOGARITHMIC,
    PRINTED_SILENCE,
];
pub const FIG7_OURS: [Variant; 6] = [
    WINDOW_10,
    Variant {
        set: &["tags.window=3s"],
        ..queue("window-3s", "ours, the sources' window of 3 s, not 60", &[])
    },
    OURS_POLICED,
    OURS_WINDOW,
    OURS_POWER,
    OURS_SILENT,
];

/// Variants of Fig. 7.
pub const FIG7: [Variant; 7] = [
    OURS,
    PAPERS,
    UNPOLICED,
    SPACED,
    PRINTED_10,
    WINDOW_10,
    OURS_POLICED,
];
/// Both columns.
pub const COLUMNS: [Variant; 2] = [PAPERS, OURS];

/// Parameters that ours are compared with: one change at a time, but for [`PRINTED_TWO`].
pub const VARIANTS: [Variant; 28] = [
    OURS,
    PAPERS,
    UNPOLICED,
    SPACED,
    PRINTED_WINDOW,
    PRINTED_POWER,
    PRINTED_LOGARITHMIC,
    PRINTED_SILENCE,
    PRINTED_LONGER,
    PRINTED_LINKS_10,
    PRINTED_LINKS_30,
    PRINTED_TWO[0],
    PRINTED_TWO[1],
    PRINTED_TWO[2],
    OURS_POLICED,
    queue(
        "spaced",
        "ours, tickets weigh RED's probability after spacing",
        &["tred.spaced=true"],
    ),
    OURS_WINDOW,
    OURS_POWER,
    queue("power-4", "ours, power 4", &["tred.exponent=4"]),
    queue("power-9", "ours, power 9", &["tred.exponent=9"]),
    queue("power-24", "ours, power 24", &["tred.exponent=24"]),
    Variant {
        set: &["tags.scale=linear"],
        ..queue("linear", "ours, linear codes", &[])
    },
    OURS_SILENT,
    queue(
        "interval-200ms",
        "ours, MinTkt over 0.2 s",
        &["tred.interval=200ms"],
    ),
    queue(
        "interval-5s",
        "ours, MinTkt over 5 s",
        &["tred.interval=5s"],
    ),
    queue(
        "interval-60s",
        "ours, MinTkt over 60 s",
        &["tred.interval=60s"],
    ),
    queue("no-wait", "ours, RED without `wait`", &["red.wait=false"]),
    queue(
        "longer",
        "ours, RED from 10 to 30 packets, not 5 to 15",
        &["red.min=10", "red.max=30"],
    ),
];

const fn queue(name: &'static str, says: &'static str, queue: &'static [&'static str]) -> Variant {
    Variant {
        name,
        says,
        queue,
        ..OURS
    }
}

impl Variant {
    /// Settings of a scenario whose links of these names are `tred`.
    pub fn settings(&self, queues: &[&str]) -> Vec<String> {
        let of_queues = queues.iter().flat_map(|link| {
            let keys = self.queue.iter();
            keys.map(move |key| format!("link.{link}.queue.{key}"))
        });
        let of_file = self.set.iter().map(|set| set.to_string());
        of_file.chain(of_queues).collect()
    }
}

impl Setup {
    /// Its results with `variant`.
    pub fn key(&self, variant: &str) -> Key {
        Key::new(format!("{variant}/{}", self.name))
    }

    /// How it is run with `variant`.
    pub fn cell(&self, variant: &Variant) -> Cell {
        let of_file = self.set.iter().map(|set| set.to_string());
        Cell {
            set: of_file.chain(variant.settings(self.queues)).collect(),
            ..cell(self.key(variant.name), self.file)
        }
    }
}

/// The paper's 600 s.
fn cell(key: Key, file: &'static str) -> Cell {
    Cell {
        runs: Some(10),
        ..Cell::new(key, file, 600)
    }
}

/// Profiles of DiffServ in Tables 7 to 9, kbit/s.
pub const PROFILES: [(&str, [u32; 3]); 3] = [
    ("table7", [600, 400, 200]),
    ("table8", [150, 100, 50]),
    ("table9", [1200, 800, 400]),
];

/// When something happens in Fig. 7 and 8, in seconds.
pub const CHANGE: f64 = 300.0;

/// `fig7` or `fig8`, with a variant.
pub fn over_time(figure: &str, variant: &str) -> Key {
    Key::new(format!("{figure}/{variant}"))
}

/// A changes what it is issued at [`CHANGE`], or B.
pub const FIG8_SET: [&str; 2] = [
    "link.a.tickets={ at = \"s0\", rate = 1000, steps = [[\"300s\", 600]] }",
    "link.b.tickets={ at = \"s1\", rate = 500, steps = [[\"300s\", 900]] }",
];
/// A begins then.
pub const FIG7_SET: [&str; 1] = ["flow.A.start=300s"];

/// Fig. 11 and 12: that flow alone has a round trip of 300 ms.
pub const FAR: [Option<u32>; 3] = [None, Some(1), Some(9)];

/// One of [`FAR`], with a variant.
pub fn rtt(variant: &str, far: Option<u32>) -> Key {
    let far = far.map_or("all".into(), |far| far.to_string());
    Key::new(format!("rtt/{variant}/{far}"))
}

/// Delays of [`FAR`].
pub fn delays(far: Option<u32>) -> impl Iterator<Item = String> {
    let delay = move |i| if Some(i) == far { "140ms" } else { "5ms" };
    (1..=9).map(move |i| format!("link.a{i}.delay={}", delay(i)))
}

/// Table 9 under DiffServ with one thing changed: as cells are named, for the report, and the settings.
pub const PROFILE_CHANGES: [(&str, &str, &[&str]); 3] = [
    (
        "table9-alike",
        "packets outside their profile dropped as those inside",
        &[
            "link.line.queue.rio.out.min=20",
            "link.line.queue.rio.out.max=40",
            "link.line.queue.rio.out.max_p=0.02",
        ],
    ),
    (
        "table9-wait",
        "drops 1/p to 2/p packets apart",
        &[
            "link.line.queue.rio.in.wait=true",
            "link.line.queue.rio.out.wait=true",
        ],
    ),
    (
        "table9-profile",
        "C promised 0.6 Mbit/s, not 0.4",
        &["flow.C.profile=600kbit"],
    ),
];

/// Tables 7 to 9 under DiffServ.
pub fn diffserv(table: &str) -> Key {
    Key::new(format!("diffserv/{table}"))
}

/// All that is run.
pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for variant in &VARIANTS {
        cells.push(FIG5.cell(variant));
        cells.extend(TABLES.iter().map(|setup| setup.cell(variant)));
    }
    for variant in &PRINTED_RED {
        cells.extend(OTHER_RED.map(|setup| setup.cell(variant)));
    }
    let profiled = |name: &str, profiles: [u32; 3], more: &[&str]| {
        let set = ["A", "B", "C"].iter().zip(profiles);
        let set = set.map(|(flow, kbit)| format!("flow.{flow}.profile={kbit}kbit"));
        Cell {
            set: set.chain(more.iter().map(|set| set.to_string())).collect(),
            ..cell(diffserv(name), "papers/pps/profiles.toml")
        }
    };
    cells.extend(PROFILES.map(|(table, profiles)| profiled(table, profiles, &[])));
    let [.., (_, last)] = PROFILES;
    cells.extend(PROFILE_CHANGES.map(|(name, _, set)| profiled(name, last, set)));
    let with = |set: &[&str], variant: &Variant| {
        let set = set.iter().map(|set| set.to_string());
        set.chain(variant.settings(&["line"])).collect()
    };
    let fig7 = FIG7.iter().map(|variant| ("fig7", &FIG7_SET[..], variant));
    let fig8 = COLUMNS
        .iter()
        .map(|variant| ("fig8", &FIG8_SET[..], variant));
    for (figure, set, variant) in fig7.chain(fig8) {
        cells.push(Cell {
            set: with(set, variant),
            series: true,
            ..cell(over_time(figure, variant.name), "papers/pps/multi-hop.toml")
        });
    }
    for variant in &COLUMNS {
        for far in FAR {
            cells.push(Cell {
                set: delays(far).chain(variant.settings(&["line"])).collect(),
                ..cell(rtt(variant.name, far), "papers/pps/one-hop.toml")
            });
        }
    }
    cells
}
