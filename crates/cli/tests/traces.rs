// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces of `makeway run`, as a person asks for them.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// `makeway run` of a call beside downloads; `OUT` in an argument is the folder `out`.
fn makeway(out: &TempDir, arguments: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_makeway"));
    command.arg("run");
    command.arg(root.join("scenarios/call-and-downloads.toml"));
    let out = out.path().to_str().unwrap();
    command.args(arguments.split(' ').map(|a| a.replace("OUT", out)));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(out: &TempDir, arguments: &str) -> Output {
    makeway(out, arguments).output().unwrap()
}

#[test]
fn a_run_writes_every_file_that_it_is_asked_for() {
    let out = TempDir::new().unwrap();
    let arguments = "--world sim --set duration=5s --pcap line:router=OUT/down.pcapng \
                     --pcap web=OUT/web.pcapng --trace OUT/all.tr --trace line=OUT/line.tr --out OUT";
    let ended = run(&out, arguments);
    assert!(ended.status.success(), "{ended:?}");
    let size = |name: &str| out.path().join(name).metadata().unwrap().len();
    assert!(size("down.pcapng") > 10_000 && size("web.pcapng") > 10_000);
    assert!(size("line.tr") > 10_000 && size("all.tr") > 2 * size("line.tr"));
    let series = std::fs::read_to_string(out.path().join("series.csv")).unwrap();
    assert!(series.starts_with("world,time_s,kind,name,metric,value\n"));
    assert!(series.contains("\nsim,4.9,flow,video,loss,0\n"));
    assert!(series.contains("\nsim,0.1,queue,router -> client,backlog_packets,"));
    let flent = std::fs::read_to_string(out.path().join("run.flent")).unwrap();
    let flent: serde_json::Value = serde_json::from_str(&flent).unwrap();
    assert_eq!(flent["metadata"]["NAME"], "tcp_ndown");
    let downloads = flent["metadata"]["TEST_PARAMETERS"]["download_streams"].as_str();
    let last = format!("TCP download::{}", downloads.unwrap());
    assert_eq!(flent["results"][last].as_array().unwrap().len(), 50);
}

#[test]
fn what_cannot_be_traced_is_refused_before_the_run() {
    let out = TempDir::new().unwrap();
    for (arguments, said) in [
        ("--pcap line=OUT/a", "need the world sim"),
        ("--world netns,sim --trace OUT/a", "need the world sim"),
        ("--world sim --pcap line", "write a link and a file"),
        ("--world sim --pcap lime=OUT/a", "there is no link `lime`"),
        (
            "--world sim --pcap line:web=OUT/a",
            "it has no end at `web`",
        ),
        (
            "--world sim --trace OUT/a --pcap line=OUT/a",
            "two outputs would write",
        ),
        ("--world sim --trace OUT/no/a", "cannot write"),
    ] {
        let ended = run(&out, arguments);
        assert_eq!(ended.status.code(), Some(1), "{arguments}");
        let error = String::from_utf8(ended.stderr).unwrap();
        assert!(error.contains(said), "{arguments}: {error}");
        assert!(ended.stdout.is_empty());
    }
}

#[test]
fn no_trace_is_made_or_emptied_before_the_last_one_is_checked() {
    let out = TempDir::new().unwrap();
    let [old, new] = ["old", "new"].map(|name| out.path().join(name));
    std::fs::write(&old, "an older trace").unwrap();
    for (last, said) in [
        ("--pcap lime=OUT/a", "there is no link `lime`"),
        ("--trace lime=OUT/a", "there is no link `lime`"),
        ("--trace OUT/no/a", "cannot write"),
        ("--trace OUT/old", "two outputs would write"),
        (
            "--set flow.download.congestion_control=bbr",
            "no congestion control `bbr`",
        ),
    ] {
        let files = "--pcap line=OUT/new --pcap web=OUT/old";
        let ended = run(&out, &format!("--world sim {files} {last}"));
        assert_eq!(ended.status.code(), Some(1), "{last}");
        let error = String::from_utf8(ended.stderr).unwrap();
        assert!(error.contains(said), "{last}: {error}");
        assert!(!new.exists(), "{last}");
        assert_eq!(std::fs::read(&old).unwrap(), b"an older trace", "{last}");
    }
}

#[test]
fn a_disk_that_is_full_is_told() {
    let out = TempDir::new().unwrap();
    for option in ["--pcap line", "--trace line"] {
        let ended = run(&out, &format!("--world sim {option}=/dev/full"));
        assert_eq!(ended.status.code(), Some(1));
        let error = String::from_utf8(ended.stderr).unwrap();
        assert!(
            error.contains("the trace /dev/full cannot be written: No space left"),
            "{error}"
        );
    }
}

#[test]
fn ctrl_c_leaves_traces_that_are_whole() {
    let out = TempDir::new().unwrap();
    let mut child = makeway(
        &out,
        "--world sim --set duration=20000s --pcap line=OUT/line.pcapng",
    )
    .spawn()
    .unwrap();
    let file = out.path().join("line.pcapng");
    let began = Instant::now();
    while !file.metadata().is_ok_and(|file| file.len() > 100_000) {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "nothing is written"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = child.id() as libc::pid_t;
    // SAFETY: it sends a signal to a child of ours that has not been waited for.
    assert_eq!(unsafe { libc::kill(id, libc::SIGINT) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // The last block is the second interface's statistics, of 52 bytes, as its last word says.
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(bytes[bytes.len() - 4..], [52, 0, 0, 0]);
    assert_eq!(bytes[bytes.len() - 52..][..4], [5, 0, 0, 0]);
}
