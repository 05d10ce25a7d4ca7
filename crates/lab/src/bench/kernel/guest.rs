// SPDX-License-Identifier: MIT OR Apache-2.0
//! In the guest, whose clock counts instructions: each qdisc in turn is put on the link and offered packets.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, ensure};
use makeway_core::sched::{Discipline, Limits};
use makeway_core::units::Bytes;
use makeway_gateway::bpf::{self, Qdisc};
use rustix::time::{ClockId, clock_gettime};

use super::veth::{NEAR, Veth, softirqs};
use super::{Case, PATH, Row, Subject};
use makeway::text;

/// Qdiscs to measure beside the path without one; ours by their discipline. TRED drops before its buffer is full, and
/// so never stands at the load that is asked for.
pub const NAMES: [&str; 10] = [
    "pfifo",
    "fq_codel",
    "fq",
    "cake",
    "bpf:fifo",
    "bpf:fq",
    "bpf:ncq",
    "bpf:hier",
    "bpf:sqf",
    "bpf:makeway",
];

/// Rounds of each case, and packets of a round: the first rounds warm the allocator up, of the others the median counts.
const ROUNDS: usize = 9;
const WARM: usize = 4;
const ROUND: u32 = 1000;
/// Packets that wait where flows are fewer.
const WAITING: u32 = 1000;
/// Packets that the far end's ring takes before any waits, and some more.
const RING: u32 = 400;
/// Fewer than the ring takes: none waits.
const BATCH: u32 = 200;
/// Share of the processor that the far end gets at a time: some fifty packets' worth.
const TURN: Duration = Duration::from_micros(150);
/// The most flows of a case.
const FLOWS: u32 = 30_000;

/// Measures and says what it found, a line of JSON for each qdisc.
pub fn run(only: &[String]) -> anyhow::Result<()> {
    let mut veth = Veth::new()?;
    // Twice: the first time is for the allocator.
    Subject::of_path(&mut veth)?;
    let path = Subject::of_path(&mut veth)?;
    for name in NAMES {
        if only.is_empty() || only.iter().any(|one| one == name) {
            let subject = Subject::of(name, &mut veth).with_context(|| name.to_owned())?;
            text::say!("{}", serde_json::to_string(&subject)?);
        }
    }
    text::say!("{}", serde_json::to_string(&path)?);
    Ok(())
}

impl Subject {
    /// The path without a qdisc; where a qdisc drops, with a far end that is down, so that the device does.
    fn of_path(veth: &mut Veth) -> anyhow::Result<Self> {
        call("tc", &format!("qdisc replace dev {NEAR} root noqueue"))?;
        let (idle, steady) = (idle(veth)?, steady(veth, Case::Flood, BATCH)?);
        veth.set_far("down")?;
        let dropped = excess(veth, Case::Flood, 0);
        veth.set_far("up")?;
        let dropped = Some(dropped?);
        let rows = Case::ALL.map(|case| match case {
            Case::Idle => Row {
                case,
                forwarded: idle,
                dropped: None,
            },
            _ => Row {
                case,
                forwarded: steady,
                dropped,
            },
        });
        Ok(Self {
            qdisc: PATH.into(),
            rows: rows.into(),
        })
    }

    fn of(name: &str, veth: &mut Veth) -> anyhow::Result<Self> {
        let mut rows = Vec::new();
        for case in Case::ALL {
            // Room for more than wait: nothing is dropped but what comes to a full buffer.
            let limit = case.flows().max(WAITING);
            let loaded = Loaded::new(name, 2 * limit)?;
            let forwarded = match case {
                Case::Idle => idle(veth)?,
                _ => steady(veth, case, limit)?,
            };
            drop(loaded);
            let dropped = match case {
                Case::Idle => None,
                _ => {
                    let _loaded = Loaded::new(name, limit)?;
                    Some(excess(veth, case, limit)?)
                }
            };
            rows.push(Row {
                case,
                forwarded,
                dropped,
            });
        }
        Ok(Self {
            qdisc: name.into(),
            rows,
        })
    }
}

impl Case {
    fn flows(self) -> u32 {
        match self {
            Self::Overload(flows) => flows,
            Self::Idle | Self::Flood => 1000,
        }
    }

    /// The flow of packet `n`.
    fn flow(self, n: u32) -> u32 {
        // Every flow in turn, but not neighbours after each other.
        let flow = n.wrapping_mul(7919) % self.flows();
        match self == Self::Flood && !n.is_multiple_of(10) {
            true => FLOWS,
            false => flow,
        }
    }
}

/// A qdisc on the link; dropped, it goes.
struct Loaded {
    _kind: Option<Qdisc>,
}

impl Loaded {
    fn new(name: &str, limit: u32) -> anyhow::Result<Self> {
        let bytes = 200 * u64::from(limit);
        let (options, kind) = match name {
            "pfifo" | "fq_codel" => (format!("{name} limit {limit}"), None),
            "fq" => (format!("fq limit {limit} flow_limit {limit}"), None),
            // It counts memory, of which such a packet takes 768 bytes.
            "cake" => (format!("cake memlimit {}", 768 * limit), None),
            ours => {
                let discipline: Discipline = ours.trim_start_matches("bpf:").parse()?;
                let limits = Limits {
                    packets: limit,
                    bytes: Bytes::new(bytes),
                    flows: limit,
                };
                let config = bpf::Config::new(discipline.spec(), limits);
                (KIND.to_owned(), Some(Qdisc::load(KIND, &config)?))
            }
        };
        call("tc", &format!("qdisc add dev {NEAR} root {options}"))?;
        Ok(Self { _kind: kind })
    }
}

const KIND: &str = "makeway";

impl Drop for Loaded {
    fn drop(&mut self) {
        // If it fails, so does the next `add`, and says why.
        let _ = call("tc", &format!("qdisc del dev {NEAR} root"));
    }
}

/// Packets that pass one by one.
fn idle(veth: &mut Veth) -> anyhow::Result<f64> {
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        veth.drain()?;
        let (taken, spent) = (veth.taken()?, softirqs()?);
        let sending = send(veth, 0..BATCH, |n| Case::Idle.flow(n))?;
        veth.drain()?;
        let taken = (veth.taken()? - taken) as f64;
        ensure!(taken >= f64::from(BATCH), "{taken} of {BATCH} packets came");
        costs.push(sending + (softirqs()? - spent) as f64 / taken);
    }
    Ok(median(costs))
}

/// Packets that come and leave while about `waiting` others are held, here or in the ring. The processor is never idle: what
/// it does is all for them, but for the looks at how many came, which are the same for every qdisc.
fn steady(veth: &mut Veth, case: Case, waiting: u32) -> anyhow::Result<f64> {
    veth.drain()?;
    let before = veth.taken()?;
    let mut sent = 0;
    let fill = |veth: &mut Veth, sent: &mut u32| -> anyhow::Result<u64> {
        let taken = veth.taken()? - before;
        while u64::from(*sent) < taken + u64::from(waiting) {
            veth.send(case.flow(*sent))?;
            *sent += 1;
        }
        Ok(taken)
    };
    let mut costs = Vec::new();
    let (mut begun, mut came) = (now(), fill(veth, &mut sent)?);
    while costs.len() < ROUNDS {
        sleep(TURN);
        let taken = fill(veth, &mut sent)?;
        if taken >= came + u64::from(ROUND) {
            let at = now();
            costs.push((at - begun) as f64 / (taken - came) as f64);
            (begun, came) = (at, taken);
        }
    }
    Ok(median(costs))
}

/// Packets that come to a full buffer of `limit`.
fn excess(veth: &mut Veth, case: Case, limit: u32) -> anyhow::Result<f64> {
    veth.drain()?;
    send(veth, 0..limit + RING, |n| case.flow(n))?;
    let costs = (0..ROUNDS as u32).map(|round| {
        let from = limit + RING + round * ROUND;
        send(veth, from..from + ROUND, |n| case.flow(n))
    });
    Ok(median(costs.collect::<Result<_, _>>()?))
}

/// Instructions for each packet sent.
fn send(
    veth: &mut Veth,
    packets: std::ops::Range<u32>,
    flow: impl Fn(u32) -> u32,
) -> anyhow::Result<f64> {
    let n = packets.len() as f64;
    let begun = now();
    for packet in packets {
        veth.send(flow(packet))?;
    }
    Ok((now() - begun) as f64 / n)
}

fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Without the first ones.
fn median(samples: Vec<f64>) -> f64 {
    let mut sorted = samples[WARM..].to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Runs a program of iproute2.
pub fn call(program: &str, arguments: &str) -> anyhow::Result<()> {
    let path = format!("/bin/{program}");
    let output = Command::new(path).args(arguments.split(' ')).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program} {arguments}: {}",
        said.trim()
    );
    // A removed qdisc has packets of the link, which come back to the allocator.
    sleep(Duration::from_millis(10));
    Ok(())
}
