// SPDX-License-Identifier: MIT OR Apache-2.0
//! One test of settings, status, change and end for every backend, by hand and by a file; all of them in a guest (`guest.rs`).

use super::metrics::get;
use super::service::{Service, status_of};
use super::*;

/// Packets in a burst: 5 ms at 8 Mbit/s, short of what the kernel's cake drops for.
const BURST: usize = 5;

/// Sends a burst of 1000 B each, with IP and UDP, and waits for all of it; the time from the first arrival to the last.
fn burst(from: &UdpSocket, to: &UdpSocket, address: &str, amid: impl FnOnce()) -> Duration {
    for _ in 0..BURST {
        from.send_to(&[0; 972], address).unwrap();
    }
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    let take = |n| {
        let got = to.recv(&mut [0; 2000]);
        got.unwrap_or_else(|error| panic!("packet {n} of the burst: {error}: {:#}", status()));
    };
    take(0);
    let begin = Instant::now();
    amid();
    (1..BURST).for_each(take);
    begin.elapsed()
}

/// Sends bursts until one takes so long: a receiver that wakes late sees them too close.
fn takes(from: &UdpSocket, to: &UdpSocket, address: &str, least: f64) {
    let least = Duration::from_secs_f64(least / 1e3);
    let what = format!("a burst of {least:?}");
    until(&what, || {
        (burst(from, to, address, || {}) > least).then_some(())
    });
}

/// The bursts' flow has its name, what it sent, its standing, and why.
fn judges_flows_by_name() {
    let egress = &status()["directions"][0];
    let flows = egress["flows"].as_array().unwrap();
    let name = "udp 10.9.0.1:4001 > 10.9.0.2:4001";
    let flow = flows.iter().find(|flow| flow["flow"] == name);
    let flow = flow.unwrap_or_else(|| panic!("{name}: {egress:#}"));
    let (packets, bytes) = (&flow["packets_out"], &flow["bytes_out"]);
    let packets = packets.as_u64().unwrap();
    assert!(packets >= BURST as u64, "{flow:#}");
    assert_eq!(bytes.as_u64(), Some(packets * 1020), "{flow:#}");
    let class = flow["standing"].as_str().unwrap();
    let why = match class {
        "new" => "has just begun",
        _ => "no standing queue",
    };
    assert_eq!(flow["reason"], why, "{flow:#}");
    assert!(["new", "standing"].contains(&class), "{flow:#}");
    assert!(flow["since_s"].as_f64().unwrap() > 0.0, "{flow:#}");
}

/// Shapes both directions, says so, changes a rate amid packets, and ends.
pub fn lives(far: &Far, backend: &str, discipline: &str) {
    let line =
        format!("up near --rate 8mbit --down 9mbit --overhead 20 --mpu 70 --backend {backend}");
    let up = Up::start(&line);
    let first = status();
    assert_eq!(first["backend"], backend, "{first:#}");
    assert_eq!(first["pid"], up.0.id());
    let both = first["directions"].as_array().unwrap();
    let told = both.iter().map(|one| {
        assert_eq!((&one["overhead"], &one["mpu"]), (&20.into(), &70.into()));
        assert_eq!(one["discipline"], discipline);
        (
            one["direction"].as_str().unwrap(),
            one["rate_bps"].as_u64().unwrap(),
        )
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, [("egress", 8_000_000), ("ingress", 9_000_000)]);
    let has_connections = Path::new("/sys/module/nf_conntrack").exists();
    let source = match (backend, has_connections) {
        ("bpf", true) => "connections",
        ("bpf", false) => "packets: nf_conntrack is not loaded",
        _ => "",
    };
    assert!(both.iter().all(|one| one["nat"] == source), "{first:#}");

    let (here, there) = (UdpSocket::bind("10.9.0.1:4001").unwrap(), far.udp(4001));
    // Four packets of 1020 B after the first take 4.1 ms, and 3.6 ms.
    takes(&here, &there, "10.9.0.2:4001", 3.0);
    takes(&there, &here, "10.9.0.1:4001", 2.7);
    for one in status()["directions"].as_array().unwrap() {
        let count = |key: &str| one[key].as_u64().unwrap();
        assert!(count("packets_out") >= BURST as u64, "{one:#}");
        assert!(count("bytes_out") >= 1000 * BURST as u64, "{one:#}");
        let drops = one["drops"].as_object().unwrap().values();
        let drops: u64 = drops.map(|count| count.as_u64().unwrap()).sum();
        let held = count("packets_out") + count("backlog_packets") + drops;
        assert_eq!(count("packets_in"), held, "{one:#}");
    }
    if discipline == "makeway" {
        judges_flows_by_name();
    }

    // Half of the rate, with no packet lost.
    burst(&here, &there, "10.9.0.2:4001", || {
        let (ok, said) = say("up near --set rate=4mbit");
        assert!(ok, "{said}");
    });
    let now = status();
    assert_eq!(
        (&now["pid"], egress("rate_bps")),
        (&first["pid"], 4_000_000)
    );
    takes(&here, &there, "10.9.0.2:4001", 6.0);

    // The counters are those of before the end.
    let (ok, said) = say("down near");
    assert!(ok && !said.contains(" 0 packets sent"), "{said}");
    drop(up);
    assert!(!rules());
    burst(&here, &there, "10.9.0.2:4001", || {});
}

/// The same by a file: `makeway service` shapes both directions, tells of them by `status` and in its metrics, follows the file amid packets
/// without losing one, and by autorate; its end leaves nothing.
pub fn lives_by_a_file(far: &Far, backend: &str, discipline: &str) {
    let file = format!(
        "[web]\n[interface.near]\nupload = \"8mbit\"\ndownload = \"9mbit\"\noverhead = 20\nmpu = 70\ndiscipline = \"{discipline}\"\nbackend = \"{backend}\"\n"
    );
    let mut service = Service::start(&file);
    let pid = service.shapes("near", 8_000_000);
    let first = status();
    assert_eq!(first["backend"], backend, "{first:#}");
    let both = first["directions"].as_array().unwrap();
    assert_eq!(both.len(), 2, "{first:#}");
    for (one, rate) in both.iter().zip([8_000_000, 9_000_000]) {
        assert_eq!(one["rate_bps"], rate, "{one:#}");
        assert_eq!((&one["overhead"], &one["mpu"]), (&20.into(), &70.into()));
        assert_eq!(one["discipline"], discipline, "{one:#}");
    }
    let line = format!("makeway_backend_info{{interface=\"near\",backend=\"{backend}\"}} 1");
    until("the metrics of near", || {
        let (_, body) = get("127.0.0.1:8480", "/metrics", &["Accept: text/plain"])?;
        body.contains(&line).then_some(())
    });

    let (here, there) = (UdpSocket::bind("10.9.0.1:4001").unwrap(), far.udp(4001));
    takes(&here, &there, "10.9.0.2:4001", 3.0);
    // A packet that is lost is missed.
    let slower = file.replace("8mbit", "4mbit");
    service.reads(&slower);
    until("half of the rate", || {
        burst(&here, &there, "10.9.0.2:4001", || {});
        (egress("rate_bps") == 4_000_000).then_some(())
    });
    assert_eq!(service.shapes("near", 4_000_000), pid, "{}", service.said());
    takes(&here, &there, "10.9.0.2:4001", 6.0);

    service.reads(&format!("{slower}[interface.near.autorate]\n"));
    until("autorate", || {
        let now = status_of("near")?;
        (now["autorate"].is_object() && now["backend"] == backend).then_some(())
    });

    service.stops();
    assert!(
        !rules() && status_of("near").is_none(),
        "{}",
        service.said()
    );
    burst(&here, &there, "10.9.0.2:4001", || {});
}

#[test]
fn the_packet_queue_passes_the_test_of_all_backends() {
    if !inside_in_order("backends::the_packet_queue_passes_the_test_of_all_backends") {
        return;
    }
    let far = Far::new();
    lives(&far, "nfqueue", "makeway");
    lives_by_a_file(&far, "nfqueue", "makeway");
}
