//! How much of a payload a definition uses: the columns and paths that are found, and the axes that records fill.

use super::{DefinitionPath, MissingColumnError, RecordNormalizer};
use crate::base::blank::is_blank;
use crate::base::raw::SourceValue;
use crate::base::text_form::find_mixed_script_word;
use crate::base::wording::excerpt;
use crate::ground::axis::Axis;
use crate::ground::record::RecordContent;
use crate::ground::run::{AxisCoverage, RunWarning};
use crate::ground::value::AxisValue;
use std::collections::BTreeMap;

/// The columns, paths and axes of the definition that a run has found.
#[derive(Debug)]
pub struct DefinitionCoverage<'n> {
    /// The paths that have matched nothing so far.
    unmatched: Vec<DefinitionPath<'n>>,
    /// The target axes of the mappings, each with the number of records that have a value on it.
    filled: Vec<(&'n Axis, u64)>,
    /// The identity axes with words of several scripts, each with the first word and the number of records.
    mixed_scripts: BTreeMap<&'n str, (String, u64)>,
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
        let (mut unmatched, mut warnings) = (Vec::new(), Vec::new());
        match columns {
            Some(columns) => {
                let named = columns.iter().map(String::as_str).filter(|name| !is_blank(name));
                normalizer.check_columns(&named.collect::<Vec<_>>())?;
                if !unnamed.is_empty() {
                    warnings.push(RunWarning::UnnamedColumns { columns: unnamed });
                }
            }
            None => unmatched = normalizer.paths(),
        }
        Ok(Self { unmatched, filled, mixed_scripts: BTreeMap::new(), accepted: 0, warnings })
    }

    /// Notes which paths match in `raw`.
    pub fn note_matched_paths(&mut self, raw: &SourceValue) {
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

    /// The number of records that filled each axis, and the warnings of the run.
    #[must_use]
    pub fn into_parts(self) -> (BTreeMap<String, AxisCoverage>, Vec<RunWarning>) {
        let Self { unmatched, filled, mixed_scripts, accepted, mut warnings } = self;
        let unmatched = unmatched.iter().filter(|path_use| !path_use.may_be_unmatched());
        warnings.extend(unmatched.map(DefinitionPath::unmatched));
        let mixed = mixed_scripts.into_iter();
        warnings.extend(mixed.map(|(axis, (word, records))| RunWarning::MixedScripts {
            axis: axis.to_owned(),
            word,
            records,
        }));
        let fill = |(axis, records): (&Axis, u64)| (axis.axis.clone(), AxisCoverage::new(records, accepted));
        (filled.into_iter().map(fill).collect(), warnings)
    }
}
