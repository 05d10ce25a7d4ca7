// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of options: rates, limits, weights, changes of `--set`.

use std::net::IpAddr;

use makeway_core::sched::Discipline;
use makeway_core::ticket::TicketRate;
use makeway_core::units::{Bytes, Rate};

use crate::commands::instance::tickets;

/// Bounds of a rate.
pub type Range = (Rate, Rate);

/// A limit of `--limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Packets(u32),
    Bytes(Bytes),
}

/// A change of `--set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    Rate(Rate),
    Down(Rate),
    Discipline(Discipline),
    Tickets(TicketRate),
}

pub fn param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("write KEY=VALUE, like codel.target=10ms".into()),
    }
}

pub fn rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|error| format!("{error}"))?;
    match rate.bps() {
        0 => Err("a rate must exceed 0: write 20mbit".into()),
        _ => Ok(rate),
    }
}

pub fn range(text: &str) -> Result<Range, String> {
    let wrong = || format!("`{text}` is not LEAST..MOST: write 5mbit..40mbit");
    let (least, most) = text.split_once("..").ok_or_else(wrong)?;
    let (least, most) = (rate(least)?, rate(most)?);
    match least <= most {
        true => Ok((least, most)),
        false => Err(wrong()),
    }
}

pub fn weight(text: &str) -> Result<(IpAddr, u32), String> {
    let wrong = || format!("`{text}` is not ADDRESS=N with N from 1 to 65536: write 192.168.1.7=2");
    let (address, share) = text.split_once('=').ok_or_else(wrong)?;
    let address = address.parse().map_err(|_| wrong())?;
    let share = share.parse().map_err(|_| wrong())?;
    match share {
        1..=65_536 => Ok((address, share)),
        _ => Err(wrong()),
    }
}

pub fn limit(text: &str) -> Result<Limit, String> {
    let wrong = || format!("`{text}` is not a limit above 0: write '100 packets' or 150kB");
    let number = text.strip_suffix("packets").or(text.strip_suffix("packet"));
    let limit = match number {
        Some(number) => Limit::Packets(number.trim().parse().map_err(|_| wrong())?),
        None => Limit::Bytes(text.parse().map_err(|_| wrong())?),
    };
    match limit {
        Limit::Packets(0) | Limit::Bytes(Bytes::ZERO) => Err(wrong()),
        other => Ok(other),
    }
}

pub fn setting(text: &str) -> Result<Setting, String> {
    let wrong = || {
        format!(
            "`{text}` cannot be set while makeway runs: write rate=20mbit, down=50mbit, discipline=fq or tickets=600"
        )
    };
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    match key {
        "rate" => rate(value).map(Setting::Rate),
        "down" => rate(value).map(Setting::Down),
        "tickets" => tickets(value).map(Setting::Tickets),
        "discipline" => match value.parse() {
            Ok(discipline) => Ok(Setting::Discipline(discipline)),
            Err(error) => Err(format!("{error}")),
        },
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use makeway_core::units::Fraction;

    use super::*;

    #[test]
    fn what_cannot_be_is_refused_with_what_could() {
        assert!(rate("0mbit").unwrap_err().contains("20mbit"));
        assert!(rate("20").unwrap_err().contains("20mbit"));
        for text in ["0 packets", "0B", "100", "-1 packets", "many"] {
            assert!(limit(text).unwrap_err().contains("150kB"), "{text}");
        }
        for text in ["5%", "1.1", "-0.1", "NaN"] {
            let error = text.parse::<Fraction>().unwrap_err().to_string();
            assert!(error.contains("0.05"), "{text}");
        }
        assert_eq!("0.03".parse(), Ok(Fraction::ratio(3, 100)));
        for text in ["10.0.0.1", "10.0.0.1=0", "10.0.0.1=65537", "host=2"] {
            assert!(
                weight(text).unwrap_err().contains("192.168.1.7=2"),
                "{text}"
            );
        }
        assert!(
            setting("flows=5-tuple")
                .unwrap_err()
                .contains("discipline=fq")
        );
        assert!(setting("discipline=sfq").unwrap_err().contains("sqf"));
        assert!(setting("rate=0bit").unwrap_err().contains("20mbit"));
    }
}
