// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report in brief: one row per group of flows, and what it means in a sentence.

use makeway_core::measure::{self, Service, jain};

use crate::model::{
    ClassReport, DatagramReport, FlowReport, Freezes, Quantiles, QueueReport, RadioReport, Report,
    TasksReport, VoiceReport,
};

/// Flows of one group, taken together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Name in the scenario.
    pub name: String,
    /// `bulk`, `rtp`, `cbr`, `poisson`, `pcap`.
    pub kind: String,
    /// Flows in the group.
    pub flows: usize,
    /// Payload received by all of them, bit/s.
    pub goodput_bps: f64,
    /// IP packets received by all of them, bit/s, where the world counts it.
    pub ip_bps: Option<f64>,
    /// Jain's index over their goodputs; `None` for a single flow, or if nothing was received.
    pub jain: Option<f64>,
    /// Downloads with an end: counts summed, means weighted by tasks, quantiles of the worst flow.
    pub tasks: Option<TasksReport>,
    /// Datagram flows: counts summed, means weighted by packets, quantiles of the worst flow.
    pub datagrams: Option<DatagramReport>,
    /// Calls: means of all of them.
    pub voice: Option<VoiceReport>,
    /// Flows with a sender of their own, class by class: counts summed, the rest as for `datagrams`.
    pub classes: Vec<ClassReport>,
}

/// Groups in the order of the scenario.
pub fn groups(report: &Report) -> Vec<Group> {
    let mut names: Vec<&str> = Vec::new();
    for flow in &report.flows {
        if !names.contains(&flow.group.as_str()) {
            names.push(&flow.group);
        }
    }
    names.into_iter().map(|name| group(report, name)).collect()
}

/// The group of one name; empty if there is none.
pub fn group(report: &Report, name: &str) -> Group {
    let flows: Vec<&FlowReport> = report.flows.iter().filter(|f| f.group == name).collect();
    Group {
        name: name.to_owned(),
        kind: flows.first().map(|f| f.kind.clone()).unwrap_or_default(),
        flows: flows.len(),
        goodput_bps: flows.iter().map(|f| f.goodput_bps).sum(),
        ip_bps: flows.iter().map(|f| f.ip_bps).sum(),
        jain: (flows.len() > 1)
            .then(|| jain(flows.iter().map(|f| f.goodput_bps)))
            .flatten(),
        tasks: flows.iter().filter_map(|f| f.tasks).reduce(both),
        datagrams: flows
            .iter()
            .filter_map(|f| f.datagrams.as_ref())
            .fold(None, merge),
        voice: mean_call(&flows),
        classes: classes(&flows),
    }
}

fn classes(flows: &[&FlowReport]) -> Vec<ClassReport> {
    let mut sum: Vec<ClassReport> = Vec::new();
    for class in flows
        .iter()
        .filter_map(|f| f.media.as_ref())
        .flat_map(|media| &media.classes)
    {
        match sum.iter_mut().find(|sum| sum.name == class.name) {
            Some(sum) => add_class(sum, class),
            None => sum.push(class.clone()),
        }
    }
    sum
}

fn add_class(sum: &mut ClassReport, next: &ClassReport) {
    let weights = (sum.received as f64, next.received as f64);
    sum.delay_ms = worst(sum.delay_ms, next.delay_ms, weights);
    sum.offered += next.offered;
    sum.sent += next.sent;
    sum.sent_late += next.sent_late;
    sum.expired += next.expired;
    sum.evicted += next.evicted;
    sum.too_large += next.too_large;
    sum.received += next.received;
    sum.on_time += next.on_time;
    sum.freezes = sum.freezes.zip(next.freezes).map(|(a, b)| Freezes {
        made: a.made + b.made,
        frames: a.frames + b.frames,
        count: a.count + b.count,
        seconds: a.seconds + b.seconds,
    });
}

fn mean_call(flows: &[&FlowReport]) -> Option<VoiceReport> {
    let calls: Vec<VoiceReport> = flows.iter().filter_map(|f| f.voice).collect();
    let mean = |of: fn(&VoiceReport) -> f64| calls.iter().map(of).sum::<f64>() / calls.len() as f64;
    (!calls.is_empty()).then(|| VoiceReport {
        mouth_to_ear_ms: mean(|call| call.mouth_to_ear_ms),
        r_factor: mean(|call| call.r_factor),
        mos: mean(|call| call.mos),
    })
}

/// Application Satisfaction Index of `flows`, those that received nothing aside. `None` where a flow's
/// queueing delay is not known, or nothing waited.
pub fn asi(flows: &[FlowReport]) -> Option<f64> {
    let active = flows.iter().filter(|f| f.goodput_bps > 0.0);
    let known: Option<Vec<_>> = active.map(|f| Some((f.goodput_bps, f.queueing?))).collect();
    let known = known?;
    let most = known.iter().map(|(_, q)| q.max_ms).fold(0.0, f64::max);
    let services: Vec<Service> = known
        .iter()
        .map(|(data, queueing)| Service {
            delay: queueing.mean_ms,
            data: *data,
        })
        .collect();
    measure::asi(&services, most)
}

/// How the calls of a group sound, in a sentence.
pub fn voice(group: &Group) -> Option<String> {
    let call = group.voice?;
    let lost = group.datagrams.as_ref().map_or(0.0, |d| d.loss);
    Some(format!(
        "{}: R-factor {:.1}, MOS {:.2} (E-model for G.711: {} from mouth to ear, {} lost).",
        group.name,
        call.r_factor,
        call.mos,
        millis(call.mouth_to_ear_ms),
        percent(lost)
    ))
}

/// How satisfied all flows are, in a sentence.
pub fn satisfaction(report: &Report) -> Option<String> {
    let asi = report.asi?;
    Some(format!(
        "Application Satisfaction Index of all flows: {asi:.3}."
    ))
}

/// Energy of the radios of each channel, a sentence each.
pub fn radios(report: &Report) -> impl Iterator<Item = String> {
    let channels = report.radios.chunk_by(|a, b| a.channel == b.channel);
    channels.map(|radios| {
        let sum = |of: fn(&RadioReport) -> f64| radios.iter().map(of).sum::<f64>();
        let [send, receive, idle] = [sum(|r| r.send_s), sum(|r| r.receive_s), sum(|r| r.idle_s)];
        let on = (send + receive + idle).max(f64::MIN_POSITIVE);
        format!(
            "{}: {} radios took {:.1} J; they sent {} of their time and heard something {}.",
            radios[0].channel,
            radios.len(),
            sum(|r| r.energy_j),
            percent(send / on),
            percent(receive / on)
        )
    })
}

fn both(sum: TasksReport, next: TasksReport) -> TasksReport {
    let weights = (sum.done as f64, next.done as f64);
    TasksReport {
        done: sum.done + next.done,
        completion_ms: worst(sum.completion_ms, next.completion_ms, weights),
    }
}

/// How the tasks of a group went, in a sentence.
pub fn tasks(group: &str, tasks: &TasksReport) -> String {
    let TasksReport {
        done,
        completion_ms: times,
    } = tasks;
    match done {
        0 => format!("{group}: no task was begun and done in the measured time."),
        _ => format!(
            "{group}: {done} tasks done, in {} on average, {} at most.",
            millis(times.mean),
            millis(times.max)
        ),
    }
}

fn merge(sum: Option<DatagramReport>, next: &DatagramReport) -> Option<DatagramReport> {
    let Some(sum) = sum else {
        return Some(next.clone());
    };
    let (sent, received) = (sum.sent + next.sent, sum.received + next.received);
    let weights = (sum.received as f64, next.received as f64);
    Some(DatagramReport {
        sent,
        received,
        loss: if sent == 0 {
            0.0
        } else {
            1.0 - received as f64 / sent as f64
        },
        on_time: if sent == 0 {
            0.0
        } else {
            (sum.on_time * sum.sent as f64 + next.on_time * next.sent as f64) / sent as f64
        },
        delay_ms: worst(sum.delay_ms, next.delay_ms, weights),
        ipdv_ms: worst(sum.ipdv_ms, next.ipdv_ms, weights),
    })
}

fn worst(a: Quantiles, b: Quantiles, (wa, wb): (f64, f64)) -> Quantiles {
    let mean = if wa + wb > 0.0 {
        (a.mean * wa + b.mean * wb) / (wa + wb)
    } else {
        0.0
    };
    Quantiles {
        mean,
        p50: a.p50.max(b.p50),
        p99: a.p99.max(b.p99),
        max: a.max.max(b.max),
    }
}

/// The queue that the run is about: behind the link that was used most.
pub fn bottleneck(report: &Report) -> Option<&QueueReport> {
    let limited = report.queues.iter().filter(|q| q.rate_bps > 0);
    limited.max_by(|a, b| a.utilisation.total_cmp(&b.utilisation))
}

/// The name that tells runs apart on a page: the discipline at the bottleneck, and that time was
/// simulated.
pub fn label(report: &Report) -> String {
    let name =
        bottleneck(report).map_or_else(|| report.title.clone(), |q| q.discipline.to_uppercase());
    match report.world.as_str() {
        "sim" => format!("{name} (sim)"),
        _ => name,
    }
}

/// Packets missed by a stream's receiver: lost ones, or those not in time where there are deadlines.
pub fn missed(group: &Group) -> Option<f64> {
    let on_time: u64 = group.classes.iter().map(|class| class.on_time).sum();
    match group.classes.iter().map(|class| class.offered).sum::<u64>() {
        0 => group.datagrams.as_ref().map(|d| d.loss),
        offered => Some(1.0 - on_time as f64 / offered as f64),
    }
}

/// How a stream with this loss looks and sounds to a person.
///
/// The bounds are ours: 0.1 % is the paper's "negligible"; from about 1 % on, pictures of a codec that
/// predicts from earlier ones are damaged most of the time.
pub fn quality(loss: f64) -> &'static str {
    match loss {
        l if l <= 0.001 => "stays clean",
        l if l <= 0.01 => "flickers",
        _ => "breaks up",
    }
}

/// Sentence, without its subject, that nothing was measured because the machine stalled; `None` where it did not.
pub fn stall(report: &Report) -> Option<String> {
    let (stalled, late) = report.stalled_ms().zip(report.lateness)?;
    Some(format!(
        "not measured: this machine stalled by {stalled:.1} ms, and the limit is {}",
        millis(late.limit_ms)
    ))
}

/// One plain sentence for each run: what happened to the stream and to the downloads.
pub fn sentences(reports: &[Report]) -> Vec<String> {
    reports
        .iter()
        .filter_map(|report| {
            if let Some(stall) = stall(report) {
                return Some(format!("{} was {stall}.", label(report)));
            }
            let groups = groups(report);
            let stream = groups
                .iter()
                .filter_map(|g| missed(g).map(|missed| (g, missed)))
                .max_by(|a, b| a.1.total_cmp(&b.1))?;
            let bulk: f64 = groups
                .iter()
                .filter(|g| g.kind == "bulk")
                .map(|g| g.goodput_bps)
                .sum();
            Some(format!(
                "Under {} the call {}: {} of its {} packets are {}, while the downloads get {}.",
                label(report),
                quality(stream.1),
                percent(stream.1),
                stream.0.name,
                match stream.0.classes.is_empty() {
                    true => "lost",
                    false => "not there in time",
                },
                rate(bulk),
            ))
        })
        .collect()
}

/// A share as people read it: `0 %`, `<0.1 %`, `3.2 %`, `41 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p <= 0.0 => "0 %".into(),
        p if p < 0.1 => "<0.1 %".into(),
        p if p < 10.0 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// A rate as people read it: `64 kbit/s`, `4.12 Mbit/s`.
pub fn rate(bps: f64) -> String {
    match bps {
        b if b >= 1e9 => format!("{:.2} Gbit/s", b / 1e9),
        b if b >= 1e6 => format!("{:.2} Mbit/s", b / 1e6),
        b if b >= 1e3 => format!("{:.1} kbit/s", b / 1e3),
        b => format!("{b:.0} bit/s"),
    }
}

/// A time in ms as people read it: `0.42 ms`, `61 ms`.
pub fn millis(ms: f64) -> String {
    match ms {
        m if m >= 10.0 => format!("{m:.0} ms"),
        m if m >= 1.0 => format!("{m:.1} ms"),
        m => format!("{m:.2} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Lateness, QueueingReport};
    use crate::sample;

    #[test]
    fn downloads_are_summed_and_judged_for_fairness() {
        let report = sample::report("sqf", 0.0);
        let all = groups(&report);
        assert_eq!(
            all.iter().map(|g| g.name.as_str()).collect::<Vec<_>>(),
            ["download", "video", "audio"]
        );
        assert_eq!((all[0].flows, all[0].goodput_bps), (2, 4.0e6));
        assert_eq!(all[0].jain, Some(1.0));
        assert_eq!(all[1].jain, None);
    }

    #[test]
    fn merged_quantiles_are_those_of_the_worst_flow() {
        let mut report = sample::report("fifo", 0.1);
        for flow in &mut report.flows {
            flow.group = "all".into();
        }
        let merged = group(&report, "all").datagrams.unwrap();
        assert_eq!((merged.sent, merged.received), (2000, 1800));
        assert!((merged.loss - 0.1).abs() < 1e-12);
        assert_eq!(merged.delay_ms.p99, 60.0);
    }

    #[test]
    fn classes_are_summed_and_judged_by_what_was_there_in_time() {
        let mut report = sample::report("fifo", 0.0);
        for (flow, on_time) in report.flows[2..].iter_mut().zip([90, 60]) {
            let classes = ["audio", "video"].map(|name| ClassReport {
                name: name.into(),
                offered: 100,
                received: 95,
                on_time,
                ..ClassReport::default()
            });
            flow.group = "calls".into();
            flow.media = Some(crate::model::MediaReport {
                classes: classes.into(),
                ..Default::default()
            });
        }
        let calls = group(&report, "calls");
        let names: Vec<&str> = calls
            .classes
            .iter()
            .map(|class| class.name.as_str())
            .collect();
        assert_eq!(names, ["audio", "video"]);
        assert_eq!(calls.classes[1].on_time_share(), Some(0.75));
        assert_eq!(missed(&calls), Some(0.25));
        let said = sentences(&[report]);
        assert!(
            said[0].contains("25 % of its calls packets are not there in time"),
            "{said:?}"
        );
    }

    #[test]
    fn a_discipline_is_not_blamed_for_a_machine_that_stalled() {
        let mut report = sample::report("sqf", 0.6);
        let said = |report: &Report| sentences(std::slice::from_ref(report)).remove(0);
        report.lateness = Some(Lateness::new(9.9, 3.0, 10.0));
        assert!(
            said(&report).contains("the call breaks up"),
            "{}",
            said(&report)
        );
        for (senders, queues) in [(35.0, 3.0), (3.0, 35.0)] {
            report.lateness = Some(Lateness::new(senders, queues, 10.0));
            assert_eq!(
                said(&report),
                "SQF was not measured: this machine stalled by 35.0 ms, and the limit is 10 ms."
            );
        }
    }

    #[test]
    fn tasks_are_summed_and_told() {
        let mut report = sample::report("fifo", 0.0);
        for (flow, (done, mean)) in report.flows.iter_mut().zip([(3, 100.0), (1, 300.0)]) {
            let completion_ms = Quantiles {
                mean,
                max: 2.0 * mean,
                ..Quantiles::default()
            };
            flow.tasks = Some(TasksReport {
                done,
                completion_ms,
            });
        }
        let said = group(&report, "download").tasks.unwrap();
        assert_eq!(
            tasks("download", &said),
            "download: 4 tasks done, in 150 ms on average, 600 ms at most."
        );
    }

    #[test]
    fn calls_of_a_group_are_averaged_and_told() {
        let mut report = sample::report("fifo", 0.02);
        for (flow, (r_factor, mos)) in report.flows[2..].iter_mut().zip([(90.0, 4.3), (70.0, 3.6)])
        {
            flow.group = "calls".into();
            flow.voice = Some(VoiceReport {
                mouth_to_ear_ms: 110.0,
                r_factor,
                mos,
            });
        }
        let said = voice(&group(&report, "calls")).unwrap();
        assert!(said.starts_with("calls: R-factor 80.0, MOS 3.95"), "{said}");
        assert!(
            said.contains("110 ms") && said.contains("2.0 % lost"),
            "{said}"
        );
        assert_eq!(voice(&group(&report, "download")), None);
    }

    #[test]
    fn satisfaction_needs_the_delay_of_every_flow_that_received_something() {
        let mut flows = sample::report("fifo", 0.0).flows.split_off(2);
        assert_eq!(asi(&flows), None);
        for (flow, (bps, mean_ms)) in flows.iter_mut().zip([(99.0, 50.0), (1.0, 2.0)]) {
            flow.goodput_bps = bps;
            flow.queueing = Some(QueueingReport {
                mean_ms,
                max_ms: 2.0 * mean_ms,
                ..QueueingReport::default()
            });
        }
        // |50 - 99| + |2 - 1| of 2 * 100.
        assert!((asi(&flows).unwrap() - 0.75).abs() < 1e-12);
        flows.push(FlowReport::default());
        assert!(asi(&flows).is_some());
        flows[2].goodput_bps = 1.0;
        assert_eq!(asi(&flows), None);
    }

    #[test]
    fn the_bottleneck_is_the_link_that_is_used_most_and_not_the_slowest() {
        let mut report = sample::report("sqf", 0.0);
        let mut uplink = report.queues[0].clone();
        uplink.name = "client -> router".into();
        (uplink.rate_bps, uplink.utilisation) = (1_000_000, 0.2);
        report.queues.push(uplink);
        assert_eq!(bottleneck(&report).unwrap().name, "router -> client");
    }

    #[test]
    fn a_sentence_says_who_suffers() {
        let [fifo, sqf] = [sample::report("fifo", 0.21), sample::report("sqf", 0.0)];
        let said = sentences(&[fifo, sqf]);
        assert!(
            said[0].contains("Under FIFO the call breaks up: 21 %"),
            "{said:?}"
        );
        assert!(
            said[1].contains("Under SQF the call stays clean: 0 %"),
            "{said:?}"
        );
    }
}
