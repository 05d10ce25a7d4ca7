// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway service`: the file and the interfaces change, and the shaping follows.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use makeway_gateway::rules::{self, Direction};
use serde_json::json;

use super::*;

/// A service of a file; killed if the test fails.
pub struct Service {
    child: Child,
    file: PathBuf,
    said: PathBuf,
    _folder: tempfile::TempDir,
}

impl Service {
    pub fn start(text: &str) -> Self {
        Self::start_with(text, &[])
    }

    /// With variables of the environment.
    pub fn start_with(text: &str, variables: &[(&str, &Path)]) -> Self {
        Self::start_as(text, variables, |_| ())
    }

    /// With `descriptors` at most for each process.
    pub fn start_limited(text: &str, variables: &[(&str, &Path)], descriptors: u64) -> Self {
        Self::start_as(text, variables, |command| {
            let most = libc::rlimit {
                rlim_cur: descriptors,
                rlim_max: descriptors,
            };
            // SAFETY: setrlimit is async-signal-safe, and `most` is the closure's own.
            unsafe {
                command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &most) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                });
            }
        })
    }

    fn start_as(
        text: &str,
        variables: &[(&str, &Path)],
        prepare: impl FnOnce(&mut Command),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [file, said] = ["makeway.toml", "said"].map(|name| folder.path().join(name));
        fs::write(&file, text).unwrap();
        let out = fs::File::create(&said).unwrap();
        let mut command = makeway("service --config");
        command
            .arg(&file)
            .envs(variables.iter().copied())
            .stdout(out.try_clone().unwrap())
            .stderr(out);
        prepare(&mut command);
        let child = command.spawn().unwrap();
        Self {
            child,
            file,
            said,
            _folder: folder,
        }
    }

    pub fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    pub fn says(&self, words: &str) {
        until(words, || self.said().contains(words).then_some(()));
    }

    pub fn reads(&self, text: &str) {
        fs::write(&self.file, text).unwrap();
    }

    /// Waits until the egress of `interface` has this rate; the process that shapes it.
    pub fn shapes(&self, interface: &str, bps: u64) -> i32 {
        until(
            &format!("{interface} at {bps} bit/s: {}", self.said()),
            || {
                let status = status_of(interface)?;
                let pid = status["pid"].as_i64().filter(|pid| *pid > 0)?;
                (status["directions"][0]["rate_bps"] == bps).then_some(pid as i32)
            },
        )
    }

    /// Writes `text` with an upload of `mbit` instead of 8, and one more `line`.
    pub fn reads_at(&self, mbit: u64, text: &str, line: &str) {
        let text = text.replacen("8mbit", &format!("{mbit}mbit"), 1);
        self.reads(&format!("{text}{line}\n"));
    }

    /// Waits until the process `pid` shapes egress at `mbit`; the whole status then.
    pub fn goes_on_at(&self, mbit: u64, pid: i32) -> Value {
        assert_eq!(
            self.shapes("near", mbit * 1_000_000),
            pid,
            "{}",
            self.said()
        );
        status()
    }

    /// Ends it as systemd does, and waits for it.
    pub fn stops(&mut self) {
        signal(self.child.id() as i32, libc::SIGTERM);
        self.ends();
    }

    fn ends(&mut self) {
        until("the end of the service", || self.child.try_wait().unwrap());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `None` if nothing shapes it.
pub fn status_of(interface: &str) -> Option<Value> {
    let (_, said) = say(&format!("status {interface} --json"));
    let answer: Value = serde_json::from_str(&said).ok()?;
    let one = answer["instances"][0].clone();
    one["directions"].is_array().then_some(one)
}

fn has_rules(interface: &str) -> bool {
    let mut both = Direction::BOTH.into_iter();
    both.any(|direction| rules::installed(interface, direction).unwrap())
}

pub fn signal(pid: i32, signal: i32) {
    // SAFETY: no pointers; the process is one of this test's, and was alive a moment ago.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

const NEAR: &str = "[interface.near]\nupload = \"8mbit\"\nbackend = \"nfqueue\"\n";

#[test]
fn interfaces_are_shaped_when_they_come_go_are_renamed_or_change_their_mtu() {
    if !inside_in_order(
        "service::interfaces_are_shaped_when_they_come_go_are_renamed_or_change_their_mtu",
    ) {
        return;
    }
    let later = "[interface.later]\nupload = \"3mbit\"\nbackend = \"nfqueue\"\n";
    let _far = Far::new();
    let mut service = Service::start(&format!("{NEAR}{later}"));
    let near = service.shapes("near", 8_000_000);
    service.says("later: is not there yet");
    ip("link add later type veth peer name other-end");
    ip("link set later up");
    let first = service.shapes("later", 3_000_000);

    // Another name: not ours. The old one again: ours.
    ip("link set later down");
    ip("link set later name other");
    until("its end", || status_of("later").is_none().then_some(()));
    ip("link set other name later");
    ip("link set later up");
    let second = service.shapes("later", 3_000_000);
    assert_ne!(first, second);

    let limit = |status: &Value| status["directions"][0]["limit_bytes"].as_u64().unwrap();
    let before = limit(&status_of("later").unwrap());
    ip("link set later mtu 9000");
    until("a limit of larger packets", || {
        (limit(&status_of("later")?) > before).then_some(())
    });

    ip("link del later");
    until("its end", || status_of("later").is_none().then_some(()));
    assert_eq!(service.shapes("near", 8_000_000), near);

    service.stops();
    assert!(!has_rules("near"), "{}", service.said());
    assert!(status_of("near").is_none());
}

#[test]
fn a_process_that_dies_or_stands_still_is_replaced() {
    if !inside_in_order("service::a_process_that_dies_or_stands_still_is_replaced") {
        return;
    }
    let _far = Far::new();
    let service = Service::start(NEAR);
    let first = service.shapes("near", 8_000_000);
    let other_than = |old: i32| {
        until("another process", || {
            // One that stands still answers nobody.
            let runs = Path::new("/proc").join(old.to_string()).exists();
            let new = (!runs).then(|| status_of("near")).flatten()?;
            new["pid"].as_i64().filter(|pid| *pid > 0)
        }) as i32
    };
    signal(first, libc::SIGKILL);
    let second = other_than(first);
    // Its watchdog kills it; in a guest, where it needs none, the service does.
    signal(second, libc::SIGSTOP);
    let third = other_than(second);
    assert!(third != first && third != second, "{}", service.said());
}

/// Packets of 1000 B to the far end, `WINDOW` under way at a time: one that is lost is missed for ever, however late the others are.
pub struct Load {
    stop: Arc<AtomicBool>,
    arrived: Arc<AtomicU64>,
    thread: thread::JoinHandle<u64>,
}

impl Load {
    const WINDOW: u64 = 20;

    pub fn start(far: &Far) -> Self {
        let sink = far.udp(9);
        sink.set_read_timeout(Some(PATIENCE)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let arrived = Arc::new(AtomicU64::new(0));
        let (ends, counter) = (Arc::clone(&stop), Arc::clone(&arrived));
        let thread = thread::spawn(move || {
            let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
            let (mut sent, mut got) = (0, 0);
            loop {
                while sent - got < Self::WINDOW && !ends.load(Ordering::Relaxed) {
                    socket.send_to(&[0; 972], "10.9.0.2:9").unwrap();
                    sent += 1;
                }
                if got == sent || sink.recv(&mut [0; 2000]).is_err() {
                    return sent;
                }
                got += 1;
                counter.store(got, Ordering::Relaxed);
            }
        });
        Self {
            stop,
            arrived,
            thread,
        }
    }

    /// Waits for some more packets.
    pub fn goes_on(&self) {
        let before = self.arrived.load(Ordering::Relaxed);
        until("more packets", || {
            let now = self.arrived.load(Ordering::Relaxed);
            (now > before + 3 * Self::WINDOW).then_some(())
        });
    }

    /// Some more packets, and the end: each that was sent has arrived. How many.
    pub fn loses_none(self, service: &Service, far: &Far) -> u64 {
        self.goes_on();
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.thread.join().unwrap();
        let arrived = self.arrived.load(Ordering::Relaxed);
        if sent != arrived {
            let (said, now) = (service.said(), status());
            panic!(
                "{arrived} of {sent} arrived: {said}{now:#}\n{}",
                counted(far)
            );
        }
        sent
    }
}

/// Counters of the kernel at both ends, to tell where a packet was lost.
fn counted(far: &Far) -> String {
    let read = || {
        let files = ["snmp", "softnet_stat", "dev"].map(|name| {
            fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
        });
        files.concat()
    };
    format!("here:\n{}there:\n{}", read(), far.run(read))
}

#[test]
fn a_reload_loses_no_packet_and_a_wrong_file_changes_nothing() {
    if !inside_in_order("service::a_reload_loses_no_packet_and_a_wrong_file_changes_nothing") {
        return;
    }
    let far = Far::new();
    let mut service = Service::start(NEAR);
    let pid = service.shapes("near", 8_000_000);

    let load = Load::start(&far);
    for (mbit, discipline) in (9..).zip(["fq", "sqf", "makeway"]) {
        load.goes_on();
        service.reads_at(mbit, NEAR, &format!("discipline = \"{discipline}\""));
        signal(service.child.id() as i32, libc::SIGHUP);
        let now = service.goes_on_at(mbit, pid);
        assert_eq!(now["directions"][0]["discipline"], discipline);
    }
    // All but keys, backend and directions are changed by the process that runs.
    let changes = [
        ("limit = \"150 packets\"", "limit_packets", json!(150)),
        ("link = \"docsis\"", "overhead", json!(18)),
        (
            "weights = { \"10.9.0.1\" = 2 }",
            "weights",
            json!({ "10.9.0.1": 2 }),
        ),
        (
            "parameters = { \"quantum\" = \"3000B\" }",
            "parameters",
            json!({ "quantum": "3000B" }),
        ),
    ];
    for (mbit, (line, field, value)) in (12..).zip(changes) {
        load.goes_on();
        service.reads_at(mbit, NEAR, line);
        let now = service.goes_on_at(mbit, pid);
        assert_eq!(now["directions"][0][field], value, "{line}");
    }
    println!(
        "seven reloads amid {} packets",
        load.loses_none(&service, &far)
    );

    // A change of the file is seen without a signal; one with an error is refused as a whole.
    let wrong = "[interface.lo]\nupload = 3\n";
    service.reads(&format!("{}{wrong}", NEAR.replace("8mbit", "2mbit")));
    service.says("makeway.toml:5: `interface.lo.upload` is 3");
    service.says("all stays as it was");
    assert_eq!(service.shapes("near", 15_000_000), pid);
    service.reads("# [interface.near]\n");
    service.says("names no interface; all stays as it was");
    service.reads(&NEAR.replace("8mbit", "6mbit"));
    assert_eq!(service.shapes("near", 6_000_000), pid);

    // An interface that the file names no more is let go.
    service.reads(&NEAR.replace("near", "lo"));
    service.shapes("lo", 8_000_000);
    until("the end of near", || (!has_rules("near")).then_some(()));

    // Killed, it takes its processes with it.
    service.child.kill().unwrap();
    service.ends();
    until("the end of lo", || (!has_rules("lo")).then_some(()));
}

#[test]
fn check_says_what_a_file_asks_for_or_the_line_of_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("makeway.toml");
    let check = |file: &Path| {
        let mut command = makeway("service --check");
        command.arg(file);
        ended(command)
    };
    fs::write(&file, NEAR).unwrap();
    let said = "near: upload 8mbit by makeway in the packet queue, download not shaped\n";
    assert_eq!(check(&file), (true, said.into()));
    let cake = "[interface.near]\nupload = \"8mbit\"\nbackend = \"cake\"\n";
    fs::write(&file, cake).unwrap();
    let said = "near: upload 8mbit by cake in the kernel, download not shaped\n";
    assert_eq!(check(&file), (true, said.into()));
    fs::write(&file, format!("{cake}discipline = \"fq\"\n")).unwrap();
    let (ok, said) = check(&file);
    let line = "makeway.toml:4: `interface.near.discipline`";
    assert!(!ok && said.contains(line), "{said}");
    fs::write(&file, NEAR.replace("8mbit", "8")).unwrap();
    let (ok, said) = check(&file);
    let line = "makeway.toml:2: `interface.near.upload`";
    assert!(!ok && said.contains(line), "{said}");
    assert!(!check(&folder.path().join("none.toml")).0);
    fs::write(&file, "").unwrap();
    let (ok, said) = check(&file);
    assert!(ok && said.starts_with("no interface yet"), "{said}");
    // The example of the package is a file as the reader has it.
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let (ok, said) = check(&packaging.join("makeway.toml.example"));
    assert!(ok && said.starts_with("wan0: upload 19mbit"), "{said}");
}
