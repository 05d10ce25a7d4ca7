// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Application Satisfaction Index: do applications that send little wait little?
//!
//! Source: Mamatas, Tsaoussidis, "Differentiating Services with Non-Congestive Queuing (NCQ)", section 5.2.2.
//!
//! | paper | here |
//! | --- | --- |
//! | Delay_i | [`Service::delay`] |
//! | Data_i | [`Service::data`] |
//! | Delay_max | `max_delay` |
//!
//! Departures from the paper: its absolute value stands round the sum. The shares of the data add up to 1, so
//! that the sum is `sum of Delay_i - Delay_max` for every division of the data, and a wait that is too long makes up for one
//! that is too short. [`asi`] takes the absolute value of each term; [`asi_as_printed`] is the printed form.

/// Sent data and waiting time of a flow, or of a class of flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// Mean queueing delay, 0 to `max_delay`.
    pub delay: f64,
    /// Delivered data, 0 or more, in any unit.
    pub data: f64,
}

/// 1 if each waits in proportion to its data, 0 if each is as far from that as it can be.
///
/// `max_delay` is the largest queueing delay of all packets, in the unit of the delays. `None` without
/// flows, without data or if nothing waited.
pub fn asi(flows: &[Service], max_delay: f64) -> Option<f64> {
    let total: f64 = flows.iter().map(|flow| flow.data).sum();
    let apart = flows
        .iter()
        .map(|flow| (flow.delay - flow.data / total * max_delay).abs());
    index(flows.len(), total, max_delay, apart.sum())
}

/// The same with the absolute value round the sum: `1 - |sum of Delay_i - Delay_max| / (n Delay_max)`.
pub fn asi_as_printed(flows: &[Service], max_delay: f64) -> Option<f64> {
    let total: f64 = flows.iter().map(|flow| flow.data).sum();
    let delays: f64 = flows.iter().map(|flow| flow.delay).sum();
    index(flows.len(), total, max_delay, (delays - max_delay).abs())
}

fn index(flows: usize, total: f64, max_delay: f64, apart: f64) -> Option<f64> {
    (total > 0.0 && max_delay > 0.0).then(|| 1.0 - apart / (flows as f64 * max_delay))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(flows: &[(f64, f64)]) -> Vec<Service> {
        let service = |&(delay, data)| Service { delay, data };
        flows.iter().map(service).collect()
    }

    #[test]
    fn waits_in_proportion_to_data_are_satisfying() {
        assert_eq!(asi(&of(&[(1.0, 10.0), (3.0, 30.0)]), 4.0), Some(1.0));
    }

    #[test]
    fn one_queue_for_a_call_and_a_download_is_worse_than_two() {
        // A hundredth of the data. All wait 50 of at most 100 ms: |50 - 1| + |50 - 99| of 200.
        let fifo = asi(&of(&[(50.0, 1.0), (50.0, 99.0)]), 100.0).unwrap();
        assert!((fifo - 0.51).abs() < 1e-12);
        // The call waits 2 ms: 1 + 49 of 200.
        let first = asi(&of(&[(2.0, 1.0), (50.0, 99.0)]), 100.0).unwrap();
        assert!((first - 0.75).abs() < 1e-12);
    }

    #[test]
    fn as_printed_it_does_not_see_who_sent_what_nor_who_waited() {
        let [right, turned, alike] = [
            of(&[(2.0, 1.0), (98.0, 99.0)]),
            of(&[(98.0, 1.0), (2.0, 99.0)]),
            of(&[(50.0, 1.0), (50.0, 99.0)]),
        ];
        for flows in [&right, &turned, &alike] {
            assert_eq!(asi_as_printed(flows, 100.0), Some(1.0));
        }
        let [right, turned, alike] = [right, turned, alike].map(|f| asi(&f, 100.0).unwrap());
        assert!(turned < alike && alike < right);
    }

    #[test]
    fn nothing_that_waited_or_was_sent_has_no_index() {
        assert_eq!(asi(&[], 1.0), None);
        assert_eq!(asi(&of(&[(0.0, 1.0)]), 0.0), None);
        assert_eq!(asi(&of(&[(1.0, 0.0)]), 1.0), None);
    }

    proptest! {
        #[test]
        fn it_is_from_0_to_1_and_knows_no_units(
            flows in prop::collection::vec((0.0f64..1.0, 0.0f64..1e6), 1..20), unit in 1e-3f64..1e3,
        ) {
            let services = of(&flows);
            let scaled: Vec<(f64, f64)> = flows.iter().map(|&(d, s)| (d * unit, s / unit)).collect();
            for form in [asi, asi_as_printed] {
                let Some(got) = form(&services, 1.0) else { continue };
                prop_assert!((-1e-12..=1.0 + 1e-12).contains(&got));
                let again = form(&of(&scaled), unit).unwrap();
                prop_assert!((again - got).abs() < 1e-9);
            }
            let [ours, printed] = [asi, asi_as_printed].map(|form| form(&services, 1.0));
            prop_assert!(ours <= printed.map(|index| index + 1e-12));
        }
    }
}
