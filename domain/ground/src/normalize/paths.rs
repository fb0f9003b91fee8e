//! The paths that a definition reads from a raw record, so that a path without a match is reported.

use super::RecordNormalizer;
use crate::axis::Axis;
use crate::path::RawFieldPath;
use crate::run::RunWarning;
use domain_base::raw::SourceValue;
use std::collections::BTreeSet;
use std::fmt;
use strum::IntoStaticStr;

/// The maximum number of columns of a header that an error names.
const COLUMNS_NAMED_MAX: usize = 50;
/// The maximum length of a column's name in an error, in characters.
const COLUMN_NAME_MAX_CHARS: usize = 64;

/// A path of a definition, and the part of the definition that contains it.
#[derive(Debug, Clone, Copy)]
pub struct DefinitionPath<'n> {
    path: &'n RawFieldPath,
    field: DefinitionPathField,
    /// The axis that it is for, if any.
    axis: Option<&'n str>,
    /// Whether a default value replaces a missing one.
    has_default: bool,
}

/// The part of a definition that contains a path.
#[derive(Debug, Clone, Copy, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
enum DefinitionPathField {
    Mapping,
    Key,
    #[strum(to_string = "from_unit_field")]
    Unit,
    RequiredFields,
    DeduplicationKey,
    #[strum(to_string = "valid_time.from_field")]
    ValidFrom,
    #[strum(to_string = "valid_time.until_field")]
    ValidUntil,
}

/// A definition reads a column that the header of a delimited payload does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reader} reads column `{column}`, which the header does not have{hint}; its columns are {columns}")]
pub struct MissingColumnError {
    reader: String,
    column: String,
    hint: String,
    columns: String,
}

impl RecordNormalizer {
    /// Every path that the definition reads from a raw record.
    #[must_use]
    pub fn paths(&self) -> Vec<DefinitionPath<'_>> {
        let mut uses = Vec::new();
        for (mapping, axis) in self.with_axes() {
            let has_default = mapping.default.is_some();
            let of_axis =
                |path, field| DefinitionPath { path, field, axis: Some(axis.axis.as_str()), has_default };
            uses.push(of_axis(&mapping.source, DefinitionPathField::Mapping));
            uses.extend(mapping.key.iter().map(|path| of_axis(path, DefinitionPathField::Key)));
            uses.extend(mapping.unit.iter().map(|path| of_axis(path, DefinitionPathField::Unit)));
        }
        let of_all = |path, field| DefinitionPath { path, field, axis: None, has_default: false };
        uses.extend(
            self.required_fields.iter().map(|path| of_all(path, DefinitionPathField::RequiredFields)),
        );
        uses.extend(self.record_key.iter().map(|path| of_all(path, DefinitionPathField::DeduplicationKey)));
        if let Some(valid_time) = &self.valid_time {
            uses.push(of_all(&valid_time.from, DefinitionPathField::ValidFrom));
            uses.extend(valid_time.until.iter().map(|path| of_all(path, DefinitionPathField::ValidUntil)));
        }
        uses
    }

    /// Checks that the header of a delimited payload has every column that the definition reads.
    ///
    /// # Errors
    /// The first column that it does not have.
    pub fn check_columns(&self, columns: &[&str]) -> Result<(), MissingColumnError> {
        let is_there = |path: &RawFieldPath| {
            path.is_every_column() || path.column().is_some_and(|column| columns.contains(&column))
        };
        match self.paths().into_iter().find(|path_use| !is_there(path_use.path)) {
            Some(path_use) => Err(MissingColumnError::new(&path_use, columns)),
            None => Ok(()),
        }
    }

    /// The axes that the definition maps to, in the ontology's order.
    pub fn mapped_axes(&self) -> impl Iterator<Item = &Axis> {
        let axis_indices: BTreeSet<_> = self.mappings.iter().map(|mapping| mapping.axis).collect();
        axis_indices.into_iter().filter_map(|index| self.ontology.axes.get(index))
    }
}

impl DefinitionPath<'_> {
    /// Whether the path matches anything in `raw`.
    #[must_use]
    pub fn matches(&self, raw: &SourceValue) -> bool {
        self.path.matches(raw)
    }

    /// Whether the path may match nothing. A mapping with a default value may exist only for that value.
    #[must_use]
    pub const fn may_be_unmatched(&self) -> bool {
        self.has_default
    }

    /// The warning that the path matched nothing in any record.
    #[must_use]
    pub fn unmatched(&self) -> RunWarning {
        RunWarning::UnmatchedPath {
            path: self.path.as_str().to_owned(),
            field: self.field.into_str().to_owned(),
            axis: self.axis.map(str::to_owned),
        }
    }
}

impl fmt::Display for DefinitionPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, field) = (self.path.as_str(), self.field.into_str());
        match self.axis {
            Some(axis) => write!(f, "the {field} `{path}` of axis `{axis}`"),
            None => write!(f, "`{path}` in `{field}`"),
        }
    }
}

impl MissingColumnError {
    fn new(path_use: &DefinitionPath<'_>, columns: &[&str]) -> Self {
        let text = path_use.path.as_str();
        let name = |name: &str| name.chars().take(COLUMN_NAME_MAX_CHARS).collect::<String>();
        let hint = if path_use.path.column() != Some(text) && columns.contains(&text) {
            let quoted = text.replace('\\', "\\\\").replace('\'', "\\'");
            format!(" (a column called `{text}` is written `['{quoted}']`)")
        } else {
            String::new()
        };
        let named = columns.iter().take(COLUMNS_NAMED_MAX).map(|column| format!("`{}`", name(column)));
        let mut named = named.collect::<Vec<_>>().join(", ");
        let more = columns.len().saturating_sub(COLUMNS_NAMED_MAX);
        if more > 0 {
            named.push_str(&format!(" and {more} more"));
        }
        Self {
            reader: path_use.to_string(),
            column: name(path_use.path.column().unwrap_or(text)),
            hint,
            columns: if named.is_empty() { "none".to_owned() } else { named },
        }
    }
}
