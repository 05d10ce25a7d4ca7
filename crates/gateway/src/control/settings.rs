// SPDX-License-Identifier: MIT OR Apache-2.0
//! A change of settings, applied to those of a direction: refused in a sentence, or possible as a whole.

use std::collections::BTreeMap;
use std::net::IpAddr;

use makeway_core::framing::Framing;
use makeway_core::param::one_of;
use makeway_core::sched::{Discipline, Limits, Spec};
use makeway_core::units::Rate;

use super::interface::Interface;
use super::protocol::Settings;
use crate::datapath::{DatapathConfig, chosen};
use crate::limit::{Limit, MOST_WEIGHTS};

/// Settings of a direction that has `now` and gets `rate`, if it is given one; its largest IP packet has `mtu` bytes.
///
/// # Errors
/// The first setting that cannot be, with the allowed values and an example.
pub(super) fn applied(
    settings: &Settings,
    now: &DatapathConfig,
    rate: Option<Rate>,
    mtu: u32,
) -> Result<DatapathConfig, String> {
    let spec = spec(settings, &now.spec)?;
    let framing = framing(settings, now.framing)?;
    let rate = rate.or(now.rate);
    Ok(DatapathConfig {
        rate,
        framing,
        limits: match settings.limit {
            None => now.limits,
            Some(limit) => limits(limit, now.limits.flows, rate, framing, mtu)?,
        },
        weights: weights(settings, &now.weights, &spec)?,
        spec,
        ..now.clone()
    })
}

/// The largest IP packet of the interface, where a limit in packets is one in bytes by it.
pub(super) fn mtu(settings: &Settings, interface: &str) -> Result<u32, String> {
    match settings.limit {
        None => Ok(0),
        Some(_) => {
            let found = Interface::find(interface).map_err(|error| error.to_string())?;
            Ok(found.mtu)
        }
    }
}

/// Checks that a datapath that was started with `started` and has `now` can have `new` while it runs.
///
/// # Errors
/// The first setting that it cannot have.
pub(super) fn check_change(
    started: &DatapathConfig,
    now: &DatapathConfig,
    new: &DatapathConfig,
) -> Result<(), String> {
    if (now.limits, &now.weights) != (new.limits, &new.weights) {
        check_room(started, new)?;
    }
    match new.spec == now.spec {
        true => Ok(()),
        false => new.check().map_err(|error| error.to_string()),
    }
}

/// Tables have the size that `started` gave them.
fn check_room(started: &DatapathConfig, new: &DatapathConfig) -> Result<(), String> {
    let Limits { packets, bytes, .. } = new.limits;
    let room = started.room(new.weights.len());
    if packets > room {
        let beside = match new.weights.len() {
            0 => String::new(),
            n => format!(" beside {n} users with a weight"),
        };
        return Err(format!(
            "a limit of {packets} packets{beside} is more than the {room} that there is room for while it runs: start it again with --limit"
        ));
    }
    match bytes > Limits::MOST_BYTES {
        false => Ok(()),
        true => Err(format!(
            "a limit of {bytes} is more than {}: write limit=256kB",
            Limits::MOST_BYTES
        )),
    }
}

/// The discipline with its parameters. Another one begins with those of `makeway up`.
fn spec(settings: &Settings, now: &Spec) -> Result<Spec, String> {
    let discipline = settings.discipline.unwrap_or(now.discipline());
    let is_same = discipline == now.discipline();
    if is_same && settings.parameters.is_empty() {
        return Ok(now.clone());
    }
    let mut spec = discipline.on_a_link();
    let mut values = match is_same {
        true => chosen(now),
        false => BTreeMap::new(),
    };
    let mut keys = Vec::new();
    spec.fields(&mut |key, _, _| keys.push(key.to_owned()));
    for (key, value) in &settings.parameters {
        // An unknown key is refused below.
        if value.is_empty() && keys.contains(key) {
            values.remove(key);
        } else {
            values.insert(key.clone(), value.clone());
        }
    }
    for (key, value) in &values {
        spec.set(key, value).map_err(|error| error.to_string())?;
    }
    spec.check().map_err(|error| error.to_string())?;
    Ok(spec)
}

fn framing(settings: &Settings, now: Framing) -> Result<Framing, String> {
    let Settings { overhead, mpu, .. } = *settings;
    if let Some(bytes) = overhead.filter(|bytes| !(-64..=256).contains(bytes)) {
        return Err(format!(
            "overhead={bytes} is not from -64 to 256: write overhead=38"
        ));
    }
    if let Some(bytes) = mpu.filter(|bytes| *bytes > 256) {
        return Err(format!("mpu={bytes} is not from 0 to 256: write mpu=84"));
    }
    Ok(Framing {
        overhead: overhead.unwrap_or(now.overhead),
        mpu: mpu.unwrap_or(now.mpu),
        cells: settings.cells.unwrap_or(now.cells),
    })
}

fn limits(
    limit: Limit,
    flows: u32,
    rate: Option<Rate>,
    framing: Framing,
    mtu: u32,
) -> Result<Limits, String> {
    if !limit.is_any() {
        return Err("a limit of 0 holds nothing: write limit=100packets or limit=150kB".to_owned());
    }
    // Without a rate as on a fast link.
    const FAST: Rate = Rate::from_bps(100_000_000);
    Ok(Limits {
        flows,
        ..limit.on(rate.unwrap_or(FAST), framing, mtu)
    })
}

fn weights(
    settings: &Settings,
    now: &[(IpAddr, u32)],
    spec: &Spec,
) -> Result<Vec<(IpAddr, u32)>, String> {
    if settings.weights.is_empty() {
        return Ok(now.to_vec());
    }
    let mut all: BTreeMap<IpAddr, u32> = now.iter().copied().collect();
    for (&address, &weight) in &settings.weights {
        match weight {
            1 => {
                all.remove(&address);
            }
            2..=65_536 if spec.needs().weights => {
                all.insert(address, weight);
            }
            2..=65_536 => {
                let weighted = Discipline::ALL.into_iter();
                let weighted = weighted.filter(|one| one.spec().needs().weights);
                let names: Vec<_> = weighted.map(Discipline::name).collect();
                return Err(format!(
                    "weight={address}={weight} needs a discipline with weighted users, and {} has none: write discipline={}",
                    spec.discipline(),
                    one_of(&names)
                ));
            }
            _ => {
                return Err(format!(
                    "weight={address}={weight} is not from 1 to 65536: write weight=192.168.1.7=2"
                ));
            }
        }
    }
    if all.len() > MOST_WEIGHTS as usize {
        return Err(format!(
            "{} users would have a weight, at most {MOST_WEIGHTS} can: give some weight=ADDRESS=1",
            all.len()
        ));
    }
    Ok(all.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use makeway_core::framing::Cells;
    use makeway_core::units::Bytes;

    use super::*;

    const RATE: Rate = Rate::from_bps(20_000_000);

    fn host(n: u8) -> IpAddr {
        IpAddr::from([192, 168, 1, n])
    }

    /// A direction of hier at 20 Mbit/s.
    fn now() -> DatapathConfig {
        let mut spec = Discipline::Hier.spec();
        spec.set("quantum", "3000B").unwrap();
        let limits = Limit::default().on(RATE, Framing::default(), 1500);
        DatapathConfig {
            weights: vec![(host(7), 2), (host(8), 3)],
            ..DatapathConfig::new(0, spec, limits, Some(RATE))
        }
    }

    fn changed(settings: Settings) -> Result<DatapathConfig, String> {
        applied(&settings, &now(), None, 1500)
    }

    fn parameters(values: &[(&str, &str)]) -> BTreeMap<String, String> {
        let all = values.iter();
        all.map(|(key, value)| ((*key).into(), (*value).into()))
            .collect()
    }

    #[test]
    fn what_is_not_named_stays() {
        let none = changed(Settings::default()).unwrap();
        assert_eq!((&none.spec, none.limits), (&now().spec, now().limits));
        assert_eq!((none.rate, none.weights), (Some(RATE), now().weights));
        let rate = Rate::from_bps(5_000_000);
        let one = applied(&Settings::default(), &now(), Some(rate), 1500).unwrap();
        // The limit is that of the start.
        assert_eq!((one.rate, one.limits), (Some(rate), now().limits));
        let framed = changed(Settings {
            mpu: Some(84),
            ..Settings::default()
        });
        let framed = framed.unwrap();
        let expected = Framing {
            mpu: 84,
            ..Framing::default()
        };
        assert_eq!((framed.framing, framed.limits), (expected, now().limits));
    }

    #[test]
    fn a_limit_is_by_the_new_rate_and_framing() {
        let limit = |limit| {
            let settings = Settings {
                limit: Some(limit),
                overhead: Some(38),
                cells: Some(Cells::Ptm),
                ..Settings::default()
            };
            let rate = Some(Rate::from_bps(1_000_000_000));
            applied(&settings, &now(), rate, 1500).unwrap().limits
        };
        // 10 ms of 1 Gbit/s, each packet with its overhead and its code words.
        let by_rate = limit(Limit::default());
        assert_eq!(
            (by_rate.packets, by_rate.bytes),
            (833, Bytes::new(833 * 1563))
        );
        let asked = limit(Limit {
            packets: Some(60),
            bytes: Some(70_000),
        });
        assert_eq!((asked.packets, asked.bytes), (60, Bytes::new(70_000)));
        assert_eq!(asked.flows, now().limits.flows);
    }

    #[test]
    fn weights_change_one_by_one_and_1_takes_one_back() {
        let weights = |weights: &[(u8, u32)]| {
            let weights = weights.iter().map(|&(n, weight)| (host(n), weight));
            let settings = Settings {
                weights: weights.collect(),
                ..Settings::default()
            };
            changed(settings).unwrap().weights
        };
        assert_eq!(weights(&[(7, 5)]), [(host(7), 5), (host(8), 3)]);
        assert_eq!(weights(&[(7, 1), (9, 4)]), [(host(8), 3), (host(9), 4)]);
        assert!(weights(&[(7, 1), (8, 1)]).is_empty());
    }

    #[test]
    fn parameters_change_one_by_one_an_empty_one_is_the_default_and_another_discipline_has_its_own()
    {
        let spec = |discipline, values: &[(&str, &str)]| {
            let settings = Settings {
                discipline,
                parameters: parameters(values),
                ..Settings::default()
            };
            changed(settings).map(|config| chosen(&config.spec))
        };
        let both = spec(None, &[("drop_from", "tail")]).unwrap();
        assert_eq!(
            both,
            parameters(&[("quantum", "3000B"), ("drop_from", "tail")])
        );
        assert_eq!(spec(None, &[("quantum", "")]), Ok(BTreeMap::new()));
        let same = spec(Some(Discipline::Hier), &[]).unwrap();
        assert_eq!(same, parameters(&[("quantum", "3000B")]));
        assert_eq!(spec(Some(Discipline::Fq), &[]), Ok(BTreeMap::new()));
        // `makeway up` has its own default of it.
        let ncq = spec(Some(Discipline::Ncq), &[("ncq.push_out", "false")]).unwrap();
        assert_eq!(ncq, parameters(&[("ncq.push_out", "false")]));
    }

    #[test]
    fn a_limit_may_rise_within_the_tables_of_the_start_and_a_rate_changes_beside_any_weights() {
        let with = |packets, weights: u32| {
            let mut config = now();
            config.limits.packets = packets;
            let host = |n: u32| IpAddr::from(n.to_be_bytes());
            config.weights = (0..weights).map(|n| (host(n), 2)).collect();
            config
        };
        let check = |to: &DatapathConfig| check_change(&with(200, 0), &with(200, 0), to);
        // Of 1024 users one is nobody.
        assert_eq!(check(&with(1023, 0)), Ok(()));
        assert_eq!(check(&with(200, 823)), Ok(()));
        let error = check(&with(1024, 0)).unwrap_err();
        assert!(error.contains("more than the 1023"), "{error}");
        let error = check(&with(200, 824)).unwrap_err();
        let said = "a limit of 200 packets beside 824 users with a weight is more than the 199";
        assert!(error.contains(said), "{error}");
        // The kernel's queue has room for 2048 packets more.
        let large = check_change(&with(9000, 0), &with(9000, 0), &with(11_049, 0));
        assert!(large.unwrap_err().contains("more than the 11048"));

        let many = with(200, 1024);
        let mut faster = many.clone();
        faster.rate = Some(Rate::from_bps(5_000_000));
        assert_eq!(check_change(&many, &many, &faster), Ok(()));
    }

    #[test]
    fn a_setting_that_cannot_be_is_refused_with_the_allowed_values_and_an_example() {
        let weight = |weight| Settings {
            weights: [(host(7), weight)].into(),
            ..Settings::default()
        };
        let limit = |packets, bytes| Settings {
            limit: Some(Limit { packets, bytes }),
            ..Settings::default()
        };
        let parameter = |key, value| Settings {
            parameters: parameters(&[(key, value)]),
            ..Settings::default()
        };
        let default = Settings::default;
        for (settings, said) in [
            (
                Settings {
                    overhead: Some(257),
                    ..default()
                },
                "overhead=257 is not from -64 to 256: write overhead=38",
            ),
            (
                Settings {
                    overhead: Some(-65),
                    ..default()
                },
                "is not from -64 to 256",
            ),
            (
                Settings {
                    mpu: Some(257),
                    ..default()
                },
                "mpu=257 is not from 0 to 256: write mpu=84",
            ),
            (limit(Some(0), None), "write limit=100packets"),
            (limit(Some(7), Some(0)), "write limit=100packets"),
            (weight(0), "weight=192.168.1.7=0 is not from 1 to 65536"),
            (weight(65_537), "is not from 1 to 65536"),
            (
                Settings {
                    discipline: Some(Discipline::Fq),
                    ..weight(2)
                },
                "needs a discipline with weighted users, and fq has none",
            ),
            (
                parameter("quantum", "1B"),
                "`quantum` is 1B: write a size from 64B",
            ),
            (parameter("red.max", "7"), "hier has no parameter `red.max`"),
            (parameter("red.max", ""), "hier has no parameter `red.max`"),
            (
                Settings {
                    discipline: Some(Discipline::Red),
                    ..parameter("red.max", "2")
                },
                "the lower threshold must be below the upper",
            ),
        ] {
            let error = changed(settings).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        // Without a weight there is none to take back, and no fault.
        let fq = Settings {
            discipline: Some(Discipline::Fq),
            ..weight(1)
        };
        assert!(changed(fq).is_ok());
        let many: BTreeMap<_, _> = (0..1025u32)
            .map(|n| (IpAddr::from(n.to_be_bytes()), 2))
            .collect();
        let error = changed(Settings {
            weights: many,
            ..default()
        })
        .unwrap_err();
        assert!(error.contains("at most 1024 can"), "{error}");
    }
}
