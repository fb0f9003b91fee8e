//! How much of a payload a definition uses: the columns and paths that are found, and the axes that records fill. And
//! which columns the payload has, to compare it with the payload of another run.

use super::{DefinitionPath, MissingColumnError, RecordNormalizer};
use crate::axis::Axis;
use crate::record::RecordContent;
use crate::run::{AxisCoverage, RunCounts, RunWarning};
use crate::value::AxisValue;
use domain_base::blank::is_blank;
use domain_base::raw::SourceValue;
use domain_base::text_form::find_mixed_script_word;
use domain_base::wording::excerpt;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The maximum number of columns or members that are compared with those of another run.
const COLUMNS_MAX: usize = 1024;
/// The longest of their names, in bytes.
const COLUMN_NAME_MAX_BYTES: usize = 256;
/// The maximum number of different records whose members are remembered.
const SHAPES_MAX: usize = 4096;

/// The columns, paths and axes of the definition that a run has found.
#[derive(Debug)]
pub struct DefinitionCoverage<'n> {
    /// The paths that have matched nothing so far.
    unmatched: Vec<DefinitionPath<'n>>,
    /// The target axes of the mappings, each with the number of records that have a value on it.
    filled: Vec<(&'n Axis, u64)>,
    /// The identity axes with words of several scripts, each with the first word and the number of records.
    mixed_scripts: BTreeMap<&'n str, (String, u64)>,
    columns: ColumnNames,
    /// Records that passed normalization.
    accepted: u64,
    warnings: Vec<RunWarning>,
}

impl<'n> DefinitionCoverage<'n> {
    /// Begins with the columns of the payload's header, if it has one, and the numbers of those without a name.
    ///
    /// # Errors
    /// `MissingColumnError` if the definition reads a column that the header does not have.
    pub fn new(
        normalizer: &'n RecordNormalizer,
        columns: Option<&[String]>,
        unnamed: Vec<usize>,
    ) -> Result<Self, MissingColumnError> {
        let filled = normalizer.mapped_axes().map(|axis| (axis, 0)).collect();
        let (mut unmatched, mut warnings, mut names) = (Vec::new(), Vec::new(), ColumnNames::default());
        match columns {
            Some(columns) => {
                let named = columns.iter().map(String::as_str).filter(|name| !is_blank(name));
                normalizer.check_columns(&named.clone().collect::<Vec<_>>())?;
                names = ColumnNames::of_header(named);
                if !unnamed.is_empty() {
                    warnings.push(RunWarning::UnnamedColumns { columns: unnamed });
                }
            }
            None => unmatched = normalizer.paths(),
        }
        Ok(Self { unmatched, filled, columns: names, mixed_scripts: BTreeMap::new(), accepted: 0, warnings })
    }

    /// Notes which members `raw` has, and which paths match in it.
    pub fn note_raw_record(&mut self, raw: &SourceValue) {
        self.columns.note(raw);
        self.unmatched.retain(|path| !path.matches(raw));
    }

    /// Notes which axes a record fills.
    pub fn note_filled_axes(&mut self, content: &RecordContent) {
        self.accepted += 1;
        for (axis, records) in &mut self.filled {
            let has_value = if axis.is_group() {
                content.axes.keys().any(|path| axis.key_in(path).is_some())
            } else {
                content.axes.contains_key(&axis.axis)
            };
            *records += u64::from(has_value);
            if let (true, Some(AxisValue::Text(text))) = (axis.identity, content.axes.get(&axis.axis))
                && let Some(word) = find_mixed_script_word(text)
            {
                self.mixed_scripts.entry(&axis.axis).or_insert_with(|| (excerpt(word), 0)).1 += 1;
            }
        }
    }

    /// Stores the number of records that filled each axis, the columns, and the warnings of the run.
    pub fn store_in(self, counts: &mut RunCounts) {
        let Self { unmatched, filled, columns, mixed_scripts, accepted, mut warnings } = self;
        let unmatched = unmatched.iter().filter(|path_use| !path_use.may_be_unmatched());
        warnings.extend(unmatched.map(DefinitionPath::unmatched));
        let mixed = mixed_scripts.into_iter();
        warnings.extend(mixed.map(|(axis, (word, records))| RunWarning::MixedScripts {
            axis: axis.to_owned(),
            word,
            records,
        }));
        let fill = |(axis, records): (&Axis, u64)| (axis.axis.clone(), AxisCoverage::new(records, accepted));
        counts.axes = filled.into_iter().map(fill).collect();
        (counts.columns, counts.warnings) = (columns.into_names(), warnings);
    }
}

/// The names of the columns of a header, or of the members of records that have none.
#[derive(Debug, Default)]
struct ColumnNames {
    names: BTreeSet<String>,
    /// Whether the names are those of a header, which no record adds to.
    is_complete: bool,
    has_too_many: bool,
    /// The hashes of the names of each record so far. Most records have the same members as another one.
    seen: HashSet<u64>,
}

impl ColumnNames {
    fn of_header<'h>(names: impl Iterator<Item = &'h str>) -> Self {
        let mut columns = Self { is_complete: true, ..Self::default() };
        names.for_each(|name| columns.add(name));
        columns
    }

    /// Adds the paths of the members of `raw`. Elements of lists have none.
    fn note(&mut self, raw: &SourceValue) {
        if self.is_complete || self.has_too_many {
            return;
        }
        let mut hasher = DefaultHasher::new();
        hash_names(raw, &mut hasher);
        let hash = hasher.finish();
        if self.seen.contains(&hash) {
            return;
        }
        if self.seen.len() < SHAPES_MAX {
            self.seen.insert(hash);
        }
        self.add_members(raw, "");
    }

    fn add_members(&mut self, raw: &SourceValue, prefix: &str) {
        let SourceValue::Object(members) = raw else { return };
        for (name, value) in members {
            let path = format!("{prefix}{name}");
            match value {
                SourceValue::Object(_) => self.add_members(value, &format!("{path}.")),
                _ => self.add(&path),
            }
        }
    }

    fn add(&mut self, name: &str) {
        if self.has_too_many || self.names.contains(name) {
            return;
        }
        self.has_too_many = self.names.len() == COLUMNS_MAX || name.len() > COLUMN_NAME_MAX_BYTES;
        if !self.has_too_many {
            self.names.insert(name.to_owned());
        }
    }

    fn into_names(self) -> Vec<String> {
        if self.has_too_many { Vec::new() } else { self.names.into_iter().collect() }
    }
}

fn hash_names(raw: &SourceValue, hasher: &mut DefaultHasher) {
    let SourceValue::Object(members) = raw else { return };
    members.len().hash(hasher);
    for (name, value) in members {
        name.hash(hasher);
        hash_names(value, hasher);
    }
}
