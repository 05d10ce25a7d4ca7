// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that keep real time, on a machine that does not.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::{note, skip};

/// Says of the clock of a test that keeps real time: `counted` in a guest whose clock counts instructions, where no try is
/// repeated; `stalled` to take each try for one that failed on a machine that stalled, to see what then follows.
pub const CLOCK: &str = "MAKEWAY_CLOCK";

/// How often a test is tried on a machine that stalls.
pub const TRIES: u32 = 5;

/// The longest stall at which a failure counts. Chosen by us: beside busy loops a thread that sleeps waits one slice of the
/// scheduler's, 3 to 4 ms; a host that takes a processor away does so for 6 ms and more.
pub const CALM: Duration = Duration::from_millis(5);

/// The longest that a check which cannot be made elsewhere is repeated for.
pub const LONGEST: Duration = Duration::from_secs(900);

/// Time without a stall before such a repetition.
const REST: Duration = Duration::from_secs(2);

/// A step of the threads that watch.
const STEP: Duration = Duration::from_millis(1);

/// Processors that are watched at most: each costs 1000 wakeups a second.
const MOST: usize = 16;

/// Measures how late this machine wakes a thread: one on each processor, at the scheduling priority of its creator,
/// which sleeps in steps of 1 ms.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    steps: Vec<Arc<Steps>>,
    threads: Vec<JoinHandle<()>>,
}

/// The steps of one thread. One that is still waited for counts too: a thread that has not come to run is the longest stall.
#[derive(Debug)]
struct Steps {
    origin: Instant,
    /// When the last step began, and the longest oversleep of those that ended: nanoseconds.
    began: AtomicU64,
    worst: AtomicU64,
}

impl Steps {
    fn new() -> Self {
        Self {
            origin: Instant::now(),
            began: AtomicU64::new(0),
            worst: AtomicU64::new(0),
        }
    }

    /// How late the step in hand is by now, in nanoseconds.
    fn late(&self) -> u64 {
        let began = Duration::from_nanos(self.began.load(Ordering::Relaxed));
        (self.origin.elapsed().saturating_sub(began + STEP)).as_nanos() as u64
    }

    fn take(&self) {
        self.began
            .store(self.origin.elapsed().as_nanos() as u64, Ordering::Relaxed);
        thread::sleep(STEP);
        self.worst.fetch_max(self.late(), Ordering::Relaxed);
    }

    fn worst(&self) -> u64 {
        self.worst.load(Ordering::Relaxed).max(self.late())
    }
}

impl Watch {
    /// Watches from now on, until it is dropped.
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let watched = processors().into_iter().take(MOST).map(|processor| {
            let steps = Arc::new(Steps::new());
            let (stop, taken) = (Arc::clone(&stop), Arc::clone(&steps));
            let thread = thread::spawn(move || {
                stay_on(processor);
                while !stop.load(Ordering::Relaxed) {
                    taken.take();
                }
            });
            (steps, thread)
        });
        let (steps, threads) = watched.unzip();
        Self {
            stop,
            steps,
            threads,
        }
    }

    /// The longest oversleep so far.
    pub fn worst(&self) -> Duration {
        let worst = self.steps.iter().map(|steps| steps.worst()).max();
        Duration::from_nanos(worst.unwrap_or_default())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Processors that this thread may run on.
fn processors() -> Vec<usize> {
    // SAFETY: plain old data, of which zero is a value; the kernel writes at most its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &raw mut set);
        let all = 0..libc::CPU_SETSIZE as usize;
        all.filter(|&n| libc::CPU_ISSET(n, &set)).collect()
    }
}

/// Best effort: a thread that moves sees less.
fn stay_on(processor: usize) {
    // SAFETY: plain old data, of which zero is a value; it lives until the call returns.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// Runs `check`, which keeps real time and panics if what it finds is wrong; before ordinary work where the machine allows it
/// (nice -10, which its threads and processes inherit).
///
/// A check that passes has passed. One that fails while the machine stalled by no more than [`CALM`] has failed. One that fails
/// while it stalled for longer is repeated, [`TRIES`] times in all. This one cannot be made elsewhere ([`in_real_time_or`]), so it is
/// then repeated further, each time after two seconds without such a stall, for as long as [`LONGEST`] allows; then it is skipped,
/// with the stall: `None`.
///
/// # Panics
/// As `check`, and as [`skip`].
pub fn in_real_time<T>(mut check: impl FnMut() -> T) -> Option<T> {
    let begin = Instant::now();
    let mut tries = tried(CALM, &mut check);
    let is_told = std::env::var_os(CLOCK).is_some();
    while !is_told
        && tries.is_err()
        && waits_for_calm(CALM, LONGEST.saturating_sub(begin.elapsed()))
    {
        tries = tried_times(1, CALM, &mut check);
    }
    tries
        .inspect_err(|longest| skip(format_args!("not measured here: {}", Stall(*longest))))
        .ok()
}

/// Waits until the machine stalled by no more than `calm` for two seconds; whether that came within `longest`.
fn waits_for_calm(calm: Duration, longest: Duration) -> bool {
    let end = Instant::now() + longest;
    while Instant::now() + REST < end {
        let watch = Watch::start();
        thread::sleep(REST);
        if watch.worst() <= calm {
            return true;
        }
    }
    false
}

/// As [`in_real_time`]; on a machine that stalls too often `instead` makes the check elsewhere, in a guest with a clock of its own.
/// Only where that cannot be is it skipped, with the reasons of both.
///
/// # Panics
/// As `check`, `instead`, and as [`skip`].
pub fn in_real_time_or<T, E: Display>(
    check: impl FnMut() -> T,
    instead: impl FnOnce() -> Result<T, E>,
) -> Option<T> {
    in_real_time_within_or(CALM, check, instead)
}

/// As [`in_real_time_or`], for a check whose own load delays threads, or whose bars are long: a failure counts while the machine
/// stalled by no more than `calm`.
pub fn in_real_time_within_or<T, E: Display>(
    calm: Duration,
    check: impl FnMut() -> T,
    instead: impl FnOnce() -> Result<T, E>,
) -> Option<T> {
    match tried(calm, check) {
        Ok(found) => Some(found),
        Err(longest) => elsewhere(Stall(longest), instead),
    }
}

fn elsewhere<T, E: Display>(stall: Stall, instead: impl FnOnce() -> Result<T, E>) -> Option<T> {
    note(format_args!("made in a guest, since {stall}"));
    instead()
        .inspect_err(|why| skip(format_args!("not measured here: {stall}, and {why}")))
        .ok()
}

/// The result of `check`, or the longest stall.
fn tried<T>(calm: Duration, check: impl FnMut() -> T) -> Result<T, Duration> {
    tried_times(TRIES, calm, check)
}

fn tried_times<T>(times: u32, calm: Duration, mut check: impl FnMut() -> T) -> Result<T, Duration> {
    let clock = std::env::var(CLOCK).unwrap_or_default();
    match clock.as_str() {
        "counted" => return Ok(check()),
        "stalled" => return Err(Duration::ZERO),
        _ => {}
    }
    let _quick = Quick::new();
    let mut longest = Duration::ZERO;
    for _ in 0..times {
        let watch = Watch::start();
        let result = catch_unwind(AssertUnwindSafe(&mut check));
        let stalled = watch.worst();
        drop(watch);
        match result {
            Ok(found) => return Ok(found),
            Err(panic) if stalled <= calm => resume_unwind(panic),
            Err(_) => {
                longest = longest.max(stalled);
                note(format_args!("failed while {}", Stall(stalled)));
            }
        }
    }
    Err(longest)
}

/// The calling thread goes before ordinary work until this is dropped.
struct Quick {
    before: i32,
}

impl Quick {
    fn new() -> Self {
        // SAFETY: plain numbers; on Linux 0 is the calling thread. Best effort.
        unsafe {
            let before = libc::getpriority(libc::PRIO_PROCESS, 0);
            libc::setpriority(libc::PRIO_PROCESS, 0, -10);
            Self { before }
        }
    }
}

impl Drop for Quick {
    fn drop(&mut self) {
        // SAFETY: plain numbers; on Linux 0 is the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, self.before) };
    }
}

/// A stall in words.
#[derive(Clone, Copy)]
struct Stall(Duration);

impl Display for Stall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the machine stalled by {:.1} ms",
            self.0.as_secs_f64() * 1e3
        )
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_check_that_passes_is_run_once_however_late_the_machine_is() {
        let runs = Cell::new(0);
        let found = tried(Duration::ZERO, || {
            runs.set(runs.get() + 1);
            7
        });
        assert_eq!((found, runs.get()), (Ok(7), 1));
    }

    #[test]
    fn a_failure_on_a_calm_machine_is_a_failure() {
        let runs = Cell::new(0);
        let failed = catch_unwind(AssertUnwindSafe(|| {
            tried(Duration::MAX, || -> () {
                runs.set(runs.get() + 1);
                panic!("wrong");
            })
        }));
        assert!(failed.is_err());
        assert_eq!(runs.get(), 1);
    }

    #[test]
    fn a_failure_on_a_late_machine_is_repeated() {
        let runs = Cell::new(0);
        let found = tried(Duration::ZERO, || {
            // Long enough for a step of the watch.
            thread::sleep(10 * STEP);
            runs.set(runs.get() + 1);
            assert!(runs.get() == TRIES, "wrong until the last");
        });
        assert_eq!((found, runs.get()), (Ok(()), TRIES));
    }

    #[test]
    fn the_machine_is_waited_for_and_not_for_ever() {
        let begin = Instant::now();
        assert!(waits_for_calm(Duration::MAX, 2 * REST));
        assert!(begin.elapsed() >= REST);
        // None is as calm.
        let begin = Instant::now();
        assert!(!waits_for_calm(Duration::ZERO, 2 * REST));
        assert!(begin.elapsed() < 2 * REST);
        assert!(!waits_for_calm(Duration::MAX, Duration::ZERO));
    }

    #[test]
    fn a_check_that_failed_on_a_late_machine_each_time_is_made_elsewhere() {
        let runs = Cell::new(0);
        let longest = tried(Duration::ZERO, || {
            thread::sleep(10 * STEP);
            runs.set(runs.get() + 1);
            panic!("wrong")
        });
        let longest: Result<(), _> = longest;
        assert_eq!(runs.get(), TRIES);
        let found = elsewhere(Stall(longest.unwrap_err()), || Ok::<_, String>(7));
        assert_eq!(found, Some(7));
        // One that is wrong there too has failed.
        let failed = catch_unwind(|| elsewhere(Stall(CALM), || -> Result<(), String> { panic!() }));
        assert!(failed.is_err());
    }

    #[test]
    fn a_thread_that_has_not_come_to_run_is_a_stall() {
        let steps = Steps::new();
        thread::sleep(10 * STEP);
        assert!(steps.worst() >= 9 * STEP.as_nanos() as u64);
    }

    #[test]
    fn a_watch_sees_a_processor_that_is_busy_with_something_else() {
        let calm = Watch::start();
        thread::sleep(Duration::from_millis(20));
        assert!(calm.worst() > Duration::ZERO);
    }
}
