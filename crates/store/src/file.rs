// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables as Parquet, in one row group, through the columns of the `parquet` crate: without Arrow, which would take longer to compile
//! than the rest of this crate.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Type as Physical;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::error::StoreError;
use crate::table::{Column, Table};

/// Rows of a table that is read at most: a few bytes of a file can stand for any number of absent values.
const MOST_ROWS: usize = 1 << 24;

/// The bytes of a Parquet file, with `notes` in its metadata.
pub fn write(table: &Table, notes: &[(&str, &str)]) -> Result<Vec<u8>, StoreError> {
    let mut schema = String::from("message table {");
    for (name, column) in &table.columns {
        let kind = match column {
            Column::Text(_) => "BYTE_ARRAY",
            Column::Real(_) => "DOUBLE",
            Column::Whole(_) => "INT64",
            Column::Flag(_) => "BOOLEAN",
        };
        let logical = if kind == "BYTE_ARRAY" {
            " (STRING)"
        } else {
            ""
        };
        let _ = write!(schema, " OPTIONAL {kind} {name}{logical};");
    }
    schema.push('}');
    let notes = notes.iter().map(|(key, value)| KeyValue {
        key: (*key).to_owned(),
        value: Some((*value).to_owned()),
    });
    let properties = WriterProperties::builder()
        .set_created_by("makeway".into())
        .set_key_value_metadata(Some(notes.collect()))
        .build();
    let schema = Arc::new(parse_message_type(&schema)?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (_, column) in &table.columns {
        match column {
            Column::Text(text) => {
                let values = text.iter().map(|word| word.map(ByteArray::from));
                put::<ByteArrayType>(&mut group, values)
            }
            Column::Real(values) => put::<DoubleType>(&mut group, values.iter().copied()),
            Column::Whole(values) => put::<Int64Type>(&mut group, values.iter().copied()),
            Column::Flag(values) => put::<BoolType>(&mut group, values.iter().copied()),
        }?;
    }
    group.close()?;
    Ok(writer.into_inner()?)
}

fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), StoreError>
where
    T::T: Clone,
{
    let (mut present, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(i16::from(value.is_some()));
        present.extend(value);
    }
    let next = group.next_column()?;
    let mut column = next.ok_or_else(|| StoreError::Table("too many columns".into()))?;
    column
        .typed::<T>()
        .write_batch(&present, Some(&levels), None)?;
    column.close()?;
    Ok(())
}

/// Names and texts in the metadata of a file.
type Notes = Vec<(String, String)>;

/// A table as [`write`] wrote it, and its notes.
pub fn read(bytes: Bytes) -> Result<(Table, Notes), StoreError> {
    read_columns(bytes, &|_| true)
}

/// The columns whose name is `wanted`; the others are not decoded.
pub fn read_columns(
    bytes: Bytes,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<(Table, Notes), StoreError> {
    let file = SerializedFileReader::new(bytes)?;
    let metadata = file.metadata();
    let notes = metadata.file_metadata().key_value_metadata();
    let notes = notes.into_iter().flatten();
    let notes = notes.map(|note| (note.key.clone(), note.value.clone().unwrap_or_default()));
    let notes = notes.collect();
    if metadata.num_row_groups() != 1 {
        let groups = metadata.num_row_groups();
        return Err(StoreError::Table(format!("{groups} row groups, not 1")));
    }
    let group = file.get_row_group(0)?;
    let mut table = Table::default();
    for (index, column) in metadata
        .file_metadata()
        .schema_descr()
        .columns()
        .iter()
        .enumerate()
        .filter(|(_, column)| wanted(column.name()))
    {
        let values = match column.physical_type() {
            Physical::BYTE_ARRAY => {
                let values = get::<ByteArrayType>(&*group, index)?;
                let text = values.iter().map(|value| match value {
                    Some(bytes) => std::str::from_utf8(bytes.data()).map(Some),
                    None => Ok(None),
                });
                let text: Result<_, _> = text.collect();
                Column::Text(text.map_err(|error| StoreError::Table(error.to_string()))?)
            }
            Physical::DOUBLE => Column::Real(get::<DoubleType>(&*group, index)?),
            Physical::INT64 => Column::Whole(get::<Int64Type>(&*group, index)?),
            Physical::BOOLEAN => Column::Flag(get::<BoolType>(&*group, index)?),
            other => return Err(StoreError::Table(format!("a column of {other}"))),
        };
        table = table.with(column.name(), values);
    }
    Ok((table, notes))
}

fn get<T: DataType>(
    group: &dyn RowGroupReader,
    index: usize,
) -> Result<Vec<Option<T::T>>, StoreError> {
    let rows = group.metadata().num_rows();
    let rows = usize::try_from(rows).ok().filter(|rows| *rows <= MOST_ROWS);
    let rows = rows.ok_or_else(|| {
        let told = group.metadata().num_rows();
        StoreError::Table(format!("{told} rows, and {MOST_ROWS} are the most"))
    })?;
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(index)?);
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    while levels.len() < rows {
        let left = rows - levels.len();
        let (records, _, _) = reader.read_records(left, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(StoreError::Table(format!(
                "{} of {rows} rows",
                levels.len()
            )));
        }
    }
    let mut values = values.into_iter();
    let row = |level: i16| if level == 1 { values.next() } else { None };
    Ok(levels.into_iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let table = Table::default()
            .with(
                "text",
                [Some("a"), None, Some("ä"), Some("a")]
                    .into_iter()
                    .collect(),
            )
            .with(
                "real",
                Column::Real(vec![None, Some(0.1), Some(-1e300), Some(0.0)]),
            )
            .with(
                "whole",
                Column::Whole(vec![Some(i64::MIN), Some(i64::MAX), None, Some(0)]),
            )
            .with(
                "flag",
                Column::Flag(vec![Some(true), Some(false), None, Some(true)]),
            )
            .with("none", Column::Real(vec![None; 4]));
        let bytes = write(&table, &[("figures", "xyz")]).unwrap();
        let (read, notes) = read(bytes.into()).unwrap();
        assert_eq!(read, table);
        assert_eq!(notes, [("figures".to_owned(), "xyz".to_owned())]);
    }

    #[test]
    fn of_a_table_only_the_columns_that_are_wanted_are_read() {
        let table = Table::default()
            .with("a", Column::Whole(vec![Some(1), None]))
            .with("b", Column::Flag(vec![Some(true); 2]));
        let bytes: Bytes = write(&table, &[("n", "1")]).unwrap().into();
        let (only, notes) = read_columns(bytes.clone(), &|name| name == "b").unwrap();
        assert_eq!(only.columns, table.columns[1..]);
        assert_eq!(notes.len(), 1);
        let (none, notes) = read_columns(bytes, &|_| false).unwrap();
        assert!(none.columns.is_empty() && notes.len() == 1);
    }

    #[test]
    fn many_rows_are_read_to_the_last() {
        let rows = 100_000;
        let table = Table::default().with(
            "n",
            Column::Whole((0..rows).map(|n| (n % 7 != 0).then_some(n)).collect()),
        );
        let bytes = write(&table, &[]).unwrap();
        assert_eq!(read(bytes.into()).unwrap().0, table);
    }

    #[test]
    fn a_truncated_file_is_an_error() {
        let table = Table::default().with("n", Column::Whole((0..1000).map(Some).collect()));
        let bytes = write(&table, &[]).unwrap();
        for length in [0, 3, 100, bytes.len() / 2, bytes.len() - 1] {
            assert!(read(bytes[..length].to_vec().into()).is_err(), "{length}");
        }
    }

    #[test]
    fn more_rows_than_a_part_can_have_are_refused() {
        // Few bytes that would be 2^24 + 1 rows.
        let table = Table::default().with("none", Column::Flag(vec![None; MOST_ROWS + 1]));
        let bytes = write(&table, &[]).unwrap();
        assert!(bytes.len() < 200_000, "{}", bytes.len());
        let error = read(bytes.into()).unwrap_err().to_string();
        assert!(error.contains("16777217 rows"), "{error}");
    }
}
