//! Wide tables: the cells of a row become records of their own.

use super::{HeaderLineError, UnnumberedSlice};
use bytes::Bytes;
use domain_base::blank::is_blank;
use domain_base::raw::SourceValue;
use domain_base::text_form::to_nfc;
use domain_ground::format::ColumnUnpivot;
use std::collections::HashSet;
use std::vec;

/// The rows of a wide table, cell by cell. All records of a row have its offset and its bytes.
#[derive(Debug)]
pub(super) struct UnpivotReader {
    /// The names of the columns that become records.
    selected: HashSet<String>,
    /// The names of the fields of a record.
    columns: Vec<String>,
    name: String,
    value: String,
    row: Option<UnpivotedRow>,
}

#[derive(Debug)]
struct UnpivotedRow {
    offset: u64,
    bytes: Bytes,
    /// The other columns.
    common: Vec<(String, SourceValue)>,
    /// The cells that are left, with the names of their columns.
    cells: vec::IntoIter<(String, SourceValue)>,
}

impl UnpivotReader {
    /// The reader for a table with the columns `names`.
    pub(super) fn new(unpivot: &ColumnUnpivot, names: &[String]) -> Result<Self, HeaderLineError> {
        let (name, value) = (to_nfc(&unpivot.name), to_nfc(&unpivot.value));
        let pattern = unpivot.compile().map_err(|pattern| HeaderLineError::NoUnpivotedColumn { pattern })?;
        let is_selected = |column: &String| !is_blank(column) && pattern.is_match(column);
        let selected: HashSet<_> = names.iter().filter(|column| is_selected(column)).cloned().collect();
        if selected.is_empty() {
            return Err(HeaderLineError::NoUnpivotedColumn { pattern: format!("`{}`", unpivot.columns) });
        }
        let is_common = |column: &&String| !selected.contains(*column) && !is_blank(column);
        let mut columns: Vec<_> = names.iter().filter(is_common).cloned().collect();
        if let Some(name) =
            [&name, &value].into_iter().find(|name| columns.iter().any(|column| column == &***name))
        {
            return Err(HeaderLineError::UnpivotName { name: name.to_string() });
        }
        let (name, value) = (name.into_owned(), value.into_owned());
        columns.extend([name.clone(), value.clone()]);
        Ok(Self { selected, columns, name, value, row: None })
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Begins with the cells of the next row.
    pub(super) fn begin_row(&mut self, row: UnnumberedSlice) {
        let UnnumberedSlice { offset, bytes, record } = row;
        let Ok(SourceValue::Object(members)) = record else { return };
        let (cells, common): (Vec<_>, _) =
            members.into_iter().partition(|(column, _)| self.selected.contains(column));
        self.row = Some(UnpivotedRow { offset, bytes, common, cells: cells.into_iter() });
    }

    /// The record of the next cell that is not blank; `None` at the end of the row.
    pub(super) fn next_cell(&mut self) -> Option<UnnumberedSlice> {
        let row = self.row.as_mut()?;
        let (column, value) =
            row.cells.find(|(_, value)| !matches!(value, SourceValue::Text(text) if is_blank(text)))?;
        let mut members = row.common.clone();
        members.extend([(self.name.clone(), SourceValue::Text(column)), (self.value.clone(), value)]);
        let record = Ok(SourceValue::Object(members));
        Some(UnnumberedSlice { offset: row.offset, bytes: row.bytes.clone(), record })
    }
}
