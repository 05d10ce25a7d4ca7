// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scenario in words, for `makeway check`.

use std::fmt::Write;

use makeway_core::packet::Ecn;
use makeway_core::rate;
use makeway_core::rate::tfrc::Revision;

use crate::model::{
    Egress, Flow, Jitter, Jittered, Keyframes, Media, Pace, Scenario, Source, Standard, Traffic,
    Wlan,
};
use crate::trace::mean_bps;
use crate::warnings::{no_late_keyframes, warnings};

/// Description of the run, line by line.
pub fn explain(s: &Scenario) -> String {
    let mut out = String::new();
    let measured = s.duration.as_secs_f64() - s.warmup.as_secs_f64();
    let _ = writeln!(out, "{}", s.title);
    let _ = writeln!(
        out,
        "runs {}, measures the last {measured} s, seed {}",
        s.duration, s.seed
    );
    for (key, value) in &s.set {
        let _ = writeln!(out, "set: {key} = {value}");
    }
    if !s.links.is_empty() {
        let _ = writeln!(out, "\nlinks");
    }
    for link in &s.links {
        for (i, egress) in link.egress.iter().enumerate() {
            let (a, b) = (link.ends[i], link.ends[1 - i]);
            let _ = writeln!(
                out,
                "  {:<12} {} -> {}: {}",
                if i == 0 { &link.name } else { "" },
                s.nodes[a].name,
                s.nodes[b].name,
                egress_words(egress)
            );
        }
    }
    if !s.wlans.is_empty() {
        let _ = writeln!(out, "\nradio channels");
    }
    for wlan in &s.wlans {
        let _ = writeln!(out, "  {:<12} {}", wlan.name, wlan_words(wlan, s));
    }
    let _ = writeln!(out, "\nflows");
    let mut groups: Vec<(&Flow, usize)> = Vec::new();
    for flow in &s.flows {
        match groups.last_mut() {
            Some((first, count)) if first.group == flow.group => *count += 1,
            _ => groups.push((flow, 1)),
        }
    }
    for (flow, count) in groups {
        let times = if count > 1 {
            format!("{count} x ")
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "  {:<12} {times}{} -> {}: {}{}",
            flow.group,
            s.nodes[flow.from].name,
            s.nodes[flow.to].name,
            source_words(&flow.source),
            match flow.voice {
                Some(voice) => format!(", a call with {} before it is sent", voice.encoder_delay),
                None => String::new(),
            }
        );
    }
    for warning in warnings(s) {
        let _ = writeln!(out, "\nwarning: {warning}");
    }
    out
}

fn wlan_words(w: &Wlan, s: &Scenario) -> String {
    let standard = match w.standard {
        Standard::A => "802.11a",
        Standard::B {
            short_preamble: true,
        } => "802.11b with a short preamble",
        Standard::B { .. } => "802.11b",
    };
    let name = |station: usize| &s.nodes[w.stations[station]].name;
    let mut words = vec![
        format!("{} stations", w.stations.len()),
        match w.access_point {
            Some(station) => format!("through `{}`", name(station)),
            None => "ad hoc by AODV".into(),
        },
        format!("{standard} at {}", w.rate),
        format!(
            "{} of {} packets at each",
            w.queue.spec.discipline(),
            w.queue.limits.packets
        ),
    ];
    if let Some(rts) = w.rts {
        words.push(format!("RTS above {rts}"));
    }
    if w.loss > 0.0 {
        words.push(format!(
            "loses {} % of data frames, each tried {} times",
            w.loss * 100.0,
            w.retry_limit
        ));
    }
    if w.places.is_some() {
        words.push(format!(
            "understood to {} m, heard to {} m",
            w.range, w.sense
        ));
    }
    for (station, at) in &w.off {
        words.push(format!("`{}` off at {at}", name(*station)));
    }
    words.join(", ")
}

fn egress_words(e: &Egress) -> String {
    let mut words = vec![match e.rate {
        Some(rate) => rate.to_string(),
        None => "no rate limit".into(),
    }];
    if e.measure {
        words.push(match &e.queue.qdisc {
            Some(qdisc) => format!("Linux's {}, measured", qdisc.join(" ")),
            None => format!(
                "{} of {} packets by {}, measured",
                e.queue.spec.discipline(),
                e.queue.limits.packets,
                e.queue.flows
            ),
        });
    }
    if e.delay.as_nanos() > 0 {
        words.push(format!("delay {}", e.delay));
    }
    if let Some(tick) = e.tick {
        words.push(format!("at multiples of {tick}"));
    }
    if e.jitter.as_nanos() > 0 {
        words.push(format!("jitter {}", e.jitter));
    }
    if !e.loss.is_none() {
        let bursts = match e.loss.p > 0.0 {
            true => format!(" in bursts (p {}, r {})", e.loss.p, e.loss.r),
            false => String::new(),
        };
        words.push(format!("loss {}{bursts}", e.loss.mean()));
    }
    if let Some(trace) = &e.changes.opportunities {
        let (count, period) = (trace.count(), trace.period());
        words.push(format!(
            "{count} opportunities of 1500 B, again every {period}"
        ));
    } else if let Some((last, _)) = e.changes.steps.last() {
        let again = e
            .changes
            .every
            .map(|every| format!(", again every {every}"));
        let again = again.unwrap_or_default();
        let steps = e.changes.steps.len();
        words.push(format!("{steps} changes of the rate until {last}{again}"));
    }
    words.join(", ")
}

fn jitter_words(jitter: &Jitter) -> String {
    let of = match jitter.of {
        Jittered::Delay => "source jitter",
        Jittered::Order => "source jitter in order",
        Jittered::Gap => "jitter of gaps",
    };
    format!("{of} {}", jitter.deviation)
}

fn source_words(source: &Source) -> String {
    match source {
        Source::Bulk {
            congestion_control,
            bytes,
            think,
            every,
            ..
        } => match (bytes, think.or(*every)) {
            (Some(bytes), Some(every)) if think.is_none() => {
                format!("TCP {congestion_control}, writes {bytes} every {every}")
            }
            (Some(bytes), Some(think)) => {
                format!("TCP {congestion_control}, tasks of {bytes}, {think} apart on average")
            }
            (Some(bytes), None) => format!("TCP {congestion_control}, {bytes}"),
            (None, _) => format!("TCP {congestion_control}, without end"),
        },
        Source::Rtp {
            trace,
            frames,
            period,
            payload,
            pace,
            jitter,
        } => format!(
            "RTP, {:.3} Mbit/s in {} frames of {}, payload {payload}, {}, {}",
            mean_bps(frames, *period) / 1e6,
            frames.len(),
            trace.display(),
            match pace {
                Pace::Slice(d) => format!("paced in slices of {d}"),
                Pace::Frame => "paced over each frame".into(),
                Pace::Burst => "frames sent at once".into(),
            },
            jitter_words(jitter)
        ),
        Source::Cbr {
            rate,
            payload,
            jitter,
        } => format!(
            "constant {rate}, payload {payload}, {}",
            jitter_words(jitter)
        ),
        Source::Poisson {
            rate,
            payload,
            exponential,
        } => {
            let sizes = if *exponential {
                "exponential, mean "
            } else {
                ""
            };
            format!("Poisson {rate}, payload {sizes}{payload}")
        }
        Source::Sensor {
            payload,
            period,
            pulses,
        } => format!(
            "sensor, {} packets, {period} apart while it notices, payload {payload}",
            pulses.len()
        ),
        Source::Pcap {
            file,
            packets,
            period,
        } => {
            let bytes: u64 = packets.iter().map(|p| p.bytes.get()).sum();
            let last = packets.last().map_or(0.0, |p| p.at.as_secs_f64());
            format!(
                "capture {}, {} packets of {} kB in {last:.3} s, {}",
                file.display(),
                packets.len(),
                bytes.div_ceil(1000),
                match period {
                    Some(period) => format!("again every {:.3} s", period.as_secs_f64()),
                    None => "played once".into(),
                }
            )
        }
        Source::OnOff {
            rate,
            payload,
            on,
            off,
            shape,
        } => {
            let times = match shape {
                Some(shape) => format!("Pareto of shape {shape}"),
                None => "exponential".into(),
            };
            format!("{rate} for {on}, then nothing for {off} ({times} times), payload {payload}")
        }
        Source::Media(media) => media_words(media),
    }
}

fn media_words(m: &Media) -> String {
    let class = |(name, traffic): (&str, &Traffic)| match traffic {
        Traffic::Even { payload, period } => format!("{name} of {payload} each {period}"),
        Traffic::Frames {
            period,
            largest,
            follows,
            ..
        }
        | Traffic::Coded {
            period,
            largest,
            follows,
            ..
        } => {
            let rate = match follows {
                Some([least, most]) => format!("{least} to {most} as there is room"),
                None => format!("{:.1} kbit/s", traffic.mean_bps().unwrap_or_default() / 1e3),
            };
            let trace = match traffic {
                Traffic::Coded {
                    frames, keyframes, ..
                } => {
                    let more = match keyframes {
                        Keyframes::Trace => "",
                        Keyframes::OnRefusal => " and a keyframe when one is dropped",
                    };
                    format!(", from a trace of {} frames{more}", frames.len())
                }
                _ => String::new(),
            };
            format!("{name} of {rate} in a frame each {period}, {largest} at most at once{trace}")
        }
        Traffic::Always { payload } => format!("{name} of {payload} without end"),
    };
    let classes: Vec<String> = m
        .classes
        .iter()
        .map(|c| class((c.name, &c.traffic)))
        .collect();
    let tick = m.tick.map(|tick| format!(", its timer each {tick}"));
    let ecn = match m.ecn {
        Ecn::Capable => ", packets with ECT(0)",
        Ecn::Scalable => ", packets with ECT(1)",
        Ecn::NotCapable | Ecn::Marked => "",
    };
    let late = match m.queue.late_keyframes && no_late_keyframes(m).is_none() {
        true => ", late keyframes leave",
        false => "",
    };
    format!(
        "{}, of use for {}; sender {} of {} packets{late}, rate {}{}{ecn}",
        classes.join(", "),
        m.deadline,
        m.policy,
        m.queue.packets,
        rate_words(&m.rate),
        tick.unwrap_or_default()
    )
}

fn rate_words(rate: &rate::Config) -> String {
    match rate {
        rate::Config::Fixed(rate) => rate.to_string(),
        rate::Config::External(rate) => format!("by estimates from outside, first {rate}"),
        rate::Config::Tfrc(params) => match params.revision {
            Revision::Rfc3448 => "by TFRC of RFC 3448".into(),
            Revision::Rfc4342 => "by TFRC of RFC 4342".into(),
            Revision::Rfc5348 => "by TFRC".into(),
        },
        rate::Config::Ccid2(_) => "by CCID 2".into(),
        rate::Config::Abrc(params) => {
            format!("by ABRC with k = {}", f64::from(params.share) / 100.0)
        }
        rate::Config::Scream(_) => "by SCReAMv2".into(),
        rate::Config::Gcc(_) => "by Google congestion control".into(),
        other => format!("by {other}"),
    }
}
