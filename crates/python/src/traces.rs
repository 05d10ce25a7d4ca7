// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet traces of other programs, and of runs, as tables.

use std::path::{Path, PathBuf};

use makeway_core::flow::{FlowKey, Identity};
use makeway_scenario::traces;
use makeway_store::table::{Column, Table as Columns, Text};
use pyo3::prelude::*;

use crate::errors::{TraceError, guarded};
use crate::table::Table;

/// Most rows of a table, chosen by us: hostile ones take about a gigabyte.
const MOST_PACKETS: usize = 2_000_000;
const MOST_EVENTS: usize = 4_000_000;

/// The IP packets of a capture, a row each.
#[pyfunction]
pub fn read_capture(py: Python<'_>, path: PathBuf) -> PyResult<Table> {
    py.detach(|| guarded(|| capture(&path)))
}

/// The events of a trace of ns-2, a row each.
#[pyfunction]
pub fn read_ns2(py: Python<'_>, path: PathBuf) -> PyResult<Table> {
    py.detach(|| guarded(|| ns2(&path)))
}

fn capture(path: &Path) -> PyResult<Table> {
    let mut times: Vec<u128> = Vec::new();
    let [mut interface, mut source, mut destination]: [Text; 3] = Default::default();
    let [
        mut bytes,
        mut protocol,
        mut source_port,
        mut destination_port,
    ]: [Vec<Option<i64>>; 4] = Default::default();
    let read = traces::capture(path, |record| {
        if times.len() == MOST_PACKETS {
            return Err(format!(
                "a table has {MOST_PACKETS} packets at most: cut the capture, as `editcap -c` does"
            ));
        }
        times.push(record.ns);
        match record.name {
            Some(name) => interface.push(Some(name)),
            None => interface.push(Some(&record.interface.to_string())),
        }
        bytes.push(i64::try_from(record.length).ok());
        let key = FlowKey::from_ip(Identity::FiveTuple, record.ip);
        let [from, to] = [key.src(), key.dst()].map(|ip| ip.map(|ip| ip.to_string()));
        protocol.push(from.as_ref().map(|_| i64::from(key.protocol())));
        source.push(from.as_deref());
        destination.push(to.as_deref());
        let port = |port: u16| (port > 0).then_some(i64::from(port));
        source_port.push(port(key.sport()));
        destination_port.push(port(key.dport()));
        Ok(())
    });
    read.map_err(|error| TraceError::new_err(error.to_string()))?;
    let first = times.iter().min().copied().unwrap_or_default();
    let seconds = times.iter().map(|ns| Some((ns - first) as f64 / 1e9));
    let unix = times.iter().map(|ns| i64::try_from(*ns).ok());
    Ok(Columns::default()
        .with("time_s", Column::Real(seconds.collect()))
        .with("unix_ns", Column::Whole(unix.collect()))
        .with("interface", Column::Text(interface))
        .with("bytes", Column::Whole(bytes))
        .with("source", Column::Text(source))
        .with("destination", Column::Text(destination))
        .with("protocol", Column::Whole(protocol))
        .with("source_port", Column::Whole(source_port))
        .with("destination_port", Column::Whole(destination_port))
        .into())
}

fn ns2(path: &Path) -> PyResult<Table> {
    let mut time = Vec::new();
    let mut texts: [Text; 5] = Default::default();
    let mut numbers: [Vec<Option<i64>>; 6] = Default::default();
    let read = traces::ns2(path, |event| {
        if time.len() == MOST_EVENTS {
            return Err(format!(
                "a table has {MOST_EVENTS} events at most: cut the trace, or choose events with `grep ^r`"
            ));
        }
        time.push(Some(event.time_s));
        let words = [
            event.event,
            event.kind,
            event.flags,
            event.source,
            event.destination,
        ];
        for (column, word) in texts.iter_mut().zip(words) {
            column.push(Some(word));
        }
        let values = [
            event.from, event.to, event.size, event.flow, event.seq, event.id,
        ];
        for (column, value) in numbers.iter_mut().zip(values) {
            column.push(Some(value));
        }
        Ok(())
    });
    read.map_err(|error| TraceError::new_err(error.to_string()))?;
    let [event, kind, flags, source, destination] = texts.map(Column::Text);
    let [from, to, bytes, flow, seq, id] = numbers.map(Column::Whole);
    Ok(Columns::default()
        .with("event", event)
        .with("time_s", Column::Real(time))
        .with("from", from)
        .with("to", to)
        .with("kind", kind)
        .with("bytes", bytes)
        .with("flags", flags)
        .with("flow", flow)
        .with("source", source)
        .with("destination", destination)
        .with("seq", seq)
        .with("id", id)
        .into())
}
