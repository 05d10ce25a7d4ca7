// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page "Shape your link in ten minutes", followed in a fresh guest: its commands and its file as they stand, in their order, and after
//! each step all that the page promises. One thing is written otherwise, as a reader does: the rates of the own link. The package comes from
//! another machine, as the page allows. [`others`] follows two further pages.

mod others;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use makeway_testing::page::Page;
use serde_json::Value;

use super::deb::MAKEWAY;
use super::{FILE, call, has_line, pid, property, shapes, shell, status, transfer, until};

const PAGE: &str = include_str!("../../../../docs/guide/ten-minutes.md");
const TROUBLES: &str = include_str!("../../../../docs/guide/troubleshooting.md");
/// Beginnings of the page's commands, and the path of its file.
const STEPS: [&str; 9] = [
    "make package && sudo apt install ./target/package/makeway_",
    "sudo makeway doctor wan0",
    "/etc/makeway/makeway.toml",
    "sudo makeway doctor wan0",
    "ping -c 10 example.com",
    "ping -c 10 example.com",
    "ping -c 10 example.com",
    "sudo systemctl disable --now makeway",
    "sudo systemctl enable --now makeway",
];
/// Rates of the page's file, and those for the link of the guest.
const RATES: [(&str, &str); 2] = [("\"19mbit\"", "\"9500kbit\""), ("\"45mbit\"", "\"9mbit\"")];
/// Words of the page in the browser.
const SHOWN: [&str; 3] = ["Served", "In queue", "goes first"];
/// The clone. A folder with makeway's name would count as left over at the purge.
const CLONE: &str = "/srv/clone";
/// A download is at its rate after that, by the page.
const AT_ITS_RATE: Duration = Duration::from_secs(10);
/// For "a second after it is saved": the journal is asked now and then.
const ABOUT_A_SECOND: Duration = Duration::from_secs(4);
/// For "some milliseconds".
const SOME_MS: f64 = 10.0;

/// A step that the reader makes.
enum Step {
    Run(String),
    Write { path: String, text: String },
}

impl Step {
    /// The command, or the path of the file.
    fn name(&self) -> &str {
        match self {
            Self::Run(command) => command,
            Self::Write { path, .. } => path,
        }
    }
}

/// Steps of the page.
fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for block in Page::of(PAGE).blocks {
        if block.language != "toml" {
            steps.extend(block.commands().into_iter().map(Step::Run));
            continue;
        }
        let path = block.lines[0].strip_prefix("# ").unwrap().to_owned();
        let text = block.lines.join("\n") + "\n";
        steps.push(Step::Write { path, text });
    }
    steps
}

/// Address of the page in the browser.
fn address() -> &'static str {
    let rest = PAGE.split("<http://").nth(1).unwrap();
    rest.split("/>").next().unwrap()
}

#[test]
fn the_page_has_the_steps_that_the_guest_follows() {
    let steps = steps();
    assert_eq!(steps.len(), STEPS.len());
    for (step, begin) in steps.iter().zip(STEPS) {
        assert!(step.name().starts_with(begin), "{}", step.name());
    }
    let text = steps.iter().find_map(|step| match step {
        Step::Write { text, .. } => Some(text),
        Step::Run(_) => None,
    });
    let text = text.unwrap();
    assert!(RATES.iter().all(|(rate, _)| text.contains(rate)), "{text}");
    let tunnel = format!("ssh -L 8480:{} router", address());
    for page in [PAGE, TROUBLES] {
        assert!(page.contains(&tunnel), "{tunnel}");
    }
    for word in SHOWN {
        assert!(PAGE.contains(&format!("*{word}*")), "{word}");
    }
    // The file is one that the service takes, with the page at that address.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("makeway.toml");
    fs::write(&file, text).unwrap();
    let mut check = Command::new(MAKEWAY);
    let said = super::run(check.args(["service", "--check"]).arg(&file));
    let page = format!("page on http://{}/\n", address());
    assert!(said.starts_with("wan0: upload 19mbit, download 45mbit by makeway"));
    assert!(said.ends_with(&page), "{said}");
}

/// One who follows the page.
struct Reader(std::vec::IntoIter<Step>);

impl Reader {
    fn new() -> Self {
        Self(steps().into_iter())
    }

    /// Runs the next command: see [`runs`].
    fn runs(&mut self) -> (bool, String) {
        let Some(Step::Run(line)) = self.0.next() else {
            panic!("the page has no command here");
        };
        runs(&line)
    }

    /// As [`Self::runs`], of a command that ends well.
    fn runs_well(&mut self) -> String {
        well(self.runs())
    }

    /// The next file with the rates of the link here: its path and text.
    fn file(&mut self) -> (String, String) {
        let Some(Step::Write { path, text }) = self.0.next() else {
            panic!("the page has no file here");
        };
        let rates = RATES.into_iter();
        let text = rates.fold(text, |text, (rate, own)| text.replace(rate, own));
        (path, text)
    }
}

/// Runs a command of a page in the clone; whether it ended well, and its output.
fn runs(line: &str) -> (bool, String) {
    println!("$ {line}");
    // `scripts/package` has made it elsewhere.
    let line = line.strip_prefix("make package && ").unwrap_or(line);
    let mut command = Command::new("sh");
    let output = command.args(["-c", line]).current_dir(CLONE).output();
    let output = output.unwrap();
    let [out, err] = [output.stdout, output.stderr];
    let [out, err] = [out, err].map(|text| String::from_utf8_lossy(&text).into_owned());
    println!("{out}{err}");
    (output.status.success(), out + &err)
}

/// Output of a command that ended well.
fn well((is_well, said): (bool, String)) -> String {
    assert!(is_well, "{said}");
    said
}

#[test]
#[ignore = "runs in the guest"]
fn the_page_is_followed() {
    prepare();
    let mut reader = Reader::new();
    let begin = Instant::now();

    // 1. Install.
    reader.runs_well();
    assert_eq!(property("ActiveState"), "active", "it waits for the file");

    // 2. Check.
    let (is_well, said) = reader.runs();
    assert!(!is_well);
    assert_eq!(faults(&said), ["file", "wan0: running"], "{said}");

    // 4. Write the file.
    let (path, text) = reader.file();
    fs::write(&path, &text).unwrap();
    let saved = Instant::now();
    let read = is_read_after(saved);
    let first = pid(&shapes(9_500_000, 9_000_000, 0));
    let shaped = saved.elapsed();
    println!("the file was read after {read:.1?}, and wan0 shaped after {shaped:.1?}");
    fs::write(&path, text.replace("\"9500kbit\"", "3")).unwrap();
    until("its line of a mistake", || {
        let told = shell("systemctl status makeway");
        let line = format!("{path}:3: `interface.wan0.upload` is 3");
        (told.contains(&line) && told.contains("all stays as it was")).then_some(())
    });
    assert_eq!(pid(&shapes(9_500_000, 9_000_000, 0)), first);
    fs::write(&path, &text).unwrap();
    let said = reader.runs_well();
    assert!(said.contains(" checks: 0 faults,"), "{said}");

    // 5. Look.
    let script = get("/app.js");
    assert!(get("/").contains("<title>makeway</title>"));
    for word in SHOWN {
        assert!(script.contains(word), "{word}");
    }
    let download = transfer(5001, true);
    thread::sleep(AT_ITS_RATE);
    let speaks = thread::spawn(call);
    let states = states(10);
    commands_of_troubleshooting();
    let heard = speaks.join().unwrap();
    println!("a call beside a download: {heard:?}");
    assert!(heard.iter().all(|one| one.lost <= 1 && one.p99_ms < 50.0));
    let served = median(&states, "sent_bps");
    let waits = median(&states, "sojourn_p99_ms");
    println!("served {:.2} Mbit/s, in queue {waits:.1} ms", served / 1e6);
    assert!((8.1e6..9.2e6).contains(&served), "the setting is 9 Mbit/s");
    assert!(waits > 1.0, "the download's own packets wait");
    let goes_first = |flow: &Value| {
        let name = flow["flow"].as_str().unwrap();
        name.ends_with("> 10.9.0.1:4000") && flow["standing"] == "standing"
    };
    let last = states.last().unwrap();
    assert!(
        states
            .iter()
            .any(|state| flows(state).iter().any(goes_first)),
        "{last:#}"
    );
    download.stop();

    // 6. Test.
    thread::sleep(Duration::from_secs(2));
    let idle = average_ms(&reader.runs_well());
    for (port, is_download) in [(5002, true), (5003, false)] {
        let load = transfer(port, is_download);
        thread::sleep(AT_ITS_RATE);
        let loaded = average_ms(&reader.runs_well());
        load.stop();
        assert!(loaded < idle + SOME_MS, "{loaded} ms, {idle} ms without");
    }

    // All of it is taken away, and back.
    reader.runs_well();
    assert!(status().is_none());
    let left = shell("tc qdisc show; ip link");
    assert!(
        !left.contains("makeway") && !left.contains("mwifb"),
        "{left}"
    );
    reader.runs_well();
    shapes(9_500_000, 9_000_000, 0);
    assert!(reader.0.next().is_none(), "a step of the page is left");
    let took = begin.elapsed();
    println!(
        "the page took {:.1} of its ten minutes",
        took.as_secs_f64() / 60.0
    );
    assert!(took < Duration::from_secs(600), "{took:?}");

    // The next boot starts the service, with the file of that test.
    assert_eq!(shell("systemctl is-enabled makeway"), "enabled");
    fs::write(&path, FILE).unwrap();
    fs::remove_dir_all(CLONE).unwrap();
}

/// A router before its reader comes: it has a link and a name, a clone, and the package that was made on another machine.
fn prepare() {
    has_line();
    // The page takes the interface from this.
    shell("ip route add default via 10.9.0.2");
    let route = shell("ip route show default");
    assert!(route.contains("dev wan0"), "{route}");
    let hosts = "127.0.0.1 localhost guest\n10.9.1.2 example.com\n";
    fs::write("/etc/hosts", hosts).unwrap();
    let folder = Path::new(CLONE).join("target/package");
    fs::create_dir_all(&folder).unwrap();
    fs::rename("/first.deb", folder.join("makeway_1.0-1_amd64.deb")).unwrap();
}

/// Faults that the doctor names, each with a repair below it.
fn faults(said: &str) -> Vec<&str> {
    let lines: Vec<&str> = said.lines().collect();
    let mut faults = Vec::new();
    for pair in lines.windows(2) {
        if let Some(fault) = pair[0].strip_prefix("FAULT") {
            assert!(pair[1].trim().starts_with("repair: "), "{said}");
            faults.push(fault.trim().split("  ").next().unwrap());
        }
    }
    faults
}

/// Time after which the service has read its file again: about a second.
fn is_read_after(saved: Instant) -> Duration {
    until("the file is read", || {
        journal().contains(": read again").then_some(())
    });
    let read = saved.elapsed();
    assert!(read < ABOUT_A_SECOND, "{read:?}");
    read
}

fn journal() -> String {
    shell("journalctl --no-pager -u makeway")
}

/// Runs the commands of the page of troubleshooting that change nothing.
fn commands_of_troubleshooting() {
    const LOOKS: [&str; 5] = [
        "sudo makeway doctor",
        "makeway doctor",
        "makeway status",
        "journalctl -u",
        "uname",
    ];
    let spans = Page::of(TROUBLES).spans;
    let looks = |span: &&String| LOOKS.iter().any(|begin| span.starts_with(begin));
    let mut count = 0;
    for span in spans.iter().filter(looks) {
        let said = shell(span);
        if span == "makeway status wan0" {
            assert!(said.contains("standing"), "{said}");
        }
        count += 1;
    }
    assert!(count >= 6, "{count} commands");
}

/// Body of an answer of the page.
fn get(path: &str) -> String {
    let mut stream = ask(path, "Connection: close\r\n");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_owned()
}

fn ask(path: &str, header: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address()).unwrap();
    let host = address();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\n{header}\r\n"
    )
    .unwrap();
    stream
}

/// States that a browser is told, one behind the other, twice a second.
fn states(count: usize) -> Vec<Value> {
    let lines = BufReader::new(ask("/api/live", "")).lines();
    let told = lines.map_while(Result::ok).filter_map(|line| {
        let data = line.strip_prefix("data:")?;
        Some(serde_json::from_str(data).unwrap())
    });
    told.take(count).collect()
}

/// The download's part of a state.
fn download_of(state: &Value) -> &Value {
    let directions = &state["interfaces"][0]["directions"];
    let mut all = directions.as_array().unwrap().iter();
    all.find(|one| one["direction"] == "ingress").unwrap()
}

fn flows(state: &Value) -> &[Value] {
    download_of(state)["flows"].as_array().unwrap()
}

/// Median of a figure of the download.
fn median(states: &[Value], key: &str) -> f64 {
    let figures = states.iter().map(|state| &download_of(state)[key]);
    let mut figures: Vec<f64> = figures.filter_map(Value::as_f64).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Average of `rtt min/avg/max/mdev = 10.1/10.2/10.4/0.1 ms`, of packets that all came back.
fn average_ms(said: &str) -> f64 {
    assert!(said.contains(", 0% packet loss"), "{said}");
    let figures = said.split("min/avg/max/mdev = ").nth(1).unwrap();
    figures.split('/').nth(1).unwrap().parse().unwrap()
}
