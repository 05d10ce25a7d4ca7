// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::sched::testing::{limits, packet, run};
use crate::sched::{Discipline, Spec};

const BULK: u64 = 1000;
const SHORT: u64 = 100;

fn ncq(change: impl FnOnce(&mut NcqParams)) -> Ncq {
    ncq_on(Framing::default(), change)
}

fn ncq_on(framing: Framing, change: impl FnOnce(&mut NcqParams)) -> Ncq {
    let mut params = NcqParams::default();
    change(&mut params);
    let env = Env {
        framing,
        ..Env::new(limits(10_000, 10_000_000))
    };
    Ncq::new(&env, params)
}

fn threshold(n: u64, d: u64) -> impl FnOnce(&mut NcqParams) {
    move |params| params.threshold = Fraction::ratio(n, d)
}

/// Whether each of `packets` is favoured; what was favoured leaves at once.
fn favoured(ncq: &mut Ncq, packets: impl Iterator<Item = Packet>) -> Vec<bool> {
    let mut drops = Drops::default();
    let favoured = packets.map(|pkt| {
        let before = ncq.counts().favoured;
        ncq.enqueue(pkt.arrived, pkt, &mut drops);
        let is_favoured = ncq.counts().favoured > before;
        if is_favoured || ncq.backlog().packets > 100 {
            ncq.dequeue(pkt.arrived, &mut drops);
        }
        is_favoured
    });
    let favoured = favoured.collect();
    assert!(drops.is_empty());
    favoured
}

/// Numbers of the packets in the order of their departures.
fn order(ncq: &mut Ncq, packets: impl Iterator<Item = Packet>) -> Vec<u32> {
    run(ncq, packets).iter().map(|pkt| pkt.handle.0).collect()
}

fn count(favoured: &[bool]) -> usize {
    favoured.iter().filter(|was| **was).count()
}

fn at(us: u64, mut pkt: Packet) -> Packet {
    pkt.arrived = Instant::ZERO + Duration::from_micros(us);
    pkt
}

#[test]
fn the_pseudo_code_is_followed_packet_by_packet() {
    // favoured / received < 1/4, with the packet itself received: 0/1, 1/2, 1/3, 1/4, 1/5, ...
    let short = (0..9).map(|n| packet(n, n, SHORT));
    let seen = favoured(&mut ncq(threshold(1, 4)), short);
    let yes: Vec<usize> = (0..9).filter(|n| seen[*n]).collect();
    assert_eq!(yes, [0, 4, 8]);
}

#[test]
fn short_packets_overtake_and_leave_in_their_order() {
    let bulk = (0..40).map(|n| packet(n, n % 2, BULK));
    let short = (40..42).map(|n| packet(n, n, SHORT));
    let order = order(&mut ncq(|_| {}), bulk.chain(short));
    assert_eq!(order[..3], [40, 41, 0]);
}

#[test]
fn short_is_below_the_length_and_the_wire_is_seen_through() {
    let seen = favoured(
        &mut ncq(threshold(1, 1)),
        [129, 130].map(|len| packet(0, 0, len)).into_iter(),
    );
    assert_eq!(seen, [true, false]);
    // IP packets of 129 and 130 bytes.
    let mut on_ethernet = ncq_on(Framing::ETHERNET, threshold(1, 1));
    let lens = [129, 130].map(|len| Framing::ETHERNET.wire(Bytes::new(len)).get());
    let seen = favoured(
        &mut on_ethernet,
        lens.map(|len| packet(0, 0, len)).into_iter(),
    );
    assert_eq!((lens, seen), ([167, 168], vec![true, false]));
}

#[test]
fn a_threshold_of_one_is_strict_priority_and_of_zero_a_fifo() {
    let all = || (0..50).map(|n| packet(n, n, if n % 2 == 0 { BULK } else { SHORT }));
    let odd_first = (0..50).filter(|n| n % 2 == 1);
    let strict: Vec<u32> = odd_first.chain((0..50).step_by(2)).collect();
    assert_eq!(order(&mut ncq(threshold(1, 1)), all()), strict);
    let arrived: Vec<u32> = (0..50).collect();
    assert_eq!(order(&mut ncq(threshold(0, 1)), all()), arrived);
}

#[test]
fn over_a_window_what_was_long_ago_is_no_credit() {
    // After 10 000 bulk packets f < 0.05 (10 000 + f) short ones may go first, with the one that is asked about; a
    // window of 1000 lets 50 do so.
    let all = || {
        let bulk = (0..10_000).map(|n| packet(n, 0, BULK));
        bulk.chain((0..1000).map(|n| packet(n, 1, SHORT)))
    };
    let for_ever = favoured(&mut ncq(|_| {}), all());
    assert_eq!(
        for_ever[10_000..].iter().take_while(|was| **was).count(),
        527
    );
    let window = favoured(&mut ncq(|params| params.window = Some(1000)), all());
    assert_eq!(count(&window), 50);
    assert!(window[10_000..10_050].iter().all(|was| *was));
}

#[test]
fn of_any_window_no_more_than_its_share_is_favoured() {
    let mut rng = Rng::new(7);
    let lens: Vec<u64> = (0..20_000)
        .map(
            |n| match rng.below(if n / 1000 % 2 == 0 { 2 } else { 50 }) {
                0 => SHORT,
                _ => BULK,
            },
        )
        .collect();
    let packets = lens.iter().map(|len| packet(0, 0, *len));
    let seen = favoured(&mut ncq(|params| params.window = Some(200)), packets);
    let most = seen.windows(200).map(count).max();
    assert_eq!(most, Some(10));
}

/// The first of each ten packets is of flow 1 and the sixth of flow 2, both short.
fn in_step() -> impl Iterator<Item = Packet> {
    (0..100_000).map(|n| match n % 10 {
        0 => packet(n, 1, SHORT),
        5 => packet(n, 2, SHORT),
        _ => packet(n, 0, BULK),
    })
}

#[test]
fn chance_gives_flows_in_step_the_same_share_where_the_hard_threshold_gives_one_all() {
    // A fifth of the packets are short and a tenth may be favoured.
    let of_flows = |probabilistic| {
        let mut ncq = ncq(|params| {
            params.threshold = Fraction::ratio(1, 10);
            params.probabilistic = probabilistic;
        });
        let seen = favoured(&mut ncq, in_step());
        [0, 5].map(|phase| {
            count(
                &seen
                    .iter()
                    .skip(phase)
                    .step_by(10)
                    .copied()
                    .collect::<Vec<_>>(),
            )
        })
    };
    let [first, second] = of_flows(false);
    assert!(
        first + second == 10_000 && first.min(second) <= 1,
        "{first} {second}"
    );
    // 10 000 with a chance of a half each: five standard deviations are 250.
    for n in of_flows(true) {
        assert!(n.abs_diff(5000) < 250, "{n}");
    }
}

#[test]
fn chance_favours_everybody_below_the_threshold_and_its_share_above() {
    for (every, expected) in [(25, 4000), (10, 5000), (2, 5000)] {
        let mut ncq = ncq(|params| params.probabilistic = true);
        // The first of `every` is bulk, so that nobody meets the threshold before there is a share.
        let len = |n: u32| if n % every == every - 1 { SHORT } else { BULK };
        let seen = favoured(&mut ncq, (0..100_000).map(|n| packet(n, 0, len(n))));
        // sqrt(50 000 * 0.1 * 0.9) = 67.
        let most = if every == 25 { 0 } else { 5 * 67 };
        assert!(
            count(&seen).abs_diff(expected) <= most,
            "{every} {}",
            count(&seen)
        );
    }
}

#[test]
fn acknowledgements_are_favoured_only_if_asked_for() {
    for control in [false, true] {
        let mut ncq = ncq(|params| params.control = control);
        let seen = favoured(&mut ncq, [packet(0, 0, 40).with_control()].into_iter());
        assert_eq!(seen, [control]);
        // Long control is no shorter for it.
        let seen = favoured(&mut ncq, [packet(0, 0, 140).with_control()].into_iter());
        assert_eq!(seen, [false]);
    }
}

#[test]
fn a_flow_of_long_packets_is_favoured_while_its_rate_is_low() {
    // 1000 B each 125 ms are 64 kbit/s; each 120 ms are more.
    let slow = |us: u64| {
        let mut ncq = ncq(|params| {
            params.threshold = Fraction::ONE;
            params.low_rate = Some(LowRate {
                rate: Rate::from_bps(64_000),
                burst: Bytes::new(2000),
            });
        });
        let packets = (0..1000).map(|n| at(n * us, packet(n as u32, 0, 1000)));
        let seen = favoured(&mut ncq, packets);
        // Quiet for a bucket, 250 ms, and a packet's own share: low again.
        let late = at(1000 * us + 375_000, packet(0, 0, 1000));
        (count(&seen), favoured(&mut ncq, [late].into_iter()))
    };
    assert_eq!(slow(125_000), (1000, vec![true]));
    let (early, again) = slow(120_000);
    // The second kB of the bucket is used up 5 ms at a time.
    assert_eq!((early, again), (26, vec![true]));
}

#[test]
fn a_packet_behind_its_own_successor_is_counted_and_may_be_forbidden() {
    // Flow 0 has two long packets, then a short one, then a long one; flow 1 disturbs nobody.
    let packets = [(0, BULK), (0, BULK), (0, SHORT), (0, BULK), (1, SHORT)];
    let packets = || {
        (0..)
            .zip(packets)
            .map(|(n, (flow, len))| packet(n, flow, len))
    };
    let run = |keep_order| {
        let mut ncq = ncq(|params| {
            params.threshold = Fraction::ONE;
            params.keep_order = keep_order;
        });
        (order(&mut ncq, packets()), ncq.counts())
    };
    let counts = |favoured, reordered| Counts {
        favoured,
        reordered,
        ..Counts::default()
    };
    assert_eq!(run(false), (vec![2, 4, 0, 1, 3], counts(2, 2)));
    assert_eq!(run(true), (vec![4, 0, 1, 2, 3], counts(1, 0)));
}

#[test]
fn a_full_buffer_refuses_who_comes_or_gives_up_the_last_unfavoured() {
    let lens = [BULK, BULK, BULK, SHORT, SHORT, SHORT, SHORT];
    let run = |push_out| {
        let params = NcqParams {
            threshold: Fraction::ONE,
            push_out,
            ..NcqParams::default()
        };
        let mut ncq = Ncq::new(&Env::new(limits(3, 10_000)), params);
        let mut drops = Drops::default();
        for (n, len) in (0..).zip(lens) {
            ncq.enqueue(Instant::ZERO, packet(n, n, len), &mut drops);
        }
        let favoured = ncq.counts().favoured;
        let dropped: Vec<_> = drops
            .drain()
            .map(|(pkt, why)| (pkt.handle.0, why))
            .collect();
        (favoured, dropped)
    };
    let tail = |handles: [u32; 4]| handles.map(|n| (n, DropReason::Tail)).to_vec();
    assert_eq!(run(false), (0, tail([3, 4, 5, 6])));
    // The last finds only favoured ones.
    assert_eq!(run(true), (3, tail([2, 1, 0, 6])));
}

#[test]
fn on_a_link_a_full_buffer_gives_up_the_last_unfavoured_and_no_other_parameter_differs() {
    let params = NcqParams {
        push_out: true,
        ..NcqParams::default()
    };
    assert_eq!(Discipline::Ncq.on_a_link(), Spec::Ncq(params));
    let others = Discipline::ALL
        .into_iter()
        .filter(|one| *one != Discipline::Ncq);
    for other in others {
        assert_eq!(other.on_a_link(), other.spec(), "{other}");
    }
}

/// Bulk and short packets in turn, `short` of a hundred, into a buffer that is never empty; the threshold after
/// each hundred.
fn saturated(ncq: &mut Ncq, short: u32, hundreds: u32) -> Vec<Fraction> {
    let mut drops = Drops::default();
    let mut thresholds = Vec::new();
    for n in 0..100 * hundreds {
        let len = if n % 100 * short % 100 < short {
            SHORT
        } else {
            BULK
        };
        ncq.enqueue(Instant::ZERO, packet(n, 0, len), &mut drops);
        if ncq.backlog().packets > 50 {
            ncq.dequeue(Instant::ZERO, &mut drops);
        }
        if n % 100 == 99 {
            thresholds.push(ncq.threshold());
        }
    }
    thresholds
}

/// The threshold follows the extra wait of the others, 1 %.
fn follows_its_outcome(threshold: Fraction) -> Ncq {
    ncq(|params| {
        params.threshold = threshold;
        params.window = Some(1000);
        params.extra_wait = Some(Fraction::ratio(1, 100));
    })
}

#[test]
fn a_threshold_that_follows_its_outcome_halves_its_error_and_settles() {
    // Of 100 packets, 73 kB, 100 T of 100 B go first: T 10 kB over 73 kB - T 10 kB is 1 % at T = 730 / 10 100,
    // 0.072277.
    for begin in [1, 100, 500, 990] {
        let mut ncq = follows_its_outcome(Fraction::ratio(begin, 1000));
        let millionths = |t: &Fraction| (u128::from(t.scaled()) * 1_000_000) >> Fraction::BITS;
        let thresholds = saturated(&mut ncq, 30, 1000);
        // A window of 1000 favours whole packets: 72 or 73.
        let settled = 71_500..73_000;
        let last: Vec<u128> = thresholds[800..].iter().map(millionths).collect();
        assert!(
            last.iter().all(|t| settled.contains(t)),
            "from {begin}: {last:?}"
        );
    }
}

#[test]
fn a_threshold_above_what_is_asked_for_stays_where_it_is() {
    // Two packets in a hundred cost less than 1 %, and nobody is kept back.
    let mut ncq = follows_its_outcome(Fraction::ratio(1, 10));
    let thresholds = saturated(&mut ncq, 2, 500);
    assert!(thresholds.iter().all(|t| *t == Fraction::ratio(1, 10)));
}
