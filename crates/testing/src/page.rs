// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code on a page in Markdown, for tests that read or run it.

/// A block of code: fenced, or indented by four columns or more after an empty line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Language after the fence; empty if there is none, and for an indented block.
    pub language: String,
    /// Lines without the block's indentation.
    pub lines: Vec<String>,
}

impl Block {
    /// Commands of a block of shell: its lines, each that ends in a backslash together with the next.
    pub fn commands(&self) -> Vec<String> {
        let mut commands = Vec::new();
        let mut begun = String::new();
        for line in &self.lines {
            begun += line.trim();
            if let Some(first) = begun.strip_suffix('\\') {
                begun = first.to_owned();
            } else if !begun.is_empty() {
                commands.push(std::mem::take(&mut begun));
            }
        }
        commands.extend(Some(begun).filter(|line| !line.is_empty()));
        commands
    }
}

/// A page: its blocks of code, and the spans of code between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Blocks in their order.
    pub blocks: Vec<Block>,
    /// Spans in their order, each on one line.
    pub spans: Vec<String>,
}

impl Page {
    /// Reads Markdown.
    pub fn of(markdown: &str) -> Self {
        let mut page = Self::default();
        let mut paragraph = String::new();
        let mut lines = markdown.lines().peekable();
        let mut is_after_empty = true;
        while let Some(line) = lines.next() {
            let indent = indent_of(line);
            let text = line.trim();
            let fence = text.strip_prefix("```");
            let is_code = fence.is_some() || is_after_empty && indent >= 4 && !text.is_empty();
            if is_code || text.is_empty() {
                page.spans.extend(spans(&std::mem::take(&mut paragraph)));
            }
            is_after_empty = text.is_empty();
            if let Some(language) = fence {
                let inside = lines.by_ref().take_while(|line| line.trim() != "```");
                page.blocks.push(Block {
                    language: language.trim().to_owned(),
                    lines: inside.map(|line| without(line, indent)).collect(),
                });
            } else if is_code {
                let mut block = Block::default();
                block.lines.push(without(line, indent));
                while let Some(line) = lines.next_if(|line| indent_of(line) >= 4) {
                    block.lines.push(without(line, indent));
                }
                page.blocks.push(block);
            } else {
                paragraph += line;
                paragraph.push('\n');
            }
        }
        page.spans.extend(spans(&paragraph));
        page
    }
}

/// Columns before the first letter; 0 of an empty line.
fn indent_of(line: &str) -> usize {
    match line.trim().is_empty() {
        true => 0,
        false => line.len() - line.trim_start().len(),
    }
}

fn without(line: &str, indent: usize) -> String {
    let cut = indent_of(line).min(indent);
    line.get(cut..).unwrap_or_default().trim_end().to_owned()
}

/// Spans of code in a paragraph, each on one line.
pub fn spans(paragraph: &str) -> Vec<String> {
    let parts: Vec<&str> = paragraph.split('`').collect();
    // The last part is text, or a span without an end.
    let closed = &parts[..parts.len() - 1];
    let inside = closed.iter().skip(1).step_by(2);
    let in_words = |span: &&str| span.split_whitespace().collect::<Vec<_>>().join(" ");
    inside.map(in_words).collect()
}

/// Words of the first command on a line of a shell, without quotes: up to a comment, `|`, `;`, `&`, `<` or `>`.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None => match c {
                '\'' | '"' => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                '#' if word.is_none() => break,
                '|' | ';' | '&' | '<' | '>' => break,
                _ if c.is_whitespace() => words.extend(word.take()),
                _ => word.get_or_insert_default().push(c),
            },
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A page\n\nText with `one span` and `another\none`.\n\n1. A step:\n\n        sudo first --flag \\\n          more\n        second\n\n   ```toml\n   [a]\n     b = 1\n   ```\n   Text `three`.\n\n    third    # `four`\n";

    #[test]
    fn a_page_has_blocks_and_spans_between_them() {
        let page = Page::of(PAGE);
        assert_eq!(page.spans, ["one span", "another one", "three"]);
        let blocks = page.blocks.iter().map(|block| &*block.language);
        assert_eq!(blocks.collect::<Vec<_>>(), ["", "toml", ""]);
        assert_eq!(page.blocks[1].lines, ["[a]", "  b = 1"]);
        assert_eq!(
            page.blocks[0].commands(),
            ["sudo first --flag more", "second"]
        );
        assert_eq!(page.blocks[2].commands(), ["third    # `four`"]);
    }

    #[test]
    fn a_span_without_an_end_is_none() {
        assert_eq!(spans("`one` and `two"), ["one"]);
        assert_eq!(spans("none"), [""; 0]);
    }

    #[test]
    fn words_end_at_a_comment_or_another_command_and_have_no_quotes() {
        for (line, read) in [
            ("run  a#b  # comment", vec!["run", "a#b"]),
            ("run 'a b' \"c'd\" ''", vec!["run", "a b", "c'd", ""]),
            ("run --json | jq .x", vec!["run", "--json"]),
            ("run a; run b", vec!["run", "a"]),
            ("run a && run b", vec!["run", "a"]),
            ("run <file >other", vec!["run"]),
        ] {
            assert_eq!(words(line), read, "{line}");
        }
    }
}
