// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables in memory: named columns of equal length, each value of which may be absent.

use std::collections::HashMap;

/// Columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Name and values.
    pub columns: Vec<(String, Column)>,
}

/// Values of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Text.
    Text(Text),
    /// Real numbers.
    Real(Vec<Option<f64>>),
    /// Whole numbers.
    Whole(Vec<Option<i64>>),
    /// True or false.
    Flag(Vec<Option<bool>>),
}

impl Table {
    /// With one more column.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, column: Column) -> Self {
        debug_assert!(self.columns.is_empty() || self.len() == column.len());
        self.columns.push((name.into(), column));
        self
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The column `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        let found = self.columns.iter().find(|(known, _)| known == name);
        found.map(|(_, column)| column)
    }

    /// A table of these rows.
    #[must_use]
    pub fn rows(&self, rows: &[usize]) -> Self {
        let columns = self.columns.iter();
        Self {
            columns: columns
                .map(|(name, column)| (name.clone(), column.rows(rows)))
                .collect(),
        }
    }
}

impl Column {
    /// Values, absent ones included.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.ids.len(),
            Self::Real(values) => values.len(),
            Self::Whole(values) => values.len(),
            Self::Flag(values) => values.len(),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn rows(&self, rows: &[usize]) -> Self {
        let rows = rows.iter();
        match self {
            Self::Text(text) => rows.map(|row| text.get(*row)).collect(),
            Self::Real(values) => Self::Real(rows.map(|row| values[*row]).collect()),
            Self::Whole(values) => Self::Whole(rows.map(|row| values[*row]).collect()),
            Self::Flag(values) => Self::Flag(rows.map(|row| values[*row]).collect()),
        }
    }

    /// Column of settings as they are written: numbers or flags if all of them are, and text otherwise.
    pub fn typed<'a>(values: impl Iterator<Item = Option<&'a str>> + Clone) -> Self {
        let known = || values.clone().flatten();
        if known().next().is_none() {
            return Self::Text(values.collect());
        }
        if known().all(|text| text.parse::<i64>().is_ok()) {
            return Self::Whole(values.map(|text| text?.parse().ok()).collect());
        }
        let is_real = |text: &str| text.parse().is_ok_and(f64::is_finite);
        if known().all(is_real) {
            return Self::Real(values.map(|text| text?.parse().ok()).collect());
        }
        if known().all(|text| text.parse::<bool>().is_ok()) {
            return Self::Flag(values.map(|text| text?.parse().ok()).collect());
        }
        Self::Text(values.collect())
    }
}

impl<'a> FromIterator<Option<&'a str>> for Column {
    fn from_iter<I: IntoIterator<Item = Option<&'a str>>>(values: I) -> Self {
        Self::Text(values.into_iter().collect())
    }
}

/// Text that repeats: each word is held once.
#[derive(Clone, Debug, Default)]
pub struct Text {
    ids: Vec<u32>,
    words: Vec<String>,
    known: HashMap<String, u32>,
}

/// Number of a word that is absent.
const NONE: u32 = u32::MAX;

impl Text {
    /// One more value.
    pub fn push(&mut self, value: Option<&str>) {
        let id = value.map_or(NONE, |word| self.number(word));
        self.ids.push(id);
    }

    /// Number of a word, a new one if need be.
    pub(crate) fn number(&mut self, word: &str) -> u32 {
        if let Some(id) = self.known.get(word) {
            return *id;
        }
        let id = self.words.len() as u32;
        self.words.push(word.to_owned());
        self.known.insert(word.to_owned(), id);
        id
    }

    /// The value at `row`.
    pub fn get(&self, row: usize) -> Option<&str> {
        let id = *self.ids.get(row)?;
        self.words.get(id as usize).map(String::as_str)
    }

    /// Number of each value's word, in [`Text::words`]; others than those stand for absent values.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The word of a number.
    pub(crate) fn word(&self, id: u32) -> Option<&str> {
        self.words.get(id as usize).map(String::as_str)
    }

    /// Each word once.
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = Option<&str>> + Clone {
        let word = |id: &u32| self.words.get(*id as usize).map(String::as_str);
        self.ids.iter().map(word)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a> FromIterator<Option<&'a str>> for Text {
    fn from_iter<I: IntoIterator<Item = Option<&'a str>>>(values: I) -> Self {
        let mut text = Self::default();
        values.into_iter().for_each(|value| text.push(value));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_numbers_only_if_all_of_them_are() {
        let typed = |values: &[&str]| Column::typed(values.iter().copied().map(Some));
        assert_eq!(typed(&["1", "20"]), Column::Whole(vec![Some(1), Some(20)]));
        assert_eq!(
            typed(&["1", "0.5"]),
            Column::Real(vec![Some(1.0), Some(0.5)])
        );
        assert_eq!(
            typed(&["true", "false"]),
            Column::Flag(vec![Some(true), Some(false)])
        );
        for texts in [["1mbit", "2"], ["inf", "1"], ["fifo", "true"]] {
            assert!(matches!(typed(&texts), Column::Text(_)), "{texts:?}");
        }
        assert_eq!(
            Column::typed([None, Some("3")].into_iter()),
            Column::Whole(vec![None, Some(3)])
        );
    }
}
