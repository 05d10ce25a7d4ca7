// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run as a data file of [flent](https://flent.org), format 4: JSON, which flent reads as it is (`.flent`) or compressed (`.flent.gz`).
//!
//! flent draws a file by the test that it names, and knows no others than its own. A run becomes `tcp_ndown` or `tcp_nup` if all of its
//! TCP goes down or up, seen from the client, `rrul_be_nflows` if it goes both ways, and `ping` if it has none. Sums and means are
//! flent's. Its ping is a round-trip time; here it is the largest one-way delay of a step, of all streams and (`ping_extra`) of each.

use serde_json::{Map, Value, json};

use crate::model::{FlowReport, Report};

/// Format of the file.
const VERSION: u32 = 4;
/// Time zero, as in captures: 2000-01-01, in seconds of Unix.
const EPOCH: f64 = 946_684_800.0;
const EPOCH_TEXT: &str = "2000-01-01T00:00:00.000000Z";

/// No flow begins or ends at the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no flow begins or ends at `{client}`: choose among {nodes}")]
pub struct NoClient {
    /// The request.
    pub client: String,
    /// Nodes that have flows.
    pub nodes: String,
}

/// The data file of `report`. `ends` has the nodes of each flow's sender and receiver, `file` is its own name. Flows that `client` sends
/// go up, and all others down; without one, it is the receiver of the first TCP flow, or of the first flow.
///
/// # Errors
/// [`NoClient`].
pub fn to_json(
    report: &Report,
    ends: &[[&str; 2]],
    client: Option<&str>,
    file: &str,
) -> Result<String, NoClient> {
    let is_tcp = |flow: &FlowReport| flow.kind == "bulk";
    let first = report.flows.iter().position(is_tcp).unwrap_or(0);
    let [server, receiver] = ends.get(first).copied().unwrap_or_default();
    let client = match client {
        None => receiver,
        Some(client) if ends.iter().flatten().any(|node| *node == client) => client,
        Some(client) => {
            let mut nodes: Vec<&str> = ends.iter().flatten().copied().collect();
            nodes.sort_unstable();
            nodes.dedup();
            return Err(NoClient {
                client: client.into(),
                nodes: nodes.join(", "),
            });
        }
    };
    let (mut down, mut up, mut streams) = (Vec::new(), Vec::new(), Vec::new());
    for (flow, [from, _]) in report.flows.iter().zip(ends) {
        match (is_tcp(flow), *from == client) {
            (true, false) => down.push(flow),
            (true, true) => up.push(flow),
            (false, _) => streams.push(flow),
        }
    }
    let (test, class) = match (down.is_empty(), up.is_empty()) {
        (false, true) => ("tcp_ndown", ""),
        (true, false) => ("tcp_nup", ""),
        (false, false) => ("rrul_be_nflows", " BE"),
        (true, true) => ("ping", ""),
    };
    let mut data = Data::new(report);
    for (way, flows) in [("download", &down), ("upload", &up)] {
        for (n, flow) in (1..).zip(flows) {
            let mbit = flow.goodput_series_bps.iter().map(|bps| Some(bps / 1e6));
            data.measured(format!("TCP {way}{class}::{n}"), mbit.collect());
        }
    }
    let delays: Vec<_> = streams.iter().map(|flow| delays(flow)).collect();
    let at = |step: usize| delays.iter().filter_map(move |delay| *delay.get(step)?);
    if !streams.is_empty() {
        let worst = (0..data.steps).map(|step| at(step).reduce(f64::max));
        data.measured("Ping (ms) ICMP".into(), worst.collect());
        if test == "rrul_be_nflows" {
            let mean = (0..data.steps).map(|step| {
                let (count, sum) =
                    at(step).fold((0.0, 0.0), |(count, sum), ms| (count + 1.0, sum + ms));
                (count > 0.0).then(|| sum / count)
            });
            // flent would take the worst of all streams for another one.
            let mean = mean.collect();
            data.add("Ping (ms) avg".into(), mean);
        }
    }
    for (flow, delay) in streams.iter().zip(&delays) {
        let name = format!("Ping (ms) ICMP {} (extra)", flow.name);
        data.measured(name, delay.clone());
    }
    let names: Vec<&str> = streams.iter().map(|flow| flow.name.as_str()).collect();
    let mut parameters = json!({
        "download_streams": down.len().to_string(),
        "upload_streams": up.len().to_string(),
    });
    if !names.is_empty() {
        parameters["ping_hosts"] = names.join(",").into();
    }
    let length = data.steps as f64 * data.step;
    let metadata = json!({
        "NAME": test,
        "TITLE": report.title,
        "NOTE": format!(
            "makeway, world {}, seed {}: TCP is goodput; ping is the largest one-way delay of a step, sender to receiver, of {}",
            report.world,
            report.seed,
            if names.is_empty() { String::from("no stream") } else { names.join(", ") },
        ),
        "TIME": EPOCH_TEXT,
        "T0": EPOCH_TEXT,
        "HOST": server,
        "HOSTS": [server],
        "LOCAL_HOST": client,
        "IP_VERSION": 4,
        "LENGTH": length.ceil() as u64,
        "TOTAL_LENGTH": length,
        "STEP_SIZE": data.step,
        // Nothing is cut off at the beginning and the end.
        "DELAY": 0,
        "FLENT_VERSION": format!("makeway {}", env!("CARGO_PKG_VERSION")),
        "DATA_FILENAME": file,
        "TEST_PARAMETERS": parameters,
    });
    Ok(json!({
        "version": VERSION,
        "x_values": data.times(),
        "results": data.results,
        "raw_values": data.raw,
        "metadata": metadata,
    })
    .to_string())
}

/// Largest delay of each step, where a packet came.
fn delays(flow: &FlowReport) -> Vec<Option<f64>> {
    let delays = flow.delay_series_ms.iter();
    delays.map(|ms| (*ms > 0.0).then_some(*ms)).collect()
}

/// Series of equal length.
struct Data {
    steps: usize,
    /// In seconds.
    step: f64,
    results: Map<String, Value>,
    raw: Map<String, Value>,
}

impl Data {
    fn new(report: &Report) -> Self {
        let flows = report.flows.iter();
        let steps = flows.map(|flow| flow.goodput_series_bps.len()).max();
        Self {
            steps: steps.unwrap_or(0),
            step: report.flows.first().map_or(1.0, |flow| flow.series_step_s),
            results: Map::new(),
            raw: Map::new(),
        }
    }

    /// Beginnings of steps, which are whole milliseconds.
    fn times(&self) -> Vec<f64> {
        let ms = |n: usize| (n as f64 * self.step * 1000.0).round();
        (0..self.steps).map(|n| ms(n) / 1000.0).collect()
    }

    fn add(&mut self, name: String, mut values: Vec<Option<f64>>) {
        values.resize(self.steps, None);
        self.results.insert(name, json!(values));
    }

    /// As [`Data::add`], of a series that flent would have measured: it asks for such points first.
    fn measured(&mut self, name: String, values: Vec<Option<f64>>) {
        let times = self.times();
        let points = times.iter().zip(&values);
        let points: Vec<Value> = points
            .filter_map(|(at, value)| Some(json!({ "t": EPOCH + at, "val": (*value)? })))
            .collect();
        self.raw.insert(name.clone(), points.into());
        self.add(name, values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    const DOWN: [&str; 2] = ["server", "client"];
    const UP: [&str; 2] = ["client", "server"];

    fn file(ends: [[&str; 2]; 4], client: Option<&str>) -> Value {
        let mut report = sample::report("sqf", 0.0);
        // Of the audio nothing came in the first step.
        report.flows[3].delay_series_ms = vec![0.0, 80.0];
        let text = to_json(&report, &ends, client, "run.flent.gz").unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn downloads_are_a_test_of_flent_with_the_delay_of_streams_as_ping() {
        let file = file([DOWN; 4], None);
        assert_eq!(file["version"], 4);
        assert_eq!(file["x_values"], json!([0.0, 1.0]));
        let results = json!({
            "TCP download::1": [1.9, 2.1],
            "TCP download::2": [1.9, 2.1],
            "Ping (ms) ICMP": [30.0, 80.0],
            "Ping (ms) ICMP video (extra)": [30.0, 60.0],
            "Ping (ms) ICMP audio (extra)": [null, 80.0],
        });
        assert_eq!(file["results"], results);
        let raw = json!([{ "t": 946_684_801.0, "val": 80.0 }]);
        assert_eq!(file["raw_values"]["Ping (ms) ICMP audio (extra)"], raw);
        let metadata = &file["metadata"];
        assert_eq!(metadata["NAME"], "tcp_ndown");
        assert_eq!(metadata["TOTAL_LENGTH"], 2.0);
        assert_eq!(metadata["LOCAL_HOST"], "client");
        let parameters = &metadata["TEST_PARAMETERS"];
        assert_eq!(parameters["download_streams"], "2");
        assert_eq!(parameters["ping_hosts"], "video,audio");
    }

    #[test]
    fn the_client_says_what_is_up_and_each_case_is_a_test_of_its_own() {
        let name = |ends, client| file(ends, client)["metadata"]["NAME"].clone();
        assert_eq!(name([DOWN; 4], Some("server")), "tcp_nup");
        let both = file([DOWN, UP, DOWN, DOWN], None);
        assert_eq!(both["metadata"]["NAME"], "rrul_be_nflows");
        assert_eq!(both["results"]["TCP upload BE::1"], json!([1.9, 2.1]));
        assert_eq!(both["results"]["Ping (ms) avg"], json!([30.0, 70.0]));
        let report = sample::report("sqf", 0.0);
        let error = to_json(&report, &[DOWN; 4], Some("router"), "x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no flow begins or ends at `router`: choose among client, server"
        );
        let mut quiet = report;
        quiet.flows.retain(|flow| flow.kind != "bulk");
        let text = to_json(&quiet, &[DOWN; 2], None, "x").unwrap();
        assert!(text.contains("\"NAME\":\"ping\""), "{text}");
    }
}
