// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event log in qlog, which qvis opens: `cargo run --example qlog -- call.sqlog`. Both ends are in this process.

#[path = "deadlines.rs"]
#[allow(dead_code)] // Its `main`, and its call, which follows what became of each frame.
pub mod deadlines;

use std::path::Path;
use std::time::Duration;

use deadlines::{Encoder, Fallible, connect, receiver};
use makeway_quinn::Sender;
use makeway_quinn::log::FileLog;
use makeway_quinn::send::{AnyPolicy, Config, Frame, Stats};
use quinn::Connection;

const PATIENCE: Duration = Duration::from_millis(200);

/// A call of `length` whose events are in the file: its outcomes, and the number of events that the file lacks.
pub async fn logged(
    connection: Connection,
    file: &Path,
    length: Duration,
) -> Fallible<(Stats, u64)> {
    let sender = Sender::new(connection, Config::default(), AnyPolicy::default())?;
    let log = FileLog::create(file, sender.qlog())?;
    sender.log_to(log.sink());
    let mut encoder = Encoder::new(length, (1_000_000, 1_000_000));
    while let Some(picture) = encoder.next().await {
        let frame = Frame {
            class: picture.class,
            deadline: sender.within(PATIENCE),
            depends_on: &[],
        };
        sender.send_frame(&frame, &picture.datagrams)?;
    }
    sender.drained().await;
    let stats = sender.stats();
    drop(sender);
    Ok((stats, log.finish()?))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let file = std::env::args_os().nth(1);
    let file = file.ok_or("no file for the log: write `cargo run --example qlog -- call.sqlog`")?;
    let (address, certificate, _received) = receiver()?;
    let (endpoint, connection) = connect(address, certificate).await?;
    let length = Duration::from_secs(5);
    let (_, left_out) = logged(connection.clone(), Path::new(&file), length).await?;
    connection.close(0u8.into(), b"");
    endpoint.wait_idle().await;
    println!("{left_out} events came faster than the disk took them, and are left out");
    Ok(())
}
