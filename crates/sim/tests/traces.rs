// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces say what the report says, and other programs read them.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use etherparse::{IpEcn, IpNumber, Ipv4Header, TcpHeader, TcpOptionElement, UdpHeader};
use makeway_report::model::Report;
use makeway_scenario::Scenario;
use makeway_sim::trace::{Recorder, Taps};
use makeway_sim::{Options, RunError, run_in_full, run_traced};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, PcapBlockOwned, PcapNGSlice};

/// Two downloads and two streams; the queue drops, and the link loses.
const SCENARIO: &str = r#"
duration = "8s"
seed = 3
[node.server]
[node.router]
[node.client]
[link.lan]
between = ["server", "router"]
rate = "100mbit"
framing = "ip"
delay = "2ms"
[link.line]
between = ["router", "client"]
rate = ["6mbit", "2mbit"]
delay = "9ms"
loss = [0.002, 0.0]
queue = { at = "router", discipline = "sqf", limit = "30 packets" }
[flow.download]
kind = "bulk"
from = "server"
to = "client"
count = 2
[flow.voice]
kind = "cbr"
from = "server"
to = "client"
rate = "80kbit"
payload = "161B"
[flow.noise]
kind = "poisson"
from = "client"
to = "server"
rate = "200kbit"
payload = "25B"
"#;

fn scenario() -> Scenario {
    makeway_scenario::parse(SCENARIO, "test.toml", Path::new("."), &[]).unwrap()
}

/// A file that the test can look into.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The capture at `place`, with the report of the run.
fn capture(place: &str) -> (Vec<u8>, Report) {
    capture_of(&scenario(), place)
}

fn capture_of(scenario: &Scenario, place: &str) -> (Vec<u8>, Report) {
    let (mut recorder, file) = (Recorder::new(scenario), Shared::default());
    let taps = Taps::find(scenario, place).unwrap();
    let out = Box::new(file.clone());
    recorder.pcapng(scenario, &taps, "test", out).unwrap();
    let outcome = run_traced(scenario, &Options::default(), recorder, |_| {}).unwrap();
    (file.take(), outcome.report)
}

/// A packet of a capture, made whole again: the payload that was cut off is zeros.
struct Packet {
    interface: u32,
    at: u64,
    missed: u64,
    ip: Ipv4Header,
    rest: Vec<u8>,
}

impl Packet {
    fn tcp(&self) -> Option<(TcpHeader, u64)> {
        let (tcp, payload) = TcpHeader::from_slice(&self.rest).ok()?;
        (self.ip.protocol == IpNumber::TCP).then_some((tcp, payload.len() as u64))
    }

    fn udp(&self) -> Option<(UdpHeader, &[u8])> {
        let (udp, payload) = UdpHeader::from_slice(&self.rest).ok()?;
        (self.ip.protocol == IpNumber::UDP).then_some((udp, payload))
    }
}

fn packets(file: &[u8]) -> Vec<Packet> {
    let mut packets = Vec::new();
    for block in PcapNGSlice::from_slice(file).unwrap() {
        let PcapBlockOwned::NG(Block::EnhancedPacket(block)) = block.unwrap() else {
            continue;
        };
        let mut bytes = block.packet_data().to_vec();
        assert!(bytes.len() <= 96);
        bytes.resize(block.origlen as usize, 0);
        let (ip, rest) = Ipv4Header::from_slice(&bytes).unwrap();
        let missed = block.options.iter().find(|option| option.code.0 == 4);
        packets.push(Packet {
            interface: block.if_id,
            at: u64::from(block.ts_high) << 32 | u64::from(block.ts_low),
            missed: missed.map_or(0, |o| u64::from_le_bytes(o.value().try_into().unwrap())),
            rest: rest.to_vec(),
            ip,
        });
    }
    packets
}

const EPOCH: u64 = 946_684_800_000_000_000;

#[test]
fn lengths_and_checksums_of_a_capture_are_right() {
    let (file, _) = capture("line");
    let packets = packets(&file);
    let mut sack = 0;
    for packet in &packets {
        let (ip, rest) = (&packet.ip, &packet.rest);
        assert_eq!(usize::from(ip.total_len), 20 + rest.len());
        assert_eq!(ip.header_checksum, ip.calc_header_checksum());
        assert!(ip.dont_fragment && ip.time_to_live <= 64);
        if let Some((udp, payload)) = packet.udp() {
            assert_eq!(usize::from(udp.length), rest.len());
            assert_eq!(Ok(udp.checksum), udp.calc_checksum_ipv4(ip, payload));
        }
        if let Some((tcp, len)) = packet.tcp() {
            let payload = &rest[rest.len() - len as usize..];
            assert_eq!(Ok(tcp.checksum), tcp.calc_checksum_ipv4(ip, payload));
            assert!(tcp.ack && tcp.header_len() >= 32);
            let options: Vec<_> = tcp.options_iterator().map(Result::unwrap).collect();
            let has = |found: fn(&TcpOptionElement) -> bool| options.iter().any(found);
            assert!(has(|o| matches!(o, TcpOptionElement::Timestamp(..))));
            sack += usize::from(has(|o| {
                matches!(o, TcpOptionElement::SelectiveAcknowledgement(..))
            }));
        }
    }
    assert!(packets.is_sorted_by_key(|packet| packet.at));
    assert!(packets[0].at >= EPOCH && packets.len() > 4000 && sack > 20);
    // The first hop of `line` is the second of the server's packets.
    let from_server = packets.iter().find(|packet| packet.interface == 0).unwrap();
    assert_eq!(from_server.ip.time_to_live, 63);
    assert_eq!(from_server.ip.source, [10, 78, 0, 1]);
}

#[test]
fn marks_and_a_connection_without_timestamps_are_seen() {
    let set = [
        "link.line.queue.discipline=red",
        "link.line.queue.ecn=true",
        "flow.download.tcp={preset=\"ns2\",window=\"60kB\",ecn=true}",
        "flow.download.congestion_control=sack",
    ];
    let set = set.map(String::from);
    let scenario = makeway_scenario::parse(SCENARIO, "test.toml", Path::new("."), &set).unwrap();
    let (file, report) = capture_of(&scenario, "line");
    let packets = packets(&file);
    let mut marks = 0;
    for packet in &packets {
        if let Some((tcp, len)) = packet.tcp() {
            let from_server = packet.interface == 0;
            // Data has no option, an acknowledgement none but SACK's.
            assert!(!from_server || (tcp.header_len() == 20 && len == 1000));
            assert!(from_server || (tcp.header_len() - 20) % 8 % 4 == 0 && len == 0);
            assert!(from_server || packet.ip.ecn == IpEcn::NotEct);
            marks += u64::from(packet.ip.ecn == IpEcn::CongestionExperienced);
        }
    }
    assert!(marks > 10);
    assert_eq!(marks, report.queues[0].marks);
}

#[test]
fn a_capture_counts_what_the_queue_counts() {
    let (file, report) = capture("line:router");
    let queue = &report.queues[0];
    let packets = packets(&file);
    assert_eq!(packets.len() as u64, queue.packets_out);
    let dropped = queue.drops.iter().filter(|(why, _)| *why != "loss");
    let dropped: u64 = dropped.map(|(_, n)| n).sum();
    assert!(dropped > 50, "{:?}", queue.drops);
    let blocks = PcapNGSlice::from_slice(&file).unwrap();
    let mut statistics = blocks.filter_map(|block| match block.unwrap() {
        PcapBlockOwned::NG(Block::InterfaceStatistics(block)) => Some(block),
        _ => None,
    });
    let end = statistics.next().unwrap();
    let value = |n: usize| u64::from_le_bytes(end.options[n].value().try_into().unwrap());
    assert_eq!((value(0), value(1)), (queue.packets_out, dropped));
    // Drops that no packet follows are only in the statistics.
    let missed: u64 = packets.iter().map(|packet| packet.missed).sum();
    assert!(
        missed <= dropped && missed + 30 > dropped,
        "{missed} of {dropped}"
    );
}

/// A TCP receiver's part of a stream: the offset up to which it is whole.
#[derive(Default)]
struct Whole {
    next: u64,
    beyond: BTreeMap<u64, u64>,
}

impl Whole {
    fn take(&mut self, seq: u64, len: u64) {
        let end = self.beyond.entry(seq).or_default();
        *end = (*end).max(seq + len);
        while let Some((&seq, &end)) = self.beyond.first_key_value() {
            if seq > self.next {
                break;
            }
            self.next = self.next.max(end);
            self.beyond.pop_first();
        }
    }
}

#[test]
fn bytes_of_each_flow_are_those_of_the_report() {
    // Losses on the link are in its capture: the report must be reached with a link that does not lose.
    let text = SCENARIO.replace("loss = [0.002, 0.0]\n", "");
    let scenario = makeway_scenario::parse(&text, "test.toml", Path::new("."), &[]).unwrap();
    let (mut recorder, files) = (
        Recorder::new(&scenario),
        [(); 2].map(|()| Shared::default()),
    );
    for (place, file) in ["line:router", "lan:router"].iter().zip(&files) {
        let taps = Taps::find(&scenario, place).unwrap();
        let out = Box::new(file.clone());
        recorder.pcapng(&scenario, &taps, "test", out).unwrap();
    }
    let report = run_traced(&scenario, &Options::default(), recorder, |_| {})
        .unwrap()
        .report;
    // When a packet that begins at `at` has arrived: its bits at the rate, then the delay.
    let links = [(6e6, 38, 9_000_000), (100e6, 0, 2_000_000)];
    let mut datagrams = [0; 4];
    let mut streams: [Whole; 2] = Default::default();
    for (file, (rate, overhead, delay)) in files.iter().zip(links) {
        for packet in packets(&file.take()) {
            let wire =
                (u64::from(packet.ip.total_len) + overhead).max(if overhead > 0 { 84 } else { 0 });
            let arrived = packet.at - EPOCH + (wire as f64 * 8e9 / rate) as u64 + delay;
            if arrived >= 8_000_000_000 {
                continue;
            }
            if let Some((udp, payload)) = packet.udp() {
                let flow = usize::from(udp.source_port) - 10_000;
                // Behind RTP's header, extension included.
                datagrams[flow] += payload.len() as u64 - 12;
            }
            if let Some((tcp, len)) = packet.tcp().filter(|(_, len)| *len > 0) {
                let flow = usize::from(tcp.source_port) - 10_000;
                streams[flow].take(u64::from(tcp.sequence_number) - 1, len);
            }
        }
    }
    for (number, flow) in report.flows.iter().enumerate() {
        let reported = (flow.goodput_bps * report.seconds / 8.0).round() as u64;
        let traced = match number {
            0 | 1 => streams[number].next,
            _ => datagrams[number],
        };
        assert!(traced > 10_000);
        assert_eq!(traced, reported, "{}", flow.name);
    }
}

#[test]
fn sequence_numbers_rise_but_for_retransmissions() {
    // Nothing is lost before the first link.
    let (file, report) = capture("lan:server");
    let (mut highest, mut again) = ([1_u32; 2], 0);
    for (tcp, len) in packets(&file).iter().filter_map(Packet::tcp) {
        let highest = &mut highest[usize::from(tcp.source_port) - 10_000];
        let end = tcp.sequence_number + len as u32;
        match tcp.sequence_number {
            seq if seq == *highest => *highest = end,
            _ => {
                assert!(end <= *highest, "a gap before {}", tcp.sequence_number);
                again += 1;
            }
        }
    }
    let lost: u64 = report.queues[0].drops.values().sum();
    assert!(
        again > 0 && again <= 2 * lost,
        "{again} sent again, {lost} lost"
    );
}

#[test]
fn rtp_packets_are_those_of_the_world_netns() {
    let (file, _) = capture("lan:server");
    let packets = packets(&file);
    let payloads = packets.iter().filter_map(Packet::udp);
    let voice: Vec<&[u8]> = payloads.map(|(_, payload)| payload).collect();
    for (seq, packet) in voice.iter().enumerate() {
        assert_eq!(packet.len(), 12 + 161);
        // Version 2 with an extension, type 96, the flow's number.
        assert_eq!(packet[..4], [0x90, 96, (seq >> 8) as u8, seq as u8]);
        assert_eq!(packet[8..12], [0, 0, 0, 3]);
        let seq_64 = u64::from_be_bytes(packet[24..32].try_into().unwrap());
        assert_eq!(seq_64, seq as u64);
    }
    // 80 kbit/s in packets of 201 B.
    assert_eq!(voice.len(), 8 * 80_000 / (201 * 8) + 1);
}

#[test]
fn a_traced_run_is_the_same_run() {
    let scenario = scenario();
    let plain = run_in_full(&scenario, &Options::default(), |_| {}).unwrap();
    let (_, report) = capture("line");
    assert_eq!(plain.report, report);
}

#[test]
fn a_run_that_is_stopped_ends_its_traces() {
    let scenario = scenario();
    let (mut recorder, file) = (Recorder::new(&scenario), Shared::default());
    let taps = Taps::find(&scenario, "line").unwrap();
    let out = Box::new(io::BufWriter::with_capacity(1 << 20, file.clone()));
    recorder.pcapng(&scenario, &taps, "test", out).unwrap();
    let options = Options::default();
    let stop = Arc::clone(&options.stop);
    let outcome = run_traced(&scenario, &options, recorder, |progress| {
        let late = progress.elapsed.as_nanos() > 2_000_000_000;
        stop.store(late, Ordering::Relaxed);
    });
    assert!(!outcome.unwrap().report.complete);
    let file = file.take();
    let blocks: Vec<_> = PcapNGSlice::from_slice(&file).unwrap().collect();
    assert!(blocks.len() > 1000, "{}", blocks.len());
    let last = blocks.last().unwrap().as_ref().unwrap();
    let statistics = |block: &_| matches!(block, Block::InterfaceStatistics(_));
    assert!(matches!(last, PcapBlockOwned::NG(block) if statistics(block)));
}

/// A disk that is full after some bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.checked_sub(bytes.len()) {
            Some(left) => self.0 = left,
            None => return Err(io::Error::from_raw_os_error(28)),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_run_with_the_files_name() {
    let scenario = scenario();
    let taps = Taps::find(&scenario, "line").unwrap();
    for room in [0, 10_000] {
        let mut recorder = Recorder::new(&scenario);
        let opened = recorder.pcapng(&scenario, &taps, "a.pcapng", Box::new(Full(room)));
        let error = match opened {
            Err(error) => error,
            Ok(()) => run_traced(&scenario, &Options::default(), recorder, |progress| {
                assert!(progress.elapsed.as_nanos() < 1_000_000_000, "it goes on");
            })
            .unwrap_err(),
        };
        assert!(matches!(&error, RunError::Trace { name, .. } if name == "a.pcapng"));
        let said = error.to_string();
        assert!(
            said.contains("a.pcapng") && said.contains("No space left"),
            "{said}"
        );
    }
}

#[test]
fn a_place_that_is_not_there_is_told_with_those_that_are() {
    let scenario = scenario();
    let error = |text| Taps::find(&scenario, text).unwrap_err().to_string();
    assert!(error("lane").ends_with("`lane` in the scenario (links: lan, line)"));
    assert!(error("line:server").contains("joins `router` and `client`"));
}

/// The lines of the trace of everything, by column, with the report of the run.
fn lines() -> (Vec<Vec<String>>, Report) {
    let scenario = scenario();
    let (mut recorder, file) = (Recorder::new(&scenario), Shared::default());
    let taps = Taps::everywhere(&scenario);
    recorder.ns2(&scenario, &taps, "test", Box::new(file.clone()));
    let outcome = run_traced(&scenario, &Options::default(), recorder, |_| {}).unwrap();
    let text = String::from_utf8(file.take()).unwrap();
    let columns = |line: &str| line.split(' ').map(Into::into).collect();
    (text.lines().map(columns).collect(), outcome.report)
}

#[test]
fn a_text_trace_counts_what_the_report_counts() {
    let (lines, report) = lines();
    assert!(lines.iter().all(|line| line.len() == 12));
    // Nodes by their place in the file: server 0, router 1, client 2.
    let count = |event: &str| {
        let at = lines
            .iter()
            .filter(|l| l[0] == event && l[2] == "1" && l[3] == "2");
        at.count() as u64
    };
    let queue = &report.queues[0];
    let dropped: u64 = queue.drops.values().sum();
    assert!(queue.drops["loss"] > 0 && dropped > queue.drops["loss"]);
    assert_eq!(count("d"), dropped);
    assert_eq!(lines.iter().filter(|l| l[0] == "d").count() as u64, dropped);
    assert_eq!(count("+"), queue.packets_in);
    assert_eq!(count("-"), queue.packets_out);
    assert_eq!(count("r"), queue.packets_out - queue.drops["loss"]);
}

#[test]
fn a_text_trace_follows_each_packet_over_its_links() {
    let (lines, _) = lines();
    let time = |line: &[String]| line[1].parse::<f64>().unwrap();
    assert!(lines.is_sorted_by_key(|line| (time(line) * 1e9).round() as u64));
    let mut packets: BTreeMap<u64, Vec<&[String]>> = BTreeMap::new();
    for line in &lines {
        packets
            .entry(line[11].parse().unwrap())
            .or_default()
            .push(line);
    }
    // No number is left out, and none is given twice.
    assert_eq!(packets.keys().last(), Some(&(packets.len() as u64 - 1)));
    for way in packets.values() {
        let events: String = way.iter().map(|line| line[0].as_str()).collect();
        assert!(
            ["+-r+-r", "+-r+d", "+-r+-d"].contains(&events.as_str()),
            "{events}"
        );
        // Type, size, flow, both ends and sequence number are the packet's own.
        assert!(way.iter().all(|line| line[4..] == way[0][4..]), "{way:?}");
        let forth = way[0][8] == format!("0.{}", 10_000 + way[0][7].parse::<u32>().unwrap());
        let nodes = way.iter().map(|line| line[2].as_str()).collect::<String>();
        let expected = if forth { "000111" } else { "222111" };
        assert_eq!(nodes, expected[..nodes.len()]);
    }
    for (kind, size) in [
        ("tcp", "1500"),
        ("ack", "52"),
        ("cbr", "201"),
        ("poisson", "65"),
    ] {
        assert!(
            lines.iter().any(|line| line[4] == kind && line[5] == size),
            "{kind}"
        );
    }
}

/// The output of a program on a capture; nothing if the machine does not have it.
fn read_by(program: &str, arguments: &[&str]) -> Option<String> {
    let (file, _) = capture("line");
    let path = std::env::temp_dir().join(format!("makeway-{program}-{}", std::process::id()));
    std::fs::write(&path, file).unwrap();
    let run = Command::new(program)
        .arg("-r")
        .arg(&path)
        .args(arguments)
        .output();
    std::fs::remove_file(&path).unwrap();
    match run {
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            makeway_testing::skip(format_args!(
                "{program} cannot be started ({error}): install the package {program}"
            ));
            None
        }
    }
}

#[test]
fn tcpdump_reads_every_packet() {
    let Some(text) = read_by("tcpdump", &["-nn", "-v"]) else {
        return;
    };
    let (file, _) = capture("line");
    let lines = text.lines().filter(|line| line.contains("IP (tos")).count();
    assert_eq!(lines, packets(&file).len());
    for wrong in ["incorrect", "missing", "invalid", "[bad"] {
        assert!(!text.contains(wrong), "{wrong}");
    }
    assert!(text.contains("(correct)") && text.contains("sack 1 "));
}

#[test]
fn tshark_follows_the_connections() {
    let analysis = [
        "-o",
        "ip.check_checksum:TRUE",
        "-o",
        "tcp.default_window_scaling:7",
    ];
    let fields = [
        "-T",
        "fields",
        "-e",
        "frame.interface_name",
        "-e",
        "_ws.malformed",
        "-e",
        "ip.checksum.status",
        "-e",
        "tcp.window_size",
        "-e",
        "tcp.analysis.retransmission",
    ];
    let Some(text) = read_by("tshark", &[&analysis[..], &fields].concat()) else {
        return;
    };
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    let (file, _) = capture("line");
    assert_eq!(rows.len(), packets(&file).len());
    // 1: good.
    assert!(rows.iter().all(|row| row[1].is_empty() && row[2] == "1"));
    let acknowledgements = rows.iter().filter(|row| row[0] == "client -> router");
    assert!({ acknowledgements }.any(|row| row[3] == "3145728"));
    assert!(rows.iter().any(|row| !row[4].is_empty()));
}

#[test]
fn a_capture_that_is_replayed_gives_the_same_packets() {
    let (file, _) = capture("lan:server");
    let folder = std::env::temp_dir().join(format!("makeway-replay-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("server.pcapng"), &file).unwrap();
    let flows = SCENARIO.find("[flow.download]").unwrap();
    let text = SCENARIO[..flows].to_owned()
        + "[flow.copy]\nkind = \"pcap\"\nfile = \"server.pcapng\"\nfrom = \"server\"\nto = \"client\"";
    let scenario = makeway_scenario::parse(&text, "test.toml", &folder, &[]).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let (mut recorder, copy) = (Recorder::new(&scenario), Shared::default());
    let taps = Taps::find(&scenario, "lan:server").unwrap();
    let out = Box::new(copy.clone());
    recorder.pcapng(&scenario, &taps, "test", out).unwrap();
    run_traced(&scenario, &Options::default(), recorder, |_| {}).unwrap();
    let all = |file: &[u8]| -> Vec<(u64, u16)> {
        let packets = packets(file);
        packets.iter().map(|p| (p.at, p.ip.total_len)).collect()
    };
    let (original, copy) = (all(&file), all(&copy.take()));
    assert!(original.len() > 4000);
    assert_eq!(original, copy);
}
