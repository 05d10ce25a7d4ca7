// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway watch`: the gateway live in the terminal.

mod model;
mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use makeway_gateway::control::client;
use makeway_gateway::control::interface::Interface;
use makeway_gateway::control::protocol::Status;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGTERM};

use model::Model;

const EXAMPLES: &str = "\
Examples:
  makeway watch
      every makeway that runs on this machine, one after the other by Tab
  makeway watch wan0

Column `turn`: `at once`, the flow sends without a backlog; `1`, `2`, ... the order of service of flows
with a backlog (sqf); `longest`, the flow that a full buffer drops from. Without a terminal, use `makeway status`.";

/// Polling interval.
const TICK: Duration = Duration::from_millis(250);

/// Shows a running makeway live: order of service, backlog and drops of each flow.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Watch {
    /// The interface; all of them, by Tab, if it is not given.
    interface: Option<String>,
}

/// Runs until q or Ctrl-C, and leaves the terminal as it was.
pub fn run(args: &Watch) -> anyhow::Result<ExitCode> {
    let name = args.interface.as_deref();
    let first = ask(name).or_else(|error| {
        // A misspelt name is not "not running".
        name.map_or(Ok(()), |name| Interface::find(name).map(drop))?;
        Err(error)
    })?;
    if first.is_empty() {
        bail!("no makeway runs here: start one with `sudo makeway up wan0 --rate 20mbit`");
    }
    if !io::stdout().is_terminal() {
        bail!("`makeway watch` needs a terminal: use `makeway status`, or --json for programs");
    }
    let end = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&end))?;
    }
    let mut model = Model::new();
    model.update(Instant::now(), Ok(first));
    let mut terminal = ratatui::try_init().context("cannot draw in this terminal")?;
    let result = watch(&mut terminal, &mut model, name, &end);
    ratatui::restore();
    result.context("cannot draw in this terminal")?;
    Ok(ExitCode::SUCCESS)
}

fn ask(name: Option<&str>) -> anyhow::Result<Vec<Status>> {
    Ok(match name {
        Some(name) => vec![client::status(name)?],
        None => {
            let all = client::all()?;
            match all.silent.into_iter().next() {
                Some((_, error)) if all.found.is_empty() => return Err(error.into()),
                _ => all.found.into_iter().map(|found| found.status).collect(),
            }
        }
    })
}

fn watch(
    terminal: &mut DefaultTerminal,
    model: &mut Model,
    name: Option<&str>,
    end: &AtomicBool,
) -> io::Result<()> {
    let mut next = Instant::now() + TICK;
    while !end.load(Ordering::Relaxed) {
        terminal.draw(|frame| view::draw(frame, model))?;
        let left = next.saturating_duration_since(Instant::now());
        if event::poll(left)? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && pressed(key, model)
            {
                return Ok(());
            }
            continue;
        }
        next = Instant::now() + TICK;
        if !model.paused {
            let answer = ask(name).map_err(|error| error.to_string());
            model.update(Instant::now(), answer);
        }
    }
    Ok(())
}

/// Handles a key; true if it quits.
fn pressed(key: KeyEvent, model: &mut Model) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Char('c' | 'd') if control => return true,
        KeyCode::Tab | KeyCode::Right => model.select(1),
        KeyCode::BackTab | KeyCode::Left => model.select(-1),
        KeyCode::Char('s') => model.sort = model.sort.next(),
        KeyCode::Char('p' | ' ') => model.paused = !model.paused,
        KeyCode::Down | KeyCode::Char('j') => model.scroll = model.scroll.saturating_add(1),
        KeyCode::Up | KeyCode::Char('k') => model.scroll = model.scroll.saturating_sub(1),
        KeyCode::Home => model.scroll = 0,
        _ => {}
    }
    false
}
