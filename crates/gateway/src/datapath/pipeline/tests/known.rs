// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of flows, for as long as the discipline knows these.

use super::*;

#[test]
fn a_flow_in_standing_keeps_its_number_for_30_s_from_its_last_departure_on() {
    let mut config = config(8, Some(Rate::from_bps(8_000)));
    config.spec = Discipline::Makeway.spec();
    let mut verdicts = Verdicts::new(1, 4096);
    let mut pipeline = Pipeline::new(Instant::ZERO, &config).unwrap();
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    // A packet takes 1 s; the last one waits for that of another flow.
    let packets = [(0, 1), (1500, 1), (3000, 1), (6000, 2), (6000, 1)];
    for (id, (ms, flow)) in (0..).zip(packets) {
        arrive(&mut pipeline, at(ms), id, flow, &mut verdicts);
    }
    pipeline.drain(at(7000), &mut verdicts);
    // More than all 64 numbers.
    for flow in 100..200 {
        arrive(&mut pipeline, at(36_500), flow.into(), flow, &mut verdicts);
    }
    let mut flows = pipeline.stats(at(36_500)).flows.into_iter();
    assert!(flows.any(|flow| flow.standing == Some(Class::Standing)));
}
