// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers for people, and a standard output that may be closed.

use std::fmt;
use std::io::{self, Write};

/// As `println!`, but a closed pipe (`makeway status | head`) is no error.
#[macro_export]
macro_rules! say {
    ($($arguments:tt)*) => {
        $crate::text::write_line(format_args!($($arguments)*))
    };
}
pub use say;

/// Writes a line to the standard output, unless it is closed.
pub fn write_line(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// `12 345`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// `1 interface`, `12 345 interfaces` of `interface`.
pub fn some(n: u64, what: &str) -> String {
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}

/// `1 packet`, `12 345 packets`.
pub fn packets(n: u64) -> String {
    some(n, "packet")
}

/// `950 B`, `124 kB`, `1.24 GB`.
pub fn size(bytes: u64) -> String {
    scaled(bytes as f64, ["B", "kB", "MB", "GB", "TB"])
}

/// `640 bit/s`, `19.8 Mbit/s`.
pub fn rate(bps: f64) -> String {
    scaled(bps, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

/// `0.04 ms`, `61 ms`, `2.1 s`.
pub fn millis(ms: f64) -> String {
    match ms {
        ms if ms <= 0.0 => "0 ms".into(),
        ms if ms < 0.01 => "<0.01 ms".into(),
        ms if ms < 1000.0 => format!("{} ms", three_digits(ms)),
        ms => format!("{} s", three_digits(ms / 1000.0)),
    }
}

/// `12 s`, `3 min 07 s`, `2 h 03 min`, `5 d 04 h`.
pub fn span(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {:02} min", s / 3600, s % 3600 / 60),
        _ => format!("{} d {:02} h", s / 86_400, s % 86_400 / 3600),
    }
}

fn scaled(mut value: f64, units: [&str; 5]) -> String {
    let mut unit = 0;
    // 999.5 would print as 1000.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} {}", units[0]),
        _ => format!("{} {}", three_digits(value), units[unit]),
    }
}

fn three_digits(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(size(0), "0 B");
        assert_eq!(size(999), "999 B");
        assert_eq!(size(1_000), "1.00 kB");
        assert_eq!(size(124_300), "124 kB");
        assert_eq!(rate(19_840_000.0), "19.8 Mbit/s");
        assert_eq!(rate(999_999_999.0), "1.00 Gbit/s");
        assert_eq!(millis(0.0), "0 ms");
        assert_eq!(millis(0.002), "<0.01 ms");
        assert_eq!(millis(61.4), "61.4 ms");
        assert_eq!(millis(2_100.0), "2.10 s");
        assert_eq!(span(59.9), "59 s");
        assert_eq!(span(187.0), "3 min 07 s");
        assert_eq!(span(7_400.0), "2 h 03 min");
    }
}
