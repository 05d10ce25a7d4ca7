// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway up` on a kernel that has BPF qdiscs: in a guest, where this program runs its ignored tests. Without QEMU, or where
//! no such kernel is to be had, it says so and is skipped.

mod boot;
mod changes;
mod state;
mod traffic;

use super::*;
use state::{every_packet_is_accounted_for, tc};
pub use state::{nothing_remains, remains};
pub use traffic::Stream;
use traffic::{call, comes_in, rate};

/// The tool of the packet queue by a name that makeway does not look for: one test alone has it by its own, since each start and end runs it.
const NFT: [&str; 2] = ["/bin/nft", "/bin/nft-apart"];

#[test]
#[ignore = "takes a kernel with BPF qdiscs: runs in a guest"]
fn the_qdiscs_of_the_kernel_pass_the_test_of_all_backends() {
    let far = Far::new();
    let before = tc("qdisc show dev near");
    for (backend, discipline) in [("bpf", "makeway"), ("cake", "cake"), ("nfqueue", "makeway")] {
        if backend == "nfqueue" {
            std::fs::rename(NFT[1], NFT[0]).unwrap();
        }
        backends::lives(&far, backend, discipline);
        assert_eq!(remains(), Vec::<String>::new(), "{backend}");
        backends::lives_by_a_file(&far, backend, discipline);
        // It stays, so that a page that is open goes on after a restart.
        std::fs::remove_file("/run/makeway/web-token").unwrap();
        nothing_remains();
        assert_eq!(tc("qdisc show dev near"), before, "{backend}");
    }
    std::fs::rename(NFT[0], NFT[1]).unwrap();
    // One takes over from the other, and it goes on when the process dies.
    let up = Up::start("up near --rate 8mbit --backend bpf --discipline fifo");
    drop(up);
    let up = Up::start("up near --rate 7mbit --backend auto --discipline cake");
    let shown = tc("qdisc show dev near");
    assert!(
        shown.contains("qdisc cake 4d57: root") && shown.contains("bandwidth 7Mbit"),
        "{shown}"
    );
    drop(up);
    assert_eq!(
        (status()["backend"].as_str(), status()["pid"].as_u64()),
        (Some("cake"), Some(0))
    );
    assert!(say("up near --set rate=6mbit").0);
    assert_eq!(egress("rate_bps"), 6_000_000);
    assert!(say("up near --set overhead=38 --set cells=atm").0);
    let shown = tc("qdisc show dev near");
    for part in [
        "qdisc cake 4d57: root",
        "bandwidth 6Mbit",
        " atm overhead 38",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    for (set, refused) in [
        ("limit=64kB", "a limit is not in the kernel's cake"),
        (
            "discipline=fq",
            "the discipline fq is not in the kernel's cake",
        ),
    ] {
        let (ok, said) = say(&format!("up near --set mpu=84 --set {set}"));
        assert!(!ok && said.contains(refused), "{said}");
    }
    assert_eq!(egress("mpu"), 0);
    for (options, refused) in [
        (
            "--discipline fq",
            "the discipline fq is not in the kernel's cake",
        ),
        (
            "--discipline makeway",
            "the discipline makeway is not in the kernel's cake",
        ),
        ("--limit 64kB", "--limit is not in the kernel's cake"),
    ] {
        let (ok, said) = say(&format!("up near --rate 8mbit --backend cake {options}"));
        assert!(!ok && said.contains(refused), "{said}");
    }
    assert!(say("down near").0);
    assert_eq!(tc("qdisc show dev near"), before);
}

#[test]
#[ignore = "runs in a guest"]
fn the_kernel_shapes_and_goes_on_without_a_process() {
    let far = Far::new();
    tc("qdisc replace dev near root handle 77: fq_codel limit 777 flows 64 target 7ms");
    let before = tc("qdisc show dev near");
    let up = Up::start("up near --discipline sqf --rate 20mbit");
    let downloads: Vec<_> = (5001..5013).map(|port| download(&far, port)).collect();
    thread::sleep(Duration::from_secs(3));

    // SQF's result: the call waits for no download, for any backlog in the buffer.
    let delays = call(&far);
    let all = status();
    let egress = &all["directions"][0];
    assert_eq!((&all["backend"], &all["why"]), (&"bpf".into(), &"".into()));
    assert_eq!(all["pid"], up.0.id());
    assert_eq!(
        (&egress["discipline"], &egress["device"]),
        (&"sqf".into(), &"near".into())
    );
    assert!(egress["qdisc"].as_str().unwrap().starts_with("makeway"));
    every_packet_is_accounted_for(&all);
    assert_eq!(delays.len(), 150, "of the call were lost");
    // As long as downloads wait at worst, by what left and by what is there, in ms at 20 Mbit/s: newer kernels' senders keep less in a
    // queue of their own machine.
    let left = egress["sojourn"]["p99_ms"].as_f64().unwrap();
    let held = egress["backlog_bytes"].as_u64().unwrap() as f64 / 2500.0;
    let (median, waits) = (delays[75], left.max(held));
    println!(
        "call: median {median:.1} ms, p95 {:.1} ms, beside {waits:.0} ms of downloads",
        delays[142]
    );
    assert!(waits > 20.0 && median < waits / 4.0, "{egress}");
    assert!(!egress["flows"].as_array().unwrap().is_empty());

    up.signal(libc::SIGKILL);
    drop(up);
    let goes_on = rate(&downloads);
    let all = status();
    assert_eq!((&all["pid"], &all["backend"]), (&0.into(), &"bpf".into()));
    every_packet_is_accounted_for(&all);
    let (ok, said) = say("up near --set rate=4mbit");
    assert!(ok && said.contains("upload 4mbit"), "{said}");
    thread::sleep(Duration::from_secs(1));
    let slower = rate(&downloads);
    println!("killed: {goes_on:.2} Mbit/s at 20, {slower:.2} at 4");
    // Goodput of TCP; a guest that is translated may not fill the link.
    assert!(
        (10.0..20.0).contains(&goes_on) && (2.0..4.0).contains(&slower),
        "{goes_on} {slower}"
    );
    // The next one takes over.
    let kind = tc("qdisc show dev near");
    let again = Up::start("up near --discipline fifo --rate 6mbit");
    let now = tc("qdisc show dev near");
    assert!(
        kind != now && now.matches("makeway").count() == 1,
        "{kind} {now}"
    );
    drop(again);
    let (ok, said) = say("down near");
    assert!(ok && said.contains("as it was before"), "{said}");
    assert_eq!(tc("qdisc show dev near"), before);
    assert_eq!(remains(), [""; 0]);
    let (ok, said) = say("status near");
    assert!(!ok && said.contains("no makeway runs on near"), "{said}");
    ip("link del near");
}

#[test]
#[ignore = "runs in a guest"]
fn what_comes_is_shaped_on_an_ifb_device() {
    let far = Far::new();
    let before = tc("qdisc show");
    let up = Up::start("up near --discipline fifo --rate 8mbit --down 4mbit");
    let all = status();
    assert_eq!(all["directions"].as_array().unwrap().len(), 2);
    let ifb = all["directions"][1]["device"].as_str().unwrap().to_owned();
    assert!(tc(&format!("qdisc show dev {ifb}")).contains("makeway"));
    let listener = TcpListener::bind("10.9.0.1:5001").unwrap();
    thread::spawn(move || {
        let mut stream = far.run(|| TcpStream::connect("10.9.0.1:5001").unwrap());
        let chunk = vec![7; 65_536];
        while stream.write_all(&chunk).is_ok() {}
    });
    let (mut stream, _) = listener.accept().unwrap();
    // The egress rate of the queue, to within 5 %, since a guest reads counters and clock some ms apart. A reader also gets at once what
    // waited behind a lost segment.
    let sent = || {
        let all = status();
        let ingress = &all["directions"][1];
        [&ingress["bytes_out"], &ingress["seconds"]].map(|figure| figure.as_f64().unwrap())
    };
    let mut read = |time| {
        let (before, since, mut buffer) = (sent(), Instant::now(), vec![0; 65_536]);
        while since.elapsed() < time {
            assert!(stream.read(&mut buffer).unwrap() > 0);
        }
        let after = sent();
        (after[0] - before[0]) * 8e-6 / (after[1] - before[1])
    };
    read(Duration::from_secs(2));
    let rate = read(Duration::from_secs(3));
    println!("download: {rate:.2} Mbit/s at 4");
    assert!((2.0..4.2).contains(&rate), "{rate}");
    every_packet_is_accounted_for(&status());
    // The next one takes both directions over.
    up.signal(libc::SIGKILL);
    let mut up = Up::start("up near --discipline fifo --rate 8mbit --down 4mbit");
    read(Duration::from_secs(1));
    let rate = read(Duration::from_secs(3));
    assert!((2.0..4.2).contains(&rate), "taken over: {rate}");
    up.signal(libc::SIGINT);
    let (status, said) = up.end();
    assert!(
        status.success() && said.contains("its qdisc is removed"),
        "{said}"
    );
    assert_eq!(tc("qdisc show"), before);
    assert_eq!(remains(), [""; 0]);
    ip("link del near");
}

#[test]
#[ignore = "runs in a guest"]
fn what_was_there_is_restored_or_left_alone() {
    let _far = Far::new();
    for root in [
        "cake bandwidth 9Mbit rtt 33ms overhead 18 mpu 64",
        "pfifo limit 33",
    ] {
        tc(&format!("qdisc replace dev near root handle 78: {root}"));
        let before = tc("qdisc show dev near");
        let (ok, said) = say("up near --discipline fifo --rate 8mbit --detach");
        assert!(ok && said.contains("in the kernel"), "{said}");
        assert!(tc("qdisc show dev near").contains("makeway"));
        let (ok, said) = say("down near");
        assert!(ok, "{said}");
        assert_eq!(tc("qdisc show dev near"), before);
        tc("qdisc del dev near root");
    }
    tc("qdisc add dev near root handle 79: htb default 1");
    // Without its counter of packets.
    let shown = || {
        let all = tc("qdisc show dev near");
        let options = all.split(" direct_packets_stat").next();
        options.unwrap_or_default().to_owned()
    };
    let before = shown();
    let refused = [
        (" --discipline sqf", "could not be restored"),
        (
            " --discipline sqf --tickets 100",
            "does not support writing tags on packets",
        ),
    ];
    for (options, why) in refused {
        let (ok, said) = say(&format!("up near --rate 8mbit --backend bpf{options}"));
        assert!(!ok && said.contains(why), "{options}: {said}");
        assert_eq!(shown(), before);
        assert_eq!(remains(), [""; 0]);
    }
    ip("link del near");
}

/// `fifo` where the discipline does not matter: the verifier looks at a thirtieth of the instructions of another.
const BOTH: &str = "up near --discipline fifo --rate 8mbit --down 8mbit --backend bpf";

#[test]
#[ignore = "runs in a guest"]
fn a_renamed_or_moved_interface_and_a_deleted_ifb_stop_no_packet() {
    let far = Far::new();
    let detached = format!("{BOTH} --detach");
    // Nobody is there to see it, and `down` comes later.
    let (ok, said) = say(&detached);
    assert!(ok, "{said}");
    renamed("near", "other");
    assert!(comes_in(&far));
    let (ok, said) = say("down near");
    assert!(ok, "{said}");
    assert!(comes_in(&far), "renamed, then down");
    assert_eq!(remains(), [""; 0]);
    let shown = tc("qdisc show");
    assert!(
        !shown.contains("makeway") && !shown.contains("clsact"),
        "{shown}"
    );
    renamed("other", "near");

    // One that runs sees both.
    let mut up = Up::start(BOTH);
    renamed("near", "other");
    let (code, said) = up.end();
    assert!(!code.success() && said.contains("another name"), "{said}");
    assert!(comes_in(&far));
    assert_eq!(remains(), [""; 0]);
    renamed("other", "near");
    let harmed = |harm: &str| {
        let device = status()["directions"][1]["device"].clone();
        let device = device.as_str().unwrap().to_owned();
        let down = if harm == "link set" { " down" } else { "" };
        ip(&format!("{harm} {device}{down}"));
        device
    };
    for harm in ["link del", "link set"] {
        let (ok, said) = say(&detached);
        assert!(ok, "{said}");
        harmed(harm);
        let (ok, said) = say("down near");
        assert!(ok, "{harm}: {said}");
        assert!(comes_in(&far), "{harm}, then down");
        assert_eq!(remains(), [""; 0]);

        let mut up = Up::start(BOTH);
        let device = harmed(harm);
        assert!(comes_in(&far), "{harm} {device}");
        let (status, said) = up.end();
        assert!(!status.success() && said.contains(&device), "{said}");
        assert_eq!(remains(), [""; 0]);
    }

    let (ok, said) = say(&detached);
    assert!(ok, "{said}");
    ip(&format!("link set near netns {}", far.tid));
    let (ok, said) = say("down near");
    assert!(ok, "{said}");
    assert_eq!(remains(), [""; 0]);
}

#[test]
#[ignore = "runs in a guest"]
fn the_service_changes_the_kernels_rate_and_replaces_a_process_that_stands_still() {
    use super::service::{Load, Service, signal};

    let far = Far::new();
    let text = "[interface.near]\nupload = \"8mbit\"\ndiscipline = \"fifo\"\n";
    let service = Service::start(text);
    let first = service.shapes("near", 8_000_000);
    let load = Load::start(&far);
    for mbit in [9, 10, 11] {
        load.goes_on();
        service.reads_at(mbit, text, "");
        assert_eq!(service.goes_on_at(mbit, first)["backend"], "bpf");
    }
    load.loses_none(&service, &far);

    // With qdiscs in the kernel no watchdog of its own kills it: the service does.
    signal(first, libc::SIGSTOP);
    service.says("stands still, and is killed");
    assert_ne!(service.shapes("near", 11_000_000), first);
    drop(service);
    nothing_remains();
    ip("link del near");
}

#[test]
#[ignore = "runs in a guest"]
fn the_doctor_finds_faults_of_qdiscs() {
    use super::doctor::{Doctor, among};

    let _far = Far::new();
    let of = |rate: &str| {
        Doctor::of(&format!(
            "[interface.near]\nupload = \"{rate}\"\ndiscipline = \"fifo\"\n"
        ))
    };
    let fast = of("200mbit");
    let up = Up::start("up near --rate 200mbit --discipline fifo");
    let checks = fast.checks();
    assert!(
        checks.iter().all(|one| one["state"] == "good"),
        "{checks:#?}"
    );
    tc("qdisc replace dev near root fq_codel");
    fast.finds(
        "qdisc",
        "near has the qdisc fq_codel",
        "systemctl restart makeway",
    );
    drop(up);
    assert!(say("down near").0);

    tc("qdisc replace dev near root htb");
    among(
        &fast.checks(),
        "shaper",
        "the root qdisc htb",
        "tc qdisc del dev near root",
    );
    tc("qdisc del dev near root");
    let slow = of("8mbit");
    let up = Up::start("up near --rate 8mbit --discipline fifo");
    slow.finds(
        "offloads",
        "of up to 64 kB",
        "ethtool -K near tso off gso off",
    );
    drop(up);
    assert!(say("down near").0);

    let mount = |program: &str, line: &str| {
        let done = Command::new(program).args(line.split(' ')).status();
        assert!(done.unwrap().success(), "{program} {line}");
    };
    mount("umount", "/sys/fs/bpf");
    among(
        &fast.checks(),
        "qdiscs",
        "no BPF file system",
        "mount -t bpf bpf /sys/fs/bpf",
    );
    mount("mount", "-t bpf bpf /sys/fs/bpf");

    // A kernel whose list has none of its modules, and which has not loaded one.
    let cake = Doctor::of(
        "[interface.near]\nupload = \"8mbit\"\ndownload = \"8mbit\"\nbackend = \"cake\"\n",
    );
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let modules = format!("/lib/modules/{}", release.trim());
    std::fs::create_dir_all(&modules).unwrap();
    std::fs::write(format!("{modules}/modules.dep"), "").unwrap();
    mount("mount", "-t tmpfs tmpfs /sys/module");
    let checks = cake.checks();
    among(
        &checks,
        "cake",
        "this kernel has no cake",
        "modprobe sch_cake",
    );
    among(&checks, "ifb", "this kernel has no ifb", "modprobe ifb");
    mount("umount", "/sys/module");
    let checks = cake.checks();
    for name in ["cake", "ifb"] {
        let mut own = checks.iter().filter(|one| one["check"] == name);
        assert!(own.all(|one| one["state"] == "good"), "{checks:#?}");
    }
    std::fs::remove_dir_all(&modules).unwrap();
    ip("link del near");
}

#[test]
#[ignore = "runs in a guest"]
fn nothing_is_left_of_one_that_is_killed_anywhere_or_whose_calls_fail() {
    use super::crash::{cleaned, killed_at, passes, points};
    use super::traced::{self, Act};

    let far = Far::new();
    let receiver = far.udp(4000);
    let before = tc("qdisc show");
    let clean = |what: &str| {
        assert!(
            comes_in(&far) && passes(&receiver),
            "{what}: nothing comes through"
        );
        cleaned(what);
        assert_eq!(tc("qdisc show"), before, "{what}");
    };
    let (count, calls) = killed_at(BOTH, None);
    clean("up that runs");
    let tried = points(count, 3);
    for &point in &tried {
        killed_at(BOTH, Some(point));
        clean(&format!(
            "up, killed before call {point}, number {}",
            calls[point]
        ));
    }
    println!(
        "up in the kernel: killed at {} of {count} calls, leftovers 0",
        tried.len()
    );

    let start = || killed_at(BOTH, None);
    start();
    let (count, _) = killed_at("down near", None);
    clean("down");
    let tried = points(count, 2);
    for &point in &tried {
        start();
        killed_at("down near", Some(point));
        clean(&format!("down, killed before call {point} of {count}"));
    }
    println!(
        "down in the kernel: killed at {} of {count} calls, leftovers 0",
        tried.len()
    );

    // Qdiscs are there, and no process.
    start();
    let set = "up near --set rate=9mbit --set down=9mbit";
    let (count, _) = killed_at(set, None);
    let rate = egress("rate_bps");
    assert_eq!(rate, 9_000_000, "--set");
    assert!(say("up near --set rate=8mbit --set down=8mbit").0);
    let tried = points(count, 2);
    for &point in &tried {
        killed_at(set, Some(point));
        let what = format!("--set, killed before call {point} of {count}");
        assert!(comes_in(&far) && passes(&receiver), "{what}");
        let rate = egress("rate_bps");
        assert!([8_000_000, 9_000_000].contains(&rate), "{what}: {rate}");
    }
    clean("--set");
    println!(
        "--set in the kernel: killed at {} of {count} calls, leftovers 0",
        tried.len()
    );

    for (name, call, errno) in [
        ("bpf", libc::SYS_bpf, libc::EPERM),
        ("netlink", libc::SYS_sendto, libc::ENOBUFS),
    ] {
        let run = |nth: Option<usize>| {
            let mut count = 0;
            let mut command = makeway(BOTH);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            traced::run(&mut command, false, |one| match one.number {
                libc::SYS_write if one.arguments[0] == 1 => Act::Kill,
                number if number == call => {
                    count += 1;
                    match nth == Some(count - 1) {
                        true => Act::Fail(errno),
                        false => Act::Go,
                    }
                }
                _ => Act::Go,
            });
            count
        };
        let count = run(None);
        clean(name);
        let tried = points(count, 2);
        for &nth in &tried {
            run(Some(nth));
            clean(&format!("{name} number {nth} of {count} fails"));
        }
        println!(
            "up in the kernel, {name} fails: {} of {count} tried, 0 stopped packets",
            tried.len()
        );
    }
    ip("link del near");
}
