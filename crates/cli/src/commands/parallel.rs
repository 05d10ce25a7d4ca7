// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbered pieces of work on some threads, and their results in order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Cores of this machine.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work` for 0, 1, 2 and so on up to `count`, `jobs` at a time, and gives the results to `take`
/// in this order, not in the order of completion: the input of `take` does not depend on `jobs`. When it
/// breaks, `stop` is set, so that work that can see it ends early, and no other result is taken.
pub fn in_order<T: Send>(
    count: usize,
    jobs: usize,
    stop: &AtomicBool,
    work: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(T) -> ControlFlow<()>,
) {
    let next = AtomicUsize::new(0);
    let (send, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, count.max(1)) {
            let (send, next, work) = (send.clone(), &next, &work);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    // The receiver is gone after a break.
                    if number >= count || send.send((number, work(number))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut early = BTreeMap::new();
        let mut wanted = 0;
        for (number, result) in results {
            early.insert(number, result);
            while let Some(result) = early.remove(&wanted) {
                wanted += 1;
                if take(result).is_break() {
                    stop.store(true, Ordering::Relaxed);
                    return;
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Earlier numbers take longer, so that results come out of order.
    fn slow_first(number: usize) -> usize {
        thread::sleep(Duration::from_millis(
            20_u64.saturating_sub(2 * number as u64),
        ));
        number
    }

    #[test]
    fn results_come_in_order_and_all_of_them() {
        for jobs in [1, 2, 7] {
            let mut taken = Vec::new();
            in_order(12, jobs, &AtomicBool::new(false), slow_first, |n| {
                taken.push(n);
                ControlFlow::Continue(())
            });
            assert_eq!(taken, (0..12).collect::<Vec<_>>());
        }
    }

    #[test]
    fn nothing_is_taken_after_a_break() {
        for jobs in [1, 3] {
            let (stop, mut taken) = (AtomicBool::new(false), Vec::new());
            in_order(1000, jobs, &stop, slow_first, |n| {
                taken.push(n);
                match n {
                    4 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
            assert_eq!(taken, [0, 1, 2, 3, 4]);
            assert!(stop.into_inner());
        }
    }

    #[test]
    fn a_stop_from_outside_ends_it() {
        let stop = AtomicBool::new(false);
        let mut taken = 0;
        in_order(
            1000,
            2,
            &stop,
            // A thread that is stopped at 10 does not leave the rest to the other.
            |n| match n {
                10 => stop.store(true, Ordering::Relaxed),
                11.. => {
                    while !stop.load(Ordering::Relaxed) {
                        thread::yield_now();
                    }
                }
                _ => {}
            },
            |()| {
                taken += 1;
                ControlFlow::Continue(())
            },
        );
        assert!((10..20).contains(&taken), "{taken}");
    }
}
