//! The fields that identify a record.

use super::columns::{FieldValues, FoundFields, SampleColumn, find_fields};
use super::notation::ValueForm;
use super::remark::SourceRemark;
use domain_base::raw::SourceValue;
use std::collections::HashSet;

/// The most fields of which all selections are tried; with more fields, the superfluous ones are removed.
const TRIED_FIELDS_MAX: usize = 3;
/// The most fields that can identify a record; further ones are not tried.
const CANDIDATES_MAX: usize = 16;
/// The average length of a text that is probably no name, in characters.
const NAME_CHARS_MAX: usize = 40;
/// Parts of the names of fields that usually identify a record.
const ID_WORDS: [&str; 9] = ["code", "iso", "key", "number", "uuid", "isin", "ean", "gtin", "alpha"];
/// Words in the names of fields with parts of a time.
const TIME_WORDS: [&str; 9] = ["year", "quarter", "month", "week", "day", "hour", "minute", "jahr", "monat"];
/// Parts of the names of fields with dates that are an attribute of a record.
const EVENT_WORDS: [&str; 17] = [
    "updat", "modif", "chang", "creat", "birth", "death", "start", "end", "begin", "expir", "valid",
    "publish", "releas", "retriev", "insert", "load", "extract",
];
/// Columns of SDMX-CSV that are neither dimensions nor observations.
const SDMX_HEADER: [&str; 7] =
    ["dataflow", "structure", "structure_id", "structure_name", "action", "last update", "key"];

/// The fields of a sample.
#[derive(Debug)]
pub(super) struct FoundColumns {
    /// Those of the identity first.
    pub(super) columns: Vec<SampleColumn>,
    /// Whether the values of the identity occur once.
    pub(super) has_identity: bool,
    /// Remarks on the identity.
    pub(super) remarks: Vec<SourceRemark>,
    /// The fields that no axis takes, for readers.
    pub(super) omitted: Vec<String>,
}

impl FoundColumns {
    /// The remark on the fields that no axis takes.
    pub(super) fn no_axis(&self) -> Option<SourceRemark> {
        (!self.omitted.is_empty()).then(|| SourceRemark::NoAxis { fields: self.omitted.clone() })
    }
}

/// The fields that identify a record.
#[derive(Debug)]
struct FoundIdentity {
    /// The indexes of the columns. If none identify a record, those that may be a part of its identity.
    fields: Vec<usize>,
    is_found: bool,
    remarks: Vec<SourceRemark>,
}

/// How probably a field is a part of the identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum IdentityRank {
    Id,
    /// A name, or the time of an observation.
    Name,
    /// A long text, or a date that is an attribute of the record.
    Attribute,
    Measured,
}

/// The fields of the records, those first that identify a record. `period` is the field with the names of unpivoted columns, if they are
/// periods, and their format. With more than `columns_max` fields, groups are formed.
///
/// # Errors
/// The records have too many fields.
pub(super) fn find_columns(
    records: &[SourceValue],
    period: Option<(&str, Option<&'static str>)>,
    columns_max: usize,
) -> Result<FoundColumns, String> {
    let FoundFields { mut columns, cells, records, omitted } = find_fields(records, period, columns_max)?;
    let identity = find_identity(&columns, &cells, records);
    for (index, column) in columns.iter_mut().enumerate() {
        column.is_identity = identity.fields.contains(&index);
        let missing = records.saturating_sub(column.filled);
        if column.filled == 0 {
            column.remarks.push(SourceRemark::NoValue);
        } else if missing > 0 && column.group.is_none() {
            column.remarks.push(SourceRemark::MissingValues { records: missing });
        }
    }
    // the last identity axis is the one by which a query finds the latest record
    columns.sort_by_key(|column| (!column.is_identity, column.is_identity && column.form.is_time()));
    Ok(FoundColumns { columns, has_identity: identity.is_found, remarks: identity.remarks, omitted })
}

/// The fewest fields whose values together occur only once, the most probable ones first. Measured numbers and dates are used only
/// if no other fields identify a record.
fn find_identity(columns: &[SampleColumn], cells: &[FieldValues], records: usize) -> FoundIdentity {
    let sample = IdentitySample { columns, cells, records };
    if let Some(found) = sample.sdmx() {
        return found;
    }
    let candidates = sample.candidates();
    let up_to = |rank: IdentityRank| -> Vec<usize> {
        candidates.iter().filter(|(_, other)| *other <= rank).map(|(index, _)| *index).collect()
    };
    let (names, attributes) = (up_to(IdentityRank::Name), up_to(IdentityRank::Attribute));
    if let Some(mut fields) = sample.without_measured(&names, &attributes) {
        fields.extend(sample.constant_periods());
        let is_attribute = |field: &usize| !names.contains(field);
        let remarks = fields.iter().any(is_attribute).then_some(SourceRemark::MeasuredIdentity);
        return FoundIdentity { fields, is_found: true, remarks: remarks.into_iter().collect() };
    }
    // a few records that occur twice do not make a measured value a part of the identity
    let keys = sample.count_keys(&attributes);
    if keys * 10 >= records * 9 && !attributes.is_empty() {
        let fields = sample.reduced(&attributes, keys).unwrap_or(attributes);
        return FoundIdentity { fields, is_found: false, remarks: vec![SourceRemark::NoIdentity] };
    }
    let all = up_to(IdentityRank::Measured);
    match sample.smallest(&all).or_else(|| sample.reduced(&all, records)) {
        Some(fields) => {
            FoundIdentity { fields, is_found: true, remarks: vec![SourceRemark::MeasuredIdentity] }
        }
        None => {
            let fields = if attributes.is_empty() { all } else { attributes };
            let fields = if fields.is_empty() { sample.fullest() } else { fields };
            FoundIdentity { fields, is_found: false, remarks: vec![SourceRemark::NoIdentity] }
        }
    }
}

struct IdentitySample<'s> {
    columns: &'s [SampleColumn],
    cells: &'s [FieldValues],
    records: usize,
}

impl IdentitySample<'_> {
    /// The dimensions of a table of SDMX that have several values, and its period.
    fn sdmx(&self) -> Option<FoundIdentity> {
        let names: Vec<_> =
            self.columns.iter().map(|column| column.path.last().map_or("", String::as_str)).collect();
        let at = |name: &str| names.iter().position(|other| other.eq_ignore_ascii_case(name));
        let (period, _) = (at("TIME_PERIOD")?, at("OBS_VALUE")?);
        let dimensions: Vec<_> = (0..period)
            .filter(|index| {
                names.get(*index).is_some_and(|name| !SDMX_HEADER.contains(&name.to_lowercase().as_str()))
            })
            .collect();
        // beside the columns with codes, a file can have columns with their labels
        let is_code = |index: &usize| {
            let name = names.get(*index).copied().unwrap_or_default();
            name.chars().all(|character| character.is_ascii_uppercase() || "_0123456789".contains(character))
        };
        let has_codes = dimensions.iter().any(is_code);
        let dimensions = dimensions.into_iter().filter(|index| !has_codes || is_code(index));
        let (constant, mut fields): (Vec<_>, Vec<_>) =
            dimensions.partition(|index| self.distinct(*index) < 2);
        fields.push(period);
        let can_identify =
            |index: &usize| self.columns.get(*index).is_some_and(|column| self.can_identify(column));
        if !fields.iter().all(can_identify) || !self.is_unique(&fields) {
            return None;
        }
        let axes: Vec<_> = constant
            .into_iter()
            .filter_map(|index| self.columns.get(index))
            .map(|column| column.axis.clone())
            .collect();
        let remarks = (!axes.is_empty()).then_some(SourceRemark::ConstantDimensions { axes });
        Some(FoundIdentity { fields, is_found: true, remarks: remarks.into_iter().collect() })
    }

    fn can_identify(&self, column: &SampleColumn) -> bool {
        column.filled == self.records
            && column.form.can_identify()
            && column.unit.is_none()
            && column.group.is_none()
    }

    /// The fields that can identify a record, the most probable ones first.
    fn candidates(&self) -> Vec<(usize, IdentityRank)> {
        let mut found: Vec<_> = (0..)
            .zip(self.columns)
            .filter(|(_, column)| self.can_identify(column))
            .map(|(index, column)| (index, self.rank(index, column)))
            .collect();
        found.sort_by_key(|(_, rank)| *rank);
        found.truncate(CANDIDATES_MAX);
        found
    }

    fn rank(&self, index: usize, column: &SampleColumn) -> IdentityRank {
        let has_word = |words: &[&str]| words.iter().any(|word| column.axis.contains(word));
        let words: Vec<_> = column.axis.split('_').collect();
        let is_id = words.contains(&"id") || ID_WORDS.iter().any(|word| column.axis.ends_with(word));
        let is_time_part = || TIME_WORDS.iter().any(|word| words.contains(word));
        match &column.form {
            _ if column.has_dates() && has_word(&EVENT_WORDS) => IdentityRank::Attribute,
            ValueForm::Text if column.has_dates() => IdentityRank::Name,
            ValueForm::Date { .. } | ValueForm::Period { .. } => IdentityRank::Name,
            _ if is_id => IdentityRank::Id,
            ValueForm::Number { .. } if is_time_part() && self.is_small(index) => IdentityRank::Name,
            ValueForm::Number { .. } | ValueForm::Boolean { .. } => IdentityRank::Measured,
            ValueForm::Text if column.has_measured_text() => IdentityRank::Measured,
            ValueForm::Text if self.average_chars(index) > NAME_CHARS_MAX => IdentityRank::Attribute,
            ValueForm::Text => IdentityRank::Name,
        }
    }

    fn values(&self, index: usize) -> impl Iterator<Item = &str> {
        self.cells.get(index).into_iter().flatten().flatten().map(String::as_str)
    }

    fn distinct(&self, index: usize) -> usize {
        self.values(index).collect::<HashSet<_>>().len()
    }

    /// Whether the values have the length of years, days or hours.
    fn is_small(&self, index: usize) -> bool {
        self.values(index).all(|value| value.trim().len() <= 4)
    }

    fn average_chars(&self, index: usize) -> usize {
        let chars: usize = self.values(index).map(|value| value.chars().count()).sum();
        chars / self.values(index).count().max(1)
    }

    /// The fields with a value in the most records, if no field has one in all of them.
    fn fullest(&self) -> Vec<usize> {
        let can_identify = |column: &&SampleColumn| {
            column.form.can_identify() && column.unit.is_none() && column.group.is_none()
        };
        let most = self.columns.iter().filter(can_identify).map(|column| column.filled).max();
        let is_fullest =
            |column: &SampleColumn| can_identify(&column) && Some(column.filled) == most && column.filled > 0;
        let found = (0..).zip(self.columns).filter(|(_, column)| is_fullest(column));
        found.map(|(index, _)| index).take(CANDIDATES_MAX).collect()
    }

    /// The number of different combinations of values.
    fn count_keys(&self, fields: &[usize]) -> usize {
        let key = |record: usize| -> Vec<_> {
            fields.iter().map(|field| self.cells.get(*field).and_then(|values| values.get(record))).collect()
        };
        (0..self.records).map(key).collect::<HashSet<_>>().len()
    }

    fn is_unique(&self, fields: &[usize]) -> bool {
        self.count_keys(fields) == self.records
    }

    /// The first of the smallest selections that are unique.
    fn smallest(&self, fields: &[usize]) -> Option<Vec<usize>> {
        (1..=TRIED_FIELDS_MAX)
            .find_map(|size| combinations(fields, size).into_iter().find(|chosen| self.is_unique(chosen)))
    }

    /// The fewest fields without measured ones.
    fn without_measured(&self, names: &[usize], attributes: &[usize]) -> Option<Vec<usize>> {
        self.smallest(names)
            .or_else(|| self.smallest(attributes))
            .or_else(|| self.reduced(names, self.records))
            .or_else(|| self.reduced(attributes, self.records))
    }

    /// Periods with one value in the sample: the next file probably has another one.
    fn constant_periods(&self) -> Vec<usize> {
        let is_constant = |(index, column): &(usize, &SampleColumn)| {
            matches!(column.form, ValueForm::Period { .. })
                && self.can_identify(column)
                && self.records > 1
                && self.distinct(*index) == 1
        };
        (0..).zip(self.columns).filter(is_constant).map(|(index, _)| index).collect()
    }

    /// All fields without those that are not needed for this number of keys, the least probable ones first.
    fn reduced(&self, fields: &[usize], keys: usize) -> Option<Vec<usize>> {
        let mut chosen = fields.to_vec();
        if chosen.is_empty() || self.count_keys(&chosen) != keys {
            return None;
        }
        for field in fields.iter().rev() {
            let fewer: Vec<_> = chosen.iter().filter(|other| *other != field).copied().collect();
            if !fewer.is_empty() && self.count_keys(&fewer) == keys {
                chosen = fewer;
            }
        }
        Some(chosen)
    }
}

/// All selections of `size` items, in the order of the items.
fn combinations(items: &[usize], size: usize) -> Vec<Vec<usize>> {
    match (size, items.split_first()) {
        (0, _) => vec![Vec::new()],
        (_, None) => Vec::new(),
        (_, Some((first, rest))) => {
            let with_first = combinations(rest, size - 1).into_iter().map(|mut chosen| {
                chosen.insert(0, *first);
                chosen
            });
            with_first.chain(combinations(rest, size)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_ground::ontology::AXES_MAX;

    #[test]
    fn fewest_fields_that_are_unique_identify_a_record() {
        let record = |area: &str, code: &str, year: &str| {
            SourceValue::Object(
                [("Area", area), ("Area Code", code), ("Year", year), ("Value", "1.5")]
                    .map(|(name, value)| (name.to_owned(), SourceValue::Text(value.to_owned())))
                    .to_vec(),
            )
        };
        let records = [record("A", "1", "1999"), record("A", "1", "2000"), record("B", "2", "1999")];
        let FoundColumns { columns, has_identity, .. } =
            find_columns(&records, None, AXES_MAX).expect("few fields");
        let identity: Vec<_> =
            columns.iter().filter(|column| column.is_identity).map(|column| column.axis.as_str()).collect();
        assert_eq!((identity, has_identity), (vec!["area_code", "year"], true));
        let repeated = [record("A", "1", "1999"), record("A", "1", "1999")];
        assert!(!find_columns(&repeated, None, AXES_MAX).expect("few fields").has_identity);
    }
}
