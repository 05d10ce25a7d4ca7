// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use proptest::prelude::*;

/// Backlogs and since when, in a list.
#[derive(Default)]
struct Naive(Vec<(u32, u32)>);

impl Naive {
    fn update(&mut self, flow: u32, new: u32) {
        self.0.retain(|(f, _)| *f != flow);
        if new > 0 {
            self.0.push((flow, new));
        }
    }

    fn first_with(&self, bytes: Option<u32>) -> Option<u32> {
        let with = self.0.iter().find(|(_, b)| Some(*b) == bytes);
        with.map(|(flow, _)| *flow)
    }
}

fn agrees<O: Order>(limit: u32, ops: &[(u32, u32)]) {
    let (mut order, mut naive) = (O::new(48, limit, 7), Naive::default());
    let mut positions = [0; 16].map(|bytes| Position { node: NIL, bytes });
    for (n, &(flow, bytes)) in ops.iter().enumerate() {
        // Each flow has three nodes, of which it takes one or another.
        let node = flow + 16 * (n as u32 % 3);
        let new = Position { node, bytes };
        order.update(positions[flow as usize], new);
        positions[flow as usize] = new;
        naive.update(flow, bytes);
        let least = naive.0.iter().map(|(_, b)| *b).min();
        let most = naive.0.iter().map(|(_, b)| *b).max();
        let position = |flow: u32| positions[flow as usize];
        assert_eq!(order.shortest(), naive.first_with(least).map(position));
        assert_eq!(order.longest(), naive.first_with(most).map(position));
    }
}

proptest! {
    #[test]
    fn every_structure_gives_the_exact_shortest_and_longest(
        window in 2u32..19,
        ops in proptest::collection::vec((0u32..16, prop_oneof![
            Just(0u32),
            1u32..40,
            // On both sides of the window of 2^18.
            262_130u32..262_160,
            any::<u32>(),
        ]), 0..200),
    ) {
        let limit = (1 << window) - 1;
        agrees::<Buckets>(limit, &ops);
        agrees::<Tree>(limit, &ops);
        agrees::<Heaps>(limit, &ops);
    }
}
