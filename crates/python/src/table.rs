// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables as Arrow, through the PyCapsule interface (`__arrow_c_stream__`): polars, pandas, pyarrow and DuckDB take them.

use std::sync::{Arc, OnceLock};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use makeway_store::table::Column;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PySet, PyTuple};

/// Rows of a batch.
const ROWS: usize = 1 << 16;

/// Named columns of equal length; a value may be None. `pl.DataFrame(table)`, `pd.DataFrame.from_arrow(table)`, `pa.table(table)` and
/// DuckDB's `FROM table` read it as Arrow.
#[pyclass(frozen, module = "makeway")]
pub struct Table {
    inner: makeway_store::table::Table,
    /// Made at the first export, and read in place by all that it is given to.
    arrow: OnceLock<Vec<RecordBatch>>,
}

impl From<makeway_store::table::Table> for Table {
    fn from(table: makeway_store::table::Table) -> Self {
        Self {
            inner: table,
            arrow: OnceLock::new(),
        }
    }
}

#[pymethods]
impl Table {
    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.inner
            .columns
            .iter()
            .map(|(name, _)| name.as_str())
            .collect()
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    /// Values of a column.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        match self.inner.column(name) {
            Some(column) => values(py, column, 0..column.len()),
            None => Err(self.no_column(name)),
        }
    }

    /// The rows that have, in each of these columns, the value or one of the list of values. A value that no row has is an error: it would be
    /// a spelling mistake.
    #[pyo3(name = "where")]
    fn rows_where(&self, wanted: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut rows: Vec<usize> = (0..self.inner.len()).collect();
        for (name, value) in wanted.iter() {
            let name: String = name.extract()?;
            let column = self.inner.column(&name);
            let column = column.ok_or_else(|| self.no_column(&name))?;
            let column = values(value.py(), column, 0..column.len())?;
            let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
            let any: Vec<Bound<'_, PyAny>> = match is_list {
                true => value.try_iter()?.collect::<PyResult<_>>()?,
                false => vec![value],
            };
            let mut has = vec![false; column.len()];
            for value in any {
                let mut is_known = false;
                for (has, own) in has.iter_mut().zip(column.iter()) {
                    let is_equal = own.eq(&value)?;
                    *has |= is_equal;
                    is_known |= is_equal;
                }
                if !is_known {
                    let known = PySet::new(value.py(), column.iter())?;
                    let mut known: Vec<_> = known.iter().map(|one| one.to_string()).collect();
                    known.sort();
                    known.truncate(SHOWN);
                    return Err(PyValueError::new_err(format!(
                        "no row has {name} = {value}: there are {}",
                        known.join(", ")
                    )));
                }
            }
            rows.retain(|row| has[*row]);
        }
        Ok(self.inner.rows(&rows).into())
    }

    /// Each row as a dictionary.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let columns = self.inner.columns.iter();
        let columns: Vec<_> = columns
            .map(|(name, column)| Ok((name, values(py, column, 0..column.len())?)))
            .collect::<PyResult<_>>()?;
        let rows = PyList::empty(py);
        for row in 0..self.inner.len() {
            let one = PyDict::new(py);
            for (name, values) in &columns {
                one.set_item(name, values.get_item(row)?)?;
            }
            rows.append(one)?;
        }
        Ok(rows)
    }

    /// Arrow's stream in a capsule, of the same memory each time. A requested schema is only a wish, by the interface's definition.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let schema = schema(&self.inner);
        let made = match self.arrow.get() {
            Some(made) => made,
            None => {
                let made = batches(&self.inner, &schema);
                let made = made.map_err(|error| PyValueError::new_err(error.to_string()))?;
                // Another thread may have been first: its batches stay.
                self.arrow.get_or_init(|| made)
            }
        };
        // Clones share the memory.
        let batches = made.clone().into_iter().map(Ok);
        let batches = RecordBatchIterator::new(batches, schema);
        PyCapsule::new_with_value(
            py,
            FFI_ArrowArrayStream::new(Box::new(batches)),
            c"arrow_array_stream",
        )
    }

    /// Arrow's schema in a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = arrow_array::ffi::FFI_ArrowSchema::try_from(&*schema(&self.inner));
        let schema = schema.map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    fn __repr__(&self) -> String {
        format!(
            "<makeway.Table of {} rows: {}>",
            self.inner.len(),
            self.columns().join(", ")
        )
    }

    fn _repr_html_(&self) -> String {
        html(&self.inner)
    }
}

impl Table {
    fn no_column(&self, name: &str) -> PyErr {
        let known = self.columns().join(", ");
        PyKeyError::new_err(format!("no column {name:?}: there are {known}"))
    }
}

fn values<'py>(
    py: Python<'py>,
    column: &Column,
    rows: std::ops::Range<usize>,
) -> PyResult<Bound<'py, PyList>> {
    match column {
        Column::Text(text) => PyList::new(py, rows.map(|row| text.get(row)).collect::<Vec<_>>()),
        Column::Real(values) => PyList::new(py, &values[rows]),
        Column::Whole(values) => PyList::new(py, &values[rows]),
        Column::Flag(values) => PyList::new(py, &values[rows]),
    }
}

fn schema(table: &makeway_store::table::Table) -> SchemaRef {
    let fields = table.columns.iter().map(|(name, column)| {
        let kind = match column {
            Column::Text(_) => DataType::Utf8,
            Column::Real(_) => DataType::Float64,
            Column::Whole(_) => DataType::Int64,
            Column::Flag(_) => DataType::Boolean,
        };
        Field::new(name, kind, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// All rows as Arrow, in batches; one at least, but for a table without columns.
fn batches(
    table: &makeway_store::table::Table,
    schema: &SchemaRef,
) -> Result<Vec<RecordBatch>, ArrowError> {
    if table.columns.is_empty() {
        return Ok(Vec::new());
    }
    let batch = |at: usize| {
        let rows = at..table.len().min(at + ROWS);
        let columns = table.columns.iter();
        let columns = columns.map(|(_, column)| array(column, rows.clone()));
        RecordBatch::try_new(Arc::clone(schema), columns.collect())
    };
    (0..table.len().max(1)).step_by(ROWS).map(batch).collect()
}

fn array(column: &Column, rows: std::ops::Range<usize>) -> ArrayRef {
    match column {
        Column::Text(text) => Arc::new(StringArray::from_iter(rows.map(|row| text.get(row)))),
        Column::Real(values) => Arc::new(Float64Array::from_iter(values[rows].iter().copied())),
        Column::Whole(values) => Arc::new(Int64Array::from_iter(values[rows].iter().copied())),
        Column::Flag(values) => Arc::new(BooleanArray::from_iter(values[rows].iter().copied())),
    }
}

/// Rows that a notebook shows.
const SHOWN: usize = 20;

fn html(table: &makeway_store::table::Table) -> String {
    let escape = |text: &str| {
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    };
    let cell = |column: &Column, row: usize| match column {
        Column::Text(text) => text.get(row).map(escape),
        Column::Real(values) => values[row].map(|value| {
            // Six digits, without an exponent where there is room.
            let digits = if value == 0.0 {
                0.0
            } else {
                5.0 - value.abs().log10().floor()
            };
            match digits {
                -6.0..=12.0 => format!("{value:.*}", digits.max(0.0) as usize),
                _ => format!("{value:e}"),
            }
        }),
        Column::Whole(values) => values[row].map(|value| value.to_string()),
        Column::Flag(values) => values[row].map(|value| value.to_string()),
    };
    let mut page = String::from("<table><thead><tr>");
    for (name, _) in &table.columns {
        page += &format!("<th>{}</th>", escape(name));
    }
    page += "</tr></thead><tbody>";
    for row in 0..table.len().min(SHOWN) {
        page += "<tr>";
        for (_, column) in &table.columns {
            page += &format!("<td>{}</td>", cell(column, row).unwrap_or_default());
        }
        page += "</tr>";
    }
    page += "</tbody></table>";
    if table.len() > SHOWN {
        page += &format!("<p>{SHOWN} of {} rows</p>", table.len());
    }
    page
}
