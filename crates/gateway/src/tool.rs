// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the system's own tools: from the system's folders, with no environment of the caller's, and not for longer than
//! they are worth.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

/// Where tools are. A caller's PATH could name a program of theirs, which would run with our privileges.
const FOLDERS: [&str; 5] = [
    "/usr/sbin",
    "/sbin",
    "/usr/bin",
    "/bin",
    // NixOS.
    "/run/current-system/sw/bin",
];
/// Most that is kept of what one says.
const MOST_SAID: usize = 1 << 20;

/// Where the tool is, if it is installed.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let mut places = FOLDERS
        .map(|folder| PathBuf::from(folder).join(name))
        .into_iter();
    places.find(|path| path.is_file())
}

/// Runs `command` to its end, with `input` on its standard input. It dies with the thread that called.
///
/// # Errors
/// If it cannot be started, and [`ErrorKind::TimedOut`] for one that did not end within `limit`, which is killed.
pub(crate) fn run(command: &mut Command, input: &[u8], limit: Duration) -> io::Result<Output> {
    let end = Instant::now() + limit;
    let environment: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    command
        .env_clear()
        .env("PATH", FOLDERS.join(":"))
        .envs(environment)
        // A second Ctrl-C in the terminal must not end what the first one began.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let parent = std::process::id();
    // SAFETY: between fork and exec only two system calls are made, and nothing is allocated.
    unsafe {
        // A command of this process must not take effect after it was killed, when another has cleaned up already.
        command.pre_exec(move || {
            libc::prctl(
                libc::PR_SET_PDEATHSIG,
                libc::SIGKILL as libc::c_ulong,
                0,
                0,
                0,
            );
            // 0: the parent is in another namespace of processes.
            match [0, parent as libc::pid_t].contains(&libc::getppid()) {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(libc::ECHILD)),
            }
        });
    }
    let mut child = command.spawn()?;
    let result = attend(&mut child, input, end);
    if result.is_err() {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        // One that the kernel does not let go is left behind.
        let _ = ended(&mut child, Instant::now() + Duration::from_millis(100));
    }
    result
}

/// Gives it its input, takes what it says, and waits for its end.
fn attend(child: &mut Child, input: &[u8], end: Instant) -> io::Result<Output> {
    let [mut said, mut complained] = [Vec::new(), Vec::new()];
    let (mut stdin, mut rest) = (child.stdin.take(), input);
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    for fd in [
        stdin.as_ref().map(AsFd::as_fd),
        stdout.as_ref().map(AsFd::as_fd),
        stderr.as_ref().map(AsFd::as_fd),
    ] {
        rustix::io::ioctl_fionbio(fd.ok_or(ErrorKind::BrokenPipe)?, true)?;
    }
    while stdout.is_some() || stderr.is_some() {
        if rest.is_empty() {
            stdin = None;
        }
        let pipes = [
            (stdin.as_ref().map(AsFd::as_fd), PollFlags::OUT),
            (stdout.as_ref().map(AsFd::as_fd), PollFlags::IN),
            (stderr.as_ref().map(AsFd::as_fd), PollFlags::IN),
        ];
        let open = pipes
            .into_iter()
            .filter_map(|(fd, flags)| Some((fd?, flags)));
        let mut fds: Vec<_> = open
            .map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags))
            .collect();
        let left = end.saturating_duration_since(Instant::now());
        let left_for = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&left_for)) {
            Ok(0) => return Err(ErrorKind::TimedOut.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        if let Some(pipe) = &mut stdin {
            match pipe.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(error) if is_later(&error) => {}
                // A tool that ends early says why on its standard error.
                Err(_) => rest = &[],
            }
        }
        take(&mut stdout, &mut said)?;
        take(&mut stderr, &mut complained)?;
    }
    drop(stdin);
    Ok(Output {
        status: ended(child, end)?,
        stdout: said,
        stderr: complained,
    })
}

/// Takes what there is, and the pipe away at its end.
fn take<T: Read>(pipe: &mut Option<T>, said: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 4096];
    while let Some(open) = pipe {
        match open.read(&mut buffer) {
            Ok(0) => *pipe = None,
            Ok(n) => {
                let room = MOST_SAID.saturating_sub(said.len());
                said.extend(&buffer[..n.min(room)]);
                if n > room {
                    break;
                }
            }
            Err(error) if is_later(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// It has closed its outputs, so its end is near.
fn ended(child: &mut Child, end: Instant) -> io::Result<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < end => thread::sleep(Duration::from_micros(500)),
            Ok(None) => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use makeway_testing::{PATIENT, in_real_time_within_or};
    use makeway_vm::again;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_goes_in_and_comes_out_may_be_longer_than_a_pipe() {
        let input = vec![b'x'; 300_000];
        let output = run(&mut shell("cat; echo no >&2; exit 3"), &input, LONG).unwrap();
        assert_eq!((output.stdout, output.stderr), (input, b"no\n".to_vec()));
        assert_eq!(output.status.code(), Some(3));
        let endless = run(&mut shell("head -c 5000000 /dev/zero"), b"", LONG).unwrap();
        assert_eq!(endless.stdout.len(), MOST_SAID);
        let deaf = run(&mut shell("exec <&-; echo done"), &[0; 300_000], LONG).unwrap();
        assert_eq!(deaf.stdout, b"done\n");
    }

    #[test]
    fn one_that_hangs_is_killed_with_all_that_it_started() {
        let this = "tool::tests::one_that_hangs_is_killed_with_all_that_it_started";
        in_real_time_within_or(PATIENT, one_that_hangs_is_killed, || {
            again(&format!("--exact {this}"), &[])
        });
    }

    fn one_that_hangs_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("(sleep 1; touch {}) & sleep 60", mark.display());
        let begin = Instant::now();
        let error = run(&mut shell(&script), b"", Duration::from_millis(300)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(begin.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(1500));
        assert!(!mark.exists());
    }

    #[test]
    fn nothing_of_the_callers_environment_is_handed_on() {
        let output = run(shell("env").env("MARK", "1"), b"", LONG).unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("MARK=1"), "{said}");
        // The rest is of the shell's making.
        let known = ["MARK", "PATH", "PWD", "OLDPWD", "SHLVL", "_"];
        let name = |line: &str| line.split('=').next().unwrap_or_default().to_owned();
        assert!(
            said.lines()
                .all(|line| known.contains(&name(line).as_str())),
            "{said}"
        );
        assert!(said.contains("PATH=/usr/sbin:"), "{said}");
    }
}
