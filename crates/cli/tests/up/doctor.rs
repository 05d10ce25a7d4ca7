// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway doctor` on prepared faults: it finds each, and names the repair.

use std::fs;
use std::sync::atomic::AtomicBool;

use makeway_gateway::interface::Interface;
use makeway_gateway::rules::{self, Direction};
use makeway_testing::skip;

use super::autorate::tc;
use super::traced::{self, Act};
use super::*;

const NEAR: &str = "[interface.near]\nupload = \"8mbit\"\nbackend = \"nfqueue\"\n";

/// A file of the service, and the doctor that is asked about it.
pub struct Doctor {
    file: tempfile::NamedTempFile,
}

impl Doctor {
    pub fn of(text: &str) -> Self {
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        fs::write(file.path(), text).unwrap();
        Self { file }
    }

    fn command(&self) -> Command {
        let mut command = makeway("doctor --json --config");
        command.arg(self.file.path());
        command
    }

    pub fn checks(&self) -> Vec<Value> {
        let output = self.command().output().unwrap();
        checks(output.status.success(), &output.stdout)
    }

    /// The one bad check, which has these words in it and in its repair.
    #[track_caller]
    pub fn finds(&self, check: &str, found: &str, repair: &str) {
        only(&self.checks(), check, found, repair);
    }
}

/// The checks of an answer; its exit status says whether one is a fault.
#[track_caller]
fn checks(is_well: bool, said: &[u8]) -> Vec<Value> {
    let answer: Value = serde_json::from_slice(said).unwrap();
    let checks = answer["checks"].as_array().unwrap().clone();
    assert_eq!(is_well, !checks.iter().any(|one| one["state"] == "fault"));
    checks
}

#[track_caller]
fn only(checks: &[Value], check: &str, found: &str, repair: &str) {
    let bad: Vec<_> = checks.iter().filter(|one| one["state"] != "good").collect();
    let [one] = bad[..] else {
        panic!("not one fault: {checks:#?}");
    };
    let has = |key: &str, words: &str| one[key].as_str().unwrap().contains(words);
    let is_it = one["check"] == check && has("found", found) && has("repair", repair);
    assert!(is_it, "{check}, {found}, {repair}: {one:#}");
}

/// Among others.
#[track_caller]
pub fn among(checks: &[Value], check: &str, found: &str, repair: &str) {
    let own = checks.iter().filter(|one| one["check"] == check);
    only(&own.cloned().collect::<Vec<_>>(), check, found, repair);
}

#[test]
fn a_machine_where_all_is_well_has_no_fault() {
    if !inside_in_order("doctor::a_machine_where_all_is_well_has_no_fault") {
        return;
    }
    let _far = Far::new();
    let _up = Up::start("up near --rate 8mbit --backend nfqueue");
    let checks = Doctor::of(NEAR).checks();
    let names: Vec<_> = checks
        .iter()
        .map(|one| one["check"].as_str().unwrap())
        .collect();
    for name in [
        "file",
        "privilege",
        "packet-queue",
        "rules-tool",
        "interface",
        "line-rate",
        "running",
        "rules",
        "settings",
        "offloads",
        "counters",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(
        checks.iter().all(|one| one["state"] == "good"),
        "{checks:#?}"
    );
    // In words, and without a file.
    let (ok, said) = say("doctor near");
    assert!(ok && said.contains("0 faults, 0 warnings"), "{said}");
}

#[test]
fn faults_of_the_file_and_the_interface_are_found() {
    if !inside_in_order("doctor::faults_of_the_file_and_the_interface_are_found") {
        return;
    }
    let _far = Far::new();
    Doctor::of("[interface.near]\nuplaod = \"8mbit\"\n").finds(
        "file",
        ":2: there is no key `uplaod`",
        "service --check",
    );
    Doctor::of(&NEAR.replace("near", "wan7")).finds(
        "interface",
        "no interface `wan7`",
        "choose lo or near",
    );
    Doctor::of(NEAR).finds(
        "running",
        "no makeway runs on near",
        "systemctl enable --now makeway",
    );

    let empty = Doctor::of("# nothing yet\n");
    let found = empty.command().arg("near").output().unwrap();
    let found = checks(found.status.success(), &found.stdout);
    among(
        &found,
        "file",
        "names no interface",
        "write [interface.near]",
    );
    among(
        &found,
        "running",
        "file does not name it",
        "write [interface.near]",
    );

    let up = Up::start("up near --rate 8mbit --backend nfqueue");
    let doctor = Doctor::of(NEAR);
    ip("link set near down");
    doctor.finds("interface", "near is down", "ip link set near up");
    ip("link set near up");
    Doctor::of(&NEAR.replace("8mbit", "5mbit")).finds(
        "settings",
        "upload is 8mbit, the file has 5mbit",
        "systemctl restart makeway",
    );
    // Under autorate the file has the rates to begin with.
    let follows = NEAR.replace("8mbit", "5mbit") + "[interface.near.autorate]\n";
    let all = Doctor::of(&follows).checks();
    assert!(all.iter().all(|one| one["state"] == "good"), "{all:#?}");
    ip("link add ifb4near type veth peer name other");
    doctor.finds("shaper", "sqm-scripts", "systemctl disable --now sqm@near");
    ip("link del ifb4near");

    tc("qdisc replace dev near root htb");
    doctor.finds("shaper", "the root qdisc htb", "tc qdisc del dev near root");
    tc("qdisc del dev near root");

    // Flushed by somebody.
    assert!(rules::remove("near", Direction::Egress).unwrap());
    doctor.finds("rules", "egress rule is gone", "systemctl restart makeway");
    drop(up);
    let up = Up::start("up near --rate 8mbit --backend nfqueue");
    up.signal(libc::SIGKILL);
    drop(up);
    doctor.finds("running", "it was killed", "makeway down near");
    assert!(say("down near").0);

    // A veth device says 10 Gbit/s.
    let _up = Up::start("up near --rate 20gbit --backend nfqueue");
    Doctor::of(&NEAR.replace("8mbit", "20gbit")).finds(
        "line-rate",
        "upload is 20gbit",
        "9.5gbit at most",
    );
}

#[test]
fn packets_that_makeway_does_not_see_are_found() {
    if !inside_in_order("doctor::packets_that_makeway_does_not_see_are_found") {
        return;
    }
    let _far = Far::new();
    let _up = Up::start("up near --rate 8mbit --backend nfqueue");
    // The port below a PPPoE session: its frames hold no IP packet that a rule could see.
    let stop = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&stop);
    let sender = thread::spawn(move || {
        let mut frame = [0u8; 100];
        frame[..6].fill(0xff);
        frame[12..14].copy_from_slice(&[0x88, 0x64]);
        let socket = Frames::new("near");
        while !ends.load(Ordering::Relaxed) {
            socket.send(&frame);
            thread::sleep(Duration::from_millis(1));
        }
    });
    let doctor = Doctor::of(NEAR);
    // On a busy machine the sender may not have its turn in that second.
    let checks = until("frames in a second", || {
        let checks = doctor.checks();
        let is_bad = checks.iter().any(|one| one["state"] != "good");
        is_bad.then_some(checks)
    });
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    assert!(
        checks.iter().any(|one| one["state"] == "fault"),
        "{checks:#?}"
    );
    only(
        &checks,
        "counters",
        "of them seen by makeway",
        "the ppp interface over PPPoE",
    );
}

/// Packets that packet queues of this namespace have dropped, where the kernel tells.
fn lost() -> u64 {
    let table = fs::read_to_string("/proc/thread-self/net/netfilter/nfnetlink_queue");
    let table = table.unwrap_or_default();
    // queue_number peer_portid queue_total copy_mode copy_range queue_dropped user_dropped ...
    let dropped = table
        .lines()
        .flat_map(|line| line.split_ascii_whitespace().skip(5).take(2));
    dropped.map(|count| count.parse::<u64>().unwrap()).sum()
}

#[test]
fn packets_that_the_kernel_drops_before_makeway_reads_them_are_found() {
    if !inside_in_order("doctor::packets_that_the_kernel_drops_before_makeway_reads_them_are_found")
    {
        return;
    }
    let far = Far::new();
    let _receiver = far.udp(4000);
    let up = Up::start("up near --rate 8mbit --backend nfqueue");
    // A machine that does not keep up: nobody reads the packet queue while more come than it holds. No longer than that takes: after 2 s
    // the watchdog kills it.
    up.signal(libc::SIGSTOP);
    // A socket has room for some hundred packets under way.
    let senders: Vec<_> = (0..200)
        .map(|_| UdpSocket::bind("10.9.0.1:0").unwrap())
        .collect();
    // More than one in a thousand of all.
    const LOST: u64 = 100;
    for sender in senders.iter().take_while(|_| lost() < LOST) {
        sender.set_nonblocking(true).unwrap();
        let mut sent = (0..400).map(|_| sender.send_to(&[0; 100], "10.9.0.2:4000"));
        sent.all(|one| one.is_ok());
    }
    up.signal(libc::SIGCONT);
    Doctor::of(NEAR).finds(
        "losses",
        "egress packets before makeway read them",
        "backend = \"bpf\"",
    );
}

#[test]
fn faults_of_the_machine_are_found() {
    // A guest has no setpriv, and its root may load qdiscs.
    if !common::inside_in_calm("doctor::faults_of_the_machine_are_found") {
        return;
    }
    let _far = Far::new();
    let doctor = Doctor::of(NEAR);
    if !Path::new("/usr/bin/setpriv").exists() {
        return skip("no setpriv to take CAP_NET_ADMIN away with");
    }
    let line = doctor.command();
    let arguments: Vec<_> = line.get_args().collect();
    let output = Command::new("setpriv")
        .args([
            "--bounding-set=-net_admin",
            "--inh-caps=-net_admin",
            MAKEWAY,
        ])
        .args(&arguments)
        .output()
        .unwrap();
    only(
        &checks(output.status.success(), &output.stdout),
        "privilege",
        "needs CAP_NET_ADMIN",
        "run with sudo",
    );

    let _up = Up::start("up near --rate 8mbit --backend nfqueue");
    // A namespace's root loads nothing into the kernel, and on many kernels nobody could.
    let kernel = Doctor::of(&NEAR.replace("nfqueue", "bpf")).checks();
    let qdiscs = kernel.iter().find(|one| one["check"] == "qdiscs").unwrap();
    assert_eq!(qdiscs["state"], "fault", "{qdiscs}");
    assert!(!qdiscs["repair"].as_str().unwrap().is_empty(), "{qdiscs}");

    // No kernel has a program of fq-codel: its packets wait in a packet queue.
    let queue = NEAR.replace("nfqueue", "auto") + "discipline = \"fq-codel\"\n";
    let all = Doctor::of(&queue).checks();
    let has = |name: &str| all.iter().any(|one| one["check"] == name);
    assert!(
        has("packet-queue") && has("rules-tool") && !has("qdiscs"),
        "{all:#?}"
    );

    // No tool that makes rules.
    let hide = "for f in nft iptables iptables-nft iptables-legacy; do for d in /usr/sbin /sbin /usr/bin /bin; do
        [ ! -f $d/$f ] || mount --bind /dev/null $d/$f; done; done; exec \"$0\" \"$@\"";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", hide, MAKEWAY])
        .args(&arguments)
        .output()
        .unwrap();
    let found = checks(output.status.success(), &output.stdout);
    among(
        &found,
        "rules-tool",
        "neither nft nor iptables",
        "install the package nftables",
    );

    // A kernel without packet queues.
    if !traced::can_fail() {
        return;
    }
    let said = tempfile::NamedTempFile::new().unwrap();
    let mut command = doctor.command();
    command.stdout(said.reopen().unwrap());
    let ended = traced::run(&mut command, false, |call| {
        let is_netfilter = call.number == libc::SYS_socket
            && call.arguments[0] == libc::AF_NETLINK as u64
            && call.arguments[2] == libc::NETLINK_NETFILTER as u64;
        match is_netfilter {
            true => Act::Fail(libc::EPROTONOSUPPORT),
            false => Act::Go,
        }
    });
    let said = fs::read(said.path()).unwrap();
    only(
        &checks(ended == Some(0), &said),
        "packet-queue",
        "no packet queue",
        "modprobe nfnetlink_queue",
    );
}

/// A socket for whole frames.
struct Frames(std::os::fd::OwnedFd);

impl Frames {
    fn new(interface: &str) -> Self {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
        let index = Interface::find(interface).unwrap().index;
        // SAFETY: no pointers.
        let socket =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        assert!(socket >= 0);
        // SAFETY: it is open and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        // SAFETY: all-zero is a valid address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index as i32;
        let length = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the address lives through the call, and its length is its own.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        assert_eq!(bound, 0);
        Self(socket)
    }

    fn send(&self, frame: &[u8]) {
        use std::os::fd::AsRawFd;
        // SAFETY: the frame lives through the call.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize);
    }
}
