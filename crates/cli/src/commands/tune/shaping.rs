// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates on trial: those of the makeway that runs, or a new one.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use makeway_gateway::control::client;
use makeway_gateway::control::protocol::Settings;
use makeway_line::{Proposal, put_back, rates};
use rustix::process::{Pid, Signal, kill_process};

/// A program that the verifier keeps busy takes seconds to start.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(100);

/// New rates; dropped, those from before come back instead of them.
pub struct Shaping {
    interface: String,
    how: How,
}

enum How {
    /// Rates before, and those on trial as the instance tells them.
    Changed(Box<[Settings; 2]>),
    /// Nothing shaped the interface.
    Started(Child),
    Kept,
}

impl Shaping {
    /// Sets the rates of the makeway that runs, or starts one.
    ///
    /// # Errors
    /// It refuses, does not start, or a signal comes first.
    pub fn start(
        interface: &str,
        proposal: Proposal,
        runs: bool,
        stop: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let (upload, download) = (proposal.upload, proposal.download);
        if runs {
            let before = rates(&client::status(interface)?);
            let wanted = Settings {
                rate_bps: before.rate_bps.map(|_| upload.bps()),
                down_bps: before.down_bps.map(|_| download.bps()),
                ..Settings::default()
            };
            let ours = rates(&client::set(interface, wanted)?);
            return Ok(Self {
                interface: interface.into(),
                how: How::Changed(Box::new([before, ours])),
            });
        }
        let child = Command::new(std::env::current_exe()?)
            .args(["up", interface, "--rate"])
            .arg(format!("{}bit", upload.bps()))
            .arg("--down")
            .arg(format!("{}bit", download.bps()))
            // It would wait for an answer meant for us, or mix its words with the figures.
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // Ctrl-C on the terminal is ours alone: the end of the trial is too. If we are killed, it ends by itself.
            .process_group(0)
            .env("MAKEWAY_SERVICE", std::process::id().to_string())
            .spawn()
            .context("makeway up")?;
        let mut shaping = Self {
            interface: interface.into(),
            how: How::Started(child),
        };
        shaping.is_ready(stop)?;
        Ok(shaping)
    }

    fn is_ready(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let How::Started(child) = &mut self.how else {
            return Ok(());
        };
        let end = Instant::now() + PATIENCE;
        while client::status(&self.interface).is_err() {
            if let Some(status) = child.try_wait()? {
                bail!("makeway up {} ended: {status}", self.interface);
            }
            if stop.load(Ordering::Relaxed) {
                bail!("stopped");
            }
            if Instant::now() > end {
                bail!(
                    "makeway up {} is not ready after {PATIENCE:?}",
                    self.interface
                );
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Keeps the rates: at once where a makeway ran before, else as long as this process.
    ///
    /// # Errors
    /// The new one fails.
    pub fn stay(mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        if let How::Started(child) = &mut self.how {
            eprintln!("makeway shapes {} until Ctrl-C.", self.interface);
            while !stop.load(Ordering::Relaxed) {
                if let Some(status) = child.try_wait()? {
                    bail!("makeway up {} ended: {status}", self.interface);
                }
                thread::sleep(LOOK);
            }
            return Ok(());
        }
        self.how = How::Kept;
        Ok(())
    }
}

impl Drop for Shaping {
    fn drop(&mut self) {
        match &mut self.how {
            How::Changed(both) => {
                let [before, ours] = &**both;
                if let Err(error) = put_back(&self.interface, ours, before) {
                    eprintln!("makeway: the rates from before do not come back: {error}");
                }
            }
            How::Started(child) => {
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                // One that has ended needs no signal.
                let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
                let _ = child.wait();
            }
            How::Kept => {}
        }
    }
}
