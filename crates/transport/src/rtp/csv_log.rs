// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of a call as CSV, written by a thread of its own.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use makeway_core::units::Instant;

use super::log::{Fate, Log, Record};

/// Records that wait for the file, 10 s of a call at 3000 packets/s; more are left out and counted.
const MOST_WAITING: usize = 1 << 16;
/// A row reaches the file after this time at the latest.
const FLUSH: StdDuration = StdDuration::from_secs(1);

/// Names of the columns, with their units.
pub const CSV_HEADER: &str = "time_s,event,id,ssrc,class,bytes,created_s,deadline_s,sent_s,sequence,rtp_sequence,above_least_s,ce,\
rate_bps,target_bps,queue_packets,queue_bytes,rtt_s";

/// An event log in a CSV file: [`CsvLog::sink`] goes to [`Call::log_to`](super::Call::log_to), and [`CsvLog::finish`] ends it.
///
/// The call never waits for the file. Records that find 65536 others waiting are left out and counted; an error of the file ends the log
/// and not the call.
#[derive(Debug)]
pub struct CsvLog {
    sink: CsvSink,
    thread: JoinHandle<io::Result<()>>,
}

/// The end of a [`CsvLog`] that takes records.
#[derive(Clone, Debug)]
pub struct CsvSink {
    records: SyncSender<Option<Record>>,
    left_out: Arc<AtomicU64>,
}

impl Log for CsvSink {
    fn record(&mut self, record: &Record) {
        if self.records.try_send(Some(*record)).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl CsvLog {
    /// Makes the file, or empties it, and writes the header.
    ///
    /// # Errors
    /// The system's: the file cannot be made, or its disk is full.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::over(File::create(path)?)
    }

    /// The same for any writer.
    ///
    /// # Errors
    /// The writer's, of the header.
    pub fn over(out: impl Write + Send + 'static) -> io::Result<Self> {
        let mut out = BufWriter::new(out);
        writeln!(out, "{CSV_HEADER}")?;
        out.flush()?;
        let (records, waiting) = sync_channel(MOST_WAITING);
        let thread = std::thread::Builder::new()
            .name("makeway-log".into())
            .spawn(move || write(out, &waiting))?;
        let sink = CsvSink {
            records,
            left_out: Arc::default(),
        };
        Ok(Self { sink, thread })
    }

    /// The end that takes records.
    pub fn sink(&self) -> CsvSink {
        self.sink.clone()
    }

    /// Whether the log has ended by an error: [`CsvLog::finish`] tells it.
    pub fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }

    /// Writes the records that wait and ends: the number of records that were left out.
    ///
    /// # Errors
    /// The first of the writer.
    pub fn finish(self) -> io::Result<u64> {
        // Where the thread has ended by an error, it is told below.
        let _ = self.sink.records.send(None);
        match self.thread.join() {
            Ok(written) => written.map(|()| self.sink.left_out.load(Ordering::Relaxed)),
            Err(_) => Err(io::Error::other("the thread of the log panicked")),
        }
    }
}

fn write(mut out: BufWriter<impl Write>, records: &Receiver<Option<Record>>) -> io::Result<()> {
    let mut flushed = std::time::Instant::now();
    loop {
        match records.recv_timeout(FLUSH) {
            Ok(Some(record)) => row(&mut out, &record)?,
            Err(RecvTimeoutError::Timeout) => {}
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return out.flush(),
        }
        if flushed.elapsed() >= FLUSH {
            out.flush()?;
            flushed = std::time::Instant::now();
        }
    }
}

fn row(out: &mut impl Write, record: &Record) -> io::Result<()> {
    match record {
        Record::Packet(now, packet, fate) => {
            let (time, created) = (seconds(now.as_nanos()), seconds(packet.created.as_nanos()));
            let deadline = seconds(packet.deadline.as_nanos());
            let (name, id, ssrc) = (fate.name(), packet.id.0, packet.ssrc);
            let (class, bytes) = (packet.class, packet.bytes);
            write!(
                out,
                "{time},{name},{id},{ssrc},{class},{bytes},{created},{deadline},"
            )?;
            match packet.sent {
                Some((at, sequence, rtp)) => {
                    write!(out, "{},{sequence},{rtp},", seconds(at.as_nanos()))?;
                }
                None => write!(out, ",,,")?,
            }
            match fate {
                Fate::Acknowledged {
                    above_least,
                    marked,
                } => {
                    let above = seconds(above_least.as_nanos());
                    writeln!(out, "{above},{},,,,,", u8::from(*marked))
                }
                _ => writeln!(out, ",,,,,,"),
            }
        }
        Record::State(now, state) => {
            let time = seconds(now.saturating_since(Instant::ZERO).as_nanos());
            let (rate, target) = (state.rate.bps(), state.target.bps());
            let (packets, bytes) = (state.backlog.packets, state.backlog.bytes.get());
            let rtt = state.rtt.map(|rtt| seconds(rtt.as_nanos()));
            let rtt = rtt.unwrap_or_default();
            writeln!(
                out,
                "{time},rate,,,,,,,,,,,,{rate},{target},{packets},{bytes},{rtt}"
            )
        }
    }
}

/// With 1 us.
fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use makeway_core::send::{DatagramId, Outcome};

    use super::*;
    use crate::rtp::log::Packet;

    /// A disk with room for a number of bytes.
    #[derive(Clone)]
    struct Disk(Arc<Mutex<Vec<u8>>>, usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut held = self.0.lock().unwrap();
            if held.len() + bytes.len() > self.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            held.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn disk(room: usize) -> Disk {
        Disk(Arc::default(), room)
    }

    fn record(n: u64) -> Record {
        let at = Instant::from_nanos(n * 1_000_000);
        let packet = Packet {
            id: DatagramId(n),
            ssrc: 9,
            class: 1,
            bytes: 100,
            created: at,
            deadline: at,
            sent: None,
        };
        Record::Packet(at, packet, Fate::Queue(Outcome::Expired))
    }

    #[test]
    fn every_row_has_the_columns_of_the_header() {
        let disk = disk(1 << 20);
        let log = CsvLog::over(disk.clone()).unwrap();
        let mut sink = log.sink();
        (0..100).for_each(|n| sink.record(&record(n)));
        assert_eq!(log.finish().unwrap(), 0);
        let text = String::from_utf8(disk.0.lock().unwrap().clone()).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(CSV_HEADER));
        let columns = CSV_HEADER.split(',').count();
        assert!(lines.clone().all(|line| line.split(',').count() == columns));
        assert_eq!(
            lines.next_back(),
            Some("0.099000,expired,99,9,1,100,0.099000,0.099000,,,,,,,,,,")
        );
    }

    #[test]
    fn a_full_disk_is_an_error_at_the_start_or_ends_the_log_and_never_the_call() {
        let full = CsvLog::over(disk(10)).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        let log = CsvLog::over(disk(20_000)).unwrap();
        let mut sink = log.sink();
        // Returns at once although nobody takes the records any more.
        (0..200_000).for_each(|n| sink.record(&record(n)));
        let why = log.finish().unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::StorageFull);
    }

    /// A disk that stands still after the header until the other end of the channel is dropped.
    struct Still(Disk, bool, Mutex<Receiver<()>>);

    impl Write for Still {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if std::mem::replace(&mut self.1, true) {
                let _ = self.2.get_mut().unwrap().recv();
            }
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disk_that_stands_still_costs_rows_which_are_counted_and_no_time() {
        let disk = disk(usize::MAX);
        let (gate, closed) = sync_channel(0);
        let log = CsvLog::over(Still(disk.clone(), false, Mutex::new(closed))).unwrap();
        let mut sink = log.sink();
        let all = 2 * MOST_WAITING as u64;
        (0..all).for_each(|n| sink.record(&record(n)));
        drop::<SyncSender<()>>(gate);
        let left_out = log.finish().unwrap();
        assert!(left_out > 0);
        let rows = disk
            .0
            .lock()
            .unwrap()
            .iter()
            .filter(|b| **b == b'\n')
            .count();
        assert_eq!(rows as u64 - 1 + left_out, all);
    }
}
