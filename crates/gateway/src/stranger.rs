// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another user of the machine, for tests.

use std::thread;

use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

/// `nobody`.
pub const STRANGER: u32 = 65_534;

/// Runs `work` in a thread of another user's; `None` where this user may not become one, and the test is skipped.
pub fn as_stranger<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    let uid = Uid::from_raw(STRANGER);
    let done = thread::scope(|scope| {
        let thread = scope.spawn(|| set_thread_res_uid(uid, uid, uid).ok().map(|()| work()));
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    if done.is_none() {
        makeway_testing::skip("it takes root, who may become another user");
    }
    done
}
