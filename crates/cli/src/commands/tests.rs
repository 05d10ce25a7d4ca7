// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command lines of the documentation and of `--help`: each is one that the program takes.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use makeway_testing::page::{Page, spans, words};

use super::Makeway;

/// Placeholders of the pages, and a value of each.
const PLACEHOLDERS: [(&str, &str); 6] = [
    ("KEY=VALUE", "rate=20mbit"),
    ("FILE", "file"),
    ("HOST", "192.0.2.1"),
    ("IFACE", "wan0"),
    ("NAME", "sqf"),
    ("RATE", "20mbit"),
];

/// Words of a line that runs makeway; `None`: it runs another program, or names this one.
fn of_makeway(line: &str) -> Option<Vec<String>> {
    let mut words = words(line);
    if words.first().is_some_and(|first| first == "sudo") {
        words.remove(0);
    }
    let is_ours = |first: &String| first == "makeway" || first.ends_with("/makeway");
    (words.len() > 1 && words.first().is_some_and(is_ours)).then_some(words)
}

/// Reason for which the program does not take these words; `None`: it takes them. A fragment of a sentence may leave arguments out.
fn refusal(words: &[String], is_fragment: bool) -> Option<String> {
    let value_of = |word: &String| {
        let values = PLACEHOLDERS.into_iter();
        values.fold(word.clone(), |word, (name, value)| {
            word.replace(name, value)
        })
    };
    let error = Makeway::try_parse_from(words.iter().map(value_of)).err()?;
    let is_taken = match error.kind() {
        ErrorKind::DisplayHelp => true,
        ErrorKind::MissingRequiredArgument => is_fragment,
        // The last option is without its value.
        ErrorKind::InvalidValue => is_fragment && words.last()?.starts_with("--"),
        _ => false,
    };
    (!is_taken).then(|| format!("{}: {error}", words.join(" ")))
}

/// Pages of Markdown under `folder`.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
}

#[test]
fn each_command_line_of_the_documentation_is_one_that_the_program_takes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    pages(&root.join("docs"), &mut files);
    let (mut wrong, mut whole, mut fragments) = (Vec::new(), 0, 0);
    for file in &files {
        let page = Page::of(&fs::read_to_string(file).unwrap());
        let shells = page.blocks.iter();
        let shells = shells.filter(|block| ["", "sh"].contains(&&*block.language));
        let lines: Vec<String> = shells.flat_map(|block| block.commands()).collect();
        // A comment behind a command names others.
        let named = lines.iter().flat_map(|line| spans(line));
        let named: Vec<String> = named.chain(page.spans).collect();
        let taken = |line: &String, is_fragment: bool| {
            let refused = refusal(&of_makeway(line)?, is_fragment);
            Some(refused.map(|why| format!("{}: {why}", file.display())))
        };
        for refused in lines.iter().filter_map(|line| taken(line, false)) {
            whole += 1;
            wrong.extend(refused);
        }
        for refused in named.iter().filter_map(|line| taken(line, true)) {
            fragments += 1;
            wrong.extend(refused);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Nearly as many as when this was written: the pages are read.
    assert!(
        whole > 50 && fragments > 90,
        "{whole} commands, {fragments} in sentences"
    );
}

#[test]
fn each_example_of_the_help_is_one_that_the_program_takes() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for command in Makeway::command().get_subcommands() {
        let Some(help) = command.get_after_help() else {
            continue;
        };
        let help = help.to_string();
        // More spaces lead an explanation, and part one from its example.
        let examples = help.lines().filter_map(|line| line.strip_prefix("  "));
        let examples = examples.filter_map(|line| line.split("   ").next());
        let examples = examples.filter_map(of_makeway).map(|words| (words, false));
        let named = spans(&help).into_iter();
        let named = named.filter_map(|line| Some((of_makeway(&line)?, true)));
        for (words, is_fragment) in examples.chain(named) {
            count += 1;
            wrong.extend(refusal(&words, is_fragment));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 40, "{count} examples");
}

#[test]
fn a_command_line_that_the_program_does_not_take_is_found() {
    let refused = |line: &str, is_fragment| refusal(&of_makeway(line).unwrap(), is_fragment);
    for line in [
        "makeway up wan0 --rat 20mbit",
        "sudo makeway up --rate 20 wan0",
        "target/release/makeway statsu",
        "makeway up wan0 --discipline sq",
    ] {
        assert!(refused(line, true).is_some(), "{line}");
    }
    for line in ["makeway up wan0", "makeway up wan0 --rate"] {
        assert!(refused(line, false).is_some(), "{line}");
        assert_eq!(refused(line, true), None, "{line}");
    }
    assert_eq!(refused("makeway up IFACE --rate RATE", false), None);
    for other in [
        "makeway-lab papers pps",
        "makeway",
        "systemctl stop makeway",
    ] {
        assert_eq!(of_makeway(other), None);
    }
}
