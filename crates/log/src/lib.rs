// SPDX-License-Identifier: MIT OR Apache-2.0
#![doc = include_str!("../README.md")]

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Records that wait for the file, 10 s of a call at 3000 packets/s; more are left out and counted.
pub const MOST_WAITING: usize = 1 << 16;
/// A record reaches the file after this time at the latest.
const FLUSH: Duration = Duration::from_secs(1);

/// Takes records. It is called while its source is locked, and packets wait for it, so it must not block: hand records to another
/// thread, as [`FileLog`] does.
pub trait Log<R>: Send {
    /// The next record, in order of time.
    fn record(&mut self, record: &R);
}

/// How records become a file.
pub trait Format: Send + 'static {
    /// A record.
    type Record: Send + 'static;

    /// Writes the beginning of the file.
    ///
    /// # Errors
    /// The writer's.
    fn begin(&mut self, out: &mut impl Write) -> io::Result<()>;

    /// Writes a record.
    ///
    /// # Errors
    /// The writer's.
    fn write(&mut self, out: &mut impl Write, record: &Self::Record) -> io::Result<()>;
}

/// A log in a file: [`FileLog::sink`] goes to the source of records, and [`FileLog::finish`] ends the log.
///
/// The source never waits for the file. Records that find [`MOST_WAITING`] others waiting are left out and counted; an error of the file
/// ends the log and not its source.
#[derive(Debug)]
pub struct FileLog<R> {
    sink: Sink<R>,
    thread: JoinHandle<io::Result<()>>,
}

/// The end of a [`FileLog`] that takes records.
#[derive(Debug)]
pub struct Sink<R> {
    records: SyncSender<Option<R>>,
    left_out: Arc<AtomicU64>,
}

impl<R> Clone for Sink<R> {
    fn clone(&self) -> Self {
        Self {
            records: self.records.clone(),
            left_out: self.left_out.clone(),
        }
    }
}

impl<R: Clone + Send> Log<R> for Sink<R> {
    fn record(&mut self, record: &R) {
        if self.records.try_send(Some(record.clone())).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<R: Send + 'static> FileLog<R> {
    /// Makes the file, or empties it, and writes its beginning.
    ///
    /// # Errors
    /// The system's: the file cannot be made, or its disk is full.
    pub fn create(path: impl AsRef<Path>, format: impl Format<Record = R>) -> io::Result<Self> {
        Self::over(File::create(path)?, format)
    }

    /// The same for any writer.
    ///
    /// # Errors
    /// The writer's, of the beginning.
    pub fn over(
        out: impl Write + Send + 'static,
        mut format: impl Format<Record = R>,
    ) -> io::Result<Self> {
        let mut out = BufWriter::new(out);
        format.begin(&mut out)?;
        out.flush()?;
        let (records, waiting) = sync_channel(MOST_WAITING);
        let thread = std::thread::Builder::new()
            .name("makeway-log".into())
            .spawn(move || write(format, out, &waiting))?;
        let sink = Sink {
            records,
            left_out: Arc::default(),
        };
        Ok(Self { sink, thread })
    }

    /// The end that takes records.
    pub fn sink(&self) -> Sink<R> {
        self.sink.clone()
    }

    /// Whether the log has ended by an error: [`FileLog::finish`] tells it.
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

fn write<F: Format>(
    mut format: F,
    mut out: BufWriter<impl Write>,
    records: &Receiver<Option<F::Record>>,
) -> io::Result<()> {
    let mut flushed = Instant::now();
    loop {
        match records.recv_timeout(FLUSH) {
            Ok(Some(record)) => format.write(&mut out, &record)?,
            Err(RecvTimeoutError::Timeout) => {}
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return out.flush(),
        }
        if flushed.elapsed() >= FLUSH {
            out.flush()?;
            flushed = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Each number in 80 bytes.
    struct Lines;

    impl Format for Lines {
        type Record = u64;

        fn begin(&mut self, out: &mut impl Write) -> io::Result<()> {
            writeln!(out, "a header of numbers")
        }

        fn write(&mut self, out: &mut impl Write, record: &u64) -> io::Result<()> {
            writeln!(out, "{record:079}")
        }
    }

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

    #[test]
    fn records_are_written_in_their_order_behind_the_beginning() {
        let disk = disk(1 << 20);
        let log = FileLog::over(disk.clone(), Lines).unwrap();
        let mut sink = log.sink();
        (0..100).for_each(|n| sink.record(&n));
        assert_eq!(log.finish().unwrap(), 0);
        let text = String::from_utf8(disk.0.lock().unwrap().clone()).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("a header of numbers"));
        let numbers: Vec<u64> = lines.map(|line| line.parse().unwrap()).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_disk_is_an_error_at_the_start_or_ends_the_log_and_never_its_source() {
        let full = FileLog::over(disk(10), Lines).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        let log = FileLog::over(disk(20_000), Lines).unwrap();
        let mut sink = log.sink();
        // Returns at once although no thread takes the records any more.
        (0..200_000).for_each(|n| sink.record(&n));
        let why = log.finish().unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::StorageFull);
    }

    /// A disk that stands still after the beginning until the other end of the channel is dropped.
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
    fn a_disk_that_stands_still_costs_records_which_are_counted_and_no_time() {
        let disk = disk(usize::MAX);
        let (gate, closed) = sync_channel(0);
        let still = Still(disk.clone(), false, Mutex::new(closed));
        let log = FileLog::over(still, Lines).unwrap();
        let mut sink = log.sink();
        let all = 2 * MOST_WAITING as u64;
        (0..all).for_each(|n| sink.record(&n));
        drop::<SyncSender<()>>(gate);
        let left_out = log.finish().unwrap();
        assert!(left_out > 0);
        let held = disk.0.lock().unwrap();
        let lines = held.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines as u64 - 1 + left_out, all);
    }
}
