// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C of `bpf/` for this machine's processor, by `bpf/native/drive.c`.

#[path = "../../../../../bpf/native/drive.rs"]
mod drive;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, ensure};
use bytemuck::{Zeroable, bytes_of, pod_collect_to_vec, pod_read_unaligned};
use drive::{BUSY, Config, DEQUEUE, Event, LEFT, Op, Setup};
use makeway_core::sched::Discipline;
use tempfile::TempDir;

use super::traffic::{Asked, Kept, RATE, Run};

/// Disciplines of the programs that take no parameters of their own.
const PROGRAMS: [Discipline; 4] = [
    Discipline::Fifo,
    Discipline::Fq,
    Discipline::Sqf,
    Discipline::Hier,
];

/// A discipline's program.
pub struct Native(TempDir);

/// Core's default, a full Ethernet frame on the wire.
const QUANTUM: u32 = 1538;

/// The clock starts here: 0 is no time there.
const BEGIN: u64 = 1_000_000_000;

impl Native {
    /// `None` if the discipline has no program here.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn of(discipline: Discipline) -> anyhow::Result<Option<Self>> {
        if !PROGRAMS.contains(&discipline) {
            return Ok(None);
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/native");
        let out = tempfile::tempdir()?;
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut compile = Command::new(&compiler);
        compile
            .args(["-std=gnu11", "-O2", "-w"])
            .arg(format!("-DDISCIPLINE=\"../{discipline}.bpf.c\""))
            .arg(format!("-DOPS={discipline}"))
            .arg("-I")
            .arg(&folder)
            .arg(folder.join("drive.c"))
            .arg("-o")
            .arg(out.path().join("drive"));
        if discipline == Discipline::Hier {
            compile.args(["-DHAS_USERS", "-DHAS_NODES", "-DHAS_RANDOM"]);
        }
        let status = compile
            .status()
            .with_context(|| format!("`{compiler}`, which compiles bpf/{discipline}.bpf.c"))?;
        ensure!(
            status.success(),
            "{compiler} does not compile bpf/{discipline}.bpf.c"
        );
        Ok(Some(Self(out)))
    }

    /// Measurement of the same packets at the same times.
    ///
    /// # Errors
    /// If the program fails.
    pub fn replay(&self, run: &Run) -> anyhow::Result<Kept> {
        let limits = run.limits;
        let slots = limits.packets + 2;
        let setup = Setup {
            config: Config {
                rate: RATE.bps(),
                limit_packets: limits.packets,
                limit_bytes: limits.bytes.get() as u32,
                quantum: QUANTUM,
                ..Config::default()
            },
            slots,
            chains: (2 * slots).next_power_of_two(),
            kinds: 1,
            chain_seed: 7,
            random: 7,
            flows: slots,
            users: slots,
            ..Setup::zeroed()
        };
        let ops = run.asked.iter().map(|asked| op(run, *asked));
        let ops: Vec<Op> = ops.collect();
        let input = [bytes_of(&setup), &pod_collect_to_vec(&ops)].concat();
        let mut program = Command::new(self.0.path().join("drive"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut stdin = program.stdin.take().context("no way to the program")?;
        let writer = thread::spawn(move || stdin.write_all(&input).ok());
        let output = program.wait_with_output()?;
        writer.join().ok();
        ensure!(
            output.status.success(),
            "the native program: {}",
            output.status
        );
        let mut left = Vec::new();
        let mut done = ops.iter();
        let mut now = done.next().map_or(0, |op| op.now);
        for event in output.stdout.chunks_exact(size_of::<Event>()) {
            let event: Event = pod_read_unaligned(event);
            match event.told {
                LEFT => left.push((now - BEGIN, event.packet)),
                BUSY => now = done.next().map_or(now, |op| op.now),
                _ => {}
            }
        }
        Ok(run.kept(&left))
    }
}

fn op(run: &Run, asked: Asked) -> Op {
    match asked {
        Asked::Enqueue(at, packet) => {
            let sent = run.packets[packet as usize];
            Op {
                now: BEGIN + at,
                packet,
                len: sent.len,
                bytes: sent.bytes,
                ..Op::zeroed()
            }
        }
        Asked::Dequeue(at) => Op {
            now: BEGIN + at,
            what: DEQUEUE,
            ..Op::zeroed()
        },
    }
}
