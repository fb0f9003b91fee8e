//! The rows of a Parquet file as lines of JSON. Lists, maps and values without a meaning as text are left out.

use super::values::{ColumnMeaning, RowColumn, general};
use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Map, Value as Json};
use std::fs::File;
use std::io::Write;

/// The most rows that are in memory.
const BATCH_ROWS: usize = 64;

/// The rows of a file.
struct RowReader {
    file: SerializedFileReader<File>,
    columns: Vec<RowColumn>,
    next_group: usize,
    /// The readers of the current row group, by column.
    readers: Vec<ColumnReader>,
    rows_left: usize,
    /// The columns that are left out.
    omitted: Vec<String>,
}

/// Writes the columns that are left out, and the rows.
pub(super) fn write_rows(file: File, out: &mut impl Write) -> Result<(), ParquetError> {
    let mut rows = RowReader::open(file)?;
    let mut text = serde_json::to_vec(&rows.omitted).map_err(general)?;
    text.push(b'\n');
    out.write_all(&text)?;
    while let Some(batch) = rows.read_batch()? {
        out.write_all(&batch)?;
    }
    Ok(())
}

impl RowReader {
    fn open(file: File) -> Result<Self, ParquetError> {
        let file = SerializedFileReader::new(file)?;
        let (mut columns, mut omitted) = (Vec::<RowColumn>::new(), Vec::new());
        for (index, column) in file.metadata().file_metadata().schema_descr().columns().iter().enumerate() {
            let path = column.path().parts().to_vec();
            if columns.iter().any(|known| known.path == path) {
                return Err(general(format!("two columns have the name `{}`", path.join("."))));
            }
            match ColumnMeaning::of(column) {
                Some(meaning) => {
                    columns.push(RowColumn { index, path, value_level: column.max_def_level(), meaning });
                }
                None => omitted.push(path.join(".")),
            }
        }
        Ok(Self { file, columns, next_group: 0, readers: Vec::new(), rows_left: 0, omitted })
    }

    /// The lines of the next rows; `None` at the end.
    fn read_batch(&mut self) -> Result<Option<Vec<u8>>, ParquetError> {
        while self.rows_left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(None);
            }
            let group = self.file.get_row_group(self.next_group)?;
            self.next_group += 1;
            self.rows_left = usize::try_from(group.metadata().num_rows()).map_err(general)?;
            let readers = self.columns.iter().map(|column| group.get_column_reader(column.index));
            self.readers = readers.collect::<Result<_, _>>()?;
        }
        let mut rows = vec![Map::new(); self.rows_left.min(BATCH_ROWS)];
        for (column, reader) in self.columns.iter().zip(&mut self.readers) {
            let named = |error| ParquetError::General(format!("column `{}`: {error}", column.path.join(".")));
            let values = column.read(reader, rows.len()).map_err(named)?;
            for (row, value) in rows.iter_mut().zip(values) {
                insert(row, &column.path, value);
            }
        }
        self.rows_left -= rows.len();
        let mut text = Vec::new();
        for row in rows {
            serde_json::to_writer(&mut text, &row).map_err(general)?;
            text.push(b'\n');
        }
        Ok(Some(text))
    }
}

/// Inserts a value at a path of names.
fn insert(row: &mut Map<String, Json>, path: &[String], value: Json) {
    match path {
        [] => {}
        [name] => drop(row.insert(name.clone(), value)),
        [name, rest @ ..] => {
            if let Json::Object(inner) = row.entry(name.clone()).or_insert_with(|| Json::Object(Map::new())) {
                insert(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
