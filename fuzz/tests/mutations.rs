// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs made from the committed corpora by random changes, the same each time: every target takes them without a panic.
//!
//! `make fuzz` goes on from there, guided by coverage. MAKEWAY_FUZZ_TIMES says how many times as many inputs, or MAKEWAY_FUZZ_SECONDS
//! for how long each target runs (`.ci/run`: 20); an input that fails is left in `target/fuzz/failed`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use fastrand::Rng;
use makeway_fuzz::TARGETS;

/// Number of inputs, so that each target takes a few seconds of a processor.
fn count(target: &str) -> usize {
    match target {
        // Each simulates minutes of a path at most.
        "feedback" => 40,
        "dccp_connection" | "operations" | "rtp" | "scenario" | "sender" => 20_000,
        _ => 50_000,
    }
}

/// The longest input.
const LONGEST: usize = 4096;
/// Values at which parsers decide otherwise.
const EDGES: [u64; 12] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    u64::MAX,
];
/// Numbers at which text is read otherwise.
const NUMBERS: [&str; 10] = [
    "0",
    "1",
    "-1",
    "4294967295",
    "4294967296",
    "18446744073709551616",
    "1e308",
    "1e-400",
    "nan",
    "0.1",
];

/// A part of `bytes`, which may be empty.
fn part(rng: &mut Rng, bytes: &[u8]) -> std::ops::Range<usize> {
    let start = rng.usize(..=bytes.len());
    let most = (bytes.len() - start).min(64);
    start..start + rng.usize(..=most)
}

fn change(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let at = rng.usize(..=input.len());
    match rng.u8(..10) {
        0 if at < input.len() => input[at] ^= 1 << rng.u8(..8),
        1 if at < input.len() => input[at] = rng.u8(..),
        2 if at < input.len() => input[at] = input[at].wrapping_add(rng.u8(..9)).wrapping_sub(4),
        // A number of one to eight bytes, in either order of them.
        3 => {
            let bytes = EDGES[rng.usize(..EDGES.len())].to_be_bytes();
            let mut bytes = bytes[8 - (1 << rng.usize(..4))..].to_vec();
            if rng.bool() {
                bytes.reverse();
            }
            let end = (at + bytes.len()).min(input.len());
            input.splice(at..end, bytes);
        }
        4 => {
            let number = NUMBERS[rng.usize(..NUMBERS.len())];
            let is_digit = |byte: &u8| byte.is_ascii_digit();
            let start = at + input[at..].iter().position(is_digit).unwrap_or(0);
            let digits = input[start..].iter().take_while(|byte| is_digit(byte));
            let end = start + digits.count();
            input.splice(start..end, number.bytes());
        }
        5 => drop(input.drain(part(rng, &input.clone()))),
        6 => {
            let again = input[part(rng, input)].to_vec();
            input.splice(at..at, again);
        }
        7 => {
            let of_other = other[part(rng, other)].to_vec();
            input.splice(at..at, of_other);
        }
        8 => {
            let of_other = &other[part(rng, other)];
            let end = (at + of_other.len()).min(input.len());
            input.splice(at..end, of_other.iter().copied());
        }
        _ if rng.u8(..4) == 0 => input.truncate(at),
        _ => {
            let more: Vec<u8> = (0..rng.usize(1..=8)).map(|_| rng.u8(..)).collect();
            input.splice(at..at, more);
        }
    }
}

/// Keeps on a panic the input that made it.
struct Now {
    target: &'static str,
    number: usize,
    input: Vec<u8>,
}

impl Drop for Now {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let folder = root().join("target/fuzz/failed");
            let path = folder.join(format!("{}-{}", self.target, self.number));
            let kept = fs::create_dir_all(folder).and_then(|()| fs::write(&path, &self.input));
            eprintln!("the input is {} ({kept:?})", path.display());
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(root().join("fuzz/corpus").join(target)).expect("a corpus");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("readable").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| fs::read(path).expect("readable"))
        .collect()
}

/// How long a target runs: a number of times its count of inputs, or seconds (`MAKEWAY_FUZZ_SECONDS`).
#[derive(Clone, Copy)]
enum Length {
    Times(usize),
    Seconds(u64),
}

impl Length {
    fn asked() -> Self {
        let number = |name| std::env::var(name).map(|n| n.parse().expect("a whole number"));
        match number("MAKEWAY_FUZZ_SECONDS") {
            Ok(seconds) => Self::Seconds(seconds),
            Err(_) => Self::Times(number("MAKEWAY_FUZZ_TIMES").unwrap_or(1) as usize),
        }
    }

    fn is_over(self, target: &str, number: usize, began: Instant) -> bool {
        match self {
            Self::Times(times) => number >= times * count(target),
            Self::Seconds(seconds) => began.elapsed().as_secs() >= seconds,
        }
    }
}

fn takes_changed_inputs(target: &'static str, run: fn(&[u8]), length: Length) {
    let began = Instant::now();
    let inputs = corpus(target);
    let mut rng = Rng::with_seed(1);
    let mut number = 0;
    while !length.is_over(target, number, began) {
        let mut input = inputs[number % inputs.len()].clone();
        for _ in 0..rng.usize(1..=6) {
            let other = &inputs[rng.usize(..inputs.len())];
            change(&mut rng, &mut input, other);
        }
        input.truncate(LONGEST);
        let now = Now {
            target,
            number,
            input,
        };
        run(&now.input);
        number += 1;
    }
    println!("{target}: {number} inputs, {:.2?}", began.elapsed());
}

#[test]
fn every_target_takes_changed_inputs() {
    let length = Length::asked();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(&(target, run)) = TARGETS.get(next.fetch_add(1, Relaxed)) {
                    takes_changed_inputs(target, run, length);
                }
            });
        }
    });
}
