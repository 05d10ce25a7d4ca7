// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of ns-2 (The ns Manual, chapter "Trace and Monitoring Support", section "Trace file format"), and of `makeway run --trace`:
//! a line for each event of a packet at a queue or a link.

const COLUMNS: &str =
    "event, time, from, to, type, size, flags, flow, source, destination, seq, id";
const EXAMPLE: &str = "+ 0.0063 2 3 tcp 1500 ------- 0 0.10000 3.10000 1448 17";
/// Latest time in s; chosen by us.
const LATEST: f64 = 1e9;

/// An event of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event<'a> {
    /// `+` comes to the queue, `-` begins to be sent, `r` comes to the far end, `d` is dropped; of ns-2 also `e`, spoilt, and `h`, a hop.
    pub event: &'a str,
    /// Seconds.
    pub time_s: f64,
    /// Nodes of the link.
    pub from: i64,
    /// Its other end.
    pub to: i64,
    /// Type of the packet: `tcp`, `ack`, `cbr`.
    pub kind: &'a str,
    /// Bytes.
    pub size: i64,
    /// Seven letters, or `-`.
    pub flags: &'a str,
    /// Flow.
    pub flow: i64,
    /// Node and port of the sender.
    pub source: &'a str,
    /// Node and port of the receiver.
    pub destination: &'a str,
    /// Sequence number.
    pub seq: i64,
    /// Number of the packet.
    pub id: i64,
}

/// Gives `each` the events of `text` in its order; an error of it is that of its line. On error: the line, from 1, and what is
/// wrong.
pub(crate) fn read(
    text: &str,
    mut each: impl FnMut(&Event<'_>) -> Result<(), String>,
) -> Result<(), (usize, String)> {
    for (n, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        // Lines of traced variables begin with `v`.
        if line.is_empty() || line.starts_with(['#', 'v']) {
            continue;
        }
        event(line)
            .and_then(|event| each(&event))
            .map_err(|error| (n, error))?;
    }
    Ok(())
}

fn event(line: &str) -> Result<Event<'_>, String> {
    // Columns of the TCP header, which ns-2 adds if told so, are left out.
    let columns: Vec<&str> = line.split_ascii_whitespace().take(12).collect();
    let &[
        event,
        time,
        from,
        to,
        kind,
        size,
        flags,
        flow,
        source,
        destination,
        seq,
        id,
    ] = &columns[..]
    else {
        return Err(format!(
            "the line has {} columns: {COLUMNS} are twelve, like `{EXAMPLE}` (ns-2's format for radio has others)",
            columns.len()
        ));
    };
    if !matches!(event, "+" | "-" | "r" | "d" | "e" | "h") {
        return Err(format!(
            "`{}` is no event: write +, -, r, d, e or h, as in `{EXAMPLE}`",
            shown(event)
        ));
    }
    let time_s: Option<f64> = time.parse().ok();
    let time_s = time_s
        .filter(|time| (0.0..=LATEST).contains(time))
        .ok_or_else(|| format!("`{}` is no time in s, as in `{EXAMPLE}`", shown(time)))?;
    let whole = |text: &str, name: &str| {
        text.parse::<i64>().map_err(|_| {
            format!(
                "{name} is `{}`: write a whole number, as in `{EXAMPLE}`",
                shown(text)
            )
        })
    };
    Ok(Event {
        event,
        time_s,
        from: whole(from, "from")?,
        to: whole(to, "to")?,
        kind,
        size: whole(size, "size")?,
        flags,
        flow: whole(flow, "flow")?,
        source,
        destination,
        seq: whole(seq, "seq")?,
        id: whole(id, "id")?,
    })
}

/// The beginning of a word, for an error.
fn shown(word: &str) -> String {
    word.chars().take(20).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Result<Vec<String>, (usize, String)> {
        let mut all = Vec::new();
        read(text, |event| {
            all.push(format!("{event:?}"));
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn lines_of_ns_2_and_of_makeway_are_read() {
        // As the manual has it, with the columns of a TCP header, and ours.
        let text = "+ 1.84375 0 2 cbr 210 ------- 0 0.0 3.1 225 610\n\
                    v 2.0 eval {sim_annotation 2.0 1 window}\n\n\
                    r 1.84471 2 1 tcp 1000 ---A--- 1 3.0 1.0 -1 611 0 0x0 40 0\n\
                    - 0.006300640 2 3 tcp 1500 ------- 0 0.10000 3.10000 1448 17\n";
        let all = events(text).unwrap();
        assert_eq!(all.len(), 3);
        let mut last = None;
        read(text, |event| {
            last = Some((event.time_s, event.from, event.size, event.seq, event.id));
            Ok(())
        })
        .unwrap();
        assert_eq!(last, Some((0.006_300_640, 2, 1500, 1448, 17)));
        assert!(
            all[1].contains("flags: \"---A---\"") && all[1].contains("seq: -1"),
            "{all:?}"
        );
    }

    #[test]
    fn errors_name_the_line_and_the_column() {
        let good = EXAMPLE;
        for (line, said) in [
            (
                "s -t 0.267 -Hs 0 -Hd -2 -Ni 0".to_owned(),
                "the line has 9 columns",
            ),
            (good.replace('+', "x"), "`x` is no event"),
            (good.replace("0.0063", "soon"), "`soon` is no time in s"),
            (good.replace("0.0063", "-1"), "`-1` is no time in s"),
            (good.replace("0.0063", "inf"), "`inf` is no time in s"),
            (
                good.replace(" 2 ", " _2_ "),
                "from is `_2_`: write a whole number",
            ),
            (good.replace("1448", "1e400"), "seq is `1e400`"),
            (
                good.replace("17", &"9".repeat(400)),
                "id is `99999999999999999999`",
            ),
        ] {
            let (n, error) = events(&format!("{good}\n{line}\n")).unwrap_err();
            assert_eq!(n, 2, "{error}");
            assert!(error.contains(said), "{said}: {error}");
        }
        let mut rows = 0;
        let refused = read(&format!("{good}\n{good}\n"), |_| {
            rows += 1;
            (rows < 2).then_some(()).ok_or_else(|| "too many".into())
        });
        assert_eq!(refused, Err((2, "too many".into())));
    }
}
