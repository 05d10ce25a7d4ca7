// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of the service in a real Chromium, driven by dashboard/test/page.js.

use makeway_testing::{note, skip};

use super::metrics::get;
use super::service::Service;
use super::*;

/// Files of `crates/web/assets` that are built.
const BUILT: [&str; 2] = ["app.js", "app.css"];

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name)
}

/// Whether node and the page's libraries are there.
fn has_node() -> bool {
    let node = Command::new("node")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    let has = node.is_ok() && folder("dashboard/node_modules/esbuild").exists();
    if !has {
        skip("no node, or no libraries of the page: npm ci --prefix dashboard");
    }
    has
}

#[test]
fn the_page_is_the_one_that_its_sources_make() {
    if !has_node() {
        return;
    }
    let made = tempfile::tempdir().unwrap();
    let mut build = Command::new("node");
    build.arg(folder("dashboard/build.js")).arg(made.path());
    let told = build.output().unwrap();
    assert!(
        told.status.success(),
        "{}",
        String::from_utf8_lossy(&told.stderr)
    );
    for name in BUILT {
        let [made, kept] = [made.path().to_owned(), folder("crates/web/assets")]
            .map(|folder| std::fs::read(folder.join(name)).unwrap());
        assert!(
            made == kept,
            "{name} is not of these sources: node dashboard/build.js"
        );
    }
}

/// Sends datagrams of 1000 B to each one that asks, at 10 Mbit/s for 12 s: more than the link has.
fn serve_downloads(far: &Far) {
    let socket = far.udp(4000);
    thread::spawn(move || {
        while let Ok((_, to)) = socket.recv_from(&mut [0; 100]) {
            let begin = Instant::now();
            for n in 0..15_000 {
                let due = Duration::from_micros(800) * n;
                thread::sleep(due.saturating_sub(begin.elapsed()));
                // A test that ended has closed its port.
                if socket.send_to(&[0; 972], to).is_err() {
                    break;
                }
            }
        }
    });
}

/// A machine on which the browser draws an empty canvas within this time, in milliseconds, has to keep the page's bars in time; a
/// slower one has to keep them in proportion, up to five times as long.
const EMPTY_MS: u64 = 100;

#[test]
fn the_page_shows_a_download_and_changes_a_rate_in_a_browser() {
    if !has_node() {
        return;
    }
    if !Path::new("/usr/bin/chromium").exists() {
        return skip("no chromium: apt-get install chromium");
    }
    if !inside("dashboard::the_page_shows_a_download_and_changes_a_rate_in_a_browser") {
        return;
    }
    let far = Far::new();
    let text = "[web]\n[interface.near]\nupload = \"8mbit\"\ndownload = \"9mbit\"\nbackend = \"nfqueue\"\n";
    let state = tempfile::tempdir().unwrap();
    let service = Service::start_with(text, &[("STATE_DIRECTORY", state.path())]);
    service.shapes("near", 8_000_000);
    service.says("page: http://127.0.0.1:8480/");
    serve_downloads(&far);
    let token = token(&service);
    let pictures = tempfile::tempdir().unwrap();
    let picture = pictures.path().join("dashboard.png");

    // Order and counts are right each time; the bars in time in one of three.
    let in_time = (0..3).any(|_| {
        let mut page = Command::new("node");
        page.arg(folder("dashboard/test/page.js"))
            .args(["http://127.0.0.1:8480/", &token, "near", "10.9.0.2"])
            .arg(&picture);
        let told = page.output().unwrap();
        let why = String::from_utf8_lossy(&told.stderr);
        assert!(told.status.success(), "{why}\n{}", service.said());
        let told: Value = serde_json::from_slice(&told.stdout).unwrap();
        note(format_args!(
            "page: {} B, of at most 200000; drawn after {} ms, a download shown after {} ms, of at most 1000 and 2000 where an empty canvas takes {EMPTY_MS} ms; here it takes {} ms",
            told["bytes"], told["load_ms"], told["shown_ms"], told["empty_ms"]
        ));
        // Script and style at least.
        let bytes = told["bytes"].as_u64().unwrap();
        assert!((80_000..200_000).contains(&bytes), "{told}");
        assert_eq!(told["width_at_360"], 360, "{told}");
        assert_eq!(told["faults"], Value::Array(Vec::new()), "{told:#}");
        assert_eq!(told["wrong"], Value::Array(Vec::new()), "{told:#}");
        let ms = |name: &str| told[name].as_u64().unwrap();
        let slow = ms("empty_ms").clamp(EMPTY_MS, 5 * EMPTY_MS);
        ms("load_ms") * EMPTY_MS < 1000 * slow && ms("shown_ms") * EMPTY_MS < 2000 * slow
    });
    assert!(in_time, "it takes 1 s to load, or 2 s to show a download");
    if std::env::var_os("MAKEWAY_WRITE_DOCS").is_some() {
        std::fs::copy(&picture, folder("docs/images/dashboard.png")).unwrap();
    }
    // Its answers are for its own pages alone.
    let (head, _) = get("127.0.0.1:8480", "/", &[]).unwrap();
    assert!(head.contains("script-src 'self'"), "{head}");
    assert!(state.path().join("history.db").exists());
}

/// Token of a service that has told where it is.
fn token(service: &Service) -> String {
    service.says("take the token in ");
    let said = service.said();
    let file = said.split("take the token in ").nth(1).unwrap();
    let token = std::fs::read_to_string(file.lines().next().unwrap()).unwrap();
    token.trim().into()
}

#[test]
fn answers_of_the_service_are_those_of_its_document() {
    if !has_node() || !inside("dashboard::answers_of_the_service_are_those_of_its_document") {
        return;
    }
    let far = Far::new();
    let text = "[web]\n[interface.near]\nupload = \"8mbit\"\ndownload = \"9mbit\"\nbackend = \"nfqueue\"\n";
    let service = Service::start(text);
    service.shapes("near", 8_000_000);
    let receiver = far.udp(4000);
    let sender = UdpSocket::bind("10.9.0.1:4001").unwrap();
    sender.send_to(b"a flow", "10.9.0.2:4000").unwrap();
    receiver.recv(&mut [0; 8]).unwrap();
    until("points that are written", points);
    let mut asks = Command::new("node");
    asks.arg(folder("dashboard/test/api.js")).args([
        "http://127.0.0.1:8480/",
        &token(&service),
        "near",
    ]);
    let told = asks.output().unwrap();
    let why = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{why}\n{}", service.said());
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    println!("answers: {told}");
    assert_eq!(told["changeInterface"].as_array().unwrap().len(), 5);
}

#[test]
fn the_page_measures_latency_under_load_with_makeway_and_without() {
    const NAME: &str = "dashboard::the_page_measures_latency_under_load_with_makeway_and_without";
    if !has_node() {
        return;
    }
    if !Path::new("/usr/bin/chromium").exists() {
        return skip("no chromium: apt-get install chromium");
    }
    if !common::inside_in_calm(NAME) {
        return;
    }
    let rig = super::tune::Measured::new();
    let text = format!(
        "[web]\nline_server = \"10.9.1.2\"\nline_token_file = \"{}\"\n\
         [interface.near]\nupload = \"7600kbit\"\ndownload = \"21600kbit\"\nbackend = \"nfqueue\"\n",
        rig.token.display()
    );
    let service = Service::start(&text);
    service.shapes("near", 7_600_000);
    let pictures = tempfile::tempdir().unwrap();
    let picture = pictures.path().join("latency.png");
    let mut page = Command::new("node");
    page.arg(folder("dashboard/test/measurement.js"))
        .args(["http://127.0.0.1:8480/", &token(&service), "near"])
        .arg(&picture);
    let output = page.output().unwrap();
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{why}\n{}", service.said());
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("page: {all}");
    let told = &all["told"];
    for name in ["download", "upload"] {
        let letter = |when: &str| told[when][name]["letter"].as_str().unwrap();
        assert!(["C", "D", "F"].contains(&letter("without")), "{told:#}");
        assert!(["A+", "A"].contains(&letter("with")), "{told:#}");
        let of = |when: &str, key: &str| told[when][name][key].as_f64().unwrap();
        let kept = of("with", "payload_bps") / of("without", "payload_bps");
        assert!(kept > 0.8, "{name}: {kept}");
        let rpm = |when: &str| told[when][name]["latency"]["rpm"].as_f64().unwrap();
        assert!(rpm("with") > 2.0 * rpm("without"), "{told:#}");
    }
    let letters: Vec<&str> = all["letters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap())
        .collect();
    assert!(
        letters.len() == 2 && "CDF".contains(letters[0]) && "A+".contains(letters[1]),
        "{letters:?}"
    );
    assert_eq!(all["width_at_360"], 360);
    for key in ["faults", "wrong"] {
        assert_eq!(all[key], Value::Array(Vec::new()), "{all:#}");
    }
    // Its rates are those of the file again.
    assert_eq!(super::tune::rates(), [7_600_000, 21_600_000]);
    if std::env::var_os("MAKEWAY_WRITE_DOCS").is_some() {
        std::fs::copy(&picture, folder("docs/images/latency.png")).unwrap();
    }
}

/// Begin of each point of the last hour of the egress.
fn points() -> Option<Vec<Value>> {
    let (_, body) = get("127.0.0.1:8480", "/api/history/hour", &[])?;
    let told: Value = serde_json::from_str(&body).ok()?;
    let series = told["series"].as_array()?.iter();
    let mut egress = series.filter(|one| one["direction"] == "egress");
    Some(egress.next()?["t"].as_array()?.clone())
}

#[test]
fn the_history_survives_a_kill() {
    if !inside("dashboard::the_history_survives_a_kill") {
        return;
    }
    let _far = Far::new();
    let state = tempfile::tempdir().unwrap();
    let text = "[web]\n[interface.near]\nupload = \"8mbit\"\nbackend = \"nfqueue\"\n";
    let start = || Service::start_with(text, &[("STATE_DIRECTORY", state.path())]);
    // Dropped, a service is killed (SIGKILL).
    let before = {
        let _service = start();
        until("points that are written", points)
    };
    until("its end", || {
        get("127.0.0.1:8480", "/api/about", &[])
            .is_none()
            .then_some(())
    });
    let _service = start();
    // The file is opened while the service answers already.
    let after = until("the points of before", points);
    assert_eq!(after[..before.len()], before[..]);
    assert!(!state.path().join("history.damaged").exists());
}
