// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios of the tests: three nodes, two links, and sources.

use std::collections::BTreeMap;
use std::sync::Arc;

use makeway_core::flow::Identity;
use makeway_core::framing::Framing;
use makeway_core::loss::Loss;
use makeway_core::rate;
use makeway_core::sched::{Discipline, Limits};
use makeway_core::send;
use makeway_core::units::{Bytes, Duration};
use makeway_scenario::model::{
    Changes, Class, Egress, Flow, Frame, Jitter, Link, Media, Node, Pace, Queue, Scenario, Scene,
    Source, Tcp, Traffic,
};

pub fn egress(rate: Option<&str>, delay_ms: u64) -> Egress {
    Egress {
        rate: rate.map(|rate| rate.parse().unwrap()),
        tick: None,
        framing: Framing::ETHERNET,
        queue: Queue {
            spec: Discipline::Fifo.spec(),
            limits: Limits {
                packets: 50,
                bytes: Bytes::new(1_000_000),
                flows: 1,
            },
            flows: Identity::FiveTuple,
            users: Identity::DstHost,
            weights: BTreeMap::new(),
            qdisc: None,
        },
        delay: Duration::from_millis(delay_ms),
        jitter: Duration::ZERO,
        loss: Loss::default(),
        changes: Changes::default(),
        tickets: None,
        measure: rate.is_some(),
    }
}

/// server - router - client; towards the client the second link is `line`, all else is unlimited.
pub fn scenario(line: Egress, seconds: u64) -> Scenario {
    let node = |name: &str| Node { name: name.into() };
    let link = |name: &str, ends, egress| Link {
        name: name.into(),
        ends,
        egress,
    };
    Scenario {
        title: "test".into(),
        duration: Duration::from_secs(seconds),
        warmup: Duration::from_secs(1),
        seed: 7,
        set: BTreeMap::new(),
        tags: Default::default(),
        nodes: ["server", "router", "client"].map(node).into(),
        links: vec![
            link("core", [0, 1], [egress(None, 0), egress(None, 0)]),
            link("line", [1, 2], [line, egress(None, 0)]),
        ],
        wlans: Vec::new(),
        flows: Vec::new(),
    }
}

pub fn flow(name: &str, source: Source) -> Flow {
    Flow {
        name: name.into(),
        group: name.into(),
        place: "test".into(),
        from: 0,
        to: 2,
        start: Duration::ZERO,
        stop: None,
        shared_port: false,
        share: None,
        source,
        voice: None,
    }
}

pub fn cbr(rate: &str, payload: u64) -> Source {
    Source::Cbr {
        rate: rate.parse().unwrap(),
        payload: Bytes::new(payload),
        jitter: Jitter::default(),
    }
}

pub fn bulk(congestion_control: &str) -> Source {
    Source::Bulk {
        congestion_control: congestion_control.into(),
        bytes: None,
        think: None,
        every: None,
        tcp: Tcp::default(),
    }
}

/// 25 frames of 25 kB a second: 5 Mbit/s.
pub fn video(pace: Pace) -> Source {
    let frame = |n: u64| Frame {
        at: Duration::from_millis(40 * n),
        bytes: Bytes::new(25_000),
        kind: 'P',
    };
    Source::Rtp {
        trace: "made up".into(),
        frames: (0..25).map(frame).collect(),
        period: Duration::from_secs(1),
        payload: Bytes::new(1316),
        pace,
        jitter: Jitter::default(),
    }
}

/// A call in the SBPN paper's model of Ekiga, some 375 kbit/s of payload.
pub fn call(rate: rate::Config, policy: &str) -> Source {
    let class = |name, traffic| Class { name, traffic };
    let motion = Scene {
        mean: Bytes::new(4450),
        deviation: Bytes::new(1000),
        length: Duration::from_secs(10),
    };
    Source::Media(Arc::new(Media {
        policy: policy.parse().unwrap(),
        rate,
        queue: send::Config::default(),
        deadline: Duration::from_millis(200),
        headers: Bytes::new(36),
        tick: None,
        ecn: makeway_core::packet::Ecn::NotCapable,
        whole_frames: true,
        pause: None,
        classes: vec![
            class(
                "audio",
                Traffic::Even {
                    payload: Bytes::new(214),
                    period: Duration::from_millis(20),
                },
            ),
            class(
                "video",
                Traffic::Frames {
                    period: Duration::from_millis(100),
                    largest: Bytes::new(1026),
                    scenes: vec![motion],
                    follows: None,
                },
            ),
        ],
    }))
}
