// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases drawn at random, for a judgement by cases that no rule was chosen on.

use makeway_core::random::Rng;

use super::cases::{Beside, Case, WIDE};

/// Cases without end, the same for a seed.
pub fn cases(seed: u64) -> impl Iterator<Item = Case> {
    let mut rng = Rng::new(seed);
    std::iter::from_fn(move || Some(draw(&mut rng)))
}

/// A stream of 3 to 6 tenths of the link beside downloads, and now and then beside something else.
fn draw(rng: &mut Rng) -> Case {
    let rate = one_of(rng, &[1.0, 2.0, 4.0, 6.0, 10.0, 15.0, 20.0, 50.0, 100.0]);
    let video = rate * f64::from(30 + rng.below(31)) / 100.0;
    let flood = (rate * f64::from(30 + rng.below(121)) / 100.0).ceil() as u32;
    let beside = one_of(
        rng,
        &[
            Beside::Nothing,
            Beside::Nothing,
            Beside::Nothing,
            Beside::Nothing,
            Beside::Flood(flood),
            Beside::Page(8),
            Beside::Dash,
            Beside::Files,
        ],
    );
    let downloads = one_of(rng, &[1, 2, 3, 5, 8, 12, 20, 40, 100]);
    Case {
        name: "drawn",
        rate,
        rtt: f64::from(between(rng, 5, 200)),
        limit: between(rng, 50, 1000),
        downloads,
        // All have begun after 8 s.
        stagger: one_of(rng, &[20, 80, 700]).min(8000 / downloads),
        congestion_control: one_of(rng, &["cubic", "cubic", "cubic", "reno", "ledbat"]),
        ecn: rng.below(8) == 0,
        // Streams of more than 20 Mbit/s are rare.
        video: (video.min(20.0) * 10.0).round() / 10.0,
        pace: one_of(rng, &["480ms", "frame", "frame", "burst"]),
        jitter: one_of(rng, &[0, 0, 0, 5]),
        start: one_of(rng, &[0, 0, 6, 10]),
        stall: one_of(rng, &[0, 0, 0, 0, 0, 0, 40, 200]),
        users: rng.below(5) == 0,
        beside,
        duration: 30,
        ..WIDE
    }
}

fn one_of<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u32) as usize]
}

/// From `least` to `most`, as often between 50 and 100 as between 100 and 200.
fn between(rng: &mut Rng, least: u32, most: u32) -> u32 {
    let part = f64::from(rng.below(1 << 16)) / f64::from(1 << 16);
    let ratio = f64::from(most) / f64::from(least);
    (f64::from(least) * ratio.powf(part)).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_its_cases_and_all_are_in_their_ranges() {
        let of = |seed| cases(seed).take(300).collect::<Vec<_>>();
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
        for case in of(3) {
            assert!((5.0..=200.0).contains(&case.rtt) && (50..=1000).contains(&case.limit));
            let share = case.video / case.rate;
            assert!((0.19..=0.65).contains(&share), "{share} of {}", case.rate);
        }
        assert!(of(3).iter().any(|case| case.users));
        assert!(
            of(3)
                .iter()
                .any(|case| matches!(case.beside, Beside::Flood(_)))
        );
    }
}
