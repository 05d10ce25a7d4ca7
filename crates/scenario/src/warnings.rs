// SPDX-License-Identifier: MIT OR Apache-2.0
//! Warnings: doubtful figures of a valid scenario.

use makeway_core::rate::{Config, abrc};
use makeway_core::send::{Policy as _, WhenLate};
use makeway_core::units::Bytes;

use crate::model::{Flow, Media, Scenario, Source, Traffic};
use crate::routes::Graph;

/// Sentences, each on one place of the scenario.
pub fn warnings(s: &Scenario) -> Vec<String> {
    let mut all = unstable(s);
    all.extend(without_effect(s));
    all.extend(too_large(s));
    all
}

/// A sentence for each group of flows whose `late_keyframes` changes nothing.
fn without_effect(s: &Scenario) -> Vec<String> {
    let of_flow = |flow: &Flow| match &flow.source {
        Source::Media(media) if media.queue.late_keyframes => {
            let (group, reason) = (&flow.group, no_late_keyframes(media)?);
            Some(format!(
                "flow `{group}`: `late_keyframes` has no effect, since {reason}"
            ))
        }
        _ => None,
    };
    let mut all: Vec<String> = s.flows.iter().filter_map(of_flow).collect();
    all.dedup();
    all
}

/// The reason why no late keyframe of this sender can leave by `late_keyframes`, if there is one.
pub(crate) fn no_late_keyframes(media: &Media) -> Option<String> {
    let drops_late = matches!(
        media.policy.when_late(),
        WhenLate::Discard | WhenLate::DiscardUnlessAlone
    );
    let is_coded = |traffic: &Traffic| matches!(traffic, Traffic::Coded { .. });
    if !drops_late {
        return Some(format!(
            "the policy `{}` sends late datagrams: choose sbpn1, sbpn2 or weighted",
            media.policy
        ));
    }
    if !media.whole_frames {
        return Some("`whole_frames` is false: leave it out".into());
    }
    if !media.classes.iter().any(|class| is_coded(&class.traffic)) {
        return Some(
            "no class has keyframes: write `trace = \"gop.csv\"` instead of `scenes`".into(),
        );
    }
    None
}

/// A sentence for each group of flows whose trace has a frame that the sender's queue cannot hold.
fn too_large(s: &Scenario) -> Vec<String> {
    let mut all = Vec::new();
    let mut last = "";
    for flow in &s.flows {
        let Source::Media(media) = &flow.source else {
            continue;
        };
        // Flows of a group have one source. Parts of a frame that does not come as a whole are taken one by one.
        if flow.group == last || !media.whole_frames {
            continue;
        }
        last = &flow.group;
        let (packets, limit) = (media.queue.packets.max(1), media.queue.bytes);
        for class in &media.classes {
            let Some((parts, bytes)) = largest_frame(&class.traffic) else {
                continue;
            };
            if parts > u64::from(packets) || bytes > limit {
                let plural = if packets == 1 { "" } else { "s" };
                all.push(format!(
                    "flow `{}`: the largest frame of `{}` has {parts} datagrams and {bytes}, and `queue` holds {packets} packet{plural} and {limit}: \
                     frames that are larger are never sent (`too_large` in the report); write `queue = \"{parts} packets\"` or more",
                    flow.group, class.name
                ));
            }
        }
    }
    all
}

/// Datagrams and bytes of the largest frame of a trace, at the highest rate of its encoder.
fn largest_frame(traffic: &Traffic) -> Option<(u64, Bytes)> {
    let Traffic::Coded {
        largest,
        frames,
        follows,
        ..
    } = traffic
    else {
        return None;
    };
    let scale = match (follows, traffic.mean_bps()) {
        (Some([_, most]), Some(mean)) => most.bps() as f64 / mean,
        _ => 1.0,
    };
    let bytes = frames.iter().map(|frame| frame.bytes.get()).max()?;
    // As `Units` has it.
    let bytes = (bytes as f64 * scale).max(1.0) as u64;
    Some((bytes.div_ceil(largest.get()), Bytes::new(bytes)))
}

/// A sentence for each queue at which ABRC streams that run at the same time are not stable together ([`abrc::stable`]).
fn unstable(s: &Scenario) -> Vec<String> {
    let graph = Graph::new(s);
    let mut streams: Vec<Vec<(&Flow, u32)>> = vec![Vec::new(); s.ports()];
    for (flow, share) in s.flows.iter().filter_map(|flow| Some((flow, share(flow)?))) {
        let hops = graph.towards(flow.to);
        let mut node = flow.from;
        while let Some(hop) = hops[node] {
            streams[hop.port].push((flow, share));
            node = hop.to;
        }
    }
    let ports = streams.iter().enumerate();
    ports
        .filter_map(|(port, streams)| {
            let worst = streams
                .iter()
                .filter_map(|(flow, _)| abrc::stable(&beside(flow, streams)).err())
                .max_by_key(|unstable| unstable.thousandths)?;
            Some(format!("{}: {worst}", queue(s, port)?))
        })
        .collect()
}

/// Its k_T in hundredths, if ABRC says how fast it sends.
fn share(flow: &Flow) -> Option<u32> {
    match &flow.source {
        Source::Media(media) => match &media.rate {
            Config::Abrc(params) => Some(params.share),
            _ => None,
        },
        _ => None,
    }
}

/// The shares of those that run when `flow` starts, its own with them.
fn beside(flow: &Flow, streams: &[(&Flow, u32)]) -> Vec<u32> {
    let runs = |of: &Flow| of.start <= flow.start && of.stop.is_none_or(|stop| stop > flow.start);
    let shares = streams.iter().filter(|(of, _)| runs(of));
    shares.map(|(_, share)| *share).collect()
}

/// Its name, where packets can queue.
fn queue(s: &Scenario, port: usize) -> Option<String> {
    if let Some(link) = s.links.get(port / 2) {
        link.egress[port % 2].rate?;
        let node = &s.nodes[link.ends[port % 2]].name;
        return Some(format!("link `{}` at `{node}`", link.name));
    }
    let wlan = (0..s.wlans.len()).rfind(|&wlan| s.first_port(wlan) <= port)?;
    let (first, wlan) = (s.first_port(wlan), &s.wlans[wlan]);
    let node = &s.nodes[wlan.stations[port - first]].name;
    Some(format!("channel `{}` at `{node}`", wlan.name))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const TWO: &str = r#"duration = "20s"
[node.server]
[node.router]
[node.client]
[link.core]
between = ["server", "router"]
[link.line]
between = ["router", "client"]
rate = "1mbit"
[flow.one]
kind = "media"
from = "server"
to = "client"
rate = { kind = "abrc", k = 1 }
stream = { payload = "1kB" }
[flow.two]
kind = "media"
from = "server"
to = "client"
rate = { kind = "abrc", k = 1 }
stream = { payload = "1kB" }
"#;

    fn of(set: &[&str]) -> Vec<String> {
        let set: Vec<String> = set.iter().map(|set| (*set).into()).collect();
        let scenario = crate::parse(TWO, "two.toml", Path::new("."), &set).unwrap();
        let found = warnings(&scenario);
        assert_eq!(
            crate::explain(&scenario).contains("warning"),
            !found.is_empty()
        );
        found
    }

    /// beta is k / (k + 1): a half for k = 1.
    #[test]
    fn streams_that_ask_for_all_of_a_queue_are_told() {
        let found = of(&[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("link `line` at `router`: 2 ABRC streams ask for 1000"),
            "{found:?}"
        );
        assert_eq!(of(&["flow.two.rate.k=0.9"]), [""; 0]);
        assert!(of(&["flow.two.rate.k=4"])[0].contains("1300"));
    }

    #[test]
    fn streams_of_other_times_and_other_ways_do_not_count() {
        assert_eq!(of(&["flow.one.stop=5s", "flow.two.start=5s"]), [""; 0]);
        assert_eq!(of(&["flow.one.stop=6s", "flow.two.start=5s"]).len(), 1);
        assert_eq!(of(&["flow.two.from=client", "flow.two.to=server"]), [""; 0]);
    }
}
