// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fig. 1 to 3: random loss, without other traffic.

use makeway_report::chart::Chart;
use makeway_report::estimate::Estimate;
use makeway_report::model::Report;

use super::runs::{LOSS_30, LOSS_80, LOSS_EVICT, LOSS_PRINTED, Sweep, late, mean_of, on_time};
use super::tables::{by_loss, changed, chart, label, other_policies, signs};
use super::{SETUP, at_loss, points};
use crate::experiment::Results;
use crate::papers::claim::{Claim, Column};
use crate::papers::figures::{in_percent, percent, times, with_intervals};

/// Points of a sweep where audio and video of one policy both have less on time than those of another.
fn both_less(r: &Results, sweep: &Sweep, policy: &str, other: &str) -> Vec<u32> {
    let [audio, video] =
        ["audio", "video"].map(|class| sweep.gain(r, policy, (sweep, other), on_time(class)));
    let both = audio.iter().zip(&video);
    both.filter(|(a, v)| a.1.mean < 0.0 && v.1.mean < 0.0)
        .map(|(a, _)| a.0)
        .collect()
}

fn list(points: &[u32]) -> String {
    match points {
        [] => "nowhere".into(),
        points => {
            let points: Vec<String> = points.iter().map(|x| at_loss(*x)).collect();
            format!("at {}", points.join(", "))
        }
    }
}

/// Gains over a sweep, class by class: the mean.
fn mean_gains(r: &Results, sweep: &Sweep, policy: &str, other: &str) -> [f64; 2] {
    ["audio", "video"].map(|class| mean_of(&sweep.gain(r, policy, (sweep, other), on_time(class))))
}

fn told([audio, video]: [f64; 2]) -> String {
    format!("audio {}, video {}", points(audio), points(video))
}

/// Gains of a policy over the unmodified queue under loss, in points of the datagrams, audio then video, over the sweep.
fn under_loss(r: &Results, sweep: &Sweep, policy: &str) -> [Estimate; 2] {
    ["audio", "video"].map(|class| {
        let gain = sweep.whole_gain(r, policy, (&LOSS_80, "fifo"), on_time(class));
        in_percent(gain)
    })
}

pub fn fig1(r: &Results) -> Claim {
    let gains = mean_gains(r, &LOSS_80, "sbpn1", "fifo");
    let worse = both_less(r, &LOSS_80, "sbpn1", "fifo");
    let [audio, video] = under_loss(r, &LOSS_80, "sbpn2");
    let [audio_first, video_first] = under_loss(r, &LOSS_PRINTED, "sbpn1");
    let evict = ["audio", "video"]
        .map(|class| mean_of(&LOSS_EVICT.gain(r, "sbpn1", (&LOSS_80, "fifo"), on_time(class))));
    Claim {
        id: "sbpn.fig1",
        printed: Column::of([
            ("audio on time, SBPN1 less unmodified, points", audio_first),
            ("video on time, SBPN1 less unmodified, points", video_first),
        ]),
        ours: Column::of([
            ("audio on time, SBPN2 less unmodified, points", audio),
            ("video on time, SBPN2 less unmodified, points", video),
        ]),
        paper: "Under random loss SBPN1 has less audio and less video on time than unmodified DCCP.".into(),
        said: format!(
            "over all rates of loss {} % of the datagrams; both are less {}. With an RTT of 30 ms {}; both are less {}. Where audio replaces video in a full queue {}",
            told(gains),
            list(&worse),
            told(mean_gains(r, &LOSS_30, "sbpn1", "fifo")),
            list(&both_less(r, &LOSS_30, "sbpn1", "fifo")),
            told(evict),
        ),
        ideal: "no less of either".into(),
        why: "TFRC allows a number of packets per RTT for a rate of loss, of any size. Under little loss SBPN1's pauses cost rate by the cap of twice what was received, as the paper has it; that is so for longer where the RTT is short, since feedback then covers times without a frame. Under much loss the queue is always full: the unmodified one sends packets that come too late, SBPN1 does not, and audio gains by it under any kernel. The paper's scale of loss is not in its text. As printed, discarded packets use up send times: that alone is changed in the last table.".into(),
        setup: SETUP,
        from: &["loss/", "printed/loss/"],
        charts: vec![
            chart(r, &LOSS_80, "Fig. 1 and 2: on time under loss, RTT 80 ms, queue 5", &["fifo", "sbpn1", "sbpn2"]),
            chart(r, &LOSS_30, "The same with an RTT of 30 ms", &["fifo", "sbpn1", "sbpn2"]),
        ],
        tables: vec![
            by_loss(r, &LOSS_80, "RTT 80 ms"),
            by_loss(r, &LOSS_30, "RTT 30 ms"),
            signs(r),
            changed(r),
            other_policies(r),
        ],
        ..Claim::default()
    }
}

/// Fig. 2, with one of the sweeps.
fn column2(r: &Results, sweep: &Sweep) -> Column {
    let together = |report: &Report| on_time("audio")(report) + on_time("video")(report);
    let more = sweep.whole_gain(r, "sbpn2", (sweep, "sbpn1"), together);
    let [audio, video] = under_loss(r, sweep, "sbpn2");
    let lesser = if audio.mean < video.mean {
        audio
    } else {
        video
    };
    Column::of([
        (
            "audio and video on time, SBPN2 less SBPN1, points",
            in_percent(more),
        ),
        (
            "on time, SBPN2 less unmodified, the lesser of audio and video, points",
            lesser,
        ),
    ])
}

/// Fig. 3, likewise.
fn column3(r: &Results, sweep: &Sweep) -> Column {
    let of = |policy, class| in_percent(sweep.whole(r, policy, late(class)));
    let all = |report: &Report| late("audio")(report) + late("video")(report);
    let less = sweep.whole_gain(r, "sbpn2", (&LOSS_80, "fifo"), all);
    let more = sweep.whole_gain(r, "sbpn2", (sweep, "sbpn1"), late("video"));
    Column::of([
        ("late audio, SBPN1, %", of("sbpn1", "audio")),
        ("late video, SBPN1, %", of("sbpn1", "video")),
        ("late audio, SBPN2, %", of("sbpn2", "audio")),
        ("late video, SBPN2, %", of("sbpn2", "video")),
        ("late video, SBPN2 less SBPN1, points", in_percent(more)),
        ("late, unmodified less SBPN2, points", times(less, -100.0)),
    ])
}

pub fn fig2(r: &Results) -> Claim {
    let over_first = mean_gains(r, &LOSS_80, "sbpn2", "sbpn1");
    let over_fifo = mean_gains(r, &LOSS_80, "sbpn2", "fifo");
    let short = mean_gains(r, &LOSS_30, "sbpn2", "sbpn1");
    Claim {
        id: "sbpn.fig2",
        printed: column2(r, &LOSS_PRINTED),
        ours: column2(r, &LOSS_80),
        paper: "SBPN2 does better than SBPN1 under loss, and not better than unmodified DCCP.".into(),
        said: format!(
            "over all rates of loss SBPN2 against SBPN1 {} % of the datagrams, against unmodified DCCP {}; with an RTT of 30 ms {} and {}",
            told(over_first),
            told(over_fifo),
            told(short),
            told(mean_gains(r, &LOSS_30, "sbpn2", "fifo"))
        ),
        ideal: "better than both".into(),
        why: "It does better than SBPN1 if audio and video together gain; it beats unmodified DCCP if both classes gain. The gain over SBPN1 is small in both directions: under loss the queue is seldom down to one packet that is late.".into(),
        setup: SETUP,
        from: &["loss/80", "loss/30", "printed/loss/"],
        ..Claim::default()
    }
}

pub fn fig3(r: &Results) -> Claim {
    let of = |policy: &str, class: &'static str| mean_of(&LOSS_80.figures(r, policy, late(class)));
    let [fifo, first, second] =
        ["fifo", "sbpn1", "sbpn2"].map(|policy| [of(policy, "audio"), of(policy, "video")]);
    let series = ["fifo", "sbpn1", "sbpn2"].into_iter().flat_map(|policy| {
        ["audio", "video"].map(|class| {
            let figures = LOSS_80.figures(r, policy, late(class));
            with_intervals(format!("{} {class}", label(policy)), &figures, 100.0)
        })
    });
    Claim {
        id: "sbpn.fig3",
        printed: column3(r, &LOSS_PRINTED),
        ours: column3(r, &LOSS_80),
        paper: "Packets that arrive too late are nearly none under SBPN1, a little of video and no audio under SBPN2, and most under unmodified DCCP.".into(),
        said: format!(
            "late over all rates of loss, audio and video: unmodified {} and {}, SBPN1 {} and {}, SBPN2 {} and {}",
            percent(fifo[0]),
            percent(fifo[1]),
            percent(first[0]),
            percent(first[1]),
            percent(second[0]),
            percent(second[1])
        ),
        ideal: "nothing late".into(),
        setup: SETUP,
        from: &["loss/80", "printed/loss/"],
        charts: vec![Chart {
            title: "Fig. 3: received less received on time".into(),
            x: "loss in tenths of a percent".into(),
            y: "% of the datagrams".into(),
            series: series.collect(),
            ..Chart::default()
        }],
        ..Claim::default()
    }
}
