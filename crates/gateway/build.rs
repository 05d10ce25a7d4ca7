// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles `bpf/*.bpf.c` for the kernel: clang, 16 or newer; 14 drops what kptrs need and the kernel then refuses the program.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    if env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    // As it is now, not as it was where this script was compiled: a target folder may have been copied.
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let source = here.join("../../bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    println!("cargo:rerun-if-changed={}", source.display());
    println!("cargo:rerun-if-env-changed=CLANG");
    // libbpf-sys builds libbpf and says where its headers are.
    let headers = env::var("DEP_BPF_INCLUDE").unwrap_or_default();
    let clang = clang();
    let mut programs = fs::read_dir(&source)
        .unwrap_or_else(|error| panic!("{}: {error}", source.display()))
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".bpf.c").map(String::from))
        .collect::<Vec<_>>();
    programs.sort();
    for name in programs {
        let file = source.join(format!("{name}.bpf.c"));
        let mut compile = Command::new(&clang);
        compile
            .args([
                "-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-c",
            ])
            .arg(format!("-I{headers}"))
            .arg(&file)
            .arg("-o")
            .arg(out.join(format!("{name}.bpf.o")));
        let done = compile.status().is_ok_and(|status| status.success());
        assert!(done, "{clang} does not compile {}", file.display());
    }
}

fn clang() -> String {
    if let Ok(named) = env::var("CLANG") {
        return named;
    }
    let version = |name: &str| {
        let output = Command::new(name).arg("-dumpversion").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.split('.').next()?.parse::<u32>().ok()
    };
    let numbered = (16..=30).rev().map(|n| format!("clang-{n}"));
    let names = std::iter::once("clang".to_owned()).chain(numbered);
    names
        .into_iter()
        .find(|name| version(name).is_some_and(|version| version >= 16))
        .unwrap_or_else(|| {
            panic!(
                "no clang of version 16 or newer, which compiles the qdiscs: install clang-19, name one by CLANG=..., or build without them \
                 (--no-default-features)"
            )
        })
}
