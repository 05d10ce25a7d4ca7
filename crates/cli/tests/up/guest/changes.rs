// SPDX-License-Identifier: MIT OR Apache-2.0
//! The service and `--set` change what the kernel shapes, while packets pass and wait.

use serde_json::json;

use super::super::crash::{cleaned, killed_at, passes, points};
use super::super::service::{Load, Service, signal};
use super::*;

#[test]
#[ignore = "runs in a guest"]
fn limit_framing_weights_and_parameters_are_of_the_file_and_no_packet_is_lost() {
    let far = Far::new();
    let text = "[interface.near]\nupload = \"8mbit\"\nbackend = \"bpf\"\ndiscipline = \"hier\"\n";
    let service = Service::start(text);
    let first = service.shapes("near", 8_000_000);
    let qdisc = status()["directions"][0]["qdisc"].clone();
    let load = Load::start(&far);
    let changes = [
        ("limit = \"60 packets\"", "limit_packets", json!(60)),
        ("limit = \"900 packets\"", "limit_packets", json!(900)),
        ("link = \"docsis\"", "overhead", json!(18)),
        (
            "weights = { \"10.9.0.1\" = 2 }",
            "weights",
            json!({ "10.9.0.1": 2 }),
        ),
        (
            "weights = { \"10.9.0.7\" = 3 }",
            "weights",
            json!({ "10.9.0.7": 3 }),
        ),
        (
            "parameters = { \"quantum\" = \"3000B\" }",
            "parameters",
            json!({ "quantum": "3000B" }),
        ),
    ];
    for (mbit, (line, field, value)) in (9..).zip(changes) {
        load.goes_on();
        service.reads_at(mbit, text, line);
        let now = &service.goes_on_at(mbit, first)["directions"][0];
        assert_eq!((&now[field], &now["qdisc"]), (&value, &qdisc), "{line}");
    }
    let packets = load.loses_none(&service, &far);
    let said = service.said();
    assert!(!said.contains("starts anew"), "{said}");
    println!("six reloads in the kernel amid {packets} packets");

    // One that is refused keeps the others from being done, with a process and without.
    let refused = |line: &str, right: &str| {
        let before = status()["directions"][0].clone();
        let (ok, said) = say(&format!(
            "up near --set rate=3mbit --set mpu=64 --set {line}"
        ));
        assert!(!ok && said.contains(right), "{line}: {said}");
        let after = status()["directions"][0].clone();
        for field in ["rate_bps", "mpu", "limit_packets", "weights", "parameters"] {
            assert_eq!(after[field], before[field], "{line}: {field}");
        }
    };
    let all_refused = || {
        refused("quantum=1B", "write a size from 64B");
        refused(
            "limit=200000packets",
            "a qdisc in the kernel holds 1 to 131072",
        );
        refused("discipline=codel", "codel has no program for the kernel");
        refused("tickets=7", "trades no tickets");
    };
    all_refused();
    drop(service);
    nothing_remains();
    let (ok, said) = say("up near --rate 8mbit --discipline hier --backend bpf --detach");
    assert!(ok, "{said}");
    all_refused();
    let (ok, said) =
        say("up near --set limit=60packets --set weight=10.9.0.1=2 --set quantum=3000B");
    assert!(ok && said.contains("limit 60 packets"), "{said}");
    // Each asks for what the record and the maps have.
    let (ok, said) = say("up near --set overhead=38 --set weight=10.9.0.2=5");
    assert!(ok, "{said}");
    let now = status()["directions"][0].clone();
    assert_eq!(
        (&now["limit_packets"], &now["overhead"]),
        (&60.into(), &38.into())
    );
    assert_eq!(now["weights"], json!({ "10.9.0.1": 2, "10.9.0.2": 5 }));
    assert_eq!(now["parameters"], json!({ "quantum": "3000B" }));
    assert!(say("down near").0);
    assert_eq!(remains(), [""; 0]);
    ip("link del near");
}

/// Packets of 1000 B that a link of 16 kbit/s holds for half a minute, and the socket where they arrive.
const WAITING: u64 = 50;

fn waiting(far: &Far, port: u16) -> UdpSocket {
    let sink = far.udp(port);
    sink.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    for _ in 0..WAITING {
        socket.send_to(&[0; 972], ("10.9.0.2", port)).unwrap();
    }
    sink
}

/// How many of them arrive, each within 5 s of the one before.
fn arrive(sink: &UdpSocket) -> u64 {
    let mut n = 0;
    while n < WAITING && sink.recv(&mut [0; 2000]).is_ok() {
        n += 1;
    }
    n
}

/// Nothing was dropped by a qdisc: each packet that came to one of them has left.
fn all_have_left(status: &Value) {
    every_packet_is_accounted_for(status);
    for one in status["directions"].as_array().unwrap() {
        assert_eq!(one["drops"], json!({}), "{one}");
        assert!(one["packets_out"].as_u64() >= Some(WAITING), "{one}");
    }
}

fn pinned_qdiscs() -> usize {
    let folders = std::fs::read_dir("/sys/fs/bpf/makeway").unwrap().flatten();
    let qdiscs = folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap());
    qdiscs.count()
}

#[test]
#[ignore = "runs in a guest"]
fn another_discipline_takes_over_and_the_packets_that_wait_arrive() {
    let far = Far::new();
    let before = tc("qdisc show dev near");
    let up = Up::start("up near --rate 16kbit --limit 100packets --discipline sqf --backend bpf");
    let pid = status()["pid"].clone();
    let mut kind = status()["directions"][0]["qdisc"].clone();
    let changes = [
        ("discipline=fq", "fq"),
        // Parameters of another discipline, and a limit beyond the maps of this one.
        ("discipline=ncq --set ncq.window=300", "ncq"),
        ("limit=2000packets", "ncq"),
    ];
    for (n, (set, discipline)) in changes.into_iter().enumerate() {
        let sink = waiting(&far, 5000 + n as u16);
        let (ok, said) = say(&format!("up near --set {set}"));
        assert!(ok, "{set}: {said}");
        // By the rate they would take 25 s.
        let since = Instant::now();
        assert_eq!(arrive(&sink), WAITING, "{set}");
        let took = since.elapsed();
        assert!(took < Duration::from_secs(10), "{set}: {took:?}");
        let now = status();
        let one = &now["directions"][0];
        assert_eq!(
            (&now["pid"], &one["discipline"]),
            (&pid, &discipline.into())
        );
        assert_eq!(one["rate_bps"], 16_000, "{set}");
        assert_ne!(one["qdisc"], kind, "{set}");
        // The counters go on.
        assert!(
            one["packets_in"].as_u64() >= Some((n as u64 + 1) * WAITING),
            "{one}"
        );
        all_have_left(&now);
        kind = one["qdisc"].clone();
        assert!(tc("qdisc show dev near").contains(kind.as_str().unwrap()));
        assert_eq!(pinned_qdiscs(), 1, "{set}");
    }
    assert_eq!(egress("limit_packets"), 2000);

    // One that is killed is taken over with its packets, and without a process it is the same.
    let sink = waiting(&far, 5010);
    up.signal(libc::SIGKILL);
    drop(up);
    let again =
        Up::start("up near --rate 16kbit --limit 100packets --discipline sqf --backend bpf");
    assert_eq!(arrive(&sink), WAITING);
    again.signal(libc::SIGKILL);
    drop(again);
    let sink = waiting(&far, 5011);
    let (ok, said) = say("up near --set discipline=fifo --set overhead=38");
    assert!(ok && said.contains("by fifo"), "{said}");
    assert_eq!(arrive(&sink), WAITING);
    let now = status();
    assert_eq!(
        (&now["pid"], &now["directions"][0]["overhead"]),
        (&0.into(), &38.into())
    );
    all_have_left(&now);

    // A qdisc that somebody else has put there stays.
    tc("qdisc replace dev near root pfifo");
    let (ok, said) = say("up near --set discipline=fq");
    assert!(!ok && said.contains("near has the qdisc pfifo"), "{said}");
    assert!(tc("qdisc show dev near").contains("pfifo"));
    tc("qdisc del dev near root");
    assert!(say("down near").0);
    assert_eq!(tc("qdisc show dev near"), before);
    assert_eq!(remains(), [""; 0]);
    ip("link del near");
}

#[test]
#[ignore = "runs in a guest"]
fn the_service_changes_the_discipline_under_load_without_a_new_process() {
    let far = Far::new();
    let text = "[interface.near]\nupload = \"8mbit\"\ndownload = \"8mbit\"\nbackend = \"bpf\"\n";
    let service = Service::start(&format!("{text}discipline = \"fifo\"\n"));
    let first = service.shapes("near", 8_000_000);
    let call = Stream::start(&far, Duration::from_millis(5));
    let disciplines = ["ncq", "fq", "fifo"];
    for (mbit, discipline) in (9..).zip(disciplines) {
        thread::sleep(Duration::from_millis(300));
        service.reads_at(mbit, text, &format!("discipline = \"{discipline}\""));
        let now = service.goes_on_at(mbit, first);
        for one in now["directions"].as_array().unwrap() {
            assert_eq!(one["discipline"], discipline, "{one}");
        }
        assert!(tc("qdisc show dev near").contains("makeway"));
    }
    thread::sleep(Duration::from_millis(300));
    let heard = call.end();
    let now = status();
    let lost = heard.sent - heard.arrived;
    println!(
        "three disciplines: {lost} of {} packets came while the kernel exchanged qdiscs",
        heard.sent
    );
    // The kernel's own qdisc of that moment drops; ours do not.
    assert!(lost <= 3 * disciplines.len() as u64, "{lost}: {now:#}");
    every_packet_is_accounted_for(&now);
    assert_eq!(now["directions"][0]["drops"], json!({}), "{now:#}");
    let said = service.said();
    assert!(!said.contains("starts anew"), "{said}");
    drop(service);
    nothing_remains();
    ip("link del near");
}

#[test]
#[ignore = "runs in a guest"]
fn a_new_process_of_the_service_takes_the_packets_over_and_a_killed_one_leaves_nothing() {
    let far = Far::new();
    let before = tc("qdisc show dev near");
    let text = "[interface.near]\nupload = \"16kbit\"\nlimit = \"100 packets\"\ndiscipline = \"sqf\"\nbackend = \"bpf\"\n";
    let mut service = Service::start(text);
    let mut pid = service.shapes("near", 16_000);
    let changes = ["flows = \"src-host\"", "download = \"8mbit\""];
    for (port, more) in (5020..).zip(changes) {
        let sink = waiting(&far, port);
        service.reads(&format!("{text}{more}\n"));
        assert_eq!(arrive(&sink), WAITING, "{more}: {}", service.said());
        pid = until("another process", || {
            let now = service.shapes("near", 16_000);
            (now != pid).then_some(now)
        });
    }
    assert_eq!(status()["directions"].as_array().unwrap().len(), 2);
    assert!(tc("qdisc show dev near").contains("clsact"));
    // Without a download the path of arrivals is gone.
    service.reads(text);
    pid = until("a process for the upload alone", || {
        let now = service.shapes("near", 16_000);
        (now != pid).then_some(now)
    });
    let shown = tc("qdisc show dev near");
    assert!(!shown.contains("clsact"), "{shown}");
    // The service ends before the next start.
    signal(pid, libc::SIGKILL);
    service.stops();
    assert_eq!(remains(), [""; 0]);
    assert_eq!(tc("qdisc show dev near"), before);
    ip("link del near");
}

#[test]
#[ignore = "runs in a guest"]
fn nothing_is_left_of_a_change_of_discipline_that_is_killed_anywhere() {
    let far = Far::new();
    let receiver = far.udp(4000);
    let before = tc("qdisc show");
    let start = || {
        let (ok, said) = say("up near --discipline fifo --rate 8mbit --backend bpf --detach");
        assert!(ok, "{said}");
    };
    let clean = |what: &str| {
        assert!(passes(&receiver), "{what}: nothing comes through");
        // The next change finds its path, and the rate: also of one that was killed while packets left without it.
        let (ok, said) = say("up near --set discipline=ncq");
        assert!(ok, "{what}: {said}");
        let now = status()["directions"][0].clone();
        assert_eq!(
            (&now["discipline"], &now["rate_bps"]),
            (&"ncq".into(), &8_000_000.into()),
            "{what}"
        );
        assert!(
            tc("qdisc show dev near").contains(now["qdisc"].as_str().unwrap()),
            "{what}"
        );
        cleaned(what);
        assert_eq!(tc("qdisc show"), before, "{what}");
    };
    // After fifo the verifier accepts ncq fastest, and tred next.
    let set = "up near --set discipline=tred";
    start();
    let (count, calls) = killed_at(set, None);
    clean("a change");
    let tried = points(count, 4);
    for &point in &tried {
        start();
        killed_at(set, Some(point));
        clean(&format!(
            "killed before call {point}, number {}",
            calls[point]
        ));
    }
    println!(
        "--set discipline in the kernel: killed at {} of {count} calls, leftovers 0",
        tried.len()
    );
    ip("link del near");
}
