// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sending rate in a recovery: in proportion to arrivals, by the ratio of the reduction.
//!
//! Source: M. Mathis, N. Dukkipati, Y. Cheng, "Proportional Rate Reduction for TCP", RFC 6937, section 3;
//! where it is silent as Linux (`tcp_cwnd_reduction` in `net/ipv4/tcp_input.c`): slow start towards
//! ssthresh only while nothing more is lost.
//!
//! | RFC | here |
//! | --- | --- |
//! | RecoverFS | `before`: the window at the loss, as in Linux |
//! | prr_delivered, prr_out | `delivered`, `out` |
//! | DeliveredData, sndcnt | `arrived`; what [`Prr::window`] gives beyond `pipe` |

/// The bytes of one recovery.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prr {
    before: u64,
    delivered: u64,
    out: u64,
}

impl Prr {
    /// A recovery begins, from a window of `before`.
    pub fn begin(&mut self, before: u64) {
        *self = Self {
            before: before.max(1),
            ..Self::default()
        };
    }

    /// This number of bytes was sent.
    pub fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// The window after `arrived` new bytes, with `pipe` in the network. `progress` if the first gap
    /// was closed and nothing more is known to be lost.
    pub fn window(
        &mut self,
        pipe: u64,
        target: u64,
        arrived: u64,
        mss: u64,
        progress: bool,
    ) -> u64 {
        self.delivered += arrived;
        let sends = if pipe > target {
            (target * self.delivered)
                .div_ceil(self.before)
                .saturating_sub(self.out)
        } else {
            let mut limit = self.delivered.saturating_sub(self.out).max(arrived);
            if progress {
                limit += mss;
            }
            limit.min(target - pipe)
        };
        // The first goes out at once.
        let least = if self.out == 0 { mss } else { 0 };
        pipe + sends.max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_twenty_that_loses_one_sends_every_other_time() {
        // RFC 6937 §4's first figure: segments 0 to 19 are out, the first is lost; ssthresh 10.
        let mut prr = Prr::default();
        prr.begin(20);
        let mut pipe = 20 - 4;
        let mut sent = Vec::new();
        for n in 0..17 {
            if n > 0 {
                pipe -= 1;
            }
            let arrived = if n == 0 { 3 } else { 1 };
            let window = prr.window(pipe, 10, arrived, 1, false);
            let sends = window.saturating_sub(pipe);
            prr.on_sent(sends);
            pipe += sends;
            sent.push(sends);
        }
        assert_eq!(sent.iter().sum::<u64>(), 10, "{sent:?}");
        assert!(sent.iter().all(|&n| n <= 2), "{sent:?}");
    }

    #[test]
    fn after_heavy_losses_it_sends_what_arrives_and_grows_with_progress() {
        let mut prr = Prr::default();
        prr.begin(20);
        prr.on_sent(1);
        assert_eq!(prr.window(4, 10, 1, 1, false), 5);
        prr.on_sent(1);
        assert_eq!(prr.window(4, 10, 1, 1, true), 6);
        // No further than the target.
        assert_eq!(prr.window(9, 10, 5, 1, true), 10);
    }
}
