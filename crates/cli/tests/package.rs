// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Debian package: made of this build, installed by the real dpkg below a folder, upgraded, removed and purged there.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

mod deb;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use deb::{package, run};
use makeway_testing::skip;

fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    let command = command.arg("--version").stdout(Stdio::null());
    command.stderr(Stdio::null()).status().is_ok()
}

/// A system of its own, with dpkg's records and nothing else.
struct System {
    root: PathBuf,
}

impl System {
    fn below(root: PathBuf) -> Self {
        for folder in ["info", "updates", "triggers"] {
            fs::create_dir_all(root.join("var/lib/dpkg").join(folder)).unwrap();
        }
        fs::create_dir_all(root.join("etc/systemd/system")).unwrap();
        fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
        Self { root }
    }

    /// As root, which on this machine is the test's own user.
    fn dpkg(&self, arguments: &[&str]) -> String {
        let root = format!("--root={}", self.root.display());
        // Its libraries are those of this machine, and so is the shell of its scripts.
        let flags = [
            "--force-depends",
            "--force-script-chrootless",
            "--no-triggers",
        ];
        let mut command = Command::new("unshare");
        command.args(["-r", "dpkg", &root]).args(flags);
        run(command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn has(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }
}

/// Paths of files below `folder`, from there.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type().unwrap().is_dir() {
                true => todo.push(path),
                false => found.push(path.strip_prefix(folder).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_package_is_installed_upgraded_removed_and_purged() {
    for (program, of) in [
        ("dpkg-shlibdeps", "dpkg-dev"),
        ("strip", "binutils"),
        ("deb-systemd-helper", "init-system-helpers"),
    ] {
        if !is_there(program) {
            return skip(format_args!("no {program}: install the package {of}"));
        }
    }
    let allowed = Command::new("unshare")
        .args(["-r", "true"])
        .stderr(Stdio::null())
        .status();
    if !allowed.is_ok_and(|status| status.success()) {
        return skip("`unshare -r` is not allowed on this machine");
    }
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["1.0-1", "1.0-2"].map(|version| package(version, folder.path()));
    let system = System::below(folder.path().join("root"));
    let wants = "etc/systemd/system/multi-user.target.wants/makeway.service";
    let config = "etc/makeway/makeway.toml";

    system.dpkg(&["-i", &first]);
    assert!(system.has(wants), "it starts at boot");
    let program = system.path("usr/bin/makeway");
    let check = |file: &str| {
        let mut command = Command::new(&program);
        run(command.args(["service", "--check"]).arg(system.path(file)))
    };
    assert!(check(config).starts_with("no interface yet"));
    assert!(check("usr/share/doc/makeway/examples/makeway.toml").starts_with("wan0: upload"));
    for (unit, line) in [
        ("makeway.service", "ExecStart=/usr/bin/makeway service\n"),
        (
            "makeway.service",
            "ExecReload=/usr/bin/makeway service --check /etc/makeway/makeway.toml\n",
        ),
        (
            "makeway@.service",
            "ExecStart=/usr/bin/makeway up $MAKEWAY -- %i\n",
        ),
        (
            "makeway.service",
            "ExecStartPre=-+/usr/bin/makeway pin-nat\n",
        ),
        (
            "makeway@.service",
            "ExecStopPost=-+/usr/bin/makeway pin-nat --remove\n",
        ),
    ] {
        let text = fs::read_to_string(system.path("usr/lib/systemd/system").join(unit)).unwrap();
        assert!(text.contains(line), "{text}");
    }

    // A page for each subcommand that the help shows, and the words that a shell completes.
    let help = run(Command::new(&program).arg("--help"));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let names: Vec<_> = commands
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.contains(&"service") && names.len() > 8, "{help}");
    let pages: Vec<_> = files(&system.path("usr/share/man/man1"));
    assert_eq!(pages.len(), names.len() + 1, "{pages:?} {names:?}");
    let completion = system.path("usr/share/bash-completion/completions/makeway");
    let completed = format!(
        "source {}; COMP_WORDS=(makeway do); COMP_CWORD=1; _makeway makeway do makeway; echo ${{COMPREPLY[*]}}",
        completion.display()
    );
    let words = run(Command::new("bash").args(["-c", &completed]));
    let mut words: Vec<_> = words.split_whitespace().collect();
    words.sort_unstable();
    assert_eq!(words, ["doctor", "down"]);

    // An upgrade leaves the administrator's file and choice.
    let own = "[interface.wan0]\nupload = \"20mbit\"\n";
    fs::write(system.path(config), own).unwrap();
    fs::remove_file(system.path(wants)).unwrap();
    system.dpkg(&["-i", &second]);
    let shown = system.dpkg(&["-s", "makeway"]);
    assert!(
        shown.contains("Version: 1.0-2\n") && shown.contains("ok installed"),
        "{shown}"
    );
    assert!(
        shown.contains("libelf1") && shown.contains("libc6 (>= 2."),
        "{shown}"
    );
    assert_eq!(fs::read_to_string(system.path(config)).unwrap(), own);
    assert!(!system.has(wants), "a service that was disabled stays so");

    system.dpkg(&["-r", "makeway"]);
    assert!(!system.has("usr/bin/makeway") && system.has(config));
    system.dpkg(&["-P", "makeway"]);
    let left: Vec<_> = files(&system.root)
        .into_iter()
        .filter(|file| file.contains("makeway"))
        .collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn a_package_for_another_architecture_names_all_that_is_missing() {
    // A compiler without any standard library.
    let folder = tempfile::tempdir().unwrap();
    let rustc = folder.path().join("rustc");
    let text = format!("#!/bin/sh\necho {}\n", folder.path().display());
    fs::write(&rustc, text).unwrap();
    fs::set_permissions(&rustc, fs::Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cross");
    let refusal = |architecture: &str| {
        let mut cross = Command::new(&script);
        let output = cross.arg(architecture).env("RUSTC", &rustc).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = refusal("arm64");
    assert_eq!(code, Some(1), "{said}");
    let gnu = "aarch64-linux-gnu";
    for (is_there, name) in [
        (false, "standard library for aarch64-unknown-linux-gnu"),
        (is_there(&format!("{gnu}-gcc")), "gcc-aarch64-linux-gnu"),
        (
            Path::new("/usr/lib").join(gnu).join("libelf.so").exists(),
            "libelf-dev:arm64",
        ),
    ] {
        assert!(is_there || said.contains(name), "{name}: {said}");
    }
    let (code, said) = refusal("riscv64");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("write ARCH=arm64"), "{said}");
}

/// Lines that each unit must have.
const SHUT_IN: [(&str, &str); 27] = [
    ("AmbientCapabilities", CAPABILITIES),
    ("CapabilityBoundingSet", CAPABILITIES),
    ("DevicePolicy", "closed"),
    ("IPAddressDeny", "any"),
    ("LockPersonality", "yes"),
    ("MemoryDenyWriteExecute", "yes"),
    ("NoNewPrivileges", "yes"),
    ("PrivateDevices", "yes"),
    ("PrivateTmp", "yes"),
    ("ProtectClock", "yes"),
    ("ProtectControlGroups", "yes"),
    ("ProtectHome", "yes"),
    ("ProtectHostname", "yes"),
    ("ProtectKernelLogs", "yes"),
    ("ProtectKernelModules", "yes"),
    ("ProtectProc", "invisible"),
    ("ProtectSystem", "strict"),
    ("ReadWritePaths", "-/sys/fs/bpf -/run/xtables.lock"),
    ("RemoveIPC", "yes"),
    (
        "RestrictAddressFamilies",
        "AF_UNIX AF_NETLINK AF_INET AF_INET6 AF_PACKET",
    ),
    ("RestrictNamespaces", "yes"),
    ("RestrictSUIDSGID", "yes"),
    ("SystemCallArchitectures", "native"),
    ("SystemCallErrorNumber", "EPERM"),
    ("SystemCallFilter", "@system-service bpf"),
    ("UMask", "0077"),
    ("WatchdogSignal", "SIGKILL"),
];
const PIN: &str = "-+/usr/local/bin/makeway pin-nat";
const UNPIN: &str = "-+/usr/local/bin/makeway pin-nat --remove";
const CAPABILITIES: &str = "CAP_NET_ADMIN CAP_NET_RAW CAP_SYS_NICE CAP_BPF CAP_PERFMON";

/// Faults of a unit that starts `command`.
fn faults(unit: &str, command: &str) -> Vec<&'static str> {
    let of = |key: &str| {
        let mut lines = unit.lines();
        let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        value.unwrap_or_default()
    };
    let watchdog = of("WatchdogSec").parse::<u64>();
    let others = [
        ("ExecStart", of("ExecStart").ends_with(command)),
        // Before it and after its end; no other step has all rights.
        ("ExecStartPre", of("ExecStartPre") == PIN),
        ("ExecStopPost", of("ExecStopPost") == UNPIN),
        ("+", unit.matches("+/").count() <= 2),
        ("WatchdogSec", watchdog.is_ok_and(|seconds| seconds > 2)),
        (
            "ReadOnlyPaths",
            of("ReadOnlyPaths").starts_with("-/sys -/proc/sys "),
        ),
        // It would make the pins read-only too.
        (
            "ProtectKernelTunables",
            of("ProtectKernelTunables").is_empty(),
        ),
        // It makes br/lan of br-lan, and `..-..` a way out of /etc/makeway.
        ("%I", !unit.contains("%I")),
    ];
    let shut_in = SHUT_IN.map(|(key, value)| (key, of(key) == value));
    let all = shut_in.into_iter().chain(others);
    all.filter_map(|(key, is_right)| (!is_right).then_some(key))
        .collect()
}

#[test]
fn the_units_take_names_as_they_are_are_watched_and_shut_in() {
    let one = include_str!("../../../packaging/systemd/makeway@.service");
    let all = include_str!("../../../packaging/systemd/makeway.service");
    let limit = "LimitNOFILE=4096";
    assert!(all.lines().any(|line| line == limit), "{limit}");
    // An interface may be called like an option.
    for (unit, command) in [(one, " up $MAKEWAY -- %i"), (all, " service")] {
        assert_eq!(faults(unit, command), [""; 0]);
        // Each line is missed, and so is its value.
        let keys = SHUT_IN.iter().map(|(key, _)| *key);
        let others = [
            "ExecStart",
            "ExecStartPre",
            "ExecStopPost",
            "WatchdogSec",
            "ReadOnlyPaths",
        ];
        for key in keys.chain(others) {
            let line = unit
                .lines()
                .find(|line| line.starts_with(&format!("{key}=")));
            let line = line.unwrap();
            for other in [String::new(), format!("{key}=2")] {
                assert_eq!(faults(&unit.replace(line, &other), command), [key]);
            }
        }
        let open = format!("{unit}ProtectKernelTunables=yes\n");
        assert_eq!(faults(&open, command), ["ProtectKernelTunables"]);
        let more = format!("{unit}ExecReload=+/bin/true\n");
        assert_eq!(faults(&more, command), ["+"]);
    }
    let elsewhere = one.replace("/etc/makeway/%i", "/etc/makeway/%I");
    assert_eq!(faults(&elsewhere, " up $MAKEWAY -- %i"), ["%I"]);
}

#[test]
fn an_earlier_version_that_is_not_there_is_named() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/previous");
    let output = Command::new(script).arg("no-such-commit").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no commit `no-such-commit` here"), "{said}");
    assert!(output.stdout.is_empty());
}
