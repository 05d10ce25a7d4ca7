// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event log of a call as a page: rate, target, queue, drops and times on the path.

use std::io::{self, BufRead};

use makeway_report::chart::{Chart, Series};
use makeway_report::html;
use maud::html;

/// Reasons of drops, and losses on the path.
const DROPS: [&str; 5] = ["expired", "evicted", "too-large", "orphaned", "lost"];
/// Columns of the state of the rate controller and of the queue.
const STATE: [&str; 5] = [
    "rate_bps",
    "target_bps",
    "queue_packets",
    "queue_bytes",
    "rtt_s",
];
/// Points of a curve: more are too close to be seen apart, and make a page of many megabytes.
const MOST_POINTS: usize = 1000;
/// Longest call of a page, 115 days.
const LONGEST_S: f64 = 1e7;

type Points = Vec<(f64, f64)>;

/// Figures of a log. Its memory is 16 bytes for each packet that was acknowledged, and for each state.
#[derive(Default)]
struct Figures {
    end: f64,
    sent: u64,
    late: u64,
    again: u64,
    acknowledged: u64,
    dropped: [u64; DROPS.len()],
    seconds: Vec<Second>,
    states: [Points; STATE.len()],
    /// Times on the path above the shortest, s.
    above: Points,
}

/// Figures of a second: bytes sent and acknowledged, packets dropped.
#[derive(Clone, Default)]
struct Second {
    sent: f64,
    acknowledged: f64,
    dropped: [f64; DROPS.len()],
}

/// The page of a log; `None`: it is no log of `makeway send`.
///
/// # Errors
/// The reader's.
pub fn page(title: &str, log: impl BufRead) -> io::Result<Option<String>> {
    Ok(Figures::read(log)?.map(|figures| figures.page(title)))
}

impl Figures {
    fn read(log: impl BufRead) -> io::Result<Option<Self>> {
        let mut lines = log.lines();
        let header = lines.next().transpose()?.unwrap_or_default();
        let header: Vec<_> = header.split(',').collect();
        let column = |name| header.iter().position(|column| *column == name);
        let (Some(time), Some(event), Some(bytes), Some(above)) = (
            column("time_s"),
            column("event"),
            column("bytes"),
            column("above_least_s"),
        ) else {
            return Ok(None);
        };
        let states = STATE.map(column);
        let mut figures = Self::default();
        for line in lines {
            let line = line?;
            let row: Vec<_> = line.split(',').collect();
            // The last line of a log that ended by an error may be cut short.
            if row.len() != header.len() {
                continue;
            }
            let number = |column: usize| row[column].parse::<f64>().ok();
            let Some(at) = number(time).filter(|at| (0.0..LONGEST_S).contains(at)) else {
                return Ok(None);
            };
            figures.end = figures.end.max(at);
            let second = at as usize;
            if figures.seconds.len() <= second {
                figures.seconds.resize(second + 1, Second::default());
            }
            let second = &mut figures.seconds[second];
            match row[event] {
                name @ ("sent" | "late") => {
                    figures.sent += 1;
                    figures.late += u64::from(name == "late");
                    second.sent += number(bytes).unwrap_or_default();
                }
                // A copy takes its share of the rate.
                "again" => {
                    figures.again += 1;
                    second.sent += number(bytes).unwrap_or_default();
                }
                "acknowledged" => {
                    figures.acknowledged += 1;
                    second.acknowledged += number(bytes).unwrap_or_default();
                    figures.above.extend(number(above).map(|s| (at, s)));
                }
                name => {
                    if let Some(reason) = DROPS.iter().position(|drop| *drop == name) {
                        figures.dropped[reason] += 1;
                        second.dropped[reason] += 1.0;
                    }
                }
            }
            for (points, column) in figures.states.iter_mut().zip(states) {
                points.extend(column.and_then(number).map(|value| (at, value)));
            }
        }
        Ok(Some(figures))
    }

    fn page(&self, title: &str) -> String {
        let states = self.states[..2].iter().flatten();
        let (unit, bits) = unit_of_rates(states.map(|(_, bps)| *bps));
        let (unit_sent, bits_sent) = unit_of_rates(self.seconds.iter().map(|s| s.sent * 8.0));
        let line = |name, place: usize, by| Series::line(name, thinned(&self.states[place], by));
        let sent = |by: f64| self.each_second("payload sent", move |second| second.sent * 8.0 * by);
        // A reason that did not occur is left out, but for the two that a reader looks for.
        let dropped = DROPS.into_iter().enumerate().filter(|(reason, name)| {
            self.dropped[*reason] > 0 || ["expired", "lost"].contains(name)
        });
        let dropped = dropped
            .map(|(reason, name)| self.each_second(name, move |second| second.dropped[reason]));
        let charts = [
            chart(
                "Payload sent, and payload reported as arrived",
                &format!("{unit_sent}, in each second"),
                vec![
                    sent(bits_sent),
                    self.each_second("acknowledged", |second| {
                        second.acknowledged * 8.0 * bits_sent
                    }),
                ],
            ),
            chart(
                "Rate that the controller allows, and target of the encoder",
                unit,
                vec![
                    line("allowed", 0, bits),
                    line("target", 1, bits),
                    sent(bits),
                ],
            ),
            chart(
                "Queue in packets, every 100 ms",
                "packets",
                vec![line("packets that wait", 2, 1.0)],
            ),
            chart(
                "Queue in payload, every 100 ms",
                "kB",
                vec![line("payload that waits", 3, 1e-3)],
            ),
            chart(
                "Packets dropped before they were sent, and lost on the path",
                "packets/s",
                dropped.collect(),
            ),
            chart(
                "RTT, and time on the path above the shortest",
                "ms",
                vec![
                    Series::dots("packets, above the shortest", thinned(&self.above, 1e3)),
                    line("RTT of the controller", 4, 1e3),
                ],
            ),
        ];
        let dropped = self.dropped.iter().zip(DROPS);
        let dropped: Vec<_> = dropped.map(|(n, name)| format!("{n} {name}")).collect();
        let again = match self.again {
            0 => String::new(),
            copies => format!("; {copies} sent again"),
        };
        let means = [format!(
            "In {:.1} s {} packets sent, of them {} late and {} acknowledged; {}{again}.",
            self.end,
            self.sent,
            self.late,
            self.acknowledged,
            dropped.join(", ")
        )];
        let body = html! { section.charts { @for chart in &charts { (chart.figure()) } } };
        html::page_with_units(
            title,
            &means,
            body,
            "Rates and queues count payload of RTP.",
        )
    }

    /// A value of each second, per second. A last part of a second that is shorter than half of it is left out.
    fn each_second(&self, name: &str, value: impl Fn(&Second) -> f64) -> Series {
        let mut points = Points::new();
        for (n, second) in self.seconds.iter().enumerate() {
            let begin = n as f64;
            let end = self.end.min(begin + 1.0);
            if end - begin >= 0.5 || n == 0 {
                let value = value(second) / (end - begin).max(0.5);
                points.extend([(begin, value), (end, value)]);
            }
        }
        Series::line(name, thinned(&points, 1.0))
    }
}

/// A unit for rates in bit/s, and its size.
fn unit_of_rates(rates: impl Iterator<Item = f64>) -> (&'static str, f64) {
    if rates.fold(0.0, f64::max) < 1e7 {
        ("kbit/s", 1e-3)
    } else {
        ("Mbit/s", 1e-6)
    }
}

/// A chart over time. Curves without a point are left out.
fn chart(title: &str, y: &str, mut series: Vec<Series>) -> Chart {
    series.retain(|series| !series.points.is_empty());
    Chart {
        title: title.into(),
        x: "time, s".into(),
        y: y.into(),
        y_at_least: 0.0,
        series,
    }
}

/// Lowest and highest point of each of 500 groups, if there are many points; `y` times `by`.
fn thinned(points: &[(f64, f64)], by: f64) -> Points {
    let scaled = |&(x, y): &(f64, f64)| (x, y * by);
    if points.len() <= MOST_POINTS {
        return points.iter().map(scaled).collect();
    }
    let groups = points.chunks(points.len().div_ceil(MOST_POINTS / 2));
    let ends = groups.flat_map(|group| {
        let of = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let low = group.iter().min_by(of);
        let high = group.iter().max_by(of);
        let mut ends = [low, high];
        ends.sort_by(|a, b| a.map_or(0.0, |a| a.0).total_cmp(&b.map_or(0.0, |b| b.0)));
        ends.into_iter().flatten()
    });
    ends.map(scaled).collect()
}

#[cfg(test)]
mod tests {
    use makeway_transport::rtp::CSV_HEADER;

    use super::{MOST_POINTS, page, thinned};

    #[test]
    fn the_page_counts_the_rows_of_the_log_and_names_reasons_that_occurred_alone() {
        let log = format!(
            "{CSV_HEADER}\n\
             0.100000,sent,0,1,0,1000,0.0,0.3,0.100000,0,7,,,,,,,\n\
             0.200000,late,1,1,0,1000,0.0,0.1,0.200000,1,8,,,,,,,\n\
             0.300000,acknowledged,0,1,0,1000,0.0,0.3,0.100000,0,7,0.002000,0,,,,,\n\
             0.400000,expired,2,1,0,1000,0.0,0.3,,,,,,,,,,\n\
             1.500000,rate,,,,,,,,,,,,800000,600000,3,3000,0.050000\n"
        );
        let text = page("A call", log.as_bytes()).unwrap().unwrap();
        assert!(text.contains("In 1.5 s 2 packets sent, of them 1 late and 1 acknowledged; 1 expired, 0 evicted, 0 too-large, 0 orphaned, 0 lost."));
        assert!(text.contains("></span>expired</li>") && !text.contains("></span>evicted</li>"));
        assert_eq!(text.matches("<svg").count(), 6);
        let copy = "0.250000,again,0,2,0,1002,0.0,0.3,0.250000,2,1,,,,,,,\n";
        let text = page("A call", format!("{log}{copy}").as_bytes());
        let text = text.unwrap().unwrap();
        assert!(text.contains("0 orphaned, 0 lost; 1 sent again."));
        assert_eq!(page("A call", &b"no,log\n1,2\n"[..]).unwrap(), None);
    }

    #[test]
    fn a_curve_of_many_points_keeps_its_peaks() {
        let mut points: Vec<_> = (0..100_000).map(|n| (f64::from(n), 1.0)).collect();
        points[70_123].1 = 9.0;
        points[20_456].1 = 0.0;
        let drawn = thinned(&points, 10.0);
        assert!(drawn.len() <= MOST_POINTS && drawn.is_sorted_by_key(|(x, _)| *x));
        assert!(drawn.contains(&(70_123.0, 90.0)) && drawn.contains(&(20_456.0, 0.0)));
    }
}
