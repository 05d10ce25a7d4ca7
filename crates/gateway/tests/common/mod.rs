// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two network namespaces joined by a veth pair, for a test that runs inside `unshare -rUn`.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use makeway_testing::{CALM, CLOCK, PATIENT, in_real_time, in_real_time_within_or, skip};
use makeway_vm::again;

const MARK: &str = "MAKEWAY_TEST_INSIDE";

/// Runs the named test again as root of namespaces of its own; true in that second run. A machine
/// where that is not allowed skips the test, and says so.
#[allow(dead_code)] // Most tests repeat it where the machine stalls.
pub fn inside(test: &str) -> bool {
    enter(|runtime| run(test, runtime))
}

/// As [`inside`], for a test that keeps real time: see [`in_real_time_within_or`]. `programs` are those that it runs.
pub fn inside_in_real_time(test: &str, programs: &[&Path]) -> bool {
    inside_within(CALM, test, programs)
}

/// As [`inside`], for a test that keeps real time with programs that no guest has: see [`in_real_time`].
#[allow(dead_code)] // Of one test program.
pub fn inside_in_calm(test: &str) -> bool {
    enter(|runtime| {
        in_real_time(|| run(test, runtime));
    })
}

/// As [`inside_in_real_time`], for a test of order and counts: clients, tools and watchdogs that it runs wait for an answer for some
/// seconds at most. A failure counts unless the machine stalled by more than [`PATIENT`].
pub fn inside_in_order(test: &str, programs: &[&Path]) -> bool {
    inside_within(PATIENT, test, programs)
}

fn inside_within(calm: Duration, test: &str, programs: &[&Path]) -> bool {
    enter(|runtime| {
        in_real_time_within_or(
            calm,
            || run(test, runtime),
            || again(&format!("--exact {test} --nocapture"), programs),
        );
    })
}

fn enter(again: impl FnOnce(&Path)) -> bool {
    // In a guest everything is its own.
    let is_in_guest = std::env::var_os(CLOCK).is_some_and(|clock| clock == "counted");
    if std::env::var_os(MARK).is_some() || is_in_guest {
        return true;
    }
    let allowed = unshare(&["true"]).stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        skip("`unshare -rUn` is not allowed on this machine");
        return false;
    }
    // One after the other: they measure time, and some of them load the machine.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // Files of another user in the shared temporary folder are not ours to use.
    let runtime = std::env::temp_dir().join(format!("makeway-test-{}", std::process::id()));
    std::fs::create_dir_all(&runtime).expect("a folder for temporary files");
    again(&runtime);
    std::fs::remove_dir_all(&runtime).ok();
    false
}

fn unshare(arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.arg("-rUn").args(arguments);
    command
}

fn run(test: &str, runtime: &Path) {
    let program = std::env::current_exe().expect("this program");
    let status = unshare(&[])
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(MARK, "1")
        .env("XDG_RUNTIME_DIR", runtime)
        .status()
        .expect("unshare runs");
    assert!(status.success(), "{test} failed inside its namespaces");
}

/// Runs `ip` with the words of `line`.
pub fn ip(line: &str) {
    let status = Command::new("ip").args(line.split(' ')).status();
    assert!(status.expect("ip runs").success(), "ip {line}");
}

/// A thread in a network namespace of its own, for as long as the process lives: the far end of a veth pair, `near` 10.9.0.1/24 here and
/// `far` 10.9.0.2/24 there; others have other names and networks.
pub struct Far {
    jobs: mpsc::Sender<Box<dyn FnOnce() + Send>>,
    /// The thread, by which `ip` knows the namespace.
    pub tid: libc::c_long,
}

impl Far {
    pub fn new() -> Self {
        Self::at("near", "far", "10.9.0")
    }

    /// `near` is .1 of `network` here, and `name` .2 there.
    pub fn at(near: &str, name: &'static str, network: &str) -> Self {
        let far = Self::alone();
        ip("link set lo up");
        ip(&format!("link add {near} type veth peer name {name}"));
        ip(&format!("link set {name} netns {}", far.tid));
        ip(&format!("addr add {network}.1/24 dev {near}"));
        ip(&format!("link set {near} up"));
        let address = format!("{network}.2/24");
        far.run(move || {
            ip("link set lo up");
            ip(&format!("addr add {address} dev {name}"));
            ip(&format!("link set {name} up"));
        });
        far
    }

    /// A namespace without a link.
    pub fn alone() -> Self {
        let (jobs, todo) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let (ready, readies) = mpsc::channel();
        thread::spawn(move || {
            // SAFETY: only this thread's network namespace changes.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            // SAFETY: no arguments, and it cannot fail.
            ready.send(unsafe { libc::syscall(libc::SYS_gettid) }).ok();
            for job in todo {
                job();
            }
        });
        let tid = readies.recv().expect("the far namespace");
        Self { jobs, tid }
    }

    /// Runs `f` there and waits for it.
    pub fn run<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> T {
        let (answer, answers) = mpsc::channel();
        let job = move || {
            answer.send(f()).ok();
        };
        self.jobs.send(Box::new(job)).expect("the far thread lives");
        answers.recv().expect("the far thread answers")
    }

    /// A socket there at `port`.
    pub fn udp(&self, port: u16) -> UdpSocket {
        self.run(move || UdpSocket::bind(("10.9.0.2", port)).expect("bind"))
    }
}
