// SPDX-License-Identifier: MIT OR Apache-2.0
//! CHOKe's draws. A place that was left by a packet from the middle is drawn again; places that were left are
//! forgotten at the front, and everywhere when they are more than the others.

use makeway_core::packet::DropReason;
use makeway_core::random::Rng;

pub struct Choke {
    /// Possible states of the generator; one, but for close calls of the average.
    worlds: Vec<Rng>,
    /// Whether a packet is at each place.
    places: Vec<bool>,
}

impl Choke {
    pub fn new(seed: u64) -> Self {
        Self {
            worlds: vec![Rng::new(!seed)],
            places: Vec::new(),
        }
    }

    pub fn arrive(&mut self) {
        self.places.push(true);
    }

    /// Which of `held` packets an arriving one meets and goes with. `is_met` says of a candidate whether it is of the
    /// same flow, and whether it is the one that the discipline dropped, if it dropped any.
    pub fn meet(
        &mut self,
        compares: Option<bool>,
        held: usize,
        seen: Option<DropReason>,
        is_met: impl Fn(&usize) -> (bool, bool),
    ) -> Option<usize> {
        if compares == Some(false) || held == 0 {
            return None;
        }
        let mut all = Vec::new();
        for world in &self.worlds {
            if compares.is_none() {
                all.push((world.clone(), None));
            }
            let mut drawn = world.clone();
            let at = self.draw(&mut drawn);
            all.push((drawn, Some(at).filter(|at| is_met(at).0)));
        }
        let was_seen = |met: &Option<usize>| match met {
            Some(at) => seen == Some(DropReason::Match) && is_met(at).1,
            None => seen != Some(DropReason::Match),
        };
        let verdict = all.iter().find(|(_, met)| was_seen(met));
        let verdict = verdict.map_or(all[0].1, |(_, met)| *met);
        all.retain(|(_, met)| *met == verdict);
        self.worlds.clear();
        for (world, _) in all {
            if !self.worlds.contains(&world) {
                self.worlds.push(world);
            }
        }
        verdict
    }

    /// The one that is drawn, counted among packets.
    fn draw(&self, rng: &mut Rng) -> usize {
        loop {
            let place = rng.below(self.places.len() as u32) as usize;
            if self.places[place] {
                return self.places[..place].iter().filter(|is| **is).count();
            }
        }
    }

    /// The `at`-th packet has left.
    pub fn remove(&mut self, at: usize) {
        let mut taken = (0..self.places.len()).filter(|place| self.places[*place]);
        let place = taken.nth(at).expect("a packet at that place");
        self.places[place] = false;
        while self.places.first() == Some(&false) {
            self.places.remove(0);
        }
        let packets = self.places.iter().filter(|is| **is).count();
        if self.places.len() > 2 * packets {
            self.places.retain(|is| *is);
        }
    }
}
