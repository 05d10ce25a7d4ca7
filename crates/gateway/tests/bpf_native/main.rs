// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C of `bpf/`, compiled for this machine's processor by its own compiler and held against core: the headers'
//! arithmetic, and whole disciplines, event by event. It needs no kernel that has BPF qdiscs.
//!
//! Compiled with the sanitizers of addresses and of undefined behaviour, which end the program at the first fault.

#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

mod disciplines;
mod headers;
mod keys;

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use bytemuck::{Pod, pod_read_unaligned};
use makeway_core::framing::{Cells, Framing};
use proptest::prelude::*;

/// A program of `bpf/native`.
struct Native(PathBuf);

impl Native {
    /// Compiles `bpf/native/SOURCE` with macros; `name` is that of the program.
    fn compile(name: &str, source: &str, macros: &[String]) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/native");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut compile = Command::new(&compiler);
        compile
            .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Werror"])
            .args(["-Wno-unknown-pragmas", "-Wno-unused-function"])
            .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
            .args(macros.iter().map(|one| format!("-D{one}")))
            .arg("-I")
            .arg(&folder)
            .arg(folder.join(source))
            .arg("-o")
            .arg(&program);
        let compiled = compile.status();
        assert!(
            compiled.is_ok_and(|status| status.success()),
            "{compiler} does not compile {source}"
        );
        Self(program)
    }

    /// Its answer to `input`.
    fn run<T: Pod>(&self, input: Vec<u8>) -> Vec<T> {
        let mut program = Command::new(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = program.stdin.take().unwrap();
        // One that ended early has said why; its exit status is looked at.
        let writer = thread::spawn(move || stdin.write_all(&input).ok());
        let output = program.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            self.0.display(),
            output.status
        );
        let answers = output.stdout.chunks_exact(size_of::<T>());
        answers.map(pod_read_unaligned).collect()
    }
}

fn framing() -> impl Strategy<Value = Framing> {
    let cells = prop_oneof![Just(Cells::None), Just(Cells::Atm), Just(Cells::Ptm)];
    (-64..=256, 0u32..2000, cells).prop_map(|(overhead, mpu, cells)| Framing {
        overhead,
        mpu,
        cells,
    })
}
