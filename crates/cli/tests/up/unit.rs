// SPDX-License-Identifier: MIT OR Apache-2.0
//! The units of `packaging/`, under a systemd of its own in a guest: they start inside their sandbox, a process that hangs is
//! replaced, traffic goes on, and a stop leaves nothing. Takes this machine's systemd.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use makeway_vm::Vm;

use super::crash::passes;
use super::guest::{Stream, remains};
use super::*;

/// Programs of the machine, by the path where systemd looks for them; newer versions have the second.
const PROGRAMS: [&str; 3] = [
    "/usr/lib/systemd/systemd",
    "/usr/lib/systemd/systemd-executor",
    "/usr/bin/systemctl",
];
const UNIT: &[u8] = include_bytes!("../../../../packaging/systemd/makeway@.service");
const SERVICE: &[u8] = include_bytes!("../../../../packaging/systemd/makeway.service");
/// As the package has it.
const FILE: &[u8] = include_bytes!("../../../../packaging/debian/makeway.toml");
/// All that a unit stands on by itself; nothing is behind them here.
const TARGETS: [&str; 6] = [
    "basic",
    "multi-user",
    "network-pre",
    "shutdown",
    "sysinit",
    "makeway",
];

/// Output of the unit, which goes to the journal elsewhere.
const SAID: &str = "/run/said";

/// Puts systemd and the unit into a guest; false where the machine has no systemd.
pub fn with_unit(guest: Vm<'_>) -> (Vm<'_>, bool) {
    let is_there = |path: &&&str| Path::new(path).exists();
    let found: Vec<_> = PROGRAMS.iter().filter(is_there).collect();
    if !found.contains(&&PROGRAMS[0]) || !found.contains(&&PROGRAMS[2]) {
        return (guest, false);
    }
    let folder = "etc/systemd/system";
    let guest = found
        .into_iter()
        .fold(guest, |guest, path| guest.program(Path::new(path)));
    let guest = TARGETS.into_iter().fold(guest, |guest, target| {
        let content = format!("[Unit]\nDescription={target}\nDefaultDependencies=no\n");
        guest.file(&format!("{folder}/{target}.target"), content)
    });
    let guest = guest.file(&format!("{folder}/makeway@.service"), UNIT);
    let guest = guest.file(&format!("{folder}/makeway.service"), SERVICE);
    let guest = guest.file("etc/makeway/makeway.toml", FILE);
    let said = format!("[Service]\nStandardOutput=append:{SAID}\nStandardError=append:{SAID}\n");
    let guest = ["makeway@", "makeway"]
        .into_iter()
        .fold(guest, |guest, unit| {
            guest.file(
                &format!("{folder}/{unit}.service.d/said.conf"),
                said.clone(),
            )
        });
    (
        guest.file(
            "etc/makeway/near.conf",
            // The qdisc that the verifier accepts fastest: each start loads two.
            "MAKEWAY=--rate 8mbit --down 8mbit --backend bpf --discipline fifo\n",
        ),
        true,
    )
}

/// A systemd that is the first process of a namespace.
pub struct Systemd(Child);

impl Systemd {
    pub fn start() -> Self {
        for folder in ["/usr/local/bin", "/usr/lib/systemd", "/var/tmp", "/var/lib"] {
            fs::create_dir_all(folder).unwrap();
        }
        symlink("/bin/makeway", "/usr/local/bin/makeway").unwrap();
        symlink("/bin/systemd-executor", PROGRAMS[1]).unwrap();
        // Shared with processes outside of its mount namespace.
        for (kind, at) in [("tmpfs", "/run"), ("cgroup2", "/sys/fs/cgroup")] {
            let mount = Command::new("mount").args(["-t", kind, kind, at]).status();
            assert!(mount.unwrap().success(), "{at}");
        }
        let child = Command::new("unshare")
            .args(["-f", "-p", "-m", "--mount-proc", "/bin/systemd", "--system"])
            .args([
                "--unit=makeway.target",
                "--log-target=console",
                "--show-status=no",
            ])
            .env("container", "guest")
            .spawn();
        let systemd = Self(child.unwrap());
        until("systemd answers", || {
            let asked = inside_of("/bin/systemctl", "show")
                .stderr(Stdio::null())
                .output();
            asked.unwrap().status.success().then_some(())
        });
        systemd
    }

    /// Runs `systemctl`; what it printed.
    pub fn ctl(&self, line: &str) -> String {
        let output = inside_of("/bin/systemctl", line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let unit = fs::read_to_string(SAID).unwrap_or_default();
        assert!(output.status.success(), "systemctl {line}: {said}{unit}");
        String::from_utf8_lossy(&output.stdout).trim().into()
    }

    /// Runs `systemctl`, which fails; its words.
    fn fails(&self, line: &str) -> String {
        let output = inside_of("/bin/systemctl", line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "systemctl {line}: {said}");
        said
    }

    fn show(&self, property: &str) -> String {
        self.show_of("makeway@near", property)
    }

    fn show_of(&self, unit: &str, property: &str) -> String {
        self.ctl(&format!("show {unit} --value -p {property}"))
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // Its namespace ends with it.
        for (pid, _) in processes("systemd") {
            // SAFETY: no pointers; nothing else in the guest has this name.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        let _ = self.0.wait();
    }
}

/// A program inside of systemd's namespace: neither systemd nor makeway answers a process that it cannot see.
fn inside_of(program: &str, line: &str) -> Command {
    let first = processes("systemd").first().map_or(0, |(pid, _)| *pid);
    let mut command = Command::new("nsenter");
    command.args(["-t", &first.to_string(), "-m", "-p", program]);
    command.args(line.split(' '));
    command
}

/// As `makeway status` tells it; `None` if none runs.
pub fn status_now() -> Option<Value> {
    let output = inside_of("/bin/makeway", "status near --json")
        .output()
        .unwrap();
    let all = serde_json::from_slice::<Value>(&output.stdout).ok()?;
    Some(all["instances"][0].clone())
}

fn status() -> Value {
    status_now().expect("one runs")
}

/// Processes of that name, and their folders in /proc.
fn processes(name: &str) -> Vec<(libc::pid_t, PathBuf)> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbered =
        all.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
    let of_name = |(_, path): &(libc::pid_t, PathBuf)| {
        fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    numbered.filter(of_name).collect()
}

#[test]
#[ignore = "runs in a guest"]
fn the_unit_starts_is_watched_and_stops() {
    if !Path::new("/bin/systemd").exists() {
        return makeway_testing::skip("no systemd: install the package systemd");
    }
    let far = Far::new();
    let receiver = far.udp(4000);
    let systemd = Systemd::start();
    systemd.ctl("start makeway@near");
    assert_eq!(systemd.show("ActiveState"), "active");
    let all = status();
    assert_eq!(
        (&all["backend"], &all["why"]),
        (&"bpf".into(), &"".into()),
        "{all}"
    );
    assert_eq!(all["directions"].as_array().unwrap().len(), 2);
    assert!(passes(&receiver));

    // Longer than its sign of life may be late.
    let [(pid, of)] = &processes("makeway")[..] else {
        panic!("not one process");
    };
    let filtered = fs::read_to_string(of.join("status")).unwrap();
    assert!(
        filtered.contains("Seccomp:\t2") && filtered.contains("NoNewPrivs:\t1"),
        "{filtered}"
    );
    thread::sleep(Duration::from_secs(12));
    assert_eq!(systemd.show("NRestarts"), "0");
    // SAFETY: no pointers; it is the unit's.
    assert_eq!(unsafe { libc::kill(*pid, libc::SIGSTOP) }, 0);
    until("a hanging process is replaced", || {
        let again = processes("makeway");
        let is_new = again.first().is_some_and(|(now, _)| now != pid);
        (is_new && systemd.show("ActiveState") == "active").then_some(())
    });
    let said = fs::read_to_string(SAID).unwrap();
    assert_eq!(systemd.show("NRestarts"), "1", "{said}");
    assert!(passes(&receiver));
    assert_eq!(status()["backend"], "bpf");

    systemd.ctl("stop makeway@near");
    assert_eq!(systemd.show("Result"), "success");
    assert!(processes("makeway").is_empty());
    assert_eq!(remains(), [""; 0]);
    println!("the unit: started, replaced after a hang, stopped");

    drop(receiver);
    the_service_keeps_traffic_going(&systemd, &far);
    ip("link del near");
}

/// Through changes of its file, a restart as of an upgrade, a `kill -9` and a hang.
fn the_service_keeps_traffic_going(systemd: &Systemd, far: &Far) {
    systemd.ctl("start makeway");
    assert_eq!(systemd.show_of("makeway", "ActiveState"), "active");
    let main = || {
        let of_service = |(_, path): &(libc::pid_t, PathBuf)| {
            let line = fs::read(path.join("cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == b"service")
        };
        processes("makeway").into_iter().find(of_service)
    };
    let shapes = |what: &str, bps: u64, not_by: &Value| {
        until(what, || {
            let now = status_now()?;
            // 0: the kernel shapes it without a process.
            let is_new = now["pid"] != 0 && now["pid"] != *not_by;
            let rates = now["directions"].as_array()?.iter();
            let are_set =
                rates.clone().count() == 2 && rates.clone().all(|one| one["rate_bps"] == bps);
            (is_new && are_set && now["backend"] == "bpf").then(|| now["pid"].clone())
        })
    };
    let write = |mbit: u64| {
        // The qdisc that the verifier accepts fastest: each start loads two.
        let text = format!(
            "[interface.near]\nupload = \"{mbit}mbit\"\ndownload = \"{mbit}mbit\"\ndiscipline = \"fifo\"\n"
        );
        fs::write("/etc/makeway/makeway.toml", text).unwrap();
    };
    let stream = Stream::start(far, Duration::from_millis(10));
    // A few lines, and no command.
    write(8);
    let first = shapes("the first interface", 8_000_000, &Value::Null);
    write(9);
    systemd.ctl("reload makeway");
    until("a reload", || {
        (status_now()?["directions"][0]["rate_bps"] == 9_000_000).then_some(())
    });
    assert_eq!(status()["pid"], first);
    // A file with an error is refused, and the reload says so.
    fs::write(
        "/etc/makeway/makeway.toml",
        "[interface.near]\nupload = 9\n",
    )
    .unwrap();
    let said = systemd.fails("reload makeway");
    assert!(said.contains("makeway.service"), "{said}");
    let said = fs::read_to_string(SAID).unwrap();
    assert!(
        said.contains("makeway.toml:2: `interface.near.upload`"),
        "{said}"
    );
    let now = status();
    assert_eq!(
        (&now["pid"], &now["directions"][0]["rate_bps"]),
        (&first, &9_000_000.into())
    );
    assert_eq!(systemd.show_of("makeway", "ActiveState"), "active");
    write(9);
    systemd.ctl("restart makeway");
    let second = shapes("a restart", 9_000_000, &first);
    for (signal, what) in [
        (libc::SIGKILL, "after a kill"),
        (libc::SIGSTOP, "after a hang"),
    ] {
        let before = status()["pid"].clone();
        let (pid, _) = main().expect("the service");
        // SAFETY: no pointers; it is the unit's.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        shapes(what, 9_000_000, &before);
        let (now, _) = main().expect("the service");
        assert_ne!(now, pid);
    }
    assert_ne!(status()["pid"], second);
    assert_eq!(systemd.show_of("makeway", "NRestarts"), "2");
    let longest = stream.end().longest;
    println!("the service: longest time without a packet {longest:?}");
    assert!(longest < Duration::from_secs(1), "{longest:?}");

    systemd.ctl("stop makeway");
    assert!(processes("makeway").is_empty());
    assert_eq!(remains(), [""; 0]);
}
