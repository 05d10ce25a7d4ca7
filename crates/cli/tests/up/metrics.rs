// SPDX-License-Identifier: MIT OR Apache-2.0
//! `/metrics` of the service, read by Debian's Prometheus and judged by its promtool.

use std::net::SocketAddr;
use std::path::PathBuf;

use makeway_testing::skip;

use super::service::Service;
use super::*;

const PAGE: &str = "127.0.0.1:8480";
const PROMETHEUS: &str = "127.0.0.1:9090";

/// A program of the package, installed or unpacked by `make test`.
fn program(name: &str) -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/prometheus/usr/bin");
    [Path::new("/usr/bin"), &unpacked]
        .map(|folder| folder.join(name))
        .into_iter()
        .find(|path| path.exists())
}

/// Status line, headers and body; `None` if no process listens yet.
pub fn get(address: &str, path: &str, headers: &[&str]) -> Option<(String, String)> {
    let address: SocketAddr = address.parse().unwrap();
    let mut stream = TcpStream::connect(address).ok()?;
    let more: String = headers.iter().map(|one| format!("{one}\r\n")).collect();
    let host = match more.contains("Host:") {
        true => String::new(),
        false => format!("Host: {address}\r\n"),
    };
    write!(
        stream,
        "GET {path} HTTP/1.1\r\n{host}{more}Connection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.into(), body.into()))
}

/// Prometheus's answer to an expression: its series.
fn ask(expression: &str) -> Option<Vec<Value>> {
    let escaped: String = expression
        .bytes()
        .map(|byte| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect();
    let (_, body) = get(PROMETHEUS, &format!("/api/v1/query?query={escaped}"), &[])?;
    // Behind the length of a chunk, if there is one.
    let json = &body[body.find('{')?..=body.rfind('}')?];
    let told: Value = serde_json::from_str(json).ok()?;
    assert_eq!(told["status"], "success", "{expression}: {told}");
    Some(told["data"]["result"].as_array().unwrap().clone())
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn prometheus_scrapes_the_service_and_promtool_finds_no_fault() {
    if !inside("metrics::prometheus_scrapes_the_service_and_promtool_finds_no_fault") {
        return;
    }
    let (Some(prometheus), Some(promtool)) = (program("prometheus"), program("promtool")) else {
        return skip("no prometheus: apt-get install prometheus");
    };
    let far = Far::new();
    let both = "[web]\nhost = \"gateway.example\"\n[interface.near]\nupload = \"8mbit\"\ndownload = \"9mbit\"\nbackend = \"nfqueue\"\n";
    let service = Service::start(both);
    service.shapes("near", 8_000_000);
    service.says("metrics: http://127.0.0.1:8480/metrics");
    let receiver = far.udp(4000);
    let sender = UdpSocket::bind("10.9.0.1:4001").unwrap();
    for _ in 0..7 {
        sender.send_to(&[0; 100], "10.9.0.2:4000").unwrap();
        receiver.recv(&mut [0; 200]).unwrap();
    }
    let sent = status()["directions"][0]["packets_out"].as_u64().unwrap();
    assert!(sent >= 7);

    // The text format from before OpenMetrics, without a word of promtool's.
    let text = until("a scrape with the packets", || {
        let (head, body) = get(PAGE, "/metrics", &["Accept: text/plain"])?;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/plain"), "{head}");
        assert!(
            head.contains("content-security-policy: default-src 'none'"),
            "{head}"
        );
        let line = "direction=\"egress\",discipline=\"makeway\"} ";
        let line = format!("makeway_sent_packets_total{{interface=\"near\",{line}");
        let count = body.lines().find_map(|one| one.strip_prefix(&line))?;
        (count.parse::<u64>().unwrap() >= sent).then_some(body)
    });
    let mut check = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let told = check.wait_with_output().unwrap();
    let said = [told.stdout, told.stderr].concat();
    assert!(
        told.status.success() && said.is_empty(),
        "{}",
        String::from_utf8_lossy(&said)
    );

    // A name that another site might have pointed here.
    let (head, _) = get(PAGE, "/metrics", &["Host: evil.example:8480"]).unwrap();
    assert!(head.starts_with("HTTP/1.1 421"), "{head}");
    // The file's own.
    let (head, _) = get(PAGE, "/metrics", &["Host: gateway.example"]).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");

    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("prometheus.yml");
    std::fs::write(
        &config,
        format!("global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: makeway\n  static_configs: [{{targets: ['{PAGE}']}}]\n"),
    )
    .unwrap();
    let data = folder.path().join("data");
    let _prometheus = Killed(
        Command::new(prometheus)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .args([
                &format!("--web.listen-address={PROMETHEUS}"),
                "--log.level=error",
            ])
            .spawn()
            .unwrap(),
    );
    let query = "makeway_sent_packets_total{interface=\"near\",direction=\"egress\",discipline=\"makeway\"}";
    until("the packets in Prometheus", || {
        let found = ask(query)?;
        let value = found.first()?["value"][1].as_str().unwrap().parse::<f64>();
        assert_eq!(found.len(), 1);
        (value.unwrap() >= sent as f64).then_some(())
    });
    // A scrape that takes longer than its second has failed, and up to the next Prometheus has no figure of now.
    until("the service is up in Prometheus", || {
        let found = ask("makeway_up")?;
        (found.first()?["value"][1] == "1").then_some(())
    });
    until("the type of a histogram in Prometheus", || {
        let path = "/api/v1/metadata?metric=makeway_sojourn_seconds";
        let (_, types) = get(PROMETHEUS, path, &[])?;
        types.contains("\"type\":\"histogram\"").then_some(())
    });

    // Every panel of the dashboard asks what Prometheus understands and has.
    until("two scrapes", || {
        let count = ask("count_over_time(makeway_up[1m])")?;
        let count = count.first()?["value"][1].as_str().unwrap().parse::<u32>();
        (count.unwrap() >= 2).then_some(())
    });
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana/makeway.json");
    let page: Value = serde_json::from_slice(&std::fs::read(page).unwrap()).unwrap();
    let panels = page["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut asked = 0;
    for target in targets {
        let expression = target["expr"].as_str().unwrap();
        let here = expression
            .replace("$interface", "near")
            .replace("$__rate_interval", "1m");
        // Nothing was dropped yet.
        let may_be_empty = expression.contains("dropped");
        until(expression, || {
            let found = ask(&here)?;
            (may_be_empty || !found.is_empty()).then_some(())
        });
        asked += 1;
    }
    assert!(asked >= 8, "{asked}");
}

#[test]
fn an_interface_that_is_taken_out_of_the_file_has_no_metrics() {
    if !inside("metrics::an_interface_that_is_taken_out_of_the_file_has_no_metrics") {
        return;
    }
    let _far = Far::new();
    ip("link add other type veth peer name other-end");
    ip("link set other up");
    let of =
        |name: &str| format!("[interface.{name}]\nupload = \"8mbit\"\nbackend = \"nfqueue\"\n");
    let one = format!("[web]\n{}", of("other"));
    let service = Service::start(&format!("{one}{}", of("near")));
    let with = |interface: &str| {
        until(&format!("metrics of {interface}"), || {
            let (_, body) = get(PAGE, "/metrics", &[])?;
            let line = format!("makeway_up{{interface=\"{interface}\"}} 1");
            body.contains(&line).then_some(body)
        })
    };
    with("near");
    with("other");
    service.reads(&one);
    until("metrics without near", || {
        (!with("other").contains("\"near\"")).then_some(())
    });
}
