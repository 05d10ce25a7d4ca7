// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program run under ptrace: killed before a system call, or with one that fails.

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The longest that a traced program may take, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(120);

/// Decision about a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It is made.
    Go,
    /// The process is killed before it.
    Kill,
    /// It is not made, and fails with this `errno`.
    Fail(i32),
}

/// A system call that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Thread that makes it.
    pub thread: libc::pid_t,
    pub number: i64,
    pub arguments: [u64; 6],
}

/// `struct ptrace_syscall_info`, as far as it is read here.
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    instruction_pointer: u64,
    stack_pointer: u64,
    number: u64,
    arguments: [u64; 6],
}

/// How the program ended: its exit status, or `None` if it was killed.
///
/// `at` is asked before each system call of each of its threads, and of the programs that it runs if `children` says so.
pub fn run(
    command: &mut Command,
    children: bool,
    at: impl FnMut(Call) -> Act + Send,
) -> Option<i32> {
    // SAFETY: one system call, and nothing is allocated.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let (start, started) = channel();
    let (end, has_ended) = channel::<()>();
    // On a thread that has no other children to wait for.
    let traced = move || {
        #[expect(clippy::zombie_processes, reason = "it is waited for by its number")]
        let child = command.spawn().expect("it starts");
        let first = child.id() as libc::pid_t;
        let _ = start.send(first);
        let ended = follow(first, children, at);
        drop(end);
        ended
    };
    thread::scope(|scope| {
        let traced = scope.spawn(traced);
        let first = started.recv().expect("it starts");
        let hangs = has_ended.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout);
        if hangs {
            // SAFETY: no pointers; its end was not waited for.
            unsafe { libc::kill(first, libc::SIGKILL) };
        }
        let ended = traced.join().expect("it is followed");
        assert!(!hangs, "it hangs");
        ended
    })
}

fn follow(first: libc::pid_t, children: bool, mut at: impl FnMut(Call) -> Act) -> Option<i32> {
    let more = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_EXITKILL
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACECLONE
        | if children { more } else { 0 };
    let (mut known, mut ended) = (false, None);
    let mut failing = HashMap::new();
    loop {
        let mut status = 0;
        // SAFETY: the status lives until the call returns. Other threads' children are not ours.
        let thread =
            unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if thread < 0 {
            let error = std::io::Error::last_os_error().raw_os_error();
            assert_eq!(error, Some(libc::ECHILD));
            return ended;
        }
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            if thread == first && libc::WIFEXITED(status) {
                ended = Some(libc::WEXITSTATUS(status));
            }
            continue;
        }
        if !known {
            known = true;
            ptrace(libc::PTRACE_SETOPTIONS, thread, options as usize);
        }
        let mut signal = 0;
        match libc::WSTOPSIG(status) {
            stop if stop == libc::SIGTRAP | 0x80 => {
                let Some(info) = info(thread) else { continue };
                match (info.op, failing.remove(&thread)) {
                    (1, _) => {
                        let call = Call {
                            thread,
                            number: info.number.cast_signed(),
                            arguments: info.arguments,
                        };
                        match at(call) {
                            Act::Go => {}
                            Act::Fail(errno) => {
                                set_number(thread, -1);
                                failing.insert(thread, errno);
                            }
                            Act::Kill => {
                                // SAFETY: no pointers; it is ours and was not waited for.
                                unsafe { libc::kill(first, libc::SIGKILL) };
                            }
                        }
                    }
                    (_, Some(errno)) => set_result(thread, -i64::from(errno)),
                    _ => {}
                }
            }
            libc::SIGTRAP => {}
            // How a new thread begins.
            libc::SIGSTOP => {}
            other => signal = other as usize,
        }
        ptrace(libc::PTRACE_SYSCALL, thread, signal);
    }
}

fn ptrace(request: libc::c_uint, thread: libc::pid_t, data: usize) -> libc::c_long {
    // SAFETY: these requests take no pointers. A thread that was killed meanwhile is no longer there, which is as well.
    unsafe { libc::ptrace(request, thread, 0, data) }
}

fn info(thread: libc::pid_t) -> Option<Info> {
    let mut info = std::mem::MaybeUninit::<Info>::zeroed();
    // SAFETY: the kernel writes at most that number of bytes, and all-zero is valid.
    unsafe {
        let size = size_of::<Info>();
        let got = libc::ptrace(
            libc::PTRACE_GET_SYSCALL_INFO,
            thread,
            size,
            info.as_mut_ptr(),
        );
        (got > 0).then(|| info.assume_init())
    }
}

/// Whether calls can be made to fail on this machine; where not, it says so.
pub fn can_fail() -> bool {
    let can = cfg!(target_arch = "x86_64");
    if !can {
        makeway_testing::skip("calls are made to fail on x86-64 only");
    }
    can
}

#[cfg(target_arch = "x86_64")]
fn set_number(thread: libc::pid_t, number: i64) {
    poke(thread, libc::ORIG_RAX, number);
}

#[cfg(target_arch = "x86_64")]
fn set_result(thread: libc::pid_t, result: i64) {
    poke(thread, libc::RAX, result);
}

#[cfg(target_arch = "x86_64")]
fn poke(thread: libc::pid_t, register: i32, value: i64) {
    let at = 8 * register as usize;
    // SAFETY: no pointers: the first is an offset into the other's registers.
    unsafe { libc::ptrace(libc::PTRACE_POKEUSER, thread, at, value) };
}

#[cfg(not(target_arch = "x86_64"))]
fn set_number(_: libc::pid_t, _: i64) {}

#[cfg(not(target_arch = "x86_64"))]
fn set_result(_: libc::pid_t, _: i64) {}

/// Stops one thread of a process that is not traced, for as long as this lives.
pub struct Stopped {
    thread: libc::pid_t,
    process: libc::pid_t,
}

impl Stopped {
    pub fn thread(thread: libc::pid_t, process: libc::pid_t) -> Self {
        assert_eq!(ptrace(libc::PTRACE_SEIZE, thread, 0), 0, "seize {thread}");
        assert_eq!(ptrace(libc::PTRACE_INTERRUPT, thread, 0), 0);
        let mut status = 0;
        // SAFETY: the status lives until the call returns.
        let stopped = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
        assert_eq!(stopped, thread);
        Self { thread, process }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let is_gone = ptrace(libc::PTRACE_DETACH, self.thread, 0) != 0;
        if is_gone && self.thread != self.process {
            // Its process does not end before somebody has heard that it did; of the process, its parent will.
            // SAFETY: no pointers but null.
            unsafe { libc::waitpid(self.thread, std::ptr::null_mut(), libc::__WALL) };
        }
    }
}

/// Whether it changes something outside of its process: files, sockets, processes, programs and maps of the kernel.
pub fn changes(call: Call) -> bool {
    let [a, _, c, ..] = call.arguments;
    match call.number {
        libc::SYS_openat => c & (libc::O_CREAT | libc::O_TRUNC) as u64 != 0,
        // Not to its own outputs.
        libc::SYS_write => a > 2,
        number => CHANGING.contains(&number),
    }
}

const CHANGING: &[i64] = &[
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_connect,
    libc::SYS_execve,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_flock,
    libc::SYS_ftruncate,
    libc::SYS_kill,
    libc::SYS_linkat,
    libc::SYS_listen,
    libc::SYS_mkdirat,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pwrite64,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_socket,
    libc::SYS_symlinkat,
    libc::SYS_unlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
];
