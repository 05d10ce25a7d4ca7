// SPDX-License-Identifier: MIT OR Apache-2.0
//! `makeway tune`: measures the link, proposes rates, tests them, then keeps them or restores the old ones.

mod shaping;
mod words;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use makeway_gateway::control::client::{self, AskError};
use makeway_gateway::control::interface::Interface;
use makeway_line::{
    Bounds, Lifted, Measured, Plan, Proposal, Stage, address, measure, propose, serve, token,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::json;

use super::service::{self, FILE};
use super::session::stop_on_signals;
use crate::text;
use shaping::Shaping;

/// Rates that are kept carry at least this share of what the link carried without them, in each direction: the margins take 10 % at most.
const LEAST_CARRIED: f64 = 0.8;

const EXAMPLES: &str = "\
Examples:
  makeway tune --serve 0.0.0.0:8482 --token-file line-token
      on a machine behind the link, for example a rented one: the server. It makes the file with a
      new token if there is none; copy it to the router
  sudo makeway tune wan0 --server 198.51.100.7 --token-file line-token
      measures wan0 for half a minute at full load, proposes rates, asks, tries them, asks whether to keep them
  sudo makeway tune wan0
      with the other end that [web] of /etc/makeway/makeway.toml names: line_server, line_token_file
  sudo makeway tune wan0 --server 198.51.100.7 --token-file line-token --json < /dev/null
      measures and proposes, and changes nothing

docs/guide/which-rate.md explains the figures.";

/// Measures the link, proposes rates, tests them, then keeps them or restores the old ones.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Tune {
    /// The interface of the link.
    #[arg(required_unless_present = "serve")]
    interface: Option<String>,
    /// Host behind the link that runs `makeway tune --serve`, with its port if that is not 8482 [default: `line_server` of --config].
    #[arg(long, value_name = "HOST[:PORT]", requires = "token_file")]
    server: Option<String>,
    /// File with the shared token [default: `line_token_file` of --config].
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The file of `makeway service`, whose [web] names the other end [default: /etc/makeway/makeway.toml].
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    config: Option<PathBuf>,
    /// Serves measurements at this address until Ctrl-C.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "token_file", conflicts_with_all = ["interface", "server", "config"])]
    serve: Option<SocketAddr>,
    /// Seconds of the download, and of the upload, 2 to 15.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=15))]
    seconds: u64,
    /// Answers both questions with yes.
    #[arg(long)]
    yes: bool,
    /// Figures and outcome as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs it. Exit status 1 if the link was not measured, or the rates were restored.
pub fn run(args: &Tune) -> anyhow::Result<ExitCode> {
    if let (Some(address), Some(file)) = (args.serve, &args.token_file) {
        return serve_at(address, file);
    }
    let Some(name) = &args.interface else {
        bail!("tune needs an interface: makeway tune wan0");
    };
    let (server, token_file) = other_end(args)?;
    let stop = stop_on_signals()?;
    let interface = Interface::find(name)?;
    let server = address(&server)?;
    let plan = Plan {
        interface: Some(name.clone()),
        load: Duration::from_secs(args.seconds),
        ..Plan::new(server, token(&token_file)?)
    };
    let status = match client::status(name) {
        Ok(status) => Some(status),
        Err(AskError::NotRunning { .. }) => None,
        Err(error) => return Err(error.into()),
    };

    let unshaped = {
        // The rates come back at the end of this block.
        let _lifted = status.as_ref().map(|_| Lifted::new(name)).transpose()?;
        say(args, &format!("{name} without makeway's rates:"));
        let unshaped = measure(&plan, &stop, |stage| progress(args, stage))?;
        say(args, &words::table(&unshaped));
        unshaped
    };
    let line = words::Line::of(&unshaped, &interface, status.as_ref(), server.is_ipv6());
    let Some(proposal) = propose(line.upload_bps, line.download_bps) else {
        bail!("the measured rate is below 1 kbit/s: does {name} lead to the server?");
    };
    say(args, &words::proposal(&line, proposal));
    let mut told = json!({
        "interface": name,
        "server": server.to_string(),
        "line": { "upload_bps": line.upload_bps, "download_bps": line.download_bps },
        "proposed": { "upload_bps": proposal.upload.bps(), "download_bps": proposal.download.bps() },
        "unshaped": unshaped,
        "shaped": null,
        "outcome": "proposed",
        "why": "",
    });
    if !asked(args, &stop, "Set these rates, and measure again?") {
        say(args, &words::file(name, proposal));
        return ended(args, &told, true);
    }
    let (shaped, why, kept) = tried(args, &plan, &stop, proposal, status.is_some(), &unshaped)?;
    told["shaped"] = json!(shaped);
    told["outcome"] = json!(if kept.is_some() {
        "kept"
    } else {
        "rolled-back"
    });
    told["why"] = json!(why);
    if kept.is_some() {
        say(args, &words::file(name, proposal));
    } else {
        say(args, &format!("The rates are as before: {why}."));
    }
    let code = ended(args, &told, kept.is_some())?;
    if let Some(shaping) = kept {
        shaping.stay(&stop)?;
    }
    Ok(code)
}

/// The host of the other end and the file with its token: as asked, or as the page has them.
fn other_end(args: &Tune) -> anyhow::Result<(String, PathBuf)> {
    if let (Some(server), Some(file)) = (&args.server, &args.token_file) {
        return Ok((server.clone(), file.clone()));
    }
    let file = args.config.as_deref().unwrap_or(Path::new(FILE));
    let web = match args.config.is_some() || file.exists() {
        true => service::read(file)?.web,
        false => None,
    };
    let Some(line) = web.and_then(|web| web.line) else {
        bail!(
            "no server behind the link is named: write --server HOST --token-file FILE, or line_server and line_token_file below [web] in {}",
            file.display()
        );
    };
    let token_file = args.token_file.clone().unwrap_or(line.token_file);
    Ok((line.host, token_file))
}

/// Sets the rates and measures with them. They are kept, in the third place, unless they are worse or nobody wants them.
fn tried(
    args: &Tune,
    plan: &Plan,
    stop: &AtomicBool,
    proposal: Proposal,
    runs: bool,
    unshaped: &Measured,
) -> anyhow::Result<(Measured, String, Option<Shaping>)> {
    let name = plan.interface.as_deref().unwrap_or_default();
    // Dropped on every way out but the last one, it takes them back.
    let shaping = Shaping::start(name, proposal, runs, stop)?;
    say(args, &format!("{name} with makeway:"));
    let shaped = measure(plan, stop, |stage| progress(args, stage))?;
    say(args, &words::table(&shaped));
    let why = match worse(unshaped, &shaped) {
        Some(why) => why,
        None if asked(args, stop, "Keep these rates?") => {
            return Ok((shaped, String::new(), Some(shaping)));
        }
        None => "the new rates were not confirmed".into(),
    };
    Ok((shaped, why, None))
}

/// Reason why a link is worse with its rates than without.
fn worse(without: &Measured, with: &Measured) -> Option<String> {
    let pairs = [
        ("download", &without.download, &with.download),
        ("upload", &without.upload, &with.upload),
    ];
    pairs.into_iter().find_map(|(name, without, with)| {
        let share = with.payload_bps / without.payload_bps.max(1.0);
        if share < LEAST_CARRIED {
            let percent = share * 100.0;
            return Some(format!("the {name} carries {percent:.0} % of what it did"));
        }
        (with.letter > without.letter).then(|| {
            let (now, before) = (with.letter, without.letter);
            format!("latency under the {name} is of grade {now}, and was of grade {before}")
        })
    })
}

fn serve_at(at: SocketAddr, file: &Path) -> anyhow::Result<ExitCode> {
    if !file.exists() {
        let token = makeway_line::secret()?;
        write_secret(file, &token).with_context(|| file.display().to_string())?;
    }
    let token = token(file)?;
    let listener = TcpListener::bind(at).with_context(|| format!("cannot listen on {at}"))?;
    let address = listener.local_addr()?;
    text::say!("ready on {address}; the token is in {}", file.display());
    serve(&listener, &token, Bounds::default())?;
    Ok(ExitCode::SUCCESS)
}

/// A file that this user alone can read.
fn write_secret(file: &Path, secret: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut open = fs::OpenOptions::new();
    let mut file = open.write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(file, "{secret}")
}

/// For people: on the standard error where the output is JSON.
fn say(args: &Tune, line: &str) {
    match args.json {
        true => eprintln!("{line}"),
        false => text::say!("{line}"),
    }
}

fn progress(args: &Tune, stage: Stage) {
    say(args, &words::stage(stage));
}

/// Whether the answer is yes; without a terminal, and by a signal, it is no.
fn asked(args: &Tune, stop: &AtomicBool, question: &str) -> bool {
    if args.yes {
        return true;
    }
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return false;
    }
    eprint!("{question} [y/N] ");
    if !is_answered(&stdin, stop) {
        eprintln!();
        return false;
    }
    let mut answer = String::new();
    // Ctrl-D is no.
    let read = stdin.read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Waits for an answer; false by a signal. The system would go on with a read that a signal has interrupted.
fn is_answered(input: &impl AsFd, stop: &AtomicBool) -> bool {
    let look = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    while !stop.load(Ordering::Relaxed) {
        match poll(&mut [PollFd::new(input, PollFlags::IN)], Some(&look)) {
            Ok(0) | Err(Errno::INTR) => {}
            // An error is the read's to tell.
            _ => return true,
        }
    }
    false
}

fn ended(args: &Tune, told: &serde_json::Value, good: bool) -> anyhow::Result<ExitCode> {
    if args.json {
        text::say!("{}", serde_json::to_string_pretty(told)?);
    }
    Ok(match good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;

    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        tune: Tune,
    }

    fn parsed(line: &str) -> Result<Tune, clap::Error> {
        let words = std::iter::once("tune").chain(line.split_whitespace());
        <CommandLine as clap::Parser>::try_parse_from(words).map(|line| line.tune)
    }

    #[test]
    fn a_question_waits_for_a_line_or_for_a_signal() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let waits = scope.spawn(|| is_answered(&ours, &stop));
            stop.store(true, Ordering::Relaxed);
            assert!(!waits.join().unwrap());
        });
        stop.store(false, Ordering::Relaxed);
        theirs.write_all(b"y\n").unwrap();
        assert!(is_answered(&ours, &stop));
    }

    #[test]
    fn the_other_end_is_that_of_the_command_or_of_the_page_or_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("makeway.toml");
        let asked = |text: &str, line: &str| {
            fs::write(&file, text).unwrap();
            let line = format!("wan0 --json --config {} {line}", file.display());
            other_end(&parsed(&line).unwrap())
        };
        let web = "[web]\nline_server = \"192.0.2.1:99\"\nline_token_file = \"/etc/makeway/line-token\"\n";
        let (host, token) = asked(web, "").unwrap();
        assert_eq!(host, "192.0.2.1:99");
        assert_eq!(token, Path::new("/etc/makeway/line-token"));
        let (_, token) = asked(web, "--token-file other").unwrap();
        assert_eq!(token, Path::new("other"));
        for text in ["", "[web]\n"] {
            let error = asked(text, "").unwrap_err().to_string();
            assert!(
                error.contains("--server HOST --token-file FILE") && error.contains("makeway.toml"),
                "{error}"
            );
        }
        assert!(asked("[web]\nport = 1\n", "").is_err());

        // As the documentation has it: without another file.
        assert!(parsed("wan0").is_ok() && parsed("wan0 --json").is_ok());
        let (host, token) = other_end(&parsed("wan0 --server a --token-file b").unwrap()).unwrap();
        assert_eq!((host.as_str(), token.as_path()), ("a", Path::new("b")));
        for wrong in [
            "",
            "wan0 --server a",
            "--serve 127.0.0.1:1",
            "wan0 --serve 127.0.0.1:1 --token-file b",
            "wan0 --server a --token-file b --config c",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
