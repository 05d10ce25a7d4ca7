// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of a call as CSV.

use std::io::{self, Write};

use makeway_core::units::Instant;
use makeway_log::Format;

use super::log::{Fate, Record};

/// Names of the columns, with their units.
pub const CSV_HEADER: &str = "time_s,event,id,ssrc,class,bytes,created_s,deadline_s,sent_s,sequence,rtp_sequence,above_least_s,ce,\
rate_bps,target_bps,queue_packets,queue_bytes,rtt_s";

/// The event log of a call in CSV: `FileLog::create(path, Csv)` makes the file, and [`FileLog::sink`](super::FileLog::sink) goes to
/// [`Call::log_to`](super::Call::log_to).
#[derive(Clone, Copy, Debug)]
pub struct Csv;

impl Format for Csv {
    type Record = Record;

    fn begin(&mut self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{CSV_HEADER}")
    }

    fn write(&mut self, out: &mut impl Write, record: &Record) -> io::Result<()> {
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
}

/// With 1 us.
fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}

#[cfg(test)]
mod tests {
    use makeway_core::send::{DatagramId, Outcome};

    use super::*;
    use crate::rtp::log::Packet;

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
        let mut text = Vec::new();
        Csv.begin(&mut text).unwrap();
        (0..100).for_each(|n| Csv.write(&mut text, &record(n)).unwrap());
        let text = String::from_utf8(text).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(CSV_HEADER));
        let columns = CSV_HEADER.split(',').count();
        assert!(lines.clone().all(|line| line.split(',').count() == columns));
        assert_eq!(
            lines.next_back(),
            Some("0.099000,expired,99,9,1,100,0.099000,0.099000,,,,,,,,,,")
        );
    }
}
