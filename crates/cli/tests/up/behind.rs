// SPDX-License-Identifier: MIT OR Apache-2.0
//! Users behind a router that masquerades, with qdiscs in the kernel: in a guest of its own (`guest/boot.rs`), which has nft and the
//! connections of the kernel.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use super::crash::{cleaned, killed_at, points};
use super::doctor::{Doctor, among};
use super::guest::remains;
use super::masqueraded::{Net, Version, are_equal};
use super::unit::{Systemd, status_now};
use super::*;

const BOTH: &str = "up near --rate 8mbit --down 8mbit --backend bpf";
/// The qdisc that the verifier accepts fastest, with a key that has the hosts.
const FAST: &str = "--discipline fifo --flows host-pair";
/// Folder of `makeway pin-nat`.
const PINNED: &str = "/sys/fs/bpf/makeway/nat";

fn entries(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    all.map(|entry| entry.path()).collect()
}

/// Pins of programs beside qdiscs.
fn programs() -> Vec<PathBuf> {
    let interfaces = entries(Path::new("/sys/fs/bpf/makeway"));
    let interfaces = interfaces.iter().filter(|one| **one != *Path::new(PINNED));
    let qdiscs = interfaces.flat_map(|folder| entries(folder));
    let pins = qdiscs.map(|folder| folder.join("nat"));
    pins.filter(|pin| pin.exists()).collect()
}

fn sources() -> Vec<String> {
    let all = status();
    let directions = all["directions"].as_array().unwrap().iter();
    directions
        .map(|one| one["nat"].as_str().unwrap().to_owned())
        .collect()
}

/// The user of each direction is told by `source`, and `n` programs are there.
#[track_caller]
fn knows(source: &str, n: usize) {
    let sources = sources();
    assert!(sources.iter().all(|one| one == source), "{sources:?}");
    let programs = programs();
    assert_eq!(programs.len(), n, "{programs:?}");
}

#[track_caller]
fn does(line: &str) -> String {
    let (ok, said) = say(line);
    assert!(ok, "{line}: {said}");
    said
}

/// A makeway as the units start it: without CAP_SYS_ADMIN.
fn confined(line: &str) -> Command {
    /// `CAP_SYS_ADMIN` of <linux/capability.h>.
    const SYS_ADMIN: libc::c_ulong = 21;
    let mut command = makeway(line);
    // SAFETY: one system call, and nothing is allocated.
    unsafe {
        command.pre_exec(|| {
            let dropped = libc::prctl(libc::PR_CAPBSET_DROP, SYS_ADMIN, 0, 0, 0);
            match dropped {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    command
}

#[test]
#[ignore = "runs in a guest"]
fn each_host_has_half_of_a_link_of_ipv4_and_of_ipv6() {
    // The verifier takes longer than all traffic: both versions pass the same qdiscs, one after the other.
    let versions = [Version::V4, Version::V6];
    let net = Net::new(&versions);
    net.send_single_packets();
    net.masquerade();
    let up = Up::start(BOTH);
    knows("connections", 2);
    let said = does("status near");
    let told = said.matches("users behind NAT: by connections").count();
    assert_eq!(told, 1, "{said}");
    let transfers = versions.map(|version| net.transfers(version));
    let each_has_half = || {
        for (version, transfers) in versions.iter().zip(&transfers) {
            println!("{version:?}");
            are_equal(&transfers.shares());
        }
    };
    each_has_half();
    // So it stays without a process, and with the next one.
    up.signal(libc::SIGKILL);
    drop(up);
    does(&format!("{BOTH} --detach"));
    knows("connections", 2);
    each_has_half();
    does("down near");
    assert_eq!((programs(), remains()), (Vec::new(), Vec::new()));
    for near in ["near", "lan0", "lan1"] {
        ip(&format!("link del {near}"));
    }
}

#[test]
#[ignore = "runs in a guest"]
fn no_connection_is_asked_for_where_no_host_is_a_key() {
    let _far = Far::new();
    for (options, expected) in [
        ("--discipline fifo", ["", ""]),
        ("--discipline fifo --flows src-host", ["connections", ""]),
        ("--discipline fifo --flows dst-host", ["", "connections"]),
        ("--discipline hier --users src-host", ["connections", ""]),
    ] {
        does(&format!("{BOTH} --detach {options}"));
        assert_eq!(sources(), expected, "{options}");
        let asked = expected.iter().filter(|source| !source.is_empty()).count();
        assert_eq!(programs().len(), asked, "{options}");
    }
    does("down near");
    assert_eq!(remains(), [""; 0]);
    ip("link del near");
}

#[test]
#[ignore = "runs in a guest"]
fn another_discipline_has_a_program_of_its_own_or_none() {
    let _far = Far::new();
    does("up near --rate 8mbit --backend bpf --discipline hier --detach");
    knows("connections", 1);
    for (set, source) in [
        ("discipline=fifo", ""),
        ("discipline=hier", "connections"),
        // In the maps.
        ("rate=9mbit", "connections"),
    ] {
        does(&format!("up near --set {set}"));
        knows(source, usize::from(!source.is_empty()));
    }
    // One that somebody took away.
    fs::remove_file(&programs()[0]).unwrap();
    knows("packets: its program is gone", 0);
    let said = does("status near");
    let told = "users behind NAT: by outer address, since its program is gone";
    assert!(said.contains(told), "{said}");
    does("up near --set limit=2000packets");
    knows("connections", 1);
    // Renamed: it is known by its number.
    renamed("near", "other");
    does("down near");
    assert_eq!((programs(), remains()), (Vec::new(), Vec::new()));
    ip("link del other");
}

#[test]
#[ignore = "runs in a guest"]
fn nothing_is_left_of_one_that_is_killed_with_a_program_beside_its_qdisc() {
    let line = &format!("{BOTH} {FAST}");
    let _far = Far::new();
    let (count, _) = killed_at(line, None);
    knows("connections", 2);
    cleaned("up that runs");
    for point in points(count, 6) {
        killed_at(line, Some(point));
        cleaned(&format!("up, killed before call {point} of {count}"));
    }
    // Another discipline, with a program of its own: after fifo the verifier accepts ncq fastest.
    let set = "up near --set discipline=ncq";
    let one = format!("up near --rate 8mbit --backend bpf {FAST} --detach");
    let start = || does(&one);
    start();
    let (count, _) = killed_at(set, None);
    knows("connections", 1);
    cleaned("a change that is made");
    for point in points(count, 3) {
        start();
        killed_at(set, Some(point));
        // The next change finds its path.
        does("up near --set discipline=ncq --set limit=2000packets");
        knows("connections", 1);
        cleaned(&format!("a change, killed before call {point} of {count}"));
    }
    ip("link del near");
}

#[test]
#[ignore = "runs in a guest"]
fn one_without_the_capability_takes_programs_that_are_pinned_for_it() {
    let net = Net::new(&[Version::V4]);
    net.send_single_packets();
    net.masquerade();
    let fast = &format!("{BOTH} {FAST}");
    let why = "loading needs CAP_SYS_ADMIN";
    let unknown = |why: &str| {
        let up = Up::started(confined(fast));
        knows(&format!("packets: {why}"), 0);
        up
    };
    let up = unknown(why);
    let said = does("status near");
    let told = format!("users behind NAT: by outer address, since {why}");
    assert_eq!(said.matches(&told).count(), 1, "{said}");
    let file =
        "[interface.near]\nupload = \"8mbit\"\ndownload = \"8mbit\"\ndiscipline = \"fifo\"\n";
    let checks = Doctor::of(file).checks();
    among(&checks, "nat", why, "sudo makeway pin-nat");
    // It goes on without a process, and the next one takes it over.
    drop(up);

    let (ok, said) = ended(confined("pin-nat"));
    assert!(!ok && said.contains(why), "{said}");
    for _ in 0..2 {
        let said = does("pin-nat");
        assert!(said.contains(PINNED), "{said}");
    }
    let [own] = &entries(Path::new(PINNED))[..] else {
        panic!("not one folder: {:?}", entries(Path::new(PINNED)));
    };
    let up = Up::started(confined(fast));
    knows("connections", 2);
    // The kernel attaches a program to a device once: the next qdisc takes it over, here and in the next process.
    for set in ["limit=2000packets", "discipline=ncq"] {
        does(&format!("up near --set {set}"));
        knows("connections", 2);
    }
    drop(up);
    let hier = Up::started(confined(&format!("{BOTH} --discipline hier")));
    knows("connections", 2);
    are_equal(&net.transfers(Version::V4).shares());
    drop(hier);

    let mode = |mode| fs::set_permissions(PINNED, Permissions::from_mode(mode)).unwrap();
    mode(0o755);
    drop(unknown(&format!(
        "{why}, and {PINNED}: it is not root's alone"
    )));
    mode(0o700);
    let other = Path::new(PINNED).join("other");
    fs::rename(own, &other).unwrap();
    drop(unknown(&format!(
        "{why}, and the pinned programs are another version's"
    )));
    does("pin-nat");
    assert!(own.exists() && !other.exists());
    let said = does("pin-nat --remove");
    assert!(said.contains("stay") && own.exists(), "{said}");
    does("down near");
    does("pin-nat --remove");
    assert_eq!((programs(), remains()), (Vec::new(), Vec::new()));
    for near in ["near", "lan0", "lan1"] {
        ip(&format!("link del {near}"));
    }
}

#[test]
#[ignore = "runs in a guest"]
fn the_unit_knows_hosts_behind_nat_and_leaves_no_program() {
    if !Path::new("/bin/systemd").exists() {
        return makeway_testing::skip("no systemd: install the package systemd");
    }
    let _far = Far::new();
    let systemd = Systemd::start();
    let options = format!("MAKEWAY=--rate 8mbit --down 8mbit --backend bpf {FAST}\n");
    fs::write("/etc/makeway/near.conf", options).unwrap();
    systemd.ctl("start makeway@near");
    let all = status_now().expect("one runs");
    let mut directions = all["directions"].as_array().unwrap().iter();
    assert!(directions.all(|one| one["nat"] == "connections"), "{all:#}");
    assert_eq!(programs().len(), 2, "{:?}", programs());
    systemd.ctl("stop makeway@near");
    assert_eq!((programs(), remains()), (Vec::new(), Vec::new()));
    ip("link del near");
}
