// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of docs/scenario.md that are made from the disciplines' own descriptions.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::fmt::Write;
use std::path::Path;

use makeway_core::sched::Discipline;

/// Who goes first, and what each discipline has to be told.
fn disciplines() -> String {
    let mut table =
        String::from("| `discipline` | who goes first | needs |\n| --- | --- | --- |\n");
    for discipline in Discipline::ALL {
        let needs = discipline.spec().needs();
        let all = [
            (needs.users, "users"),
            (needs.weights, "weights"),
            (needs.reads_tags, "tags"),
            (needs.writes_tags, "writes tags"),
        ];
        let needs: Vec<_> = all.iter().filter(|one| one.0).map(|one| one.1).collect();
        let (name, about) = (discipline.name(), discipline.about());
        writeln!(table, "| `{name}` | {about} | {} |", needs.join(", ")).unwrap();
    }
    table
}

/// Each parameter once, with the disciplines that have it.
fn parameters() -> String {
    struct Parameter {
        key: String,
        about: &'static str,
        allowed: String,
        /// Values where none is given, and whose.
        defaults: Vec<(String, Vec<&'static str>)>,
    }
    let mut all: Vec<Parameter> = Vec::new();
    for discipline in Discipline::ALL {
        discipline.spec().fields(&mut |key, about, slot| {
            let at = all.iter().position(|one| one.key == key);
            let at = at.unwrap_or_else(|| {
                all.push(Parameter {
                    key: key.into(),
                    about,
                    allowed: slot.allowed(),
                    defaults: Vec::new(),
                });
                all.len() - 1
            });
            let one = &mut all[at];
            // One description, whoever has it.
            assert_eq!((one.about, &one.allowed), (about, &slot.allowed()), "{key}");
            let value = slot.shown();
            match one.defaults.iter_mut().find(|(other, _)| *other == value) {
                Some((_, of)) => of.push(discipline.name()),
                None => one.defaults.push((value, vec![discipline.name()])),
            }
        });
    }
    let mut table = String::from(
        "| key | of | meaning | values | default |\n| --- | --- | --- | --- | --- |\n",
    );
    for one in all {
        let quoted = |value: &String| match value.is_empty() {
            true => "none".to_owned(),
            false => format!("`{value}`"),
        };
        let of: Vec<_> = one
            .defaults
            .iter()
            .flat_map(|(_, of)| of)
            .copied()
            .collect();
        let defaults: Vec<_> = match &one.defaults[..] {
            [(value, _)] => vec![quoted(value)],
            several => {
                let each = several.iter();
                each.map(|(value, of)| format!("{} ({})", quoted(value), of.join(", ")))
                    .collect()
            }
        };
        writeln!(
            table,
            "| `{}` | {} | {} | {} | {} |",
            one.key,
            of.join(", "),
            one.about,
            one.allowed,
            defaults.join(", ")
        )
        .unwrap();
    }
    table
}

#[test]
fn the_tables_are_those_of_the_disciplines() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenario.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let mut made = page.clone();
    for (name, table) in [("disciplines", disciplines()), ("parameters", parameters())] {
        let [begin, end] = [format!("<!-- {name} -->\n"), format!("<!-- /{name} -->")];
        let from = made.find(&begin).expect(&begin) + begin.len();
        let to = made.find(&end).expect(&end);
        made.replace_range(from..to, &table);
    }
    if std::env::var_os("MAKEWAY_WRITE_DOCS").is_some() {
        std::fs::write(&path, made).unwrap();
        return;
    }
    assert!(
        page == made,
        "docs/scenario.md differs from what the disciplines say: MAKEWAY_WRITE_DOCS=1 cargo test -p makeway-scenario --test docs"
    );
}
