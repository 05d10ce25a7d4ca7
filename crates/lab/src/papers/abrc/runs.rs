// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cells of the ABRC paper.

use super::dynamics::STARTS;
use super::variants::{
    COLUMNS, IN_BYTES_ALONE, OURS, PRINTED, PRINTED_BUT, SENDERS_OF_MANY, VARIANTS, tried,
};
use crate::experiment::{Cell, Key, World};

const FILE: &str = "papers/abrc/wlan.toml";
/// Half a minute of them is not measured; chosen by us.
const SECONDS: u64 = 330;
const RUNS: usize = 10;

/// A row of Table 1 or 2.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// 1 or 2, and as many downloads.
    pub table: u32,
    /// k_T.
    pub k: f64,
    /// The paper's, in Mbit/s.
    pub abrc: f64,
    /// Rate of all downloads.
    pub tcp: f64,
}

pub const ROWS: [Row; 6] = [
    row(1, 1.0, 2.53, 2.58),
    row(1, 2.0, 3.79, 1.66),
    row(1, 3.0, 4.20, 1.36),
    row(2, 1.0, 2.53, 2.69),
    row(2, 2.0, 3.74, 1.72),
    row(2, 0.5, 1.48, 3.77),
];

const fn row(table: u32, k: f64, abrc: f64, tcp: f64) -> Row {
    Row {
        table,
        k,
        abrc,
        tcp,
    }
}

/// A tick of Linux's and Windows' timers of the time (HZ 100).
const TICK: &str = "10ms";

/// Packets at the access point.
pub const BUFFERS: [u32; 5] = [50, 100, 200, 300, 800];

/// Shares of data frames that the channel loses, and how often each is tried.
pub const LOSSES: [(f64, u32); 5] = [(0.0, 7), (0.2, 7), (0.02, 1), (0.05, 1), (0.1, 1)];
/// Ours; as printed; TFRC of the time, and of today; as printed but for departures, which are counted by sequence numbers.
pub const SENDERS: [&str; 5] = ["abrc", "printed", "tfrc", "tfrc-5348", "numbered"];
/// TFRC of the time whose estimate of the RTT begins at 0.5 s; alone (Fig. 2).
pub const FIRST_RTT: &str = "tfrc-500ms";
/// The same from 2 s on.
pub const LATER_RTT: &str = "tfrc-2s";
/// The same from 5 s on.
pub const LAST_RTT: &str = "tfrc-5s";
/// TFRC of the time with an exact timer, likewise.
pub const EXACT_TFRC: &str = "tfrc-exact";
/// A thing that the paper names and has no figures of, changed alone; those of footnote 1 (`bytes-...`) change one thing of [`BYTES`].
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// As the cells are named.
    pub name: &'static str,
    /// For the report.
    pub says: &'static str,
    /// Keys of the controller.
    keys: &'static str,
    /// Settings of the scenario.
    set: &'static [&'static str],
}

pub const CHOICES: [Choice; 23] = [
    choice("none", "nothing changed", "", &[]),
    choice(
        "pair",
        "two packets at once after each report, for T_UDP",
        ", pair = true",
        &[],
    ),
    choice(
        "mean",
        "BW* the mean of the last four (section 2.3)",
        ", smoothing = \"mean\"",
        &[],
    ),
    choice(
        "exponential",
        "BW* a moving average with a weight of a quarter (section 2.3)",
        ", smoothing = \"exponential\"",
        &[],
    ),
    choice(
        "interval-500ms",
        "a report each 0.5 s",
        ", interval = \"500ms\"",
        &[],
    ),
    choice(
        "interval-2s",
        "a report each 2 s",
        ", interval = \"2s\"",
        &[],
    ),
    choice(
        "retarget-1",
        "B_T set with each report",
        ", retarget = 1",
        &[],
    ),
    choice(
        "retarget-10",
        "B_T set with each tenth report",
        ", retarget = 10",
        &[],
    ),
    choice(
        "small",
        "the stream's packets of 768 B, occupancy in packets",
        "",
        &["flow.stream.rate.unit=packets", SMALL],
    ),
    choice(
        BYTES,
        "the same, occupancy in bytes (footnote 1)",
        "",
        &[IN_BYTES, SMALL],
    ),
    choice(
        "bytes-1500",
        "occupancy in bytes, the stream's packets as long as the download's",
        "",
        &[IN_BYTES],
    ),
    choice(
        "bytes-slow",
        "in bytes, packets of 768 B, a radio of 1 Mbit/s, where a frame takes little time beside its bytes",
        "",
        &[IN_BYTES, SMALL, "wlan.cell.rate=1mbit"],
    ),
    choice(
        "bytes-both",
        "in bytes, packets of 768 B, the download's too",
        "",
        &[IN_BYTES, SMALL, "flow.download.tcp.mss=716B"],
    ),
    choice(
        "bytes-1152",
        "in bytes, packets of 1152 B",
        "",
        &[IN_BYTES, "flow.stream.stream.payload=1116B"],
    ),
    choice(
        "bytes-acks-0",
        "in bytes, packets of 768 B, acknowledgements not counted",
        "",
        &[IN_BYTES, SMALL, "flow.stream.rate.acks=0"],
    ),
    choice(
        "bytes-acks-30",
        "in bytes, packets of 768 B, acknowledgements count 0.3, not 0.15",
        "",
        &[IN_BYTES, SMALL, "flow.stream.rate.acks=0.3"],
    ),
    choice(
        "bytes-shortest",
        "in bytes, packets of 768 B, T_UDP the shortest time so far",
        "",
        &[IN_BYTES, SMALL, "flow.stream.rate.t_udp=shortest"],
    ),
    choice(
        "bytes-received",
        "in bytes, packets of 768 B, departures by received packets",
        "",
        &[IN_BYTES, SMALL, "flow.stream.rate.leaving=received"],
    ),
    choice(
        "bytes-no-pairs",
        "in bytes, packets of 768 B, no packets that leave at once",
        "",
        &[IN_BYTES, SMALL, "flow.stream.rate.pair_each=0"],
    ),
    choice(
        "bytes-no-path",
        "in bytes, packets of 768 B, the least B_T without the path",
        "",
        &[IN_BYTES, SMALL, "flow.stream.rate.path=none"],
    ),
    choice(
        "bytes-preamble",
        "in bytes, packets of 768 B, short preambles",
        "",
        &[IN_BYTES, SMALL, "wlan.cell.preamble=short"],
    ),
    choice(
        REMOTE,
        "the download from 50 ms away (section 2)",
        "",
        &["link.ethernet-ftp.delay=50ms"],
    ),
    choice(
        UDP,
        "1 Mbit/s of other UDP beside the download (section 3.1)",
        "",
        &["flow.udp.count=1"],
    ),
];
pub const BYTES: &str = "bytes";
pub const REMOTE: &str = "remote";
pub const UDP: &str = "udp";
/// Choices that are statements of the paper: they are run with the first changes of [`VARIANTS`] too, and with each of [`PRINTED_BUT`].
pub const STATED: [&str; 3] = [UDP, REMOTE, BYTES];
/// Choices that change a value of ours; as printed has another one already.
const OF_OURS: [&str; 6] = [
    "bytes-acks-0",
    "bytes-acks-30",
    "bytes-shortest",
    "bytes-received",
    "bytes-no-pairs",
    "bytes-no-path",
];
const SMALL: &str = "flow.stream.stream.payload=732B";
const IN_BYTES: &str = "flow.stream.rate.unit=bytes";
/// k_T of [`CHOICES`], beside one download.
pub const CHOSEN: [f64; 2] = [1.0, 2.0];

const fn choice(
    name: &'static str,
    says: &'static str,
    keys: &'static str,
    set: &'static [&'static str],
) -> Choice {
    Choice {
        name,
        says,
        keys,
        set,
    }
}

/// One of [`CHOICES`] in a column.
pub fn chosen(column: &str, choice: &str, k: f64) -> Key {
    Key::new(format!("choice/{column}/{choice}/{k}"))
}

/// k_T of several streams beside one download.
pub const MANY: [&[f64]; 6] = [
    &[0.25, 0.25],
    &[0.5, 0.5],
    &[0.25, 1.0],
    &[0.2, 0.2, 0.2],
    &[1.0, 1.0],
    &[2.0, 2.0],
];

/// Values of beta of streams with these k_T.
pub fn betas(ks: &[f64]) -> Vec<f64> {
    ks.iter().map(|k| k / (k + 1.0)).collect()
}

/// Whether such streams are stable together: the sum of beta is below 1.
pub fn is_stable(ks: &&[f64]) -> bool {
    betas(ks).iter().sum::<f64>() < 1.0 - 1e-9
}

impl Row {
    pub fn key(&self, variant: &str) -> Key {
        Key::new(format!("{variant}/table{}/{}", self.table, self.k))
    }
}

/// `flow.stream` sends with ABRC.
fn abrc(stream: &str, k: f64, keys: &str) -> String {
    format!("flow.{stream}.rate={{ kind = \"abrc\", first = \"7mbit\", k = {k}{keys} }}")
}

/// Timer of `flow.stream`.
fn tick(stream: &str) -> String {
    format!("flow.{stream}.tick={TICK}")
}

fn cell(key: Key, set: Vec<String>) -> Cell {
    Cell {
        set,
        runs: Some(RUNS),
        ..Cell::new(key, FILE, SECONDS)
    }
}

pub fn cells(_full: bool, _world: World) -> Vec<Cell> {
    let second = |row: &Row| format!("flow.second.count={}", row.table - 1);
    let mut cells = Vec::new();
    for variant in tried() {
        for row in &ROWS {
            let mut set = vec![abrc("stream", row.k, variant.keys), second(row)];
            set.extend(variant.ticks.then(|| tick("stream")));
            cells.push(cell(row.key(variant.name), set));
        }
    }
    for packets in BUFFERS {
        for row in [&ROWS[2], &ROWS[4]] {
            let buffer = format!("wlan.cell.queue.limit={packets} packets");
            let set = vec![abrc("stream", row.k, ""), second(row), buffer];
            cells.push(cell(buffer_key(packets, row.table), set));
        }
    }
    let none = || "flow.download.count=0".to_owned();
    for (sender, rate) in senders() {
        for (name, others) in [("fig2", vec![none()]), ("fig3", vec![])] {
            cells.push(Cell {
                series: true,
                ..cell(figure(name, sender), [rate.clone(), others].concat())
            });
        }
        for (p, tries) in LOSSES {
            for (beside, others) in [("alone", vec![none()]), ("tcp", vec![])] {
                let lossy = vec![
                    format!("wlan.cell.loss={p}"),
                    format!("wlan.cell.retry_limit={tries}"),
                ];
                let key = loss(p, tries, beside, sender);
                cells.push(cell(key, [rate.clone(), lossy, others].concat()));
            }
        }
    }
    let starts = [
        (FIRST_RTT, vec![begun("500ms"), tick("stream")]),
        (LATER_RTT, vec![begun("2s"), tick("stream")]),
        (
            EXACT_TFRC,
            vec![tfrc(", rfc = \"3448\", granularity = \"0ns\"")],
        ),
    ];
    let changed = STARTS.map(|(sender, _, keys, set)| {
        let rate = [tfrc(&format!("{OF_2004}{keys}")), tick("stream")];
        let set = set.iter().map(|set| set.to_string());
        (sender, rate.into_iter().chain(set).collect())
    });
    for (sender, rate) in starts.into_iter().chain(changed) {
        cells.push(Cell {
            series: true,
            ..cell(figure("fig2", sender), [rate, vec![none()]].concat())
        });
    }
    let columns = [COLUMNS[0], COLUMNS[1], VARIANTS[1], VARIANTS[2]];
    for column in columns.into_iter().chain(PRINTED_BUT) {
        let is_run = |choice: &Choice| match column.name {
            OURS => true,
            PRINTED => !OF_OURS.contains(&choice.name),
            // The statement of bytes has them in any case.
            IN_BYTES_ALONE => [UDP, REMOTE].contains(&choice.name),
            _ => STATED.contains(&choice.name),
        };
        for choice in CHOICES.into_iter().filter(is_run) {
            for k in CHOSEN {
                let keys = [column.keys, choice.keys].concat();
                let mut set = vec![abrc("stream", k, &keys)];
                set.extend(column.ticks.then(|| tick("stream")));
                set.extend(choice.set.iter().map(|set| set.to_string()));
                cells.push(cell(chosen(column.name, choice.name, k), set));
            }
        }
    }
    for variant in SENDERS_OF_MANY {
        let is_column = [PRINTED, OURS].contains(&variant.name);
        for ks in MANY.into_iter().filter(|ks| is_column || is_stable(ks)) {
            let streams = ["stream", "other", "third"].iter().zip(ks);
            let set = streams.flat_map(|(stream, k)| {
                let rate = abrc(stream, *k, variant.keys);
                let timer = variant.ticks.then(|| tick(stream));
                [rate, format!("flow.{stream}.count=1")]
                    .into_iter()
                    .chain(timer)
            });
            cells.push(cell(many(variant.name, ks), set.collect()));
        }
    }
    cells
}

fn tfrc(keys: &str) -> String {
    format!("flow.stream.rate={{ kind = \"tfrc\"{keys} }}")
}

/// Keys of TFRC of the time, with a timer of 10 ms.
const OF_2004: &str = ", rfc = \"3448\", granularity = \"10ms\"";

/// TFRC of the time whose estimate of the RTT begins so.
fn begun(rtt: &str) -> String {
    tfrc(&format!("{OF_2004}, first_rtt = \"{rtt}\""))
}

fn senders() -> [(&'static str, Vec<String>); 5] {
    [
        (SENDERS[0], vec![abrc("stream", 1.0, "")]),
        (
            SENDERS[1],
            vec![abrc("stream", 1.0, VARIANTS[0].keys), tick("stream")],
        ),
        (SENDERS[2], vec![tfrc(OF_2004), tick("stream")]),
        (SENDERS[3], vec![tfrc("")]),
        (
            SENDERS[4],
            vec![
                abrc(
                    "stream",
                    1.0,
                    &VARIANTS[0].keys.replace("received", "numbered"),
                ),
                tick("stream"),
            ],
        ),
    ]
}

/// A row of that table with another buffer.
pub fn buffer_key(packets: u32, table: u32) -> Key {
    Key::new(format!("buffer/{packets}/table{table}"))
}

/// `fig2` or `fig3`.
pub fn figure(name: &str, sender: &str) -> Key {
    Key::new(format!("{name}/{sender}"))
}

/// Beside `tcp`, or alone.
pub fn loss(p: f64, tries: u32, beside: &str, sender: &str) -> Key {
    Key::new(format!("loss/{p}x{tries}/{beside}/{sender}"))
}

/// The cell of several streams.
pub fn many(variant: &str, ks: &[f64]) -> Key {
    let ks: Vec<String> = ks.iter().map(f64::to_string).collect();
    Key::new(format!("many/{variant}/{}", ks.join("+")))
}
