// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that change no class.

use super::question::ASKED_OF;
use super::*;
use crate::random::Rng;
use alloc::format;

fn any_bytes(rng: &mut Rng) -> u32 {
    let bits = rng.below(21);
    rng.below(1 << bits)
}

/// Any record, with times before and after each bound, and bytes of each magnitude.
fn any_record(rng: &mut Rng, now: Instant) -> (Record, Past) {
    let mut ago = || {
        let most = [300, 2_500, 10_000, 70_000][rng.below(4) as usize];
        let ago = u64::from(rng.below(most)) * 1_000_000;
        Instant::from_nanos(now.as_nanos() - ago)
    };
    let [since, offence, busy] = [(); 3].map(|()| ago());
    let [came, arrivals, losses, wait, held, proven] = [(); 6].map(|()| any_bytes(rng));
    let [own, own_most, before, fell, last, peak] = [(); 6].map(|()| any_bytes(rng));
    let mut below = |n: u32| rng.below(n);
    let record = Record {
        class: Class::ALL[below(4) as usize],
        known: true,
        demerits: below(u32::from(DEMERITS_MOST) + 1) as u8,
        question: [
            Question::None,
            Question::Asked,
            Question::Waits,
            Question::After,
        ][below(4) as usize],
        packets: below(3),
        since,
        busy,
        seen: now,
        credit: i64::from(below(4000)) * 1_000_000 - 1_000_000_000,
        window: window(now) - below(3),
        came,
        arrivals,
        wait,
    };
    let past = Past {
        offence,
        losses,
        held,
        proven,
        own,
        own_most,
        before,
        fell,
        last,
        peak,
        starved: below(4) as u8,
        grew: below(u32::from(GREW_MOST) + 1) as u8,
        due: below(u32::from(ASKED_OF)) as u8,
        hogs: below(2) == 0,
        is_large: below(2) == 0,
        filled: below(2) == 0,
        tested: below(2) == 0,
        silent: below(SILENT_MOST + 1) as u8,
        drowned: below(u32::from(FLOODS) + 1) as u8,
        ..Past::default()
    };
    (record, past)
}

fn any_link(rng: &mut Rng) -> Link {
    let [sent, standing, new, raised] = [(); 4].map(|()| u64::from(any_bytes(rng)));
    let [contended, quiet, crowded, others] = [(); 4].map(|()| rng.below(2) == 0);
    Link {
        sent,
        standing,
        new,
        contended,
        quiet,
        crowded,
        raised,
        others,
    }
}

#[test]
fn a_settled_record_is_judged_to_be_as_it_is() {
    let mut rng = Rng::new(1);
    let now = at(200, 100);
    let mut settled = [0; 4];
    for _ in 0..50_000 {
        let (record, past) = any_record(&mut rng, now);
        let link = any_link(&mut rng);
        if record.is_settled(now, &past) {
            settled[record.class as usize] += 1;
            let (mut judged, mut after) = (record.clone(), past.clone());
            judged.judge(now, link, &mut after);
            let [judged, record] = [(judged, after), (record, past)].map(|all| format!("{all:?}"));
            assert_eq!(judged, record, "{link:?}");
        }
    }
    let [new, standing, bulk, probation] = settled;
    assert!([new, standing, bulk].iter().all(|n| *n > 500) && probation == 0);
}
