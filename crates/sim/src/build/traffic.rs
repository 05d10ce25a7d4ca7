// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic: senders and receivers of flows, and their tickets.

use std::collections::VecDeque;

use makeway_core::measure::Histogram;
use makeway_core::ticket::{Meter, Tagger};
use makeway_core::units::{Duration, Instant};
use makeway_endpoints::MediaFlow;
use makeway_report::flow::{Bytes, Delays, Received, Sent};
use makeway_report::interval::Interval;
use makeway_scenario::departures::{Units, departures};
use makeway_scenario::model::{self, Preset, Scenario, Share, Source};

use super::seeds::Seeds;
use crate::error::RunError;
use crate::flow::{Kind, Stream, Tags, Tasks, Tcp};
use crate::tcp::{self, DelayedAck, Receiver, Sender, Variant};

/// IPv4 and TCP.
const TCP_HEADERS: u32 = 40;
/// RFC 7323, padded.
const TIMESTAMPS: u32 = 12;

/// Sender and receiver of a flow.
pub fn kind(
    scenario: &Scenario,
    number: usize,
    start: Instant,
    interval: Interval,
    tcp: Option<&tcp::Config>,
    seeds: Seeds,
) -> Result<Kind, RunError> {
    let flow = &scenario.flows[number];
    if let Source::Bulk {
        bytes,
        think,
        every,
        ..
    } = &flow.source
    {
        let modelled = config(flow)?;
        let config = tcp.copied().unwrap_or(modelled);
        let mut sender = Sender::new(&config);
        if bytes.is_none() {
            sender.send_endless();
        }
        let tasks = bytes.map(|bytes| {
            Box::new(Tasks {
                bytes: bytes.get(),
                think: think.map(|think| think.as_nanos() as f64),
                every: *every,
                end: 0,
                open: VecDeque::new(),
                next: Some(start),
                times: Histogram::new(),
                steps: interval.steps(),
                rng: seeds.thinking(number),
            })
        });
        return Ok(Kind::Tcp(Box::new(Tcp {
            sender,
            receiver: Receiver::new(&config),
            delivered: 0,
            bytes: Bytes::new(interval),
            delays: Delays::default(),
            headers: match config.timestamps {
                true => TCP_HEADERS + TIMESTAMPS,
                false => TCP_HEADERS,
            },
            ecn: config.ecn,
            tasks,
        })));
    }
    if let Source::Media(media) = &flow.source {
        let units = Units::new(media, seeds.departures(), number);
        return Ok(Kind::Media(Box::new(MediaFlow::new(
            media, units, start, interval,
        ))));
    }
    let mut departures = departures(&flow.source, seeds.departures(), number)
        .unwrap_or_else(|| Box::new(std::iter::empty()));
    Ok(Kind::Stream(Box::new(Stream {
        next: departures.next(),
        departures,
        sent: Sent::new(interval),
        received: Received::new(interval),
    })))
}

/// TCP as the scenario has it; the default where the flow has none.
fn config(flow: &model::Flow) -> Result<tcp::Config, RunError> {
    let Source::Bulk {
        congestion_control,
        tcp,
        ..
    } = &flow.source
    else {
        return Ok(tcp::Config::linux(Variant::Cubic));
    };
    let variant = match (congestion_control.as_str(), tcp.preset) {
        // Linux's reno recovers by SACK.
        ("reno", Preset::Linux) | ("sack", _) => Variant::Sack,
        ("reno", Preset::Ns2) => Variant::Reno,
        ("cubic", _) => Variant::Cubic,
        ("ledbat", _) => Variant::Ledbat,
        ("newreno", _) => Variant::NewReno,
        ("tahoe", _) => Variant::Tahoe,
        (name, _) => {
            return Err(RunError::CongestionControl {
                place: flow.place.clone(),
                flow: flow.name.clone(),
                name: name.into(),
            });
        }
    };
    let mut config = match tcp.preset {
        Preset::Linux => tcp::Config::linux(variant),
        Preset::Ns2 => tcp::Config::ns2(variant),
    };
    if let Some(mss) = tcp.mss {
        config.mss = mss.get() as u32;
    }
    if let Some(window) = tcp.window {
        config.window = window;
    }
    if tcp.preset == Preset::Ns2 {
        config.initial_ssthresh = config.window;
    }
    if let Some(initial) = tcp.initial_window {
        config.initial_window = initial;
    }
    if let Some(delay) = tcp.delayed_ack {
        config.delayed_ack = match delay {
            Duration::ZERO => DelayedAck::Off,
            delay => DelayedAck::EverySecond(delay),
        };
    }
    if let Some(min_rto) = tcp.min_rto {
        config.min_rto = min_rto;
        // As Linux has it, where the preset is Linux's.
        config.min_rto_margin = config.min_rto_margin.min(min_rto);
    }
    config.ecn = tcp.ecn;
    Ok(config)
}

/// Tagger of the packets of `flow`.
pub fn tags(scenario: &Scenario, number: usize, seeds: Seeds) -> Option<Box<Tags>> {
    let flow = &scenario.flows[number];
    let model::Tags {
        codec,
        window,
        policing,
        silence,
        by_receiver,
    } = scenario.tags;
    // Nothing comes back to the source of a stream.
    let by_receiver = by_receiver && matches!(flow.source, Source::Bulk { .. });
    Some(Box::new(match flow.share? {
        Share::Tickets(rate) => {
            let own = match silence {
                true => |tagger| tagger,
                false => Tagger::by_acknowledgements,
            };
            let issued = Tagger::new(rate, window, policing, codec);
            match by_receiver {
                true => Tags::Receiver {
                    source: own(Tagger::by_receiver(window, policing, codec)),
                    sink: issued,
                },
                false => Tags::Tickets(own(issued)),
            }
        }
        Share::Profile(rate) => {
            Tags::Profile(Meter::new(rate, Meter::WINDOW, seeds.profile(number)))
        }
    }))
}
