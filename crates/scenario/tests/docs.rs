// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of docs/scenario.md and of the pages of disciplines, made from the fields that the reader accepts, and from disciplines and
//! controllers.

#![allow(clippy::unwrap_used)] // In a test a failure is a panic.

use std::fmt::Write;
use std::path::Path;

use makeway_core::packet::UserId;
use makeway_core::param::Slot;
use makeway_core::rate;
use makeway_core::sched::Discipline;
use makeway_scenario::field::{Default, Field, Values};
use makeway_scenario::{KINDS, SECTIONS, service};

/// Rows of one key, and of the tables below it.
fn rows(of: &str, prefix: &str, fields: &[Field], rows: &mut Vec<[String; 5]>) {
    for field in fields.iter().filter(|field| !field.about.is_empty()) {
        let key = format!("{prefix}{}", field.key);
        let default = match (field.default, field.values) {
            (Default::Needed(_), _) => "must be given".into(),
            (Default::Words(words), _) => words.into(),
            (Default::Value(value), _) => format!("`{value}`"),
        };
        let row = [
            String::new(),
            format!("`{key}`"),
            field.about.into(),
            field.values.allowed(),
            default,
        ];
        match rows.iter_mut().find(|other| other[1..] == row[1..]) {
            Some(same) => same[0] += &format!(", {of}"),
            None => rows.push([
                of.into(),
                row[1].clone(),
                row[2].clone(),
                row[3].clone(),
                row[4].clone(),
            ]),
        }
        if let Values::Table(inner) = field.values {
            self::rows(of, &format!("{key}."), inner, rows);
        }
    }
}

/// A table of the keys of a section; of kinds, with a column for them.
fn keys(kinds: &[(&str, &[Field])]) -> String {
    let mut all = Vec::new();
    for (kind, fields) in kinds {
        rows(kind, "", fields, &mut all);
    }
    let from = usize::from(kinds.len() == 1);
    let columns = [
        ["of", "key", "meaning", "values", "default"].map(String::from),
        ["---"; 5].map(String::from),
    ];
    let lines = columns.iter().chain(&all);
    lines
        .map(|row| format!("| {} |\n", row[from..].join(" | ")))
        .collect()
}

/// Parameters of the rate controllers.
fn controllers() -> String {
    let mut table = String::from(
        "| controller | key | meaning | values | default |\n| --- | --- | --- | --- | --- |\n",
    );
    let named = rate::Config::NAMES.map(|name| (name, name.parse::<rate::Config>().unwrap()));
    let external = (
        rate::Config::EXTERNAL,
        rate::Config::External(rate::Config::FIRST),
    );
    for (name, mut config) in named.into_iter().chain([external]) {
        config.fields(&mut |key, about, slot: &mut dyn Slot| {
            let default = match slot.shown() {
                none if none.is_empty() => "none".into(),
                value => format!("`{value}`"),
            };
            writeln!(
                table,
                "| {name} | `{key}` | {about} | {} | {default} |",
                slot.allowed()
            )
            .unwrap();
        });
    }
    table
}

/// Order of service of each discipline, and its needs.
fn disciplines() -> String {
    let mut table =
        String::from("| `discipline` | order of service | needs |\n| --- | --- | --- |\n");
    for discipline in Discipline::ALL {
        let needs = discipline.spec().needs();
        let all = [
            (needs.users, "users"),
            (needs.weights, "weights"),
            (needs.reads_tags, "tags"),
            (needs.writes_tags, "writes tags"),
            (needs.link_rate, "link rate"),
            (needs.framing, "framing"),
        ];
        let needs: Vec<_> = all.iter().filter(|one| one.0).map(|one| one.1).collect();
        let (name, about) = (discipline.name(), discipline.about());
        writeln!(table, "| `{name}` | {about} | {} |", needs.join(", ")).unwrap();
    }
    table
}

/// Parameters of one discipline, for its page.
fn page(discipline: Discipline) -> String {
    let mut table =
        String::from("| key | meaning | values | default |\n| --- | --- | --- | --- |\n");
    discipline.spec().fields(&mut |key, about, slot| {
        let default = match slot.shown() {
            none if none.is_empty() => String::from("none"),
            value => format!("`{value}`"),
        };
        writeln!(
            table,
            "| `{key}` | {about} | {} | {default} |",
            slot.allowed()
        )
        .unwrap();
    });
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
            // One description, in every discipline.
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
fn the_tables_are_those_of_the_fields() {
    let mut tables = vec![
        ("disciplines", disciplines()),
        ("parameters", parameters()),
        ("controllers", controllers()),
        ("kinds", keys(KINDS)),
    ];
    tables.extend(SECTIONS.iter().map(|one| (one.0, keys(&[*one]))));
    are_those_of("scenario.md", tables);
    let interface = keys(&[("interface", service::FIELDS)]);
    // They have a table of their own.
    let lines = interface.split_inclusive('\n');
    let interface = lines.filter(|line| !line.starts_with("| `autorate."));
    are_those_of(
        "service.md",
        vec![
            ("interface", interface.collect()),
            ("autorate", keys(&[("autorate", service::AUTORATE)])),
            ("web", keys(&[("web", service::WEB)])),
        ],
    );
}

#[test]
fn the_page_of_each_discipline_has_its_parameters() {
    let mut pages = 0;
    for discipline in Discipline::ALL {
        let table = page(discipline);
        let name = format!("disciplines/{}.md", discipline.name());
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs")
            .join(&name);
        // A discipline without parameters has the head alone; a new one, no page yet.
        if table.lines().count() > 2 && file.is_file() {
            are_those_of(&name, vec![("parameters", table)]);
            pages += 1;
        }
    }
    assert!(pages >= 17, "{pages}");
}

/// The page has these tables between its marks.
fn are_those_of(page: &str, tables: Vec<(&str, String)>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut made = text.clone();
    for (name, table) in tables {
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
        text == made,
        "docs/{page} differs from the fields: MAKEWAY_WRITE_DOCS=1 cargo test -p makeway-scenario --test docs"
    );
}

/// A default outside its own range would be a value that no file can give.
#[test]
fn every_default_is_a_value_that_a_file_can_give() {
    fn check(path: &str, fields: &[Field]) -> usize {
        let each = |field: &Field| {
            let path = format!("{path}.{}", field.key);
            let inner = match field.values {
                Values::Table(fields) => check(&path, fields),
                _ => 0,
            };
            if let Default::Value(value) = field.default {
                assert!(field.allows_text(value), "{path} = {value}");
            }
            1 + inner
        };
        fields.iter().map(each).sum()
    }
    let all = SECTIONS.iter().chain(KINDS);
    let fields: usize = all.map(|(name, fields)| check(name, fields)).sum();
    assert!(fields > 100, "{fields}");
}

#[test]
fn the_pages_of_disciplines_say_how_many_users_there_can_be() {
    let pages = [
        include_str!("../../../docs/disciplines/hier.md"),
        include_str!("../../../docs/disciplines/prio.md"),
    ];
    let range = format!("| users | 1 to 2^{} |", UserId::MOST.ilog2());
    for page in pages {
        assert!(page.contains(&range), "{page}");
    }
    assert!(UserId::MOST.is_power_of_two());
}
