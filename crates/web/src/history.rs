// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last hour, day and month in SQLite: means and maxima of 1 s, 10 s and 5 min, in tables of a fixed size.
//!
//! A row is known by its place in a ring, time over step modulo the length of the ring: a sample joins the row of its time, and
//! replaces the one of a round before. So nothing has to be remembered between samples, or swept away, and a process that is killed
//! loses at most the samples of one transaction.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, params};
use serde::Serialize;
use utoipa::ToSchema;

use crate::live::{Live, LiveDirection};

/// Seconds of a row and rows of a ring: an hour, a day, and 31 days.
const RINGS: [(u64, u64); 3] = [(1, 3600), (10, 8640), (300, 8928)];
/// Seconds between writes: a write each second would wear flash memory out.
const TOGETHER: u64 = 5;
/// Most samples that wait while nothing can be written.
const MOST_WAITING: usize = 1000;

/// A span of time that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum Span {
    Hour,
    Day,
    Month,
}

impl Span {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "hour" => Some(Self::Hour),
            "day" => Some(Self::Day),
            "month" => Some(Self::Month),
            _ => None,
        }
    }

    /// Its ring, and the seconds of a point: 360, 288 and 744 points.
    fn ring(self) -> (usize, u64) {
        match self {
            Self::Hour => (0, 10),
            Self::Day => (1, 300),
            Self::Month => (2, 3600),
        }
    }
}

/// A direction over a span; all lists are as long as `t`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Series {
    pub interface: String,
    pub direction: String,
    /// Begin of each point in seconds since 1970. A point without samples is missing.
    pub t: Vec<u64>,
    /// Means of the samples.
    pub sent_bps: Vec<f64>,
    pub rate_bps: Vec<Option<f64>>,
    /// Mean of medians, and maximum of 99th percentiles.
    pub sojourn_p50_ms: Vec<f64>,
    pub sojourn_p99_ms: Vec<f64>,
    /// Maxima of the samples.
    pub backlog_bytes: Vec<u64>,
    /// Packets dropped.
    pub dropped: Vec<u64>,
}

/// All directions over a span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = History)]
pub struct Answer {
    /// Seconds of a point.
    pub step_s: u64,
    pub series: Vec<Series>,
}

/// Database of the history.
#[derive(Debug)]
pub struct History {
    db: Connection,
    waiting: Vec<Sample>,
    /// Second of the last transaction, or of the first sample.
    written: Option<u64>,
    /// Whether the file is still being opened: samples wait for it.
    opens: bool,
}

#[derive(Debug)]
struct Sample {
    interface: String,
    second: u64,
    direction: LiveDirection,
    dropped: u64,
}

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS rows (
        interface TEXT NOT NULL, direction TEXT NOT NULL, ring INTEGER NOT NULL, place INTEGER NOT NULL,
        t INTEGER NOT NULL, samples INTEGER NOT NULL, sent_bps REAL NOT NULL, rate_bps REAL,
        p50_ms REAL NOT NULL, p99_ms REAL NOT NULL, backlog INTEGER NOT NULL, dropped INTEGER NOT NULL,
        PRIMARY KEY (interface, direction, ring, place)
    ) WITHOUT ROWID;
    PRAGMA user_version = 1;";

const JOIN: &str = "
    INSERT INTO rows VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT DO UPDATE SET
        t = excluded.t,
        samples = iif(t = excluded.t, samples, 0) + 1,
        sent_bps = iif(t = excluded.t, sent_bps + (excluded.sent_bps - sent_bps) / (samples + 1), excluded.sent_bps),
        rate_bps = excluded.rate_bps,
        p50_ms = iif(t = excluded.t, p50_ms + (excluded.p50_ms - p50_ms) / (samples + 1), excluded.p50_ms),
        p99_ms = iif(t = excluded.t, max(p99_ms, excluded.p99_ms), excluded.p99_ms),
        backlog = iif(t = excluded.t, max(backlog, excluded.backlog), excluded.backlog),
        dropped = iif(t = excluded.t, dropped, 0) + excluded.dropped";

const ASK: &str = "
    SELECT interface, direction, t / ?2 * ?2, sum(sent_bps * samples) / sum(samples), avg(rate_bps),
        sum(p50_ms * samples) / sum(samples), max(p99_ms), max(backlog), sum(dropped)
    FROM rows WHERE ring = ?1 AND t > ?3 AND t <= ?4 GROUP BY interface, direction, t / ?2 ORDER BY 1, 2, 3";

impl History {
    /// Opens or makes the database at `path`; without a path it lasts as long as this process. A file that is damaged is
    /// moved aside.
    ///
    /// # Errors
    /// If the file cannot be opened or made.
    pub fn open(path: Option<&Path>) -> rusqlite::Result<Self> {
        let Some(path) = path else {
            return Self::with(Connection::open_in_memory()?);
        };
        match Connection::open(path).and_then(Self::with) {
            Err(error) if is_damaged(&error) => {
                // A file that cannot be moved stays, and the next try reports it.
                let _ = fs::rename(path, path.with_extension("damaged"));
                for log in ["db-wal", "db-shm"] {
                    let _ = fs::remove_file(path.with_extension(log));
                }
                Connection::open(path).and_then(Self::with)
            }
            opened => opened,
        }
    }

    fn with(db: Connection) -> rusqlite::Result<Self> {
        // A process that is killed loses no written row; a machine that loses its power, the last moments.
        db.pragma_update(None, "journal_mode", "wal")?;
        db.pragma_update(None, "synchronous", "normal")?;
        db.execute_batch(SCHEMA)?;
        Ok(Self {
            db,
            waiting: Vec::new(),
            written: None,
            opens: false,
        })
    }

    /// History that lasts as long as this process, and whose samples wait for [`Self::opened`].
    ///
    /// # Errors
    /// If there is no memory.
    pub fn opening() -> rusqlite::Result<Self> {
        let memory = Self::open(None)?;
        Ok(Self {
            opens: true,
            ..memory
        })
    }

    /// Whether the rows of before are still missing.
    pub fn is_opening(&self) -> bool {
        self.opens
    }

    /// Continues in the file that was opened, which gets the samples that waited; `None`: it stays in memory.
    pub fn opened(&mut self, file: Option<Self>) {
        self.opens = false;
        if let Some(file) = file {
            self.db = file.db;
        }
    }

    /// Adds the shown state, with the packets of each direction that were dropped since the moment before.
    ///
    /// # Errors
    /// If it cannot be written; the next call tries again.
    pub fn add(
        &mut self,
        live: &Live,
        dropped: impl Fn(&str, &LiveDirection) -> u64,
    ) -> rusqlite::Result<()> {
        let second = live.at_ms / 1000;
        for interface in &live.interfaces {
            let measured = interface
                .directions
                .iter()
                .filter(|one| one.sent_bps.is_some());
            self.waiting.extend(measured.map(|one| Sample {
                interface: interface.asked.name.clone(),
                second,
                direction: one.clone(),
                dropped: dropped(&interface.asked.name, one),
            }));
        }
        let too_many = self.waiting.len().saturating_sub(MOST_WAITING);
        self.waiting.drain(..too_many);
        // A clock that was set back does not stop the writes.
        let written = *self.written.get_or_insert(second);
        if self.opens || second.abs_diff(written) < TOGETHER {
            return Ok(());
        }
        self.written = Some(second);
        self.write(second)
    }

    fn write(&mut self, now: u64) -> rusqlite::Result<()> {
        let all = self.db.transaction()?;
        {
            let mut join = all.prepare_cached(JOIN)?;
            for sample in &self.waiting {
                let one = &sample.direction;
                for (ring, (step, places)) in RINGS.iter().enumerate() {
                    let number = sample.second / step;
                    join.execute(params![
                        sample.interface,
                        one.direction.name(),
                        ring as i64,
                        (number % places) as i64,
                        (number * step) as i64,
                        one.sent_bps.unwrap_or_default(),
                        one.rate_bps.map(|bps| bps as f64),
                        one.sojourn_p50_ms,
                        one.sojourn_p99_ms,
                        one.backlog_bytes as i64,
                        sample.dropped as i64,
                    ])?;
                }
            }
            // Rows of interfaces that are long gone are deleted: the others' rows are replaced in time.
            for (ring, (step, places)) in RINGS.iter().enumerate() {
                let oldest = now.saturating_sub(2 * step * places) as i64;
                let mut forget =
                    all.prepare_cached("DELETE FROM rows WHERE ring = ?1 AND t < ?2")?;
                if now.is_multiple_of(60) {
                    forget.execute(params![ring as i64, oldest])?;
                }
            }
        }
        all.commit()?;
        self.waiting.clear();
        Ok(())
    }

    /// All directions over the span that ends `now`, in seconds since 1970.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn ask(&self, span: Span, now: u64) -> rusqlite::Result<Answer> {
        let (ring, step_s) = span.ring();
        let (step, places) = RINGS[ring];
        let begin = now.saturating_sub(step * places);
        let mut asked = self.db.prepare_cached(ASK)?;
        let mut rows = asked.query(params![
            ring as i64,
            step_s as i64,
            begin as i64,
            now as i64
        ])?;
        let mut series: Vec<Series> = Vec::new();
        while let Some(row) = rows.next()? {
            let (interface, direction): (String, String) = (row.get(0)?, row.get(1)?);
            let last = series.last();
            if last
                .is_none_or(|last| (&last.interface, &last.direction) != (&interface, &direction))
            {
                series.push(Series {
                    interface,
                    direction,
                    ..Series::default()
                });
            }
            let Some(one) = series.last_mut() else {
                continue;
            };
            let whole = |n: i64| n.max(0) as u64;
            one.t.push(whole(row.get(2)?));
            one.sent_bps.push(row.get(3)?);
            one.rate_bps.push(row.get(4)?);
            one.sojourn_p50_ms.push(row.get(5)?);
            one.sojourn_p99_ms.push(row.get(6)?);
            one.backlog_bytes.push(whole(row.get(7)?));
            one.dropped.push(whole(row.get(8)?));
        }
        Ok(Answer { step_s, series })
    }
}

fn is_damaged(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interface;
    use crate::live::LiveInterface;

    /// Egress sends at `bps` with a p99 of `p99` at this second.
    fn at(second: u64, bps: f64, p99: f64) -> Live {
        let asked = Interface {
            name: "wan0".into(),
            ..Interface::default()
        };
        let one = LiveDirection {
            sent_bps: Some(bps),
            rate_bps: Some(9_000_000),
            sojourn_p50_ms: p99 / 2.0,
            sojourn_p99_ms: p99,
            ..LiveDirection::default()
        };
        Live {
            at_ms: second * 1000,
            interfaces: vec![LiveInterface {
                asked,
                directions: vec![one],
                ..LiveInterface::default()
            }],
            events: Vec::new(),
        }
    }

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn points_are_means_and_maxima_of_their_samples() {
        let mut history = History::open(None).unwrap();
        for n in 0..20 {
            let p99 = if n == 13 { 80.0 } else { 4.0 };
            history.add(&at(NOW + n, n as f64, p99), |_, _| 3).unwrap();
        }
        history.write(NOW).unwrap();
        let told = history.ask(Span::Hour, NOW + 20).unwrap();
        let [one] = &told.series[..] else {
            panic!("{told:?}");
        };
        assert_eq!((told.step_s, &*one.direction), (10, "egress"));
        assert_eq!(one.t, [NOW, NOW + 10]);
        assert_eq!(one.sent_bps, [4.5, 14.5]);
        assert_eq!(one.sojourn_p99_ms, [4.0, 80.0]);
        assert_eq!(one.dropped, [30, 30]);
        assert_eq!(one.rate_bps, [Some(9e6); 2]);
        for span in [Span::Day, Span::Month] {
            let told = history.ask(span, NOW + 20).unwrap();
            let one = &told.series[0];
            assert_eq!(one.sent_bps, [9.5], "{span:?}");
            assert_eq!((one.sojourn_p99_ms[0], one.dropped[0]), (80.0, 60));
        }
    }

    #[test]
    fn rings_do_not_grow_and_old_rows_are_replaced() {
        let mut history = History::open(None).unwrap();
        let rows = |history: &History| {
            let count = "SELECT count(*) FROM rows WHERE ring = 0";
            history
                .db
                .query_row(count, [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        for n in 0..2 * 3600 + 7 {
            history.add(&at(NOW + n, n as f64, 1.0), |_, _| 0).unwrap();
        }
        history.write(NOW).unwrap();
        assert_eq!(rows(&history), 3600);
        let end = NOW + 2 * 3600 + 6;
        let told = history.ask(Span::Hour, end).unwrap();
        assert!(told.series[0].t[0] > end - 3600 - 10);
        assert!(told.series[0].sent_bps.iter().all(|bps| *bps > 3600.0));
        // An interface that is gone is forgotten after twice the span.
        history.write(NOW + 86_400 - (NOW + 86_400) % 60).unwrap();
        assert_eq!(rows(&history), 0);
    }

    #[test]
    fn samples_wait_for_a_file_that_is_being_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.db");
        for is_had in [true, false] {
            let mut history = History::opening().unwrap();
            for n in 0..30 {
                history.add(&at(NOW + n, 1.0, 1.0), |_, _| 0).unwrap();
            }
            assert!(history.ask(Span::Hour, NOW + 30).unwrap().series.is_empty());
            history.opened(is_had.then(|| History::open(Some(&path)).unwrap()));
            history.add(&at(NOW + 30, 1.0, 1.0), |_, _| 0).unwrap();
            let told = history.ask(Span::Hour, NOW + 30).unwrap();
            assert_eq!(told.series[0].t, [NOW, NOW + 10, NOW + 20, NOW + 30]);
        }
        let kept = History::open(Some(&path)).unwrap();
        assert_eq!(kept.ask(Span::Hour, NOW + 30).unwrap().series[0].t.len(), 4);
    }

    #[test]
    fn a_damaged_file_is_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.db");
        fs::write(&path, [b'x'; 5000]).unwrap();
        let mut history = History::open(Some(&path)).unwrap();
        history.add(&at(NOW, 1.0, 1.0), |_, _| 0).unwrap();
        history.write(NOW).unwrap();
        drop(history);
        let history = History::open(Some(&path)).unwrap();
        assert_eq!(history.ask(Span::Hour, NOW).unwrap().series[0].t, [NOW]);
        assert!(folder.path().join("history.damaged").exists());
    }
}
