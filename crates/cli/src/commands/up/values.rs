// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of options: rates, limits, weights, changes of `--set`.

use std::net::IpAddr;

use makeway_core::framing::Cells;
use makeway_core::sched::Discipline;
use makeway_core::ticket::TicketRate;
use makeway_core::units::{Bytes, Rate};
use makeway_gateway::control::protocol::Settings;
use makeway_gateway::limit::Limit;

use crate::commands::instance::tickets;

/// Bounds of a rate.
pub type Range = (Rate, Rate);

/// A change of `--set`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    Rate(Rate),
    Down(Rate),
    Discipline(Discipline),
    Tickets(TicketRate),
    Limit(Limit),
    Overhead(i32),
    Mpu(u32),
    Cells(Cells),
    Weight(IpAddr, u32),
    Parameter(String, String),
}

/// All settings as one change; of several with one key the last counts.
pub fn settings(all: &[Setting]) -> Settings {
    let mut settings = Settings::default();
    for one in all {
        match one {
            Setting::Rate(rate) => settings.rate_bps = Some(rate.bps()),
            Setting::Down(rate) => settings.down_bps = Some(rate.bps()),
            Setting::Discipline(one) => settings.discipline = Some(*one),
            Setting::Tickets(rate) => settings.tickets = Some(rate.per_second()),
            Setting::Limit(limit) => {
                settings.limit = Some(settings.limit.unwrap_or_default().and(*limit));
            }
            Setting::Overhead(bytes) => settings.overhead = Some(*bytes),
            Setting::Mpu(bytes) => settings.mpu = Some(*bytes),
            Setting::Cells(cells) => settings.cells = Some(*cells),
            Setting::Weight(address, weight) => {
                settings.weights.insert(*address, *weight);
            }
            Setting::Parameter(key, value) => {
                settings.parameters.insert(key.clone(), value.clone());
            }
        }
    }
    settings
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
        Some(number) => Limit {
            packets: Some(number.trim().parse().map_err(|_| wrong())?),
            bytes: None,
        },
        None => Limit {
            packets: None,
            bytes: Some(text.parse().map(Bytes::get).map_err(|_| wrong())?),
        },
    };
    limit.is_any().then_some(limit).ok_or_else(wrong)
}

pub fn setting(text: &str) -> Result<Setting, String> {
    let wrong = || {
        format!(
            "`{text}` cannot be set while makeway runs: write rate=20mbit, down=50mbit, discipline=fq, limit=100packets, overhead=38, mpu=84, cells=ptm, weight=192.168.1.7=2, tickets=600, or a parameter like codel.target=10ms"
        )
    };
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    let whole = |least: i32, example: &str| {
        let read = value.parse().ok();
        let read = read.filter(|bytes: &i32| (least..=256).contains(bytes));
        read.ok_or_else(|| {
            format!("`{text}` is not a whole number from {least} to 256: write {example}")
        })
    };
    match key {
        "rate" => rate(value).map(Setting::Rate),
        "down" => rate(value).map(Setting::Down),
        "tickets" => tickets(value).map(Setting::Tickets),
        "discipline" => match value.parse() {
            Ok(discipline) => Ok(Setting::Discipline(discipline)),
            Err(error) => Err(format!("{error}")),
        },
        "limit" if value == "default" => Ok(Setting::Limit(Limit::default())),
        "limit" => limit(value).map(Setting::Limit),
        "overhead" => whole(-64, "overhead=38").map(Setting::Overhead),
        "mpu" => whole(0, "mpu=84").map(|bytes| Setting::Mpu(bytes.unsigned_abs())),
        "cells" => match value.parse() {
            Ok(cells) => Ok(Setting::Cells(cells)),
            Err(error) => Err(format!("{error}")),
        },
        "weight" => weight(value).map(|(address, share)| Setting::Weight(address, share)),
        // Its value is checked by the discipline that runs.
        key if is_parameter(key) => Ok(Setting::Parameter(key.into(), value.into())),
        _ => Err(wrong()),
    }
}

/// Whether a discipline has a parameter of that key.
fn is_parameter(key: &str) -> bool {
    let mut all = Discipline::ALL.into_iter();
    all.any(|discipline| {
        let mut is_one = false;
        discipline
            .spec()
            .fields(&mut |own, _, _| is_one |= own == key);
        is_one
    })
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
        for (text, said) in [
            ("limit=0packets", "150kB"),
            (
                "overhead=257",
                "a whole number from -64 to 256: write overhead=38",
            ),
            ("mpu=-1", "a whole number from 0 to 256: write mpu=84"),
            ("cells=xtm", "choose none, atm or ptm"),
            ("weight=10.0.0.1", "192.168.1.7=2"),
            ("weight=10.0.0.1=0", "192.168.1.7=2"),
            ("codel.trget=9ms", "codel.target=10ms"),
            ("rate", "codel.target=10ms"),
        ] {
            let error = setting(text).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn several_settings_are_one_change_and_the_last_of_one_counts() {
        let of = |texts: &[&str]| {
            let all = texts.iter().map(|text| setting(text));
            let all: Result<Vec<_>, _> = all.collect();
            settings(&all.unwrap_or_else(|error| panic!("{error}")))
        };
        let all = of(&[
            "rate=9mbit",
            "rate=8mbit",
            "discipline=hier",
            "limit=100 packets",
            "limit=150kB",
            "overhead=-4",
            "mpu=64",
            "cells=ptm",
            "weight=10.0.0.1=2",
            "weight=2001:db8::1=1",
            "quantum=3000B",
            "drop_from=",
        ]);
        let expected = Settings {
            rate_bps: Some(8_000_000),
            discipline: Some(Discipline::Hier),
            limit: Some(Limit {
                packets: Some(100),
                bytes: Some(150_000),
            }),
            overhead: Some(-4),
            mpu: Some(64),
            cells: Some(Cells::Ptm),
            weights: [
                ("10.0.0.1".parse().unwrap(), 2),
                ("2001:db8::1".parse().unwrap(), 1),
            ]
            .into(),
            parameters: [
                ("quantum".to_owned(), "3000B".to_owned()),
                ("drop_from".to_owned(), String::new()),
            ]
            .into(),
            ..Settings::default()
        };
        assert_eq!(all, expected);
        assert_eq!(of(&["limit=default"]).limit, Some(Limit::default()));
        assert!(of(&["rate=9mbit", "down=8mbit"]).is_of_rates());
    }
}
