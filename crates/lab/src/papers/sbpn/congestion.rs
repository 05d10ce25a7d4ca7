// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fig. 4 to 8: beside two TCP flows, by the rate of the bottleneck.

use makeway_report::chart::Chart;
use makeway_report::estimate::Estimate;

use super::runs::{
    Gain, KERNEL, PRINTED_30, PRINTED_32, PRINTED_80, PRINTED_150, QUEUE_32, RESTART, RTT_30,
    RTT_80, RTT_150, Sweep, on_time,
};
use super::tables::{by_rate, chart, choices, policies};
use super::{SETUP, points};
use crate::experiment::Results;
use crate::papers::claim::{Claim, Column};
use crate::papers::figures::{in_percent, only, with_intervals};

const KERNEL_SETUP: &str = "two hosts and a router in network namespaces; Ekiga's model over UDP with the controller of CCID 3 as Linux has it, beside two flows of Linux's Reno; RTT 80 ms, buffer of 20 packets, deadline 200 ms; one run of each";

/// As the paper's summary: audio on time improves by over 10 %.
const OVER: f64 = 0.1;

/// A sentence on gains.
pub fn told_of(gains: &[Gain]) -> String {
    let fair = gains
        .iter()
        .filter(|gain| -gain.video.mean <= gain.audio.mean)
        .count();
    let [audio, video] = means(gains);
    format!(
        "audio on time improves by over 10 % at {} of the {} rates at which it is congested, video falls by no more than audio gains at {fair}; in the mean audio {}, video {} % of the datagrams",
        over(gains),
        gains.len(),
        points(audio),
        points(video)
    )
}

/// Rates at which audio gains over [`OVER`] of what it has.
fn over(gains: &[Gain]) -> usize {
    let over = gains
        .iter()
        .filter(|gain| gain.audio.mean >= OVER * gain.fifo.mean);
    over.count()
}

/// Figures of Fig. 4 to 7; `at` is their set-up. Without a congested rate nothing is known.
pub fn congested(gains: &[Gain], at: &str) -> Column {
    let [audio, video] = means(gains);
    let is_known = |gain: &Gain| !(gain.fifo.mean + gain.audio.mean).is_nan();
    let rates = match gains.iter().all(is_known) {
        true => 100.0 * over(gains) as f64 / gains.len() as f64,
        false => f64::NAN,
    };
    // Where audio gains nothing, video may not fall.
    let falls = match -video {
        falls if (falls + audio).is_nan() => f64::NAN,
        falls if falls <= 0.0 => 0.0,
        falls if audio <= 0.0 && falls > 0.0 => f64::INFINITY,
        falls => falls / audio,
    };
    Column::of([
        (
            format!("congested rates at which audio gains over 10 %{at}, %"),
            only(rates),
        ),
        (format!("video falls by audio's gain{at}"), only(falls)),
    ])
}

/// Fig. 5 besides: the long queue less the short one.
fn longer(long: &[Gain], short: &[Gain]) -> Column {
    let ([audio, video], [audio_5, video_5]) = (means(long), means(short));
    Column::of([
        (
            "audio's gain with a queue of 32 less that with 5, points",
            only((audio - audio_5) * 100.0),
        ),
        (
            "video's gain with a queue of 32 less that with 5, points",
            only((video - video_5) * 100.0),
        ),
    ])
}

const AT_80: &str = ", RTT 80 ms, queue 5";
const AT_80_32: &str = ", RTT 80 ms, queue 32";

fn means(gains: &[Gain]) -> [f64; 2] {
    let mean = |of: fn(&Gain) -> Estimate| {
        gains.iter().map(|gain| of(gain).mean).sum::<f64>() / gains.len() as f64
    };
    [mean(|gain| gain.audio), mean(|gain| gain.video)]
}

const JUDGED: &str =
    "Congested is where less than 95 % of the unmodified queue's audio is on time.";

const FIG4: &str = "Beside two TCP flows SBPN2 has over 10 % more audio on time across most of the range, and video does not fall, or much less than audio gains.";
const FIG5: &str = "With a queue of 32 audio gains more than with one of 5, and video loses less.";

pub fn fig4(r: &Results) -> Claim {
    let gains = RTT_80.congested(r);
    let said = told_of(&gains);
    Claim {
        id: "sbpn.fig4",
        printed: congested(&PRINTED_80.congested_beside(r, &RTT_80), AT_80),
        ours: congested(&gains, AT_80),
        paper: FIG4.into(),
        said,
        ideal: "all audio on time, and as much video as before".into(),
        why: format!(
            "{JUDGED} The paper does not say what it sweeps, nor the router's buffer: here the rate of a token bucket with 16 kB. The table changes one choice at a time."
        ),
        setup: SETUP,
        from: &["congestion/80/", "printed/80/", "choice/"],
        charts: vec![chart(
            r,
            &RTT_80,
            "Fig. 4: on time beside two TCP flows, RTT 80 ms, queue 5",
            &["fifo", "sbpn2"],
        )],
        tables: vec![
            by_rate(&gains, "RTT 80 ms, queue 5"),
            choices(r),
            policies(r),
        ],
        ..Claim::default()
    }
}

pub fn fig5(r: &Results) -> Claim {
    let gains = QUEUE_32.congested(r);
    let short = RTT_80.congested(r);
    let [audio_5, video_5] = means(&short);
    let printed = PRINTED_32.congested_beside(r, &QUEUE_32);
    Claim {
        id: "sbpn.fig5",
        printed: congested(&printed, AT_80_32)
            .and(longer(&printed, &PRINTED_80.congested_beside(r, &RTT_80))),
        ours: congested(&gains, AT_80_32).and(longer(&gains, &short)),
        paper: FIG5.into(),
        said: format!(
            "{}; with a queue of 5 audio {}, video {}",
            told_of(&gains),
            points(audio_5),
            points(video_5)
        ),
        ideal: "as for Fig. 4".into(),
        why: "A long queue that sends in order delivers its packets late.".into(),
        setup: SETUP,
        from: &["congestion/80-32/", "congestion/80/", "printed/80"],
        charts: vec![chart(
            r,
            &QUEUE_32,
            "Fig. 5: on time beside two TCP flows, RTT 80 ms, queue 32",
            &["fifo", "sbpn2"],
        )],
        tables: vec![by_rate(&gains, "RTT 80 ms, queue 32")],
        ..Claim::default()
    }
}

/// Fig. 4 and 5 over a real bottleneck.
pub fn kernel_claims(r: &Results) -> Vec<Claim> {
    let [short, long] = KERNEL.map(|sweep| sweep.congested(r));
    let claim = |sweep: &Sweep, gains: &[Gain], title: &str| Claim {
        why: JUDGED.into(),
        setup: KERNEL_SETUP,
        charts: vec![chart(
            r,
            sweep,
            &format!("On time beside two flows of the kernel's TCP, {title}"),
            &["fifo", "sbpn2"],
        )],
        tables: vec![by_rate(gains, title)],
        ..Claim::default()
    };
    vec![
        Claim {
            id: "sbpn.fig4",
            ours: congested(&short, AT_80),
            paper: FIG4.into(),
            said: told_of(&short),
            ideal: "all audio on time, and as much video as before".into(),
            from: &["kernel/5/"],
            ..claim(&KERNEL[0], &short, "RTT 80 ms, queue 5")
        },
        Claim {
            id: "sbpn.fig5",
            ours: congested(&long, AT_80_32).and(longer(&long, &short)),
            paper: FIG5.into(),
            said: told_of(&long),
            ideal: "as for Fig. 4".into(),
            from: &["kernel/32/"],
            ..claim(&KERNEL[1], &long, "RTT 80 ms, queue 32")
        },
    ]
}

pub fn fig6_7(r: &Results) -> Claim {
    let [short, long] = [RTT_30, RTT_150].map(|sweep| sweep.congested(r));
    Claim {
        id: "sbpn.fig6_7",
        printed: congested(
            &PRINTED_30.congested_beside(r, &RTT_30),
            ", RTT 30 ms, queue 5",
        )
        .and(congested(
            &PRINTED_150.congested_beside(r, &RTT_150),
            ", RTT 150 ms, queue 5",
        )),
        ours: congested(&short, ", RTT 30 ms, queue 5")
            .and(congested(&long, ", RTT 150 ms, queue 5")),
        paper: "The gain of Fig. 4 is there with an RTT of 30 ms and with one of 150 ms.".into(),
        said: format!(
            "RTT 30 ms: {}. RTT 150 ms: {}",
            told_of(&short),
            told_of(&long)
        ),
        ideal: "as for Fig. 4".into(),
        why: JUDGED.into(),
        setup: SETUP,
        from: &[
            "congestion/30/",
            "congestion/150/",
            "printed/30/",
            "printed/150/",
        ],
        charts: vec![
            chart(r, &RTT_30, "Fig. 6: RTT 30 ms, queue 5", &["fifo", "sbpn2"]),
            chart(
                r,
                &RTT_150,
                "Fig. 7: RTT 150 ms, queue 5",
                &["fifo", "sbpn2"],
            ),
        ],
        tables: vec![
            by_rate(&short, "RTT 30 ms, queue 5"),
            by_rate(&long, "RTT 150 ms, queue 5"),
        ],
        ..Claim::default()
    }
}

pub fn fig8(r: &Results) -> Claim {
    let [audio, video] = ["audio", "video"]
        .map(|class| RESTART.whole_gain(r, "fifo", (&RTT_80, "fifo"), on_time(class)));
    let sbpn = means(&RTT_80.congested(r))[0];
    // No policy is in it: both columns have the same runs.
    let column = Column::of([
        (
            "audio on time, faster restart less unmodified, points",
            in_percent(audio),
        ),
        (
            "video on time, faster restart less unmodified, points",
            in_percent(video),
        ),
        ("audio's gain by SBPN2's", only(audio.mean / sbpn)),
    ]);
    let series = ["audio", "video"].into_iter().flat_map(|class| {
        [("unmodified", RTT_80), ("faster restart", RESTART)].map(|(name, sweep)| {
            let figures = sweep.figures(r, "fifo", on_time(class));
            with_intervals(format!("{name}, {class}"), &figures, 100.0)
        })
    });
    Claim {
        id: "sbpn.fig8",
        printed: column.clone(),
        ours: column,
        paper:
            "TFRC's faster restart does not give significantly better results than unmodified DCCP."
                .into(),
        said: format!(
            "over all rates audio {}, video {} % of the datagrams, where SBPN2 gives audio {} at the congested ones",
            points(audio.mean),
            points(video.mean),
            points(sbpn)
        ),
        ideal: "none is known".into(),
        setup: "as Fig. 4, with draft-ietf-dccp-tfrc-faster-restart at the sender",
        from: &["congestion/80/", "congestion/restart/"],
        charts: vec![Chart {
            title: "Fig. 8: faster restart, RTT 80 ms, queue 5".into(),
            x: "rate limit, kbit/s".into(),
            y: "% on time".into(),
            series: series.collect(),
            ..Chart::default()
        }],
        ..Claim::default()
    }
}
