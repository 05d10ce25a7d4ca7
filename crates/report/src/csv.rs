// SPDX-License-Identifier: MIT OR Apache-2.0
//! The series of reports as CSV in long form, for spreadsheets, pandas and R.
//!
//! One value a line: when its step begins, of what, which figure. A cell that is not a number is a name
//! of the scenario, so that nothing needs quotes but a title, and titles are not here.

use std::fmt::Write;

use crate::model::Report;

/// The first line.
const HEADER: &str = "world,time_s,kind,name,metric,value\n";

/// Every series of `reports`, flows first.
pub fn series(reports: &[Report]) -> String {
    let mut out = String::from(HEADER);
    for report in reports {
        for flow in &report.flows {
            let mut put = |metric, values: &[f64]| {
                let of = ["flow", flow.name.as_str(), metric];
                lines(&mut out, &report.world, of, flow.series_step_s, values);
            };
            put("goodput_bps", &flow.goodput_series_bps);
            put("loss", &flow.loss_series);
            put("delay_max_ms", &flow.delay_series_ms);
            put("tasks_done", &flow.tasks_series);
            put("rate_bps", &flow.rate_series_bps);
        }
        for queue in &report.queues {
            let of = ["queue", queue.name.as_str(), "backlog_packets"];
            let (step, values) = (queue.series_step_s, &queue.backlog_series);
            lines(&mut out, &report.world, of, step, values);
        }
    }
    out
}

fn lines(out: &mut String, world: &str, of: [&str; 3], step: f64, values: &[f64]) {
    let [kind, name, metric] = of;
    for (n, value) in values.iter().enumerate() {
        // Steps are whole milliseconds; 0.1 times 3 is not 0.3.
        let ms = (n as f64 * step * 1000.0).round();
        let _ = writeln!(
            out,
            "{world},{},{kind},{name},{metric},{value}",
            ms / 1000.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn every_value_of_every_series_has_a_line() {
        let mut report = sample::report("sqf", 0.25);
        report.flows[0].tasks_series = vec![0.0, 3.0];
        let text = series(std::slice::from_ref(&report));
        let flows = report.flows.iter().map(|flow| {
            flow.goodput_series_bps.len()
                + flow.loss_series.len()
                + flow.delay_series_ms.len()
                + flow.tasks_series.len()
        });
        let queues = report.queues.iter().map(|queue| queue.backlog_series.len());
        let values = flows.sum::<usize>() + queues.sum::<usize>();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + values);
        assert!(lines.iter().all(|line| line.split(',').count() == 6));
        assert!(lines.contains(&"netns,1,flow,download-1,goodput_bps,2100000"));
        assert!(lines.contains(&"netns,0,flow,video,loss,0.25"));
        assert!(lines.contains(&"netns,1,flow,download-1,tasks_done,3"));
        assert!(lines.contains(&"netns,1,flow,audio,delay_max_ms,60"));
        assert!(lines.contains(&"netns,1,queue,router -> client,backlog_packets,48"));
    }

    #[test]
    fn times_have_no_rounding_errors() {
        let mut report = sample::report("sqf", 0.0);
        report.queues[0].series_step_s = 0.1;
        report.queues[0].backlog_series = vec![0.0; 40];
        let text = series(&[report]);
        assert!(text.contains("\nnetns,0.3,queue,"), "{text}");
        assert!(!text.contains("0000000"), "{text}");
    }
}
