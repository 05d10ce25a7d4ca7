// SPDX-License-Identifier: MIT OR Apache-2.0
//! A second process that kills this one if it stands still, so that the kernel lets packets pass: rules with `bypass` do
//! that as soon as nobody has their queue, not before.

use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How often each side looks.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// Number of looks without a sign that are the end: 2 s, chosen by us. Looks are counted and not time, so that a machine that stood
/// still as a whole is not taken for a process that does.
pub(super) const MOST_MISSED: u32 = 8;

/// The process that watches this one. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Watchdog {
    feed: Option<PipeWriter>,
    process: libc::pid_t,
}

impl Watchdog {
    /// Starts it. From now on [`Self::feed`] is due.
    pub fn start() -> io::Result<Self> {
        let (watched, feed) = io::pipe()?;
        let (mut closing, held) = io::pipe()?;
        rustix::io::ioctl_fionbio(&feed, true)?;
        let parent = std::process::id() as libc::pid_t;
        // SAFETY: the child makes system calls only, on its own stack; other threads' locks do not concern it.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => watch(watched.as_raw_fd(), parent),
            process => {
                drop(held);
                // Its end: the child has closed its copies of every descriptor, and with them of the lock. Before that a
                // `makeway down` would take the lock of a killed makeway for held.
                let _ = closing.read(&mut [0]);
                Ok(Self {
                    feed: Some(feed),
                    process,
                })
            }
        }
    }

    /// A sign of life.
    pub fn feed(&self) {
        // A full pipe is sign enough; where the other side was killed there is nobody to tell.
        let _ = self.feed.as_ref().map(|mut feed| feed.write(&[0]));
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.feed = None;
        // SAFETY: no pointers but null; the child is ours and was not waited for.
        while unsafe { libc::waitpid(self.process, std::ptr::null_mut(), 0) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}

/// The other process: only system calls, since other threads may have held any lock when it was made.
fn watch(pipe: i32, parent: libc::pid_t) -> ! {
    let mut fed = libc::pollfd {
        fd: 0,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut buffer = [0u8; 64];
    let mut missed = 0;
    // SAFETY: pointers are to live values of this frame or to constants; descriptors above 0 are not used any more.
    unsafe {
        // Nothing of the other's stays held by this one: no lock, no queue, no terminal.
        libc::dup2(pipe, 0);
        if libc::syscall(libc::SYS_close_range, 1u32, u32::MAX, 0u32) != 0 {
            for fd in 1..1024 {
                libc::close(fd);
            }
        }
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, c"makeway-watch".as_ptr());
        loop {
            fed.revents = 0;
            match libc::poll(&raw mut fed, 1, LOOK.as_millis() as libc::c_int) {
                0 => missed += 1,
                n if n > 0 => match libc::read(0, buffer.as_mut_ptr().cast(), buffer.len()) {
                    0 => libc::_exit(0),
                    _ => missed = 0,
                },
                _ => {}
            }
            if missed >= MOST_MISSED {
                // It may have ended this moment, and its number be another's.
                if libc::getppid() == parent {
                    libc::kill(parent, libc::SIGKILL);
                }
                libc::_exit(1);
            }
        }
    }
}
