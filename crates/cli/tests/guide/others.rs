// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages "From sqm-scripts or cake" and "Which rate", followed in another fresh guest, whose link sqm-scripts shape: their commands as they stand.
//! Debian has no package of sqm-scripts, so their unit is a stand-in that makes the same qdiscs and removes them. Written otherwise are the
//! rates of the link and the address of the server; commands that ask are answered.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use super::super::at_server;
use super::*;

const SQM: &str = include_str!("../../../../docs/guide/from-sqm.md");
const RATE: &str = include_str!("../../../../docs/guide/which-rate.md");
/// Beginnings of the commands of the first page, and the way back, in a sentence.
const MOVES: [&str; 4] = [
    "sudo systemctl disable --now sqm@wan0",
    "tc qdisc show dev wan0",
    "sudo editor /etc/makeway/makeway.toml",
    "sudo makeway doctor wan0",
];
const BACK: [&str; 2] = [
    "sudo apt purge makeway",
    "sudo systemctl enable --now sqm@wan0",
];
/// Beginnings of the commands of the second page, the first of them on the server; and the server's address.
const MEASURES: [&str; 2] = [
    "makeway tune --serve 0.0.0.0:8482 --token-file line-token",
    "sudo makeway tune wan0 --server 198.51.100.7 --token-file line-token",
];
const ADDRESS: [&str; 2] = ["198.51.100.7", "10.9.1.2"];
/// Keys of the first page's table, of `UPLINK=19000` and `DOWNLINK=45000`.
const KEYS: [&str; 2] = ["upload = \"19mbit\"", "download = \"45mbit\""];

const SCRIPT: &str = "set -e
if [ \"$1\" = stop ]; then
    tc qdisc del dev wan0 root
    tc qdisc del dev wan0 ingress
    ip link del ifb4wan0
    exit
fi
tc qdisc replace dev wan0 root cake bandwidth 9500kbit besteffort
ip link add ifb4wan0 type ifb
ip link set ifb4wan0 up
tc qdisc add dev ifb4wan0 root cake bandwidth 9mbit besteffort ingress
tc qdisc add dev wan0 handle ffff: ingress
tc filter add dev wan0 parent ffff: matchall action mirred egress redirect dev ifb4wan0
";
const UNIT: &str = "[Unit]\nAfter=line.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh /etc/sqm/script\nExecStop=/bin/sh /etc/sqm/script stop\n[Install]\nWantedBy=multi-user.target\n";
/// An editor whose user writes what lies ready.
const EDITOR: &str = "#!/bin/sh\nexec cp /etc/sqm/written \"$1\"\n";
/// Rates of the link, which is 10 Mbit/s each way, as `tune` may tell them; acknowledgements of the other way are not in them.
const MEASURED: std::ops::Range<f64> = 9.2e6..10.2e6;

fn commands(page: &str) -> Vec<String> {
    Page::of(page).blocks[0].commands()
}

/// The file by the page's table.
fn file() -> String {
    let text = format!("[interface.wan0]\n{}\n{}\n", KEYS[0], KEYS[1]);
    let rates = RATES.into_iter();
    rates.fold(text, |text, (rate, own)| text.replace(rate, own))
}

#[test]
fn the_other_pages_have_the_steps_that_the_guest_follows() {
    for (page, begins) in [(SQM, &MOVES[..]), (RATE, &MEASURES[..])] {
        let commands = commands(page);
        assert_eq!(commands.len(), begins.len(), "{commands:?}");
        for (command, begin) in commands.iter().zip(begins) {
            assert!(command.starts_with(begin), "{command}");
        }
    }
    let spans = Page::of(SQM).spans;
    for span in KEYS.iter().chain(&BACK) {
        assert!(spans.iter().any(|one| one == span), "{span}");
    }
    assert!(SQM.contains("[Install makeway](ten-minutes.md), then stop sqm"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("makeway.toml");
    fs::write(&path, file()).unwrap();
    let mut check = Command::new(MAKEWAY);
    let said = super::super::run(check.args(["service", "--check"]).arg(&path));
    assert!(
        said.starts_with("wan0: upload 9.5mbit, download 9mbit by makeway"),
        "{said}"
    );
}

#[test]
#[ignore = "runs in the guest"]
fn the_other_pages_are_followed() {
    prepare();
    fs::create_dir_all("/etc/sqm").unwrap();
    fs::write("/etc/sqm/script", SCRIPT).unwrap();
    fs::write("/etc/sqm/written", file()).unwrap();
    fs::write("/etc/systemd/system/sqm@.service", UNIT).unwrap();
    let editor = "/usr/local/bin/editor";
    fs::write(editor, EDITOR).unwrap();
    fs::set_permissions(editor, fs::Permissions::from_mode(0o755)).unwrap();
    shell("systemctl -q enable --now sqm@wan0");
    is_sqms();

    // Install makeway; its doctor names the other shaper.
    let mut reader = Reader::new();
    reader.runs_well();
    let (is_well, said) = reader.runs();
    assert!(
        !is_well && faults(&said).contains(&"wan0: shaper"),
        "{said}"
    );

    // Then stop sqm, and the rest of that page.
    let moves = commands(SQM);
    well(runs(&moves[0]));
    let left = well(runs(&moves[1]));
    for kind in ["cake", "htb", "ingress"] {
        assert!(!left.contains(kind), "{left}");
    }
    well(runs(&moves[2]));
    is_read_after(Instant::now());
    shapes(9_500_000, 9_000_000, 0);
    let said = well(runs(&moves[3]));
    assert!(said.contains(" checks: 0 faults,"), "{said}");

    which_rate();

    let back = BACK.map(|line| format!("yes | {line}"));
    well(runs(&back[0]));
    let left = shell("tc qdisc show; ip link");
    assert!(
        !left.contains("makeway") && !left.contains("mwifb"),
        "{left}"
    );
    well(runs(&back[1]));
    is_sqms();
}

fn is_sqms() {
    let shown = shell("tc qdisc show dev wan0; tc qdisc show dev ifb4wan0");
    assert_eq!(shown.matches("qdisc cake").count(), 2, "{shown}");
    assert!(shown.contains("qdisc ingress"), "{shown}");
}

/// Measures the link by the page, before a service that shapes it.
fn which_rate() {
    const THERE: &str = "/srv/there";
    fs::create_dir_all(THERE).unwrap();
    let [serves, tunes] = <[String; 2]>::try_from(commands(RATE)).unwrap();
    let mut server = at_server(move || {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {serves}")]);
        shell.current_dir(THERE).stdout(Stdio::piped());
        shell.spawn().unwrap()
    });
    let mut said = String::new();
    let out = server.stdout.as_mut().unwrap();
    BufReader::new(out).read_line(&mut said).unwrap();
    assert!(said.starts_with("ready on "), "{said}");
    let token = "line-token";
    fs::copy(Path::new(THERE).join(token), Path::new(CLONE).join(token)).unwrap();

    // Without a terminal it measures and proposes, as the page shows it, and changes nothing.
    let tunes = tunes.replace(ADDRESS[0], ADDRESS[1]);
    let said = well(runs(&tunes));
    let mut rest = said.as_str();
    for line in &Page::of(RATE).blocks[1].lines {
        rest = rest.split_once(line.as_str()).expect(line).1;
    }
    assert!(rest.contains("Proposed: ") && rest.contains("[interface.wan0]"));
    shapes(9_500_000, 9_000_000, 0);

    // With a yes to both questions.
    let (command, _) = tunes.split_once('#').unwrap();
    let said = well(runs(&format!("{command} --yes --json")));
    let mut json = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    let told = json.next().unwrap().unwrap();
    assert_eq!(told["outcome"], "kept", "{told:#}");
    let of = |group: &str, key: &str| told[group][key].as_f64().unwrap();
    let [up, down] = [("upload_bps", 0.95), ("download_bps", 0.9)].map(|(key, share)| {
        let (line, proposed) = (of("line", key), of("proposed", key));
        println!("{key}: measured {line:.0}, proposed {proposed:.0}");
        assert!(MEASURED.contains(&line), "{line}");
        assert!((proposed / line - share).abs() < 0.01, "{proposed}");
        proposed as u64
    });
    let tuned = pid(&shapes(up, down, 0));
    // They last until makeway is started anew.
    shell("systemctl restart makeway");
    shapes(9_500_000, 9_000_000, tuned);
    server.kill().unwrap();
    server.wait().unwrap();
}
