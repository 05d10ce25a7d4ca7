// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes that sessions of the page ask for.

use std::net::IpAddr;

use makeway_core::sched::Discipline;
use makeway_core::units::Rate;
use makeway_scenario::service::Shaped;
use makeway_web::{Change, Request};

use super::{Kept, Page, by_name};

/// Most changes that can be undone.
const MOST_UNDONE: usize = 20;

/// Does what a session asks for.
pub fn serve(kept: &mut super::AllKept, page: &mut Page, request: Request) {
    let done = match by_name(kept, &request.interface) {
        None => Err(format!("the file names no interface {}", request.interface)),
        Some(one) => apply(one, request.change.as_ref()),
    };
    if let Ok(text) = &done {
        page.tell(&request.interface, text);
        crate::text::say!("{}: {text}", request.interface);
    }
    page.show(kept.values());
    // One that went away needs no answer.
    let _ = request.answer.send(done.map(drop));
}

/// The change in words.
fn apply(one: &mut Kept, change: Option<&Change>) -> Result<String, String> {
    let now = one.keeper.want().clone();
    let (want, how) = match change {
        Some(change) => (changed(&now, change)?, "by the page"),
        None => (one.before.pop().ok_or("nothing is left to undo")?, "undone"),
    };
    if want == now {
        return Err("nothing to change".into());
    }
    let text = format!("{}, {how}", difference(&now, &want));
    if change.is_some() {
        if one.before.len() == MOST_UNDONE {
            one.before.remove(0);
        }
        one.before.push(now);
    }
    one.keeper.ask(want);
    Ok(text)
}

/// The interface after the change, if it can be made.
fn changed(now: &Shaped, change: &Change) -> Result<Shaped, String> {
    let mut want = now.clone();
    for (bps, rate, name) in [
        (change.upload_bps, &mut want.upload, "upload"),
        (change.download_bps, &mut want.download, "download"),
    ] {
        match (bps, rate) {
            (None, _) => {}
            (Some(_), None) => {
                return Err(format!(
                    "the {name} is not shaped: give `{name}` in the file"
                ));
            }
            (Some(bps @ 1_000..=1_000_000_000_000), Some(rate)) => *rate = Rate::from_bps(bps),
            (Some(bps), _) => {
                return Err(format!("{name}: {bps} bit/s is not from 1kbit to 1000gbit"));
            }
        }
    }
    if let Some(name) = &change.discipline {
        let discipline: Discipline = name.parse().map_err(|error| format!("{error}"))?;
        if discipline != want.discipline {
            if want.backend == "cake" {
                return Err("the kernel's cake is the only discipline of `backend = \"cake\"`: change `backend` in the file".into());
            }
            want.discipline = discipline;
            // They are of the other one.
            want.parameters.clear();
            if !discipline.spec().needs().weights {
                want.weights.clear();
            }
        }
    }
    if let Some(weights) = &change.weights {
        if !weights.is_empty() && !want.discipline.spec().needs().weights {
            return Err(format!("{} takes no weights", want.discipline));
        }
        let one = |(address, share): (&String, &u32)| -> Result<(IpAddr, u32), String> {
            let wrong = || {
                format!(
                    "`{address}` = {share} is no address with a share from 1 to 65536: 192.168.1.7 = 2"
                )
            };
            let parsed = address.parse().map_err(|_| wrong())?;
            match share {
                1..=65_536 => Ok((parsed, *share)),
                _ => Err(wrong()),
            }
        };
        want.weights = weights.iter().map(one).collect::<Result<_, _>>()?;
    }
    match out_of_range(&want).or_else(|| want.missing().map(|missing| missing.why)) {
        Some(why) => Err(why),
        None => Ok(want),
    }
}

/// The fault of a rate outside autorate's range: `makeway up` would refuse it at its next start.
fn out_of_range(want: &Shaped) -> Option<String> {
    let autorate = want.autorate.as_ref()?;
    let rates = [
        ("upload", want.upload, autorate.upload),
        ("download", want.download, autorate.download),
    ];
    rates.into_iter().find_map(|(name, rate, range)| {
        let (rate, (least, most)) = rate.zip(range)?;
        (!(least..=most).contains(&rate)).then(|| {
            format!("{name}: {rate} is not from {least} to {most}, autorate's range in the file")
        })
    })
}

/// `upload 19mbit to 15mbit, discipline makeway to fq`.
pub fn difference(from: &Shaped, to: &Shaped) -> String {
    let mut all = Vec::new();
    let rates = [
        ("upload", from.upload, to.upload),
        ("download", from.download, to.download),
    ];
    for (name, from, to) in rates {
        if from != to {
            let shown =
                |rate: Option<Rate>| rate.map_or("not shaped".into(), |rate| rate.to_string());
            all.push(format!("{name} {} to {}", shown(from), shown(to)));
        }
    }
    if from.discipline != to.discipline {
        all.push(format!(
            "discipline {} to {}",
            from.discipline, to.discipline
        ));
    }
    if from.weights != to.weights {
        all.push("weights changed".into());
    }
    match all.is_empty() {
        true => "settings changed".into(),
        false => all.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Shaped {
        let text = "[interface.wan0]\nupload = \"20mbit\"\nparameters = { \"codel.target\" = \"9ms\" }\ndiscipline = \"codel\"\n";
        parsed(text)
    }

    fn parsed(text: &str) -> Shaped {
        let service = makeway_scenario::service::parse(text, "makeway.toml");
        service.unwrap_or_else(|error| panic!("{error}")).interfaces[0].clone()
    }

    #[test]
    fn a_change_is_checked_as_the_file_is() {
        let weights = |address: &str, share| Some([(address.to_owned(), share)].into());
        let discipline = |name: &str| Some(name.to_owned());
        for (change, said) in [
            (
                Change {
                    upload_bps: Some(999),
                    ..Change::default()
                },
                "1kbit to 1000gbit",
            ),
            (
                Change {
                    download_bps: Some(1_000_000),
                    ..Change::default()
                },
                "`download` in the file",
            ),
            (
                Change {
                    discipline: discipline("sfq"),
                    ..Change::default()
                },
                "sfq",
            ),
            (
                Change {
                    weights: weights("10.0.0.1", 2),
                    ..Change::default()
                },
                "takes no weights",
            ),
            (
                Change {
                    discipline: discipline("hier"),
                    weights: weights("10.0.0", 2),
                    ..Change::default()
                },
                "192.168.1.7 = 2",
            ),
            (
                Change {
                    discipline: discipline("hier"),
                    weights: weights("10.0.0.1", 0),
                    ..Change::default()
                },
                "1 to 65536",
            ),
        ] {
            let error = changed(&now(), &change).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_rate_outside_the_range_of_autorate_is_refused() {
        let text = "[interface.wan0]\nupload = \"8mbit\"\ndownload = \"30mbit\"\n[interface.wan0.autorate]\nupload = [\"4mbit\", \"16mbit\"]\n";
        let now = parsed(text);
        let to = |upload_bps, download_bps| {
            let change = Change {
                upload_bps,
                download_bps,
                ..Change::default()
            };
            changed(&now, &change)
        };
        for bps in [3_999_000, 16_001_000, 20_000_000] {
            let error = to(Some(bps), None).unwrap_err();
            assert!(error.contains("from 4mbit to 16mbit"), "{error}");
        }
        assert!(to(Some(4_000_000), None).is_ok() && to(Some(16_000_000), None).is_ok());
        // The range of the download is that of each rate.
        assert!(to(None, Some(90_000_000)).is_ok());
    }

    #[test]
    fn the_backend_cake_takes_no_other_discipline() {
        let mut now = now();
        (now.backend, now.discipline) = ("cake".into(), Discipline::Cake);
        (now.parameters, now.weights) = (Vec::new(), Vec::new());
        let change = |name: &str| Change {
            discipline: Some(name.to_owned()),
            ..Change::default()
        };
        assert!(changed(&now, &change("cake")).is_ok());
        let error = changed(&now, &change("fq")).unwrap_err();
        assert!(error.contains("`backend` in the file"), "{error}");
    }

    #[test]
    fn another_discipline_leaves_parameters_and_weights_behind() {
        let hier = Change {
            upload_bps: Some(15_000_000),
            discipline: Some("hier".into()),
            weights: Some([("10.0.0.1".to_owned(), 2)].into()),
            ..Change::default()
        };
        let one = changed(&now(), &hier).unwrap();
        assert_eq!(
            difference(&now(), &one),
            "upload 20mbit to 15mbit, discipline codel to hier, weights changed"
        );
        assert!(one.parameters.is_empty());
        let fq = Change {
            discipline: Some("fq".into()),
            ..Change::default()
        };
        assert!(changed(&one, &fq).unwrap().weights.is_empty());
    }

    #[test]
    fn a_discipline_that_the_backend_does_not_have_is_refused_and_its_weights_are_taken() {
        let with = |backend: &str, discipline: &str, share: u32| {
            let now = Shaped {
                backend: backend.into(),
                ..now()
            };
            let weights = Some(std::iter::once(("10.0.0.1".to_owned(), share)).collect());
            let change = Change {
                discipline: Some(discipline.into()),
                weights: weights.filter(|_| share > 0),
                ..Change::default()
            };
            changed(&now, &change)
        };
        let error = with("bpf", "fq-codel", 0).unwrap_err();
        assert!(error.contains("choose among fifo"), "{error}");
        let error = with("bpf", "fq", 2).unwrap_err();
        assert!(error.contains("takes no weights"), "{error}");
        assert!(with("bpf", "fq", 0).is_ok() && with("bpf", "hier", 2).is_ok());
        assert!(with("auto", "fq-codel", 0).is_ok());
    }
}
