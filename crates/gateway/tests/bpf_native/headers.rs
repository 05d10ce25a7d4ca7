// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arithmetic of the headers against core's, and against plain sets and numbers where core has it to itself.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use bytemuck::{Pod, Zeroable, cast_slice};
use makeway_core::framing::Framing;
use makeway_core::sched::order::{Buckets, Order, Position};
use makeway_core::units::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Native, framing};

/// `struct question` of `bpf/native/headers.c`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Question {
    what: u64,
    of: [u64; 6],
}

/// `enum what` there.
#[derive(Clone, Copy)]
enum What {
    Wire,
    Segments,
    Insert,
    Remove,
    First,
    Last,
    Update,
    Shortest,
    Longest,
    Product,
    Over,
    Ratio,
}

fn question<const N: usize>(what: What, operands: [u64; N]) -> Question {
    let mut of = [0; 6];
    of[..N].copy_from_slice(&operands);
    Question {
        what: what as u64,
        of,
    }
}

/// The answers, one for each question.
fn ask(questions: &[Question]) -> Vec<u128> {
    static NATIVE: LazyLock<Native> =
        LazyLock::new(|| Native::compile("headers", "headers.c", &[]));
    let answers: Vec<[u64; 2]> = NATIVE.run(cast_slice(questions).to_vec());
    let answers = answers
        .iter()
        .map(|&[high, low]| u128::from(high) << 64 | u128::from(low));
    let answers: Vec<u128> = answers.collect();
    assert_eq!(answers.len(), questions.len());
    answers
}

/// The operands of a framing.
fn of(framing: Framing) -> [u64; 3] {
    [
        framing.overhead as u64,
        framing.mpu.into(),
        framing.cells as u64,
    ]
}

/// As many operands as the loader lets there be, and of all magnitudes.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(x, bits)| x >> bits)
}

proptest! {
    #[test]
    fn framing_is_cores(of_each in vec((framing(), 1u32..600_000, 2u32..400, 1u32..9000), 1..200)) {
        let questions: Vec<_> = of_each.iter().flat_map(|&(framing, len, segs, full)| {
            let [overhead, mpu, cells] = of(framing);
            let last = u64::from(len % full + 1);
            let (len, segs, full) = (len.into(), segs.into(), full.into());
            [
                question(What::Wire, [overhead, mpu, cells, len]),
                question(What::Segments, [overhead, mpu, cells, segs, full, last]),
            ]
        }).collect();
        let answers = ask(&questions);
        for (&(framing, len, segs, full), answers) in of_each.iter().zip(answers.chunks(2)) {
            let wire = |len: u32| u128::from(framing.wire(Bytes::new(len.into())).get());
            prop_assert_eq!(answers[0], wire(len));
            let segments = u128::from(segs - 1) * wire(full) + wire(len % full + 1);
            prop_assert_eq!(answers[1], segments);
        }
    }

    #[test]
    fn the_bitmap_is_a_set(changes in vec((0u64..1 << 18, 0u64..8, any::<bool>()), 1..1000)) {
        let (mut set, mut questions, mut expected) = (BTreeSet::new(), Vec::new(), Vec::new());
        for (i, few, add) in changes {
            // Few values beside many, so that some are removed again, and words run empty.
            let i = if few < 4 { i } else { i / 32_771 * 32_771 };
            questions.push(question(if add { What::Insert } else { What::Remove }, [i]));
            expected.push(0);
            if add {
                set.insert(i);
            } else {
                set.remove(&i);
            }
            if let (Some(first), Some(last)) = (set.first(), set.last()) {
                questions.extend([question(What::First, []), question(What::Last, [])]);
                expected.extend([*first, *last].map(u128::from));
            }
        }
        prop_assert_eq!(ask(&questions), expected);
    }

    #[test]
    fn shortest_and_longest_are_cores(changes in vec((1u32..200, backlog()), 1..2000)) {
        let mut buckets = Buckets::new(200, LIMIT, 7);
        let mut held = [0; 200];
        let (mut questions, mut expected) = (Vec::new(), Vec::new());
        for (flow, bytes) in changes {
            let old = held[flow as usize];
            // The limit holds but for one packet, which may be one of BIG TCP.
            if held.iter().sum::<u32>() - old + bytes > LIMIT + (600 << 10) {
                continue;
            }
            held[flow as usize] = bytes;
            let position = |bytes| Position { node: flow, bytes };
            buckets.update(position(old), position(bytes));
            questions.push(question(What::Update, [flow, old, bytes].map(u64::from)));
            expected.push(0);
            if let (Some(shortest), Some(longest)) = (buckets.shortest(), buckets.longest()) {
                questions.extend([question(What::Shortest, []), question(What::Longest, [])]);
                expected.extend([shortest.node, longest.node].map(u128::from));
            }
        }
        prop_assert_eq!(ask(&questions), expected);
    }

    #[test]
    fn wide_numbers_are_those_of_128_bits(all in vec([number(), number(), number(), number()], 1..300)) {
        let wide = |high, low| u128::from(high) << 64 | u128::from(low);
        let (mut questions, mut expected) = (Vec::new(), Vec::new());
        for [a, b, c, d] in all {
            questions.push(question(What::Product, [a, b]));
            expected.push(u128::from(a) * u128::from(b));
            if let Some(quotient) = wide(a, b).checked_div(c.into()) {
                questions.push(question(What::Over, [a, b, c]));
                expected.push(quotient);
            }
            if let Some(ratio) = wide(a, b).checked_div(wide(c, d)) {
                questions.push(question(What::Ratio, [a, b, c, d]));
                expected.push(ratio);
            }
        }
        prop_assert_eq!(ask(&questions), expected);
    }
}

/// As many flows beyond the window as the limit allows, and one large packet more, before another is dropped for it.
#[test]
fn the_order_holds_all_flows_that_can_be_beyond_its_window() {
    let window = 1 << 18;
    let flows = 1..=u64::from(LIMIT) / window + 1;
    let mut questions: Vec<_> = flows
        .clone()
        .map(|flow| question(What::Update, [flow, 0, window + flow % 2]))
        .collect();
    // One after the other leaves, the shortest first.
    let by_backlog = flows.clone().filter(|flow| flow % 2 == 0);
    let in_order: Vec<u64> = by_backlog
        .chain(flows.filter(|flow| flow % 2 == 1))
        .collect();
    for &flow in &in_order {
        questions.push(question(What::Shortest, []));
        questions.push(question(What::Update, [flow, window + flow % 2, 0]));
    }
    let answers = ask(&questions);
    let shortest = answers[in_order.len()..].chunks(2).map(|pair| pair[0]);
    assert!(shortest.eq(in_order.into_iter().map(u128::from)));
}

/// `LIMIT_BYTES` of `bpf/pool.h`.
const LIMIT: u32 = 16 << 20;

/// Ties, the edge of the window of 2^18, and what is far beyond it.
fn backlog() -> impl Strategy<Value = u32> {
    prop_oneof![
        1 => Just(0),
        3 => 1u32..20,
        2 => 1u32..1 << 18,
        3 => (1u32 << 18) - 2..(1 << 18) + 3,
        4 => Just(1u32 << 18),
        1 => 1u32 << 18..2 << 20,
    ]
}
