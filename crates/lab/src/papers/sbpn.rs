// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statements of McDonald, Nelson, "Application-level QoS: Improving Video Conferencing Quality through Sending the Best Packet
//! Next", University of Waikato. Every verdict follows from the figures of this run.
//!
//! - [`runs`]: what is run, and what it is judged by;
//! - [`guest`]: the kernel's DCCP as receiver;
//! - here: each statement, theirs and ours.

mod guest;
mod runs;

use makeway_report::chart::Chart;
use makeway_report::estimate::Estimate;
use makeway_report::model::Report;

use super::claim::{Claim, Column, Table};
use super::figures::{Figures, in_percent, only, percent, times, with_intervals};
use super::paper::Paper;
use crate::experiment::Results;
use crate::experiment::World;
use runs::{
    Axis, CHOICES, Gain, KERNEL, LOSS_30, LOSS_80, LOSS_EVICT, LOSS_PRINTED, POLICIES, PRINTED_30,
    PRINTED_32, PRINTED_80, PRINTED_150, QUEUE_32, RESTART, RTT_30, RTT_80, RTT_150, Sweep, cells,
    late, mean_of, on_time, received,
};

/// How it is run again.
pub const SBPN: Paper = Paper {
    id: "sbpn",
    title: "Send the best packet next, run again",
    source: "I. McDonald, R. Nelson, University of Waikato, Hamilton",
    worlds: &[World::Sim, World::Netns],
    shortened: "Each run has the paper's 60 s, of which the first 3 are not measured; 30 runs of each set-up as in the paper, 10 where a choice is changed.",
    full: "Each run has the paper's 60 s, of which the first 3 are not measured; 30 runs of each set-up as in the paper, 10 where a choice is changed.",
    cells,
    claims,
    beside: Some(guest::by_kernel),
};

const SETUP: &str = "two PCs and a router in simulated time; Ekiga's model over CCID 3 as Linux has it (RFC 4342, mean packet of ten, timer of 4 ms, a full queue refuses); deadline 200 ms";
/// As the paper's summary: audio on time improves by over 10 %.
const OVER: f64 = 0.1;

const KERNEL_SETUP: &str = "two hosts and a router in network namespaces; Ekiga's model over UDP with the controller of CCID 3 as Linux has it, beside two flows of Linux's Reno; RTT 80 ms, buffer of 20 packets, deadline 200 ms; one run of each";

/// Every statement, in the order of the paper; beside the kernel's TCP those of Fig. 4 and 5.
fn claims(r: &Results) -> Vec<Claim> {
    if !r.has(&RTT_80.key("fifo", 800)) {
        return kernel_claims(r);
    }
    vec![
        fig1(r),
        fig2(r),
        fig3(r),
        fig4(r),
        fig5(r),
        fig6_7(r),
        fig8(r),
        guest::receiver_unchanged(r),
    ]
}

/// `+12.3`, in percent of the datagrams.
fn points(x: f64) -> String {
    format!("{:+.1}", x * 100.0)
}

fn at_loss(tenths: u32) -> String {
    format!("{} %", f64::from(tenths) / 10.0)
}

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

fn fig1(r: &Results) -> Claim {
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
        ],
        ..Claim::default()
    }
}

/// Gains over the unmodified queue rate by rate, where an expired packet leaves its send time to the next, and where it uses it.
fn signs(r: &Results) -> Table {
    let columns = [
        ("sbpn1", LOSS_80),
        ("sbpn1", LOSS_PRINTED),
        ("sbpn2", LOSS_80),
        ("sbpn2", LOSS_PRINTED),
    ];
    let gains = columns.map(|(policy, sweep)| {
        ["audio", "video"].map(|class| sweep.gain(r, policy, (&LOSS_80, "fifo"), on_time(class)))
    });
    let rows = LOSS_80.points.iter().enumerate().map(|(n, x)| {
        let of = |gains: &[Figures; 2]| {
            let [audio, video] = [&gains[0], &gains[1]].map(|figures| points(figures[n].1.mean));
            format!("{audio}, {video}")
        };
        [at_loss(*x)]
            .into_iter()
            .chain(gains.iter().map(of))
            .collect()
    });
    let head = [
        "loss",
        "SBPN1",
        "SBPN1 as printed",
        "SBPN2",
        "SBPN2 as printed",
    ];
    Table {
        title: "Audio and video on time less those of the unmodified queue, in % of the datagrams, RTT 80 ms; as printed an expired packet uses its send time".into(),
        head: head.map(str::to_owned).into(),
        rows: rows.collect(),
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

fn fig2(r: &Results) -> Claim {
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

fn fig3(r: &Results) -> Claim {
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

/// A sentence on gains.
fn told_of(gains: &[Gain]) -> String {
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
fn congested(gains: &[Gain], at: &str) -> Column {
    let [audio, video] = means(gains);
    let rates = 100.0 * over(gains) as f64 / gains.len() as f64;
    // Where audio gains nothing, video may not fall.
    let falls = match -video {
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

fn fig4(r: &Results) -> Claim {
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

fn fig5(r: &Results) -> Claim {
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
        why: "A long queue that sends in order delivers late what it delivers.".into(),
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
fn kernel_claims(r: &Results) -> Vec<Claim> {
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

fn fig6_7(r: &Results) -> Claim {
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

fn fig8(r: &Results) -> Claim {
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

fn label(policy: &str) -> &'static str {
    match policy {
        "fifo" => "unmodified",
        "sbpn1" => "SBPN1",
        "sbpn2" => "SBPN2",
        "prio" => "the kernel's priority",
        "weighted" => "weighted score",
        "when-full" => "discard when full",
        _ => "late last",
    }
}

/// On-time shares of both classes.
fn chart(r: &Results, sweep: &Sweep, title: &str, policies: &[&str]) -> Chart {
    let series = policies.iter().flat_map(|policy| {
        ["audio", "video"].map(|class| {
            let figures = sweep.figures(r, policy, on_time(class));
            with_intervals(format!("{}, {class}", label(policy)), &figures, 100.0)
        })
    });
    Chart {
        title: title.into(),
        x: match sweep.x {
            Axis::Loss => "loss in tenths of a percent".into(),
            Axis::Rate | Axis::Line => "rate limit, kbit/s".into(),
        },
        y: "% on time".into(),
        series: series.collect(),
        ..Chart::default()
    }
}

/// On time and received by loss.
fn by_loss(r: &Results, sweep: &Sweep, title: &str) -> Table {
    let columns = ["fifo", "sbpn1", "sbpn2"].into_iter().flat_map(|policy| {
        ["audio", "video"].map(|class| {
            (
                policy,
                class,
                sweep.figures(r, policy, on_time(class)),
                sweep.figures(r, policy, received(class)),
            )
        })
    });
    let columns: Vec<_> = columns.collect();
    let head = columns
        .iter()
        .map(|(policy, class, ..)| format!("{} {class}", label(policy)));
    let points = columns[0].2.iter().map(|(x, _)| *x).enumerate();
    Table {
        title: format!("On time, and received, in % of the datagrams, {title}"),
        head: std::iter::once("loss".into()).chain(head).collect(),
        rows: points
            .map(|(n, x)| {
                let cells = columns.iter().map(|(_, _, on_time, received)| {
                    format!(
                        "{:.1}, {:.1}",
                        on_time[n].1.mean * 100.0,
                        received[n].1.mean * 100.0
                    )
                });
                std::iter::once(at_loss(x)).chain(cells).collect()
            })
            .collect(),
    }
}

fn by_rate(gains: &[Gain], title: &str) -> Table {
    let with_half = |x: &Estimate| match x.half_width {
        Some(half) => format!("{} ± {:.1}", points(x.mean), half * 100.0),
        None => points(x.mean),
    };
    Table {
        title: format!(
            "SBPN2 against the unmodified queue where it is congested, {title}, in % of the datagrams"
        ),
        head: ["kbit/s", "audio on time, unmodified", "audio", "video"]
            .map(str::to_owned)
            .into(),
        rows: gains
            .iter()
            .map(|gain| {
                vec![
                    gain.kbit.to_string(),
                    format!("{:.1}", gain.fifo.mean * 100.0),
                    with_half(&gain.audio),
                    with_half(&gain.video),
                ]
            })
            .collect(),
    }
}

/// The mean over 600, 800, 1000 and 1200 kbit/s with one choice changed.
fn choices(r: &Results) -> Table {
    Table {
        title: "One choice changed, the mean over 600, 800, 1000 and 1200 kbit/s, in % of the datagrams".into(),
        head: ["choice", "unmodified: audio on time", "video", "SBPN2: audio", "video"].map(str::to_owned).into(),
        rows: CHOICES
            .iter()
            .map(|choice| {
                let [audio, video] = choice.unmodified(r).map(|x| format!("{:.1}", x * 100.0));
                let [more_audio, more_video] = choice.gains(r, "sbpn2").map(points);
                vec![choice.name.into(), audio, video, more_audio, more_video]
            })
            .collect(),
    }
}

/// Other policies, as [`choices`].
fn policies(r: &Results) -> Table {
    let all = std::iter::once("sbpn2").chain(POLICIES);
    Table {
        title: "Other policies against the unmodified queue, likewise".into(),
        head: ["policy", "audio", "video"].map(str::to_owned).into(),
        rows: all
            .map(|policy| {
                let [audio, video] = CHOICES[0].gains(r, policy).map(points);
                vec![label(policy).into(), audio, video]
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use makeway_report::model::{ClassReport, FlowReport, MediaReport};

    use super::*;
    use crate::papers::claim::Verdict;
    use crate::papers::tests::{
        all_are, every_figure_is_refused_when_it_is_wrong, judged, made_up,
    };

    /// Shares on time and received of audio, then of video, where the paper is right.
    fn shares(cell: &str) -> [[f64; 2]; 2] {
        let parts: Vec<&str> = cell.split('/').collect();
        let policy = parts[parts.len() - 2];
        match (parts[0], parts[1], policy) {
            ("loss", _, "fifo") => [[0.80, 0.90]; 2],
            ("loss", _, "sbpn1") => [[0.80, 0.80]; 2],
            ("loss", ..) => [[0.85, 0.85], [0.85, 0.855]],
            ("printed", "loss", "sbpn1") => [[0.70, 0.70]; 2],
            ("printed", "loss", _) => [[0.75, 0.75], [0.75, 0.80]],
            (_, "restart", _) => [[0.51, 0.60], [0.60, 0.70]],
            (.., "fifo") => [[0.50, 0.60], [0.60, 0.70]],
            (_, "80-32", _) => [[0.80, 0.80], [0.60, 0.70]],
            _ => [[0.70, 0.70], [0.57, 0.70]],
        }
    }

    fn perfect() -> Results {
        let report = |cell: &str| {
            let classes = ["audio", "video"].into_iter().zip(shares(cell));
            let class = |(name, [on_time, received]): (&str, [f64; 2])| ClassReport {
                name: name.into(),
                offered: 10_000,
                received: (received * 1e4).round() as u64,
                on_time: (on_time * 1e4).round() as u64,
                ..ClassReport::default()
            };
            let call = FlowReport {
                name: "call".into(),
                group: "call".into(),
                kind: "media".into(),
                media: Some(MediaReport {
                    classes: classes.map(class).collect(),
                    ..MediaReport::default()
                }),
                ..FlowReport::default()
            };
            made_up(57.0, vec![call], vec![])
        };
        let cells = cells(false, World::Sim).into_iter();
        cells
            .map(|cell| {
                let report = report(cell.key.path());
                (cell.key, vec![report; 3])
            })
            .collect()
    }

    #[test]
    fn a_perfect_world_agrees_with_the_paper() {
        // The kernel's part is measured beside the cells.
        let receiver = ("sbpn.receiver_unchanged", [Verdict::NotMeasured; 2]);
        let claims = judged(&SBPN, World::Sim, &perfect());
        all_are(Verdict::Reproduced, &claims, &[receiver]);
    }

    #[test]
    fn every_statement_follows_its_figures() {
        every_figure_is_refused_when_it_is_wrong(&SBPN, World::Sim, &perfect());
    }

    fn gains(all: &[(f64, f64)]) -> Vec<Gain> {
        let gain = |(audio, video): &(f64, f64)| Gain {
            kbit: 1000,
            fifo: Estimate::of([0.5]),
            audio: Estimate::of([*audio]),
            video: Estimate::of([*video]),
        };
        all.iter().map(gain).collect()
    }

    #[test]
    fn gains_are_counted_where_they_are_over_a_tenth_and_falls_by_what_audio_gains() {
        let of = |all: &[(f64, f64)]| {
            let column = congested(&gains(all), "");
            let of = |name: &str| column.figure(name).unwrap().mean;
            [
                of("congested rates at which audio gains over 10 %, %"),
                of("video falls by audio's gain"),
            ]
        };
        // Over 10 % of 50 is 5 of 100.
        let [rates, falls] = of(&[(0.3, -0.1), (0.2, 0.0), (0.04, 0.0)]);
        assert!((rates - 200.0 / 3.0).abs() < 1e-9 && (falls - 0.1 / 0.54).abs() < 1e-9);
        assert_eq!(of(&[(0.3, 0.1)]), [100.0, 0.0]);
        assert_eq!(of(&[(-0.1, -0.1)]), [0.0, f64::INFINITY]);
        assert!(of(&[]).iter().all(|x| x.is_nan()));
    }
}
