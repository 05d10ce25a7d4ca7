// SPDX-License-Identifier: MIT OR Apache-2.0
//! The format as a user meets it: what the documentation shows reads, and what is wrong is told.

#![allow(clippy::unwrap_used)] // helpers of tests

mod radio;

use std::path::{Path, PathBuf};

use makeway_core::framing::Framing;
use makeway_core::sched::{LowRate, NcqParams, Spec};
use makeway_core::units::{Bytes, Duration, Fraction, Rate};
use makeway_scenario::model::{Pace, Source};
use makeway_scenario::{Scenario, ScenarioError, explain, load, parse, routes};
use proptest::prelude::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn documented() -> String {
    let page = std::fs::read_to_string(root().join("docs/scenario.md")).unwrap();
    let from = page.find("```toml\n").unwrap() + 8;
    let to = from + page[from..].find("```").unwrap();
    page[from..to].to_owned()
}

fn read(text: &str, set: &[&str]) -> Result<Scenario, ScenarioError> {
    let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
    parse(text, "call.toml", Path::new("."), &set)
}

#[test]
fn a_scenario_and_a_trace_without_an_end_are_refused() {
    let endless = Path::new("/dev/zero");
    for (error, most) in [
        (load(endless, &[]).unwrap_err(), "1 MB"),
        (makeway_scenario::frames(endless).unwrap_err(), "64 MB"),
    ] {
        let error = error.to_string();
        assert!(error.contains(&format!("longer than {most}")), "{error}");
    }
}

/// The error that the example of the documentation gives after one change.
fn error(from: &str, to: &str) -> String {
    let text = documented();
    assert!(text.contains(from), "{from}");
    read(&text.replacen(from, to, 1), &[])
        .unwrap_err()
        .to_string()
}

#[test]
fn a_call_has_an_encoder_delay_which_is_known_if_not_given() {
    let voice = |value: &str| {
        let text = documented().replacen("kind = \"cbr\"", &format!("kind = \"cbr\"\n{value}"), 1);
        let scenario = read(&text, &[]).unwrap();
        let words = explain(&scenario);
        let call = scenario.flows.last().unwrap().voice;
        assert_eq!(words.contains("a call with"), call.is_some(), "{words}");
        call.map(|voice| voice.encoder_delay)
    };
    assert_eq!(voice(""), None);
    assert_eq!(voice("voice = {}"), Some(Duration::from_millis(10)));
    let given = voice("voice = { encoder_delay = \"35ms\" }");
    assert_eq!(given, Some(Duration::from_millis(35)));
}

#[test]
fn the_documented_example_reads_and_is_short() {
    let text = documented();
    assert!(text.lines().filter(|l| !l.is_empty()).count() < 30);
    let file = root().join("scenarios/examples/two-flows.toml");
    let kept = std::fs::read_to_string(file).unwrap();
    let (licence, kept) = kept.split_once('\n').unwrap();
    assert!(licence.starts_with("# SPDX-"), "{licence}");
    assert_eq!(text, kept);
    let s = read(&text, &[]).unwrap();
    assert_eq!((s.nodes.len(), s.links.len(), s.flows.len()), (3, 2, 2));
    let line = &s.links[1].egress[0];
    assert_eq!(line.rate, Some(Rate::from_bps(10_000_000)));
    assert_eq!(
        (
            line.queue.spec.discipline().name(),
            line.queue.limits.packets
        ),
        ("sqf", 50)
    );
    assert!(line.measure && !s.links[1].egress[1].measure);
    assert_eq!(s.links[0].egress[1].delay, Duration::from_millis(10));
    assert_eq!(s.warmup, Duration::from_secs(5));
}

#[test]
fn every_scenario_of_the_tree_reads() {
    let mut found = 0;
    let mut folders = vec![root().join("scenarios")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "toml") {
                let s = load(&path, &[]).unwrap_or_else(|e| panic!("{e}"));
                assert!(explain(&s).contains(&s.title));
                found += 1;
            }
        }
    }
    assert!(found >= 5, "{found}");
}

#[test]
fn errors_say_where_what_and_what_would_be_right() {
    let shown: Vec<String> = [
        ("rate = \"10mbit\"", "rat = \"10mbit\""),
        ("rate = \"10mbit\"", "rate = 10"),
        ("rate = \"10mbit\"", "rate = \"0bit\""),
        (
            "rate = \"10mbit\"",
            "rate = [\"1mbit\", \"2mbit\", \"3mbit\"]",
        ),
        ("rate = \"10mbit\"", "loss = 1.5"),
        ("rate = \"10mbit\"", "delay = \"1ms\""),
        ("duration = \"20s\"", "duration = \"4s\""),
        ("duration = \"20s\"", ""),
        ("duration = \"20s\"", "duration = = \"20s\""),
        ("[node.router]", "[node.router]\naddress = \"10.0.0.1\""),
        ("[node.router]", "[node.\"my router\"]"),
        ("[\"server\", \"router\"]", "[\"server\", \"ruter\"]"),
        ("[\"server\", \"router\"]", "[\"router\", \"router\"]"),
        ("[\"server\", \"router\"]", "[\"client\", \"router\"]"),
        ("[\"server\", \"router\"]", "\"server\""),
        ("limit = \"50 packets\"", "limit = 50"),
        ("limit = \"50 packets\"", "limit = \"0 packets\""),
        ("limit = \"50 packets\"", "flows = \"ports\""),
        ("discipline = \"sqf\"", "discipline = \"sfq\""),
        ("discipline = \"sqf\", ", ""),
        ("at = \"router\"", "at = \"server\""),
        ("kind = \"bulk\"", "kind = \"bulk\"\nrate = \"1mbit\""),
        ("kind = \"bulk\"", "kind = \"bukl\""),
        ("kind = \"bulk\"", "kind = \"rtp\"\ntrace = \"none.csv\""),
        ("kind = \"bulk\"", "kind = \"bulk\"\ncount = -1"),
        ("kind = \"bulk\"", "kind = \"bulk\"\nstart = \"1min\""),
        ("kind = \"bulk\"", "kind = \"bulk\"\nstop = \"0s\""),
        ("rate = \"80kbit\"", "rate = \"80kbit\"\npayload = \"9kB\""),
        ("rate = \"10mbit\"", "rate = \"10mbit\"\nloss = { p = 0.1 }"),
        ("rate = \"10mbit\"", "rate = \"10mbit\"\nloss = { p = 0.1, r = 2 }"),
        (
            "rate = \"10mbit\"",
            "rate = \"10mbit\"\nchanges = { at = \"router\" }",
        ),
        (
            "rate = \"10mbit\"",
            "rate = \"10mbit\"\nchanges = { at = \"router\", steps = [[\"5s\", \"1mbit\"], [\"4s\", \"1mbit\"]] }",
        ),
        (
            "rate = \"10mbit\"",
            "rate = \"10mbit\"\nchanges = { at = \"router\", steps = [[\"5s\", \"1mbit\"]], every = \"5s\" }",
        ),
        (
            "delay = \"10ms\"",
            "changes = { at = \"server\", steps = [[\"5s\", \"1mbit\"]] }",
        ),
        (
            "rate = \"10mbit\"",
            "rate = \"10mbit\"\nchanges = { at = \"router\", file = \"none.csv\" }",
        ),
        ("delay = \"10ms\"", "delay = \"-1ms\""),
        ("rate = \"10mbit\"", "rate = \"10mbit\"\nframing = \"atm\""),
        ("at = \"router\"", "at = \"router\", weights = { alice = 2 }"),
        ("discipline = \"sqf\"", "discipline = \"red\", ecn = 1"),
        (
            "discipline = \"sqf\"",
            "discipline = \"red\", red = { min = 9, max = 5 }",
        ),
        (
            "discipline = \"sqf\"",
            "discipline = \"red\", red = { weight = 1.5 }",
        ),
        (
            "discipline = \"sqf\"",
            "discipline = \"fifo\", codel = { target = \"0ms\" }",
        ),
        (
            "discipline = \"sqf\"",
            "discipline = \"cake\", cake = { rtt = \"5s\" }",
        ),
        (
            "discipline = \"sqf\"",
            "discipline = \"cake\", cake = { isolation = \"hosts\" }",
        ),
        (
            "discipline = \"sqf\"",
            "discipline = \"ncq\", ncq = { treshold = 0.05 }",
        ),
        (
            "discipline = \"sqf\"",
            "discipline = \"ncq\", ncq = { threshold = 5 }",
        ),
        (
            "discipline = \"sqf\"",
            "discipline = \"ncq\", ncq = { length = 130 }",
        ),
        (
            "discipline = \"sqf\"",
            "discipline = \"ncq\", ncq = { window = 0 }",
        ),
        (
            "discipline = \"sqf\"",
            "discipline = \"ncq\", ncq = { extra_wait = 0.01 }",
        ),
        (
            "discipline = \"sqf\"",
            "discipline = \"ncq\", ncq = { low_rate = \"64kbit\" }",
        ),
        (
            "discipline = \"sqf\"",
            "discipline = \"ncq\", ncq = { low_rate = { rate = \"64kbit\" } }",
        ),
        ("kind = \"bulk\"", "kind = \"bulk\"\nthink = \"1s\""),
        ("kind = \"bulk\"", "kind = \"bulk\"\nevery = \"1s\""),
        (
            "kind = \"bulk\"",
            "kind = \"bulk\"\nbytes = \"1kB\"\nthink = \"1s\"\nevery = \"1s\"",
        ),
        ("kind = \"cbr\"", "kind = \"cbr\"\njitter_of = \"rate\""),
        ("kind = \"bulk\"", "kind = \"bulk\"\nvoice = {}"),
        ("kind = \"cbr\"", "kind = \"cbr\"\nvoice = true"),
        (
            "kind = \"cbr\"",
            "kind = \"cbr\"\nvoice = { encoder = \"10ms\" }",
        ),
        (
            "kind = \"bulk\"",
            "kind = \"bulk\"\ntcp = { preset = \"ns3\" }",
        ),
        ("kind = \"bulk\"", "kind = \"bulk\"\ntcp = { mss = \"0B\" }"),
        ("kind = \"cbr\"", "kind = \"on-off\"\non = \"1s\""),
        (
            "kind = \"cbr\"",
            "kind = \"on-off\"\non = \"1s\"\noff = \"1s\"\nshape = 1.2",
        ),
        (
            "[flow.download]",
            "[flow.d-1]\nkind = \"bulk\"\nfrom = \"server\"\nto = \"client\"\n[flow.d]\ncount = 2",
        ),
    ]
    .iter()
    .map(|(from, to)| error(from, to))
    .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_scenario_has_so_many_flows_and_no_more() {
    // With the call behind them.
    let read = |set: &[&str]| match read(&documented(), set) {
        Ok(scenario) => scenario.flows.len().to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(read(&["flow.download.count=99999"]), "100000");
    let error = read(&["flow.download.count=100000"]);
    assert!(error.contains("100001 flows in all: 100000 is"), "{error}");
    let several = format!("flow.download.from=[{}]", ["\"server\""; 20].join(", "));
    let error = read(&[&several, "flow.download.count=90000"]);
    assert!(error.contains("1800000 flows in all"), "{error}");
}

#[test]
fn every_parameter_of_ncq_reaches_the_discipline_with_the_links_framing() {
    let written = "discipline = \"ncq\", ncq = { threshold = 0.03, length = \"200B\", window = 500, \
        probabilistic = true, extra_wait = 0.01, control = true, \
        low_rate = { rate = \"64kbit\", burst = \"3kB\" }, keep_order = true, push_out = true }";
    let text = documented().replacen("discipline = \"sqf\"", written, 1);
    let s = read(&text, &[]).unwrap();
    let expected = NcqParams {
        length: Bytes::new(200),
        threshold: Fraction::ratio(3, 100),
        window: Some(500),
        probabilistic: true,
        extra_wait: Some(Fraction::ratio(1, 100)),
        control: true,
        low_rate: Some(LowRate {
            rate: Rate::from_bps(64_000),
            burst: Bytes::new(3000),
        }),
        keep_order: true,
        push_out: true,
    };
    let line = &s.links[1].egress[0];
    assert_eq!(line.queue.spec, Spec::Ncq(expected));
    let env = line.env(&s.tags, 4, 7);
    assert_eq!(
        (env.framing, env.seed, env.limits.flows),
        (Framing::ETHERNET, 7, 4)
    );
}

#[test]
fn settings_change_any_value_and_are_told_apart_from_the_file() {
    let s = read(
        &documented(),
        &[
            "flow.download.count=3",
            "link.line.queue.discipline=fq",
            "duration=30s",
        ],
    )
    .unwrap();
    assert_eq!(s.flows.len(), 4);
    assert_eq!(s.flows[2].name, "download-3");
    assert_eq!(s.links[1].egress[0].queue.spec.discipline().name(), "fq");
    assert_eq!(s.set["duration"], "30s");

    // Of an array each table is meant, or the one at a place.
    let both = documented().replace(
        "queue = { at = \"router\", discipline = \"sqf\", limit = \"50 packets\" }",
        "queue = [{ at = \"router\", discipline = \"sqf\" }, { at = \"client\", discipline = \"sqf\" }]",
    );
    let names = |set: &str| {
        let s = read(&both, &[set]).unwrap();
        let egress = &s.links[1].egress;
        [0, 1].map(|end| egress[end].queue.spec.discipline().name())
    };
    assert_eq!(names("link.line.queue.discipline=fq"), ["fq", "fq"]);
    assert_eq!(names("link.line.queue.1.discipline=fq"), ["sqf", "fq"]);
    let error = read(&both, &["link.line.queue.2.discipline=fq"]).unwrap_err();
    assert!(error.to_string().contains("no place 2"), "{error}");

    let wrong: Vec<String> = [
        "flow.downlod.count=3",
        "flow.download.cuont=3",
        "link.line.rate=fast",
        "link.line.rate.down=1mbit",
        "duration",
        "=3",
        "link..rate=1mbit",
    ]
    .iter()
    .map(|set| read(&documented(), &[set]).unwrap_err().to_string())
    .collect();
    insta::assert_snapshot!(wrong.join("\n"));
}

#[test]
fn a_trace_is_scaled_to_the_rate_that_is_asked_for() {
    let path = root().join("scenarios/call-and-downloads.toml");
    let s = load(
        &path,
        &[
            "flow.video.rate=2mbit".into(),
            "flow.video.pace=frame".into(),
        ],
    )
    .unwrap();
    let video = s.flows.iter().find(|f| f.name == "video").unwrap();
    let Source::Rtp {
        frames,
        period,
        pace,
        ..
    } = &video.source
    else {
        panic!("not RTP");
    };
    let bytes: u64 = frames.iter().map(|f| f.bytes.get()).sum();
    assert_eq!(*period, Duration::from_secs(60));
    assert_eq!(*pace, Pace::Frame);
    assert!(
        Bytes::new(bytes) == Rate::from_bps(2_000_000) * *period,
        "{bytes}"
    );
}

#[test]
fn the_committed_traces_are_those_that_the_script_makes() {
    let script = root().join("scenarios/traces/make.py");
    match std::process::Command::new("python3")
        .arg(script)
        .arg("--check")
        .output()
    {
        Ok(out) => assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        ),
        Err(e) => makeway_testing::skip(format_args!("python3 does not start ({e})")),
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        let _ = read(&text, &[]);
    }

    #[test]
    fn no_change_of_a_good_file_makes_the_reader_panic(
        at in 0usize..700, cut in 0usize..12, put in "[a-z0-9=\"\\[\\]{}.,\n -]{0,6}",
    ) {
        let mut text = documented();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.replace_range(at..end, &put);
        if let Err(e) = read(&text, &[]) {
            prop_assert!(!e.to_string().contains('\n'), "{}", e);
        }
    }

    #[test]
    fn no_setting_makes_the_reader_panic(set in "[a-z.]{0,20}=?.{0,12}") {
        let _ = read(&documented(), &[&set]);
    }
}

#[test]
fn a_capture_is_read_from_the_scenarios_folder_and_told_with_its_line() {
    let folder = std::env::temp_dir().join(format!("makeway-captures-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // A pcap of raw IP: the headers of two packets of 1500 B, half a second apart.
    let ip = [0x45, 0, 5, 0xdc, 0, 0, 0, 0];
    let head = [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_535, 101];
    let mut capture: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
    for us in [0, 500_000] {
        capture.extend([7, us, 8, 1500_u32].into_iter().flat_map(u32::to_le_bytes));
        capture.extend(ip);
    }
    std::fs::write(folder.join("two.pcap"), &capture).unwrap();
    std::fs::write(folder.join("cut.pcap"), &capture[..60]).unwrap();
    let text = documented().replacen(
        "kind = \"cbr\"\nfrom = \"server\"\nto = \"client\"\nrate = \"80kbit\"",
        "kind = \"pcap\"\nfrom = \"server\"\nto = \"client\"\nfile = \"two.pcap\"",
        1,
    );
    let line = 1 + text.lines().position(|l| l.contains("two.pcap")).unwrap();
    let read = |text: &str| parse(text, "call.toml", &folder, &[]);
    let scenario = read(&text).unwrap();
    let Source::Pcap {
        packets, period, ..
    } = &scenario.flows[1].source
    else {
        panic!("{:?}", scenario.flows[1].source)
    };
    assert_eq!(packets[1].bytes, Bytes::new(1500));
    assert_eq!(packets[1].at, Duration::from_millis(500));
    assert_eq!(*period, None);
    let words = explain(&scenario);
    assert!(
        words.contains("2 packets of 3 kB in 0.500 s, played once"),
        "{words}"
    );
    let repeated = read(&text.replace("\"two.pcap\"", "\"two.pcap\"\nrepeat = true")).unwrap();
    assert!(explain(&repeated).contains("again every 1.000 s"));

    let error = read(&text.replace("two.", "cut.")).unwrap_err().to_string();
    let start = format!("call.toml:{line}: `flow.voice.file`: ");
    assert!(error.starts_with(&start), "{error}");
    assert!(error.contains("cut.pcap: it is cut off, or broken, in the record after the first 1"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_trace_of_mahimahi_is_kept_exactly_where_that_is_asked_for() {
    let folder = std::env::temp_dir().join(format!("makeway-exact-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("trace.txt"), "# LTE\n5\n5\n20\n").unwrap();
    std::fs::write(folder.join("bad.txt"), "5\n4\n").unwrap();
    let read = |changes: &str| {
        let rate = format!("rate = \"10mbit\"\nchanges = {{ at = \"router\", {changes} }}");
        let text = documented().replacen("rate = \"10mbit\"", &rate, 1);
        parse(&text, "call.toml", &folder, &[])
    };
    let egress = |changes: &str| {
        let links = read(changes).unwrap().links;
        let both = links.into_iter().flat_map(|link| link.egress);
        both.into_iter()
            .find(|egress| !egress.changes.steps.is_empty())
            .unwrap()
    };
    let exact = egress("file = \"trace.txt\", exact = true");
    let trace = exact.changes.opportunities.clone().unwrap();
    assert_eq!(
        (trace.count(), trace.period()),
        (3, Duration::from_millis(20))
    );
    // Without `exact` the same rates, and nothing else.
    let rates = egress("file = \"trace.txt\"");
    assert_eq!(rates.changes.opportunities, None);
    assert_eq!(rates.changes.steps, exact.changes.steps);
    let words = explain(&read("file = \"trace.txt\", exact = true").unwrap());
    assert!(
        words.contains("3 opportunities of 1500 B, again every 20ms"),
        "{words}"
    );
    for (changes, said) in [
        (
            "steps = [[\"5s\", \"1mbit\"]], exact = true",
            "write `file = \"trace.txt\"`",
        ),
        (
            "file = \"trace.txt\", exact = true, every = \"9s\"",
            "leave `every` out",
        ),
        (
            "file = \"bad.txt\", exact = true",
            "bad.txt:2: `4` should be a time in ms",
        ),
        ("file = \"trace.txt\", exact = 1", "true or false"),
    ] {
        let error = read(changes).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
