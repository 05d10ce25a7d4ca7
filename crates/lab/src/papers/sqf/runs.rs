// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments: which scenarios are run, and with what.

use super::{beyond, changed, in_guest};
use crate::experiment::{Cell, Key, World};

/// Numbers of downloads in Table I.
pub const TABLE: [u32; 5] = [1, 5, 10, 15, 20];
/// Source jitter of Fig. 8 in ms; chosen by us around the paper's threshold of 5 ms.
pub const DELTAS: [u32; 6] = [0, 1, 2, 5, 10, 20];
/// Line rates in Mbit/s and numbers of downloads of Fig. 8; the paper does not state the latter.
pub const JITTERED: [(u32, u32); 5] = [(10, 1), (10, 5), (10, 8), (10, 10), (100, 10)];
/// Seeds of Fig. 8: near its threshold one run loses nothing and the next all, so the middle one of
/// three counts where the verdict is taken.
pub fn seeds(mbit: u32, n: u32) -> std::ops::RangeInclusive<u32> {
    match (mbit, n) {
        (10, 8 | 10) => 1..=3,
        _ => 1..=1,
    }
}

/// Fig. 8 with one thing changed: as cells are named, for the report, the setting, and the line rates in Mbit/s. Packets wait and leave
/// as a bunch, or the times between them are Gaussian; more buffer, at 100 Mbit/s as many ms of it as at 10, too; a video with the same part
/// of the rate; downloads whose round trip is not nothing; the discipline that `makeway up` has by default.
pub const KINDS: [(&str, &str, &str, &[u32]); 8] = [
    (
        "ordered-delay",
        "order is kept",
        "flow.video.jitter_of=ordered-delay",
        &[10, 100],
    ),
    (
        "gap",
        "Gaussian gaps",
        "flow.video.jitter_of=gap",
        &[10, 100],
    ),
    (
        "buffer-200",
        "packets overtake, a buffer of 200 packets",
        "link.line.queue.limit=200 packets",
        &[10, 100],
    ),
    (
        "buffer-500",
        "packets overtake, a buffer of 500 packets",
        "link.line.queue.limit=500 packets",
        &[100],
    ),
    (
        "buffer-1000",
        "packets overtake, a buffer of 1000 packets",
        "link.line.queue.limit=1000 packets",
        &[100],
    ),
    (
        "video-50",
        "packets overtake, a video of 50 Mbit/s",
        "flow.video.rate=50mbit",
        &[100],
    ),
    (
        "far",
        "packets overtake, downloads with a one-way delay of 25 ms, not 0",
        "link.web.delay=25ms",
        &[10],
    ),
    (
        "makeway",
        "packets overtake, makeway instead of SQF",
        "link.line.queue.discipline=makeway",
        &[10, 100],
    ),
];
/// Downloads beside it.
pub const DISTURBED_N: u32 = 10;

/// End of the keys of cells under the paper's SQF, beside the same under ours.
pub const PRINTED: &str = "/printed";
/// Under it a packet counts its own bytes.
const OWN_BYTES: &str = "link.line.queue.least_cost=0B";

/// Kinds, their settings, line rates in Mbit/s and deltas in ms.
fn disturbed() -> impl Iterator<Item = ([&'static str; 2], u32, u32)> {
    let kinds = KINDS.into_iter().flat_map(|(kind, _, set, rates)| {
        let of_rate = move |mbit: &u32| ([kind, set], *mbit);
        rates.iter().map(of_rate)
    });
    kinds.flat_map(|(kind, mbit)| DELTAS.map(|delta| (kind, mbit, delta)))
}

pub fn disturbance(kind: &str, mbit: u32, delta_ms: u32) -> Key {
    Key::new(format!("jitter-of/{kind}/{mbit}/{delta_ms}"))
}

/// Downloads beside a stream that is paced more coarsely, to show what its peak rate does.
pub const SLICED: [u32; 3] = [10, 15, 20];

/// Numbers of downloads that `discipline` is run with.
pub fn downloads(discipline: &str, full: bool) -> Vec<u32> {
    if full || discipline == "sqf" {
        (1..=20).collect()
    } else {
        TABLE.to_vec()
    }
}

/// The cell under the paper's SQF, if it is one of those that a printed column is judged by.
fn printed(cell: &Cell) -> Option<Cell> {
    let path = cell.key.path();
    let judged = [
        "testbed/sqf/",
        "jitter/",
        "streams/",
        "tcp/sqf/packets/",
        "upload/",
        "buffer/",
    ];
    let is_judged = judged.iter().any(|from| path.starts_with(from));
    is_judged.then(|| {
        let mut printed = cell.clone();
        printed.key = as_printed(&cell.key);
        printed.set.push(OWN_BYTES.into());
        printed
    })
}

/// Key of the same cell under the paper's SQF.
pub fn as_printed(key: &Key) -> Key {
    Key::new(format!("{}{PRINTED}", key.path()))
}

/// Everything that is run. In simulated time a run measures the paper's 10 minutes, elsewhere 20 s unless it is `full`. In simulated time
/// all is replicated, so that nothing needs seeds.
pub fn cells(full: bool, world: World) -> Vec<Cell> {
    if world == World::Vm {
        return in_guest::cells(full);
    }
    let replicated = world == World::Sim;
    let is_long = full || replicated;
    let seconds = if is_long { 605 } else { 25 };
    let cell = |key: Key, file, set: Vec<String>| Cell {
        set,
        ..Cell::new(key, file, seconds)
    };
    let mut cells = Vec::new();
    for discipline in ["fifo", "fq", "pfq", "sqf"] {
        for n in downloads(discipline, full) {
            cells.push(cell(
                testbed(discipline, n),
                "papers/sqf/testbed.toml",
                vec![
                    format!("link.line.queue.discipline={discipline}"),
                    format!("flow.download.count={n}"),
                ],
            ));
        }
    }
    for (mbit, n) in JITTERED {
        for delta in DELTAS {
            let one = |seed: &u32| !replicated || *seed == 1;
            for seed in seeds(mbit, n).filter(one) {
                let set = vec![
                    format!("link.line.rate=[\"{mbit}mbit\", \"100mbit\"]"),
                    format!("flow.download.count={n}"),
                    format!("flow.video.jitter={delta}ms"),
                    format!("seed={seed}"),
                ];
                let shortened = if mbit > 10 { 15 } else { 25 };
                cells.push(Cell {
                    seconds: if is_long { 605 } else { shortened },
                    // A stall of some milliseconds is all that it takes at 100 Mbit/s: nothing runs beside it.
                    weight: if mbit > 10 { 4 } else { 1 },
                    ..cell(jitter(mbit, n, delta, seed), "papers/sqf/jitter.toml", set)
                });
            }
        }
    }
    cells.push(cell(streams("three"), "papers/sqf/streams.toml", vec![]));
    let one = vec!["flow.video.count=1".into(), "flow.video.rate=6mbit".into()];
    cells.push(cell(streams("one"), "papers/sqf/streams.toml", one));
    cells.push(cell(users("hier"), "papers/sqf/users.toml", vec![]));
    let flat = vec!["link.line.queue.discipline=sqf".into()];
    cells.push(cell(users("sqf"), "papers/sqf/users.toml", flat));
    for n in SLICED {
        let set = vec![
            format!("flow.download.count={n}"),
            "flow.video.pace=200ms".into(),
        ];
        cells.push(cell(slices(n), "papers/sqf/testbed.toml", set));
    }
    if replicated {
        cells.extend(beyond::cells(seconds));
        cells.extend(changed::cells(seconds));
        for ([kind, change], mbit, delta) in disturbed() {
            let set = vec![
                format!("link.line.rate=[\"{mbit}mbit\", \"100mbit\"]"),
                format!("flow.download.count={DISTURBED_N}"),
                format!("flow.video.jitter={delta}ms"),
                change.to_owned(),
            ];
            cells.push(cell(
                disturbance(kind, mbit, delta),
                "papers/sqf/jitter.toml",
                set,
            ));
        }
    }
    let burst = vec!["flow.video.pace=burst".into()];
    cells.push(cell(unpaced(), "papers/sqf/testbed.toml", burst));
    if is_long {
        let printed: Vec<Cell> = cells.iter().filter_map(printed).collect();
        cells.extend(printed);
    }
    cells
}

/// On the testbed, with `n` downloads.
pub fn testbed(discipline: &str, n: u32) -> Key {
    Key::new(format!("testbed/{discipline}/{n}"))
}

pub fn jitter(mbit: u32, n: u32, delta_ms: u32, seed: u32) -> Key {
    Key::new(format!("jitter/{mbit}/{n}/{delta_ms}/{seed}"))
}

/// `one` or `three`.
pub fn streams(number: &str) -> Key {
    Key::new(format!("streams/{number}"))
}

pub fn users(discipline: &str) -> Key {
    Key::new(format!("users/{discipline}"))
}

pub fn slices(downloads: u32) -> Key {
    Key::new(format!("slices/{downloads}"))
}

pub fn unpaced() -> Key {
    Key::new("unpaced")
}
