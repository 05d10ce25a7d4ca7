// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults around a makeway and inside it: packets pass in every case, and `down` leaves nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::crash::{cleaned, left, passes, points};
use super::traced::{self, Act, Call, Stopped};
use super::*;

const UP: &str = "up near --rate 20mbit --down 20mbit --backend nfqueue";

/// A kind of system call that fails.
struct Fault {
    name: &'static str,
    errno: i32,
    is: fn(Call) -> bool,
}

const FAULTS: [Fault; 4] = [
    Fault {
        name: "open",
        errno: libc::EMFILE,
        is: |call| call.number == libc::SYS_openat,
    },
    Fault {
        name: "socket",
        errno: libc::EMFILE,
        is: |call| [libc::SYS_socket, libc::SYS_bind].contains(&call.number),
    },
    Fault {
        name: "send",
        errno: libc::ENOBUFS,
        is: |call| [libc::SYS_sendto, libc::SYS_sendmsg].contains(&call.number),
    },
    Fault {
        name: "receive",
        errno: libc::EIO,
        is: |call| [libc::SYS_recvfrom, libc::SYS_recvmsg].contains(&call.number) && !is_unix(call),
    },
];

/// Whether the call's descriptor is a Unix socket: reading one has no such fault, and the standard library, which hears by one whether
/// a program was started, does not expect it.
fn is_unix(call: Call) -> bool {
    let process = format!("/proc/{}", call.thread);
    let socket = fs::read_link(format!("{process}/fd/{}", call.arguments[0]));
    let sockets = fs::read_to_string(format!("{process}/net/unix"));
    let (Ok(socket), Ok(sockets)) = (socket, sockets) else {
        return false;
    };
    let inode = socket.to_string_lossy();
    let inode = inode.trim_start_matches("socket:[").trim_end_matches(']');
    sockets
        .lines()
        .any(|line| line.split_ascii_whitespace().nth(6) == Some(inode))
}

/// Runs `line` under ptrace until it says that it runs or ends, with the call number `nth` of the fault's kind failing, and
/// kills it then; the number of calls, and its output.
fn with_fault(line: &str, fault: &Fault, nth: Option<usize>) -> (usize, Option<i32>) {
    let mut count = 0;
    let mut command = makeway(line);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let ended = traced::run(&mut command, true, |call| {
        if call.number == libc::SYS_write && call.arguments[0] == 1 && call.thread > 0 {
            return if is_of_makeway(call.thread) {
                Act::Kill
            } else {
                Act::Go
            };
        }
        if !(fault.is)(call) {
            return Act::Go;
        }
        count += 1;
        match nth == Some(count - 1) {
            true => Act::Fail(fault.errno),
            false => Act::Go,
        }
    });
    (count, ended)
}

/// Not of a tool that it runs.
fn is_of_makeway(thread: libc::pid_t) -> bool {
    let exe = fs::read_link(format!("/proc/{thread}/exe"));
    exe.is_ok_and(|exe| exe.file_name().is_some_and(|name| name == "makeway"))
}

#[test]
fn a_call_that_fails_stops_no_packet_and_leaves_nothing() {
    let test = "faults::a_call_that_fails_stops_no_packet_and_leaves_nothing";
    if !inside_in_order(test) || !traced::can_fail() {
        return;
    }
    let far = Far::new();
    let receiver = far.udp(4000);
    for fault in &FAULTS {
        let (count, _) = with_fault(UP, fault, None);
        cleaned(fault.name);
        let tried = points(count, 3);
        let mut refused = 0;
        for &nth in &tried {
            let (_, ended) = with_fault(UP, fault, Some(nth));
            let what = format!("{} number {nth} of {count} failed", fault.name);
            refused += usize::from(ended.is_some());
            assert_ne!(ended, Some(0), "{what}: it ended as if nothing was");
            assert!(passes(&receiver), "{what}: nothing comes through");
            cleaned(&what);
        }
        println!(
            "up, {} fails: {} of {count} tried, {refused} refused to start, 0 stopped packets",
            fault.name,
            tried.len()
        );
    }
}

#[test]
fn a_datapath_that_cannot_go_on_lets_packets_pass() {
    let test = "faults::a_datapath_that_cannot_go_on_lets_packets_pass";
    if !inside_in_order(test) || !traced::can_fail() {
        return;
    }
    let far = Far::new();
    let receiver = far.udp(4000);
    let (run, runs) = std::sync::mpsc::channel();
    let traced = thread::spawn(move || {
        let mut command = makeway(UP);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        traced::run(&mut command, false, |call| match call.number {
            // Its first packet cannot be received.
            libc::SYS_recvmmsg => Act::Fail(libc::EIO),
            libc::SYS_write if call.arguments[0] == 1 => {
                let _ = run.send(());
                Act::Go
            }
            _ => Act::Go,
        })
    });
    let _ = runs.recv_timeout(PATIENCE);
    assert!(passes(&receiver));
    assert_eq!(traced.join().unwrap(), Some(1), "it says that it failed");
    assert_eq!(left(), [""; 0]);
}

/// The longest time within which no packet came through, while `harm` was done, up to `most`; one is sent each 10 ms.
fn outage(receiver: &UdpSocket, most: Duration, harm: impl FnOnce()) -> Duration {
    let receiver = receiver.try_clone().unwrap();
    receiver
        .set_read_timeout(Some(Duration::from_millis(10)))
        .unwrap();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let looking = thread::spawn(move || {
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        let mut packet = [0; 8];
        loop {
            let came = receiver.recv(&mut packet).is_ok();
            longest = longest.max(last.elapsed());
            if came {
                last = Instant::now();
            }
            match ends.try_recv() {
                Err(std::sync::mpsc::TryRecvError::Empty) => {}
                _ => return longest,
            }
        }
    });
    let sender = UdpSocket::bind("10.9.0.1:0").unwrap();
    let begin = Instant::now();
    let mut harm = Some(harm);
    while begin.elapsed() < most {
        let _ = sender.send_to(&[7; 8], "10.9.0.2:4000");
        thread::sleep(Duration::from_millis(10));
        if begin.elapsed() > Duration::from_millis(300)
            && let Some(harm) = harm.take()
        {
            harm();
        }
    }
    drop(end);
    looking.join().unwrap()
}

/// The watchdog's time, and what a rule takes to go on a machine that is busy: both chosen by us. A machine that stalls too little for
/// a repetition has not used up the second of that.
const WATCHDOG: Duration = Duration::from_millis(2250 + 1000);

#[test]
fn a_hang_of_any_thread_stops_packets_for_the_watchdogs_time_at_most() {
    if !inside_in_order("faults::a_hang_of_any_thread_stops_packets_for_the_watchdogs_time_at_most")
    {
        return;
    }
    let far = Far::new();
    let receiver = far.udp(4000);
    let up = "up near --rate 20mbit --backend nfqueue";
    let threads = |up: &Up| -> Vec<(libc::pid_t, String)> {
        let tasks = fs::read_dir(format!("/proc/{}/task", up.0.id())).unwrap();
        let tasks = tasks.flatten().map(|task| {
            let id = task.file_name().to_str().unwrap().parse().unwrap();
            let name = fs::read_to_string(task.path().join("comm")).unwrap();
            (id, name.trim().to_owned())
        });
        tasks.collect()
    };
    let names: Vec<_> = {
        let up = Up::start(up);
        threads(&up).into_iter().map(|(_, name)| name).collect()
    };
    assert!(
        names.iter().any(|name| name.starts_with("datapath")),
        "{names:?}"
    );
    assert!(names.len() >= 2, "{names:?}");
    cleaned("killed");
    for which in 0..=names.len() {
        let name = names.get(which).map_or("all of them", |name| name);
        let mut up = Up::start(up);
        let threads = threads(&up);
        let mut stopped = None;
        let time = WATCHDOG + Duration::from_secs(1);
        let longest = outage(&receiver, time, || match which < names.len() {
            true => stopped = Some(Stopped::thread(threads[which].0, up.0.id() as i32)),
            false => up.signal(libc::SIGSTOP),
        });
        drop(stopped);
        println!("{name} stopped: no packet for {} ms", longest.as_millis());
        assert!(longest < WATCHDOG, "{name}: {longest:?}");
        let (status, said) = up.end();
        assert!(!status.success(), "{name}: {said}");
        cleaned(name);
    }
}

/// Tools that hang as long as the file `hang` is there; for programs that run in its mount namespace.
struct SlowTools(tempfile::TempDir);

impl SlowTools {
    /// `None` where none is installed.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display().to_string();
        let mut script = String::new();
        for name in ["nft", "iptables-nft", "iptables-legacy"] {
            // Where makeway looks first.
            let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(Path::new);
            let mut places = folders.into_iter().map(|folder| folder.join(name));
            let Some(Ok(real)) =
                places.find_map(|place| place.exists().then(|| fs::canonicalize(place)))
            else {
                continue;
            };
            fs::copy(&real, format!("{place}/real-{name}")).unwrap();
            // One program is many, by the name that it is called by.
            let called = if name == "nft" { "" } else { "\"${0##*/}\"" };
            let slow = format!(
                "#!/bin/sh\n[ -e {place}/hang ] && sleep 1000\nexec {place}/real-{name} {called} \"$@\"\n"
            );
            let fake = format!("{place}/{name}");
            fs::write(&fake, slow).unwrap();
            fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
            script += &format!("mount --bind {fake} {} &&\n", real.display());
        }
        fs::write(format!("{place}/enter"), script.clone() + "exec \"$@\"").unwrap();
        (!script.is_empty()).then_some(Self(folder))
    }

    fn makeway(&self, line: &str) -> Command {
        let mut command = Command::new("unshare");
        command
            .arg("-m")
            .arg("/bin/sh")
            .arg(self.0.path().join("enter"));
        command.arg(MAKEWAY).args(line.split(' '));
        command
    }

    fn hangs(&self, hangs: bool) {
        let hang = self.0.path().join("hang");
        match hangs {
            true => fs::write(hang, "").unwrap(),
            false => fs::remove_file(hang).unwrap(),
        }
    }
}

#[test]
fn tools_that_hang_stop_neither_packets_nor_makeway() {
    if !inside_in_order("faults::tools_that_hang_stop_neither_packets_nor_makeway") {
        return;
    }
    let Some(tools) = SlowTools::new() else {
        return makeway_testing::skip("neither nft nor iptables is installed");
    };
    let far = Far::new();
    let receiver = far.udp(4000);
    let mut up = Up::started(tools.makeway("up near --rate 20mbit --backend nfqueue"));
    assert!(rules() && passes(&receiver));
    tools.hangs(true);
    let begin = Instant::now();
    let (ok, said) = ended(tools.makeway("status near --json"));
    assert!(ok && begin.elapsed() < Duration::from_secs(5), "{said}");
    let (ok, said) = ended(tools.makeway("down near"));
    assert!(!ok && said.contains("did not end within 5 s"), "{said}");
    assert!(said.contains("traffic passes"), "{said}");
    assert!(passes(&receiver));
    let (status, said) = up.end();
    assert!(!status.success() && said.contains("did not end"), "{said}");
    let (ok, said) = ended(tools.makeway("up near --rate 20mbit --backend nfqueue"));
    assert!(!ok && said.contains("did not end within 5 s"), "{said}");
    assert!(passes(&receiver));
    tools.hangs(false);
    let (ok, said) = ended(tools.makeway("down near"));
    assert!(
        ok && said.contains("rules that one had left are removed"),
        "{said}"
    );
    assert_eq!(left(), [""; 0]);
}

#[test]
fn a_down_waits_for_a_makeway_that_is_ending() {
    if !inside_in_order("faults::a_down_waits_for_a_makeway_that_is_ending") {
        return;
    }
    let Some(tools) = SlowTools::new() else {
        return makeway_testing::skip("neither nft nor iptables is installed");
    };
    let _far = Far::new();
    let mut up = Up::started(tools.makeway("up near --rate 20mbit --backend nfqueue"));
    // It stops listening at once, and has the interface until the tool is killed after 5 s.
    tools.hangs(true);
    up.signal(libc::SIGTERM);
    until("the beginning of its end", || {
        (!say("status near").0).then_some(())
    });
    // By the real tools.
    let (ok, said) = say("down near");
    assert!(ok, "{said}");
    let (status, said) = up.end();
    assert!(!status.success() && said.contains("did not end"), "{said}");
    assert_eq!(left(), [""; 0]);
}

#[test]
fn an_interface_that_is_renamed_or_moved_lets_packets_pass() {
    if !inside_in_order("faults::an_interface_that_is_renamed_or_moved_lets_packets_pass") {
        return;
    }
    let far = Far::new();
    let receiver = far.udp(4000);
    let mut up = Up::start(UP);
    renamed("near", "other");
    let (status, said) = up.end();
    assert!(!status.success() && said.contains("another name"), "{said}");
    assert!(passes(&receiver));
    assert_eq!(left(), [""; 0]);
    renamed("other", "near");
    let mut up = Up::start(UP);
    let there = far.run(|| {
        // SAFETY: no arguments, and it cannot fail.
        unsafe { libc::syscall(libc::SYS_gettid) }
    });
    ip(&format!("link set near netns {there}"));
    let (status, said) = up.end();
    assert!(!status.success() && said.contains("is gone"), "{said}");
    assert_eq!(left(), [""; 0]);
}
