//! The fields of a sample: their types, their units, and which of them identify a record.

use super::notation::{
    EXCEPTION_OF, FieldHints, FieldMark, FoundForm, ValueForm, affix_code, find_form, is_missing,
};
use super::remark::{MarkOrigin, SourceRemark, shown_list};
use domain_base::raw::SourceValue;
use domain_base::text_form::without_marks;
use domain_base::unit::UcumUnit;
use domain_ground::axis::is_group_key;
use domain_ground::ontology::AXES_MAX;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;

/// The deepest member of a record that becomes an axis.
const DEPTH_MAX: usize = 3;
/// The most fields of the records.
const FIELDS_MAX: usize = 4096;
/// The most values that are compared. With many fields, fewer records are.
const VALUES_MAX: usize = 4_000_000;
/// The fewest members of an object that are the keys of a group, if there are more fields than axes.
const GROUP_MEMBERS_MIN: usize = 16;

/// A field of the records, or a group of fields.
#[derive(Debug)]
pub(super) struct SampleColumn {
    /// The steps of its path; of a group, those of the object.
    pub(super) path: Vec<String>,
    /// The name of its axis.
    pub(super) axis: String,
    /// Its name in the source, after that of the object around it if the name alone says too little.
    pub(super) description: String,
    pub(super) form: ValueForm,
    /// The unit that its name or its cells contain, as in the source.
    pub(super) unit: Option<String>,
    /// The UCUM code of this unit; `None` if it is not known.
    pub(super) unit_code: Option<String>,
    /// The words for missing values.
    pub(super) missing_values: Vec<String>,
    /// Whether values have white space at an end.
    pub(super) is_padded: bool,
    /// The number of records with a value.
    pub(super) filled: usize,
    pub(super) is_identity: bool,
    /// The number of fields, if it is a group.
    pub(super) group: Option<usize>,
    pub(super) remarks: Vec<SourceRemark>,
}

impl SampleColumn {
    /// Whether its texts are probably measured, although they are not all numbers or dates.
    fn has_measured_text(&self) -> bool {
        let is_measured = |remark: &SourceRemark| {
            matches!(
                remark,
                SourceRemark::Bounds { .. }
                    | SourceRemark::MostlyNumbers { .. }
                    | SourceRemark::MixedAffixes { .. }
                    | SourceRemark::Unread { is_measured: true, .. }
            )
        };
        self.remarks.iter().any(is_measured)
    }

    /// Whether its values are days or times, also if some of them are read as text.
    fn has_dates(&self) -> bool {
        let is_of_dates = |remark: &SourceRemark| {
            matches!(remark, SourceRemark::MixedDates { .. } | SourceRemark::NoSuchDate { .. })
        };
        matches!(self.form, ValueForm::Date { .. }) || self.remarks.iter().any(is_of_dates)
    }
}

/// The fields of a sample, without an identity.
#[derive(Debug)]
struct FoundFields {
    columns: Vec<SampleColumn>,
    /// The values of each column, by record.
    cells: Vec<FieldValues>,
    /// The number of records.
    records: usize,
    /// The records without those that are equal to an earlier one.
    distinct: Vec<usize>,
    /// The fields that no axis takes, for readers.
    omitted: Vec<String>,
}

/// The values of a field, by record.
type FieldValues = Vec<Option<String>>;

/// The knowledge about a table beside its records.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TableHints<'t> {
    /// The field with the names of unpivoted columns, if they are periods, and their format.
    pub(super) period: Option<(&'t str, Option<&'static str>)>,
    /// Whether semicolons are between its fields.
    pub(super) has_semicolons: bool,
}

/// The fields of the records. With more than `columns_max` fields, groups are formed.
///
/// # Errors
/// The records have too many fields.
fn find_fields(
    records: &[SourceValue],
    hints: TableHints<'_>,
    columns_max: usize,
) -> Result<FoundFields, String> {
    let RecordFields { paths, kinds, nested } = RecordFields::of(records)?;
    let records = records.get(..VALUES_MAX / paths.len().max(1)).unwrap_or(records);
    let mut cells: Vec<FieldValues> = vec![vec![None; records.len()]; paths.len()];
    for (index, record) in records.iter().enumerate() {
        visit(record, &mut Vec::new(), &mut |path, value| {
            let values = paths.get(path).and_then(|field| cells.get_mut(*field));
            if let (Some(slot), FieldValue::Single { text, .. }) =
                (values.and_then(|values| values.get_mut(index)), value)
            {
                *slot = text;
            }
        });
    }
    let mut ordered: Vec<_> = paths.iter().collect();
    ordered.sort_by_key(|(_, field)| **field);
    // a field that is a list in some records would reject them
    let (fields, mut omitted): (Vec<_>, Vec<_>) = ordered
        .into_iter()
        .map(|(path, field)| (path.clone(), *field))
        .partition(|(path, _)| !nested.contains(path));
    omitted.extend(nested.into_iter().filter(|path| !paths.contains_key(path)).map(|path| (path, 0)));
    let fields = fields.into_iter().map(|(path, field)| {
        let values = cells.get_mut(field).map(std::mem::take).unwrap_or_default();
        (path, values)
    });
    let mut sample = fold_groups(fields.collect(), columns_max)?;
    if sample.fields.is_empty() {
        let omitted = omitted.into_iter().map(|(path, _)| path.join("."));
        let omitted: Vec<_> = omitted.chain(sample.omitted).collect();
        return Err(format!(
            "no field of the records has single values; {} are lists or are nested too deeply: put each record on a line of its own, \
             such as by `jq`",
            shown_list(&omitted)
        ));
    }
    let mut names = AxisNames::of(&sample.fields);
    let forms = find_forms(&sample.fields, &kinds, hints);
    let columns = sample.fields.iter().zip(forms);
    let columns =
        columns.map(|((path, group, values), found)| column(path, *group, values, &mut names, found));
    let columns = columns.collect();
    let cells: Vec<_> = sample.fields.drain(..).map(|(_, _, values)| values).collect();
    let mut omitted: Vec<_> = omitted.into_iter().map(|(path, _)| path.join(".")).collect();
    omitted.extend(sample.omitted);
    Ok(FoundFields { columns, cells, records: records.len(), distinct: distinct_records(records), omitted })
}

/// The indexes of the records without those that are equal to an earlier one, which a run collapses.
fn distinct_records(records: &[SourceValue]) -> Vec<usize> {
    let mut seen = HashSet::new();
    let is_new = |(_, record): &(usize, &SourceValue)| seen.insert(format!("{record:?}"));
    (0..).zip(records).filter(is_new).map(|(index, _)| index).collect()
}

/// The forms of the fields. Numbers that can be read with either decimal mark have that of the other fields, or else one that is usual
/// in such a file.
fn find_forms(fields: &[SampleField], kinds: &ValueKinds, hints: TableHints<'_>) -> Vec<FoundForm> {
    let form_of = |(path, _, values): &SampleField, mark: Option<&FieldMark>| {
        let name = path.last().map_or("", String::as_str);
        let period = hints.period.filter(|(field, _)| *field == name).map(|(_, format)| format);
        let (is_json_number, has_json_numbers) =
            (!has_field(&kinds.texts, path), has_field(&kinds.numbers, path));
        let hints = FieldHints { period, mark, is_json_number, has_json_numbers };
        find_form(&split_unit(name).0, values, hints)
    };
    let mut forms: Vec<_> = fields.iter().map(|field| form_of(field, None)).collect();
    let Some(mark) = shown_mark(fields, &forms).or_else(|| usual_mark(&forms, hints)) else { return forms };
    for (field, found) in fields.iter().zip(&mut forms).filter(|(_, found)| found.has_either_mark()) {
        *found = form_of(field, Some(&mark));
    }
    forms
}

/// Whether one of these paths is `path`, or in the object there.
fn has_field(paths: &BTreeSet<Vec<String>>, path: &[String]) -> bool {
    let from: (Bound<&[String]>, Bound<&[String]>) = (Bound::Included(path), Bound::Unbounded);
    paths.range::<[String], _>(from).next().is_some_and(|found| found.starts_with(path))
}

/// How many times more values must show a decimal mark than the other one, so that it is that of the file.
const MARK_RATIO: usize = 10;

/// The decimal mark that nearly all values show, and the field with the most of them.
fn shown_mark(fields: &[SampleField], forms: &[FoundForm]) -> Option<FieldMark> {
    let shown = fields.iter().zip(forms).filter_map(|((path, ..), found)| Some((path, found.known_mark?)));
    let shown: Vec<_> = shown.collect();
    let of = |mark: char| shown.iter().filter(move |(_, (other, _))| *other == mark);
    let count = |mark: char| of(mark).map(|(_, (_, count))| count).sum::<usize>();
    let (points, commas) = (count('.'), count(','));
    let (mark, others) = if points < commas { (',', points) } else { ('.', commas) };
    if others * MARK_RATIO > points.max(commas) {
        return None;
    }
    let (path, _) = of(mark).rev().max_by_key(|(_, (_, count))| *count)?;
    Some(FieldMark { mark, origin: MarkOrigin::Field(path.join(".")) })
}

/// The decimal comma of files from regions where it is usual.
fn usual_mark(forms: &[FoundForm], hints: TableHints<'_>) -> Option<FieldMark> {
    let is_dotted = |found: &FoundForm| match &found.form {
        ValueForm::Date { format: Some(format), .. } => format.starts_with("%d.%m."),
        _ => false,
    };
    let origin = match forms.iter().any(is_dotted) {
        true => Some(MarkOrigin::Dates),
        false => hints.has_semicolons.then_some(MarkOrigin::Semicolons),
    };
    origin.map(|origin| FieldMark { mark: ',', origin })
}

/// The column of a field or of a group of fields.
fn column(
    path: &[String],
    group: Option<usize>,
    values: &FieldValues,
    names: &mut AxisNames,
    found: FoundForm,
) -> SampleColumn {
    let name = path.last().cloned().unwrap_or_default();
    let (label, unit) = split_unit(&name);
    let FoundForm { form, missing_values, mut remarks, .. } = found;
    let is_value = |value: &Option<String>| {
        value.as_ref().is_some_and(|value| !missing_values.iter().any(|word| word == value.trim()))
    };
    let in_cells = match &form {
        ValueForm::Number { affix: Some(affix), .. } => affix.unit().map(str::to_owned),
        _ => None,
    };
    let in_name = unit.filter(|_| form.is_number());
    let code_in_name = in_name.as_deref().and_then(unit_code);
    let (unit, code) = match in_cells {
        Some(unit) => (Some(unit.clone()), affix_code(&unit)),
        None => (in_name, code_in_name.clone()),
    };
    if let Some(unit) = unit.as_ref().filter(|_| code.is_none()) {
        remarks.push(SourceRemark::UnitUnknown { unit: unit.clone() });
    }
    remarks.extend(group.map(|fields| SourceRemark::Group { fields }));
    let axis = names.take(if code_in_name.is_some() { &label } else { &name }, path);
    SampleColumn {
        description: names.parent(path).map_or_else(|| name.clone(), |parent| format!("{parent} {name}")),
        axis: if group.is_some() { format!("{axis}.*") } else { axis },
        path: path.to_vec(),
        form,
        unit,
        unit_code: code,
        is_padded: values.iter().flatten().any(|value| value.trim() != value),
        filled: values.iter().filter(|value| is_value(value)).count(),
        missing_values,
        is_identity: false,
        group,
        remarks,
    }
}

/// The paths of the fields in their order, and those that are lists or too deep in a record.
struct RecordFields {
    paths: BTreeMap<Vec<String>, usize>,
    kinds: ValueKinds,
    nested: BTreeSet<Vec<String>>,
}

/// The paths of the fields with values of these kinds.
#[derive(Default)]
struct ValueKinds {
    /// Texts, without the words for missing values.
    texts: BTreeSet<Vec<String>>,
    /// Numbers of JSON.
    numbers: BTreeSet<Vec<String>>,
}

impl RecordFields {
    fn of(records: &[SourceValue]) -> Result<Self, String> {
        let (mut paths, mut kinds, mut nested) = (BTreeMap::new(), ValueKinds::default(), BTreeSet::new());
        for record in records {
            visit(record, &mut Vec::new(), &mut |path, value| {
                let next = paths.len();
                match value {
                    FieldValue::Nested if nested.len() <= FIELDS_MAX => drop(nested.insert(path.to_vec())),
                    FieldValue::Single { kind, .. } if next <= FIELDS_MAX => {
                        paths.entry(path.to_vec()).or_insert(next);
                        let of_kind = match kind {
                            ValueKind::Text => &mut kinds.texts,
                            ValueKind::Number => &mut kinds.numbers,
                            ValueKind::Other => return,
                        };
                        if !of_kind.contains(path) {
                            of_kind.insert(path.to_vec());
                        }
                    }
                    _ => {}
                }
            });
        }
        match paths.len() + nested.len() {
            0..=FIELDS_MAX => Ok(Self { paths, kinds, nested }),
            _ => Err(format!(
                "the records have more than {FIELDS_MAX} fields; if their names are values, the list of records is another"
            )),
        }
    }
}

/// The path of a field, or of a group with the number of its fields, and the values.
type SampleField = (Vec<String>, Option<usize>, FieldValues);

/// The fields after groups were formed.
struct FoldedFields {
    fields: Vec<SampleField>,
    omitted: Vec<String>,
}

/// If there are too many fields, the members of large objects become the keys of groups.
fn fold_groups(fields: Vec<(Vec<String>, FieldValues)>, columns_max: usize) -> Result<FoldedFields, String> {
    let mut folded = FoldedFields { fields: Vec::new(), omitted: Vec::new() };
    if fields.len() <= columns_max {
        folded.fields = fields.into_iter().map(|(path, values)| (path, None, values)).collect();
        return Ok(folded);
    }
    let mut members: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for (path, _) in &fields {
        if let [parent @ .., _] = path.as_slice()
            && !parent.is_empty()
        {
            *members.entry(parent.to_vec()).or_default() += 1;
        }
    }
    let mut groups: BTreeMap<Vec<String>, FieldValues> = BTreeMap::new();
    for (path, values) in fields {
        let (parent, name) = match path.as_slice() {
            [parent @ .., name] => (parent.to_vec(), name.clone()),
            [] => continue,
        };
        match members.get(&parent).filter(|count| **count >= GROUP_MEMBERS_MIN) {
            None => folded.fields.push((path, None, values)),
            // another name needs a table of words
            Some(_) if !is_group_key(&name) => folded.omitted.push(path.join(".")),
            Some(_) => groups.entry(parent).or_default().extend(values.into_iter().filter(Option::is_some)),
        }
    }
    for (path, values) in groups {
        let count = members.get(&path).copied();
        folded.fields.push((path, count, values));
    }
    match folded.fields.len() {
        count if count <= columns_max => Ok(folded),
        count => Err(format!(
            "the records have {count} fields (at most {AXES_MAX} axes allowed); put those that are measured into one object of each record, which becomes a keyed group, or convert the file to CSV, whose columns `unpivot` turns into records"
        )),
    }
}

/// The value of a field.
enum FieldValue {
    Single {
        /// `None` if it is null or blank.
        text: Option<String>,
        kind: ValueKind,
    },
    /// A list, or an object that is too deep.
    Nested,
}

/// The kind of a single value.
#[derive(Clone, Copy)]
enum ValueKind {
    Text,
    /// A number of JSON.
    Number,
    /// True or false, or no value.
    Other,
}

/// Passes each member that is no object to `take`.
fn visit(value: &SourceValue, path: &mut Vec<String>, take: &mut impl FnMut(&[String], FieldValue)) {
    let text = match value {
        SourceValue::Object(members) if path.len() < DEPTH_MAX => {
            for (name, member) in members {
                path.push(name.clone());
                visit(member, path, take);
                path.pop();
            }
            return;
        }
        SourceValue::Object(_) | SourceValue::List(_) => return take(path, FieldValue::Nested),
        SourceValue::Null => None,
        SourceValue::Bool(value) => Some(value.to_string()),
        SourceValue::Number(text) | SourceValue::Text(text) => {
            Some(text.clone()).filter(|text| !text.trim().is_empty())
        }
    };
    let kind = match (value, &text) {
        (SourceValue::Number(_), _) => ValueKind::Number,
        (SourceValue::Text(_), Some(text)) if !is_missing(text.trim()) => ValueKind::Text,
        _ => ValueKind::Other,
    };
    take(path, FieldValue::Single { text, kind });
}

/// The name of a field without its unit, and the unit: `Height (m)`, `height [m]`, `height_m`.
fn split_unit(name: &str) -> (String, Option<String>) {
    let trimmed = name.trim();
    for (open, close) in [('(', ')'), ('[', ']')] {
        if let Some((label, unit)) = trimmed.strip_suffix(close).and_then(|rest| rest.rsplit_once(open))
            && !label.trim().is_empty()
            && !unit.trim().is_empty()
        {
            return (label.trim().to_owned(), Some(unit.trim().to_owned()));
        }
    }
    for separator in [" in ", "_in_", ", ", "_", " "] {
        if let Some((label, unit)) = trimmed.rsplit_once(separator)
            && !label.trim().is_empty()
            && unit_code(unit).is_some()
        {
            return (label.trim().to_owned(), Some(unit.trim().to_owned()));
        }
    }
    (trimmed.to_owned(), None)
}

/// The UCUM code of a unit in the name of a field.
fn unit_code(unit: &str) -> Option<String> {
    // a number alone is a unit in UCUM, and the number of a field in a name
    if unit.bytes().all(|byte| byte.is_ascii_digit() || byte == b' ') {
        return None;
    }
    let spelled = match unit.trim() {
        "sqm" | "m²" => "m2",
        "sqkm" | "km²" => "km2",
        "m³" => "m3",
        "pct" | "Pct" => "%",
        other => other,
    };
    UcumUnit::from_spelling(spelled).ok().map(|unit| unit.code().to_owned())
}

/// The last names of fields that say too little without the name of the object around them.
const GENERIC_NAMES: [&str; 6] = ["value", "unit", "amount", "name", "id", "code"];

/// The names of the axes.
#[derive(Debug)]
struct AxisNames {
    used: HashSet<String>,
    /// The last names of several fields.
    shared: HashSet<String>,
}

impl AxisNames {
    fn of(fields: &[SampleField]) -> Self {
        let (mut seen, mut shared) = (HashSet::new(), HashSet::new());
        for name in fields.iter().filter_map(|(path, ..)| path.last()) {
            let name = name_words(name);
            if !seen.insert(name.clone()) {
                shared.insert(name);
            }
        }
        Self { used: HashSet::new(), shared }
    }

    /// The name of the object around the field at `path`, if the last name of the field says too little.
    fn parent<'p>(&self, path: &'p [String]) -> Option<&'p String> {
        let [.., parent, name] = path else { return None };
        let name = name_words(name);
        (GENERIC_NAMES.contains(&name.as_str()) || self.shared.contains(&name)).then_some(parent)
    }

    /// A name of `a-z 0-9 _` with a letter first, which no other axis has.
    fn take(&mut self, label: &str, path: &[String]) -> String {
        let mut name = name_words(label);
        let parent = match path {
            [.., parent, _] if self.used.contains(&name) => Some(parent),
            _ => self.parent(path),
        };
        if let Some(parent) = parent {
            name = format!("{}_{name}", name_words(parent));
        }
        if !name.starts_with(|first: char| first.is_ascii_lowercase()) {
            name = format!("field_{name}");
        }
        name.truncate(60);
        let name = name.trim_end_matches('_').to_owned();
        let unused = (2..).map(|number| format!("{name}_{number}"));
        let name =
            [name.clone()].into_iter().chain(unused).find(|name| !self.used.contains(name)).unwrap_or(name);
        self.used.insert(name.clone());
        name
    }
}

/// The words of a name in lower-case ASCII, with `_` between them.
fn name_words(text: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { ' ' }
    };
    let plain: String = without_marks(text).chars().map(plain).collect();
    plain.split_whitespace().collect::<Vec<_>>().join("_")
}

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

/// The fields of the records, those first that identify a record. With more than `columns_max` fields, groups are formed.
///
/// # Errors
/// The records have too many fields.
pub(super) fn find_columns(
    records: &[SourceValue],
    hints: TableHints<'_>,
    columns_max: usize,
) -> Result<FoundColumns, String> {
    let FoundFields { mut columns, cells, records, distinct, omitted } =
        find_fields(records, hints, columns_max)?;
    let identity = find_identity(&IdentitySample { columns: &columns, cells: &cells, records, distinct });
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
/// if no other fields identify a record. A few records can be exceptions: an id of its own is taken before several fields that have none,
/// unless these are ids and times.
fn find_identity(sample: &IdentitySample<'_>) -> FoundIdentity {
    if let Some(found) = sample.sdmx() {
        return found;
    }
    let candidates = sample.candidates(|column| column.filled == sample.records);
    let (names, attributes) =
        (up_to(&candidates, IdentityRank::Name), up_to(&candidates, IdentityRank::Attribute));
    if !names.iter().any(|field| sample.is_unique(&[*field]))
        && let Some(found) = sample.nearly_unique_id(&names)
    {
        return found;
    }
    if let Some(mut fields) = sample.without_measured(&names, &attributes) {
        fields.extend(sample.constant_periods());
        let is_attribute = |field: &usize| !names.contains(field);
        let remarks = fields.iter().any(is_attribute).then_some(SourceRemark::MeasuredIdentity);
        return FoundIdentity { fields, is_found: true, remarks: remarks.into_iter().collect() };
    }
    if let Some(found) = sample.nearly_unique() {
        return found;
    }
    // a few records that occur twice do not make a measured value a part of the identity
    let keys = sample.count_keys(&attributes);
    if keys * 10 >= sample.distinct.len() * 9 && !attributes.is_empty() {
        let fields = sample.reduced(&attributes, keys).unwrap_or(attributes);
        return FoundIdentity { fields, is_found: false, remarks: vec![SourceRemark::NoIdentity] };
    }
    let all = up_to(&candidates, IdentityRank::Measured);
    match sample.smallest(&all).or_else(|| sample.reduced(&all, sample.distinct.len())) {
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

/// The candidates that are as probable as `rank`, or more.
fn up_to(candidates: &[(usize, IdentityRank)], rank: IdentityRank) -> Vec<usize> {
    candidates.iter().filter(|(_, other)| *other <= rank).map(|(index, _)| *index).collect()
}

struct IdentitySample<'s> {
    columns: &'s [SampleColumn],
    cells: &'s [FieldValues],
    records: usize,
    /// The records without those that are equal to an earlier one.
    distinct: Vec<usize>,
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
        let exceptions = self.exceptions(&fields).filter(|_| fields.iter().all(can_identify))?;
        let axes: Vec<_> = constant
            .into_iter()
            .filter_map(|index| self.columns.get(index))
            .map(|column| column.axis.clone())
            .collect();
        let constant = (!axes.is_empty()).then_some(SourceRemark::ConstantDimensions { axes });
        let remarks = constant.into_iter().chain(exceptions_remark(exceptions)).collect();
        Some(FoundIdentity { fields, is_found: true, remarks })
    }

    /// Whether a column has a value in nearly all records, and of a form that can identify one.
    fn can_identify(&self, column: &SampleColumn) -> bool {
        (self.records - column.filled.min(self.records)) * EXCEPTION_OF <= self.records
            && column.form.can_identify()
            && column.unit.is_none()
            && column.group.is_none()
    }

    /// The fields that can identify a record, the most probable ones first.
    fn candidates(&self, is_filled: impl Fn(&SampleColumn) -> bool) -> Vec<(usize, IdentityRank)> {
        let mut found: Vec<_> = (0..)
            .zip(self.columns)
            .filter(|(_, column)| is_filled(column) && self.can_identify(column))
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

    fn cell(&self, field: usize, record: usize) -> Option<&str> {
        self.cells.get(field)?.get(record)?.as_deref()
    }

    /// The values of a record, if it has one in each of these fields.
    fn key(&self, fields: &[usize], record: usize) -> Option<Vec<&str>> {
        fields.iter().map(|field| self.cell(*field, record)).collect()
    }

    /// The number of different combinations of values, in records with a value in each of these fields.
    fn count_keys(&self, fields: &[usize]) -> usize {
        let keys = self.distinct.iter().filter_map(|record| self.key(fields, *record));
        keys.collect::<HashSet<_>>().len()
    }

    /// Whether a field is an id, or the time of an observation or a part of it.
    fn is_id_or_time(&self, index: usize) -> bool {
        self.columns.get(index).is_some_and(|column| match self.rank(index, column) {
            IdentityRank::Id => true,
            IdentityRank::Name => column.form != ValueForm::Text || column.has_dates(),
            IdentityRank::Attribute | IdentityRank::Measured => false,
        })
    }

    /// The ids and times with a value in nearly all records.
    fn ids_and_times(&self) -> Vec<usize> {
        let mut fields = self.nearly_filled(IdentityRank::Name);
        fields.retain(|field| self.is_id_or_time(*field));
        fields
    }

    /// Whether records with the same values in `fields` differ in another of these ids and times.
    fn omits_key(&self, fields: &[usize], ids_and_times: &[usize]) -> bool {
        let mut firsts = HashMap::new();
        self.distinct.iter().any(|record| {
            let Some(key) = self.key(fields, *record) else { return false };
            let first: usize = *firsts.entry(key).or_insert(*record);
            let differs = |field: &usize| self.cell(*field, first) != self.cell(*field, *record);
            first != *record && ids_and_times.iter().any(differs)
        })
    }

    fn is_unique(&self, fields: &[usize]) -> bool {
        self.count_keys(fields) == self.distinct.len()
    }

    /// The number of records that fields do not identify, if they identify nearly all.
    fn exceptions(&self, fields: &[usize]) -> Option<usize> {
        let exceptions = self.distinct.len() - self.count_keys(fields);
        (exceptions * EXCEPTION_OF <= self.distinct.len()).then_some(exceptions)
    }

    /// The fields with a value in nearly all records, up to this rank.
    fn nearly_filled(&self, rank: IdentityRank) -> Vec<usize> {
        up_to(&self.candidates(|_| true), rank)
    }

    /// The identity of a single id that identifies nearly all records, or of ids and times among `names` that identify all of them.
    /// `None` if further ids or times are needed for the others.
    fn nearly_unique_id(&self, names: &[usize]) -> Option<FoundIdentity> {
        let ids = self.nearly_filled(IdentityRank::Id);
        let nearly: Vec<_> = ids.into_iter().filter_map(|id| Some((id, self.exceptions(&[id])?))).collect();
        if nearly.is_empty() {
            return None;
        }
        let exact: Vec<_> = names.iter().copied().filter(|field| self.is_id_or_time(*field)).collect();
        if let Some(fields) = self.smallest(&exact) {
            return Some(self.with_exceptions(fields, 0));
        }
        let ids_and_times = self.ids_and_times();
        let (id, exceptions) = nearly.into_iter().find(|(id, _)| !self.omits_key(&[*id], &ids_and_times))?;
        Some(self.with_exceptions(vec![id], exceptions))
    }

    /// The fewest fields without measured ones that identify nearly all records, with the ids and times by which others differ.
    fn nearly_unique(&self) -> Option<FoundIdentity> {
        let ids_and_times = self.ids_and_times();
        [IdentityRank::Name, IdentityRank::Attribute].into_iter().find_map(|rank| {
            let fields = self.nearly_filled(rank);
            let sizes = 1..=TRIED_FIELDS_MAX;
            let selections = sizes.flat_map(|size| combinations(&fields, size));
            let selections = selections.chain(self.reduced(&fields, self.count_keys(&fields)));
            let found = selections.filter_map(|chosen| {
                let exceptions = self.exceptions(&chosen)?;
                Some((chosen, exceptions))
            });
            let mut found = found.peekable();
            let first = found.peek().cloned()?;
            let complete = found.find(|(chosen, _)| !self.omits_key(chosen, &ids_and_times));
            let (chosen, exceptions) = complete.unwrap_or(first);
            Some(self.with_exceptions(chosen, exceptions))
        })
    }

    fn with_exceptions(&self, fields: Vec<usize>, exceptions: usize) -> FoundIdentity {
        let mut periods = self.constant_periods();
        periods.retain(|period| !fields.contains(period));
        let remarks = exceptions_remark(exceptions).into_iter().collect();
        FoundIdentity { fields: [fields, periods].concat(), is_found: true, remarks }
    }

    /// The first of the smallest selections that are unique.
    fn smallest(&self, fields: &[usize]) -> Option<Vec<usize>> {
        (1..=TRIED_FIELDS_MAX)
            .find_map(|size| combinations(fields, size).into_iter().find(|chosen| self.is_unique(chosen)))
    }

    /// The fewest fields without measured ones.
    fn without_measured(&self, names: &[usize], attributes: &[usize]) -> Option<Vec<usize>> {
        let records = self.distinct.len();
        self.smallest(names)
            .or_else(|| self.smallest(attributes))
            .or_else(|| self.reduced(names, records))
            .or_else(|| self.reduced(attributes, records))
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

fn exceptions_remark(records: usize) -> Option<SourceRemark> {
    (records > 0).then_some(SourceRemark::IdentityExceptions { records })
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
    fn unit_is_split_from_the_name_of_a_field() {
        for (name, label, unit) in [
            ("Height (m)", "Height", Some("m")),
            ("area [km2]", "area", Some("km2")),
            ("height_m", "height", Some("m")),
            ("Weight in kg", "Weight", Some("kg")),
            ("share_pct", "share", Some("pct")),
            ("Population, total", "Population, total", None),
            ("city", "city", None),
            ("(m)", "(m)", None),
            ("column_7", "column_7", None),
        ] {
            assert_eq!(split_unit(name), (label.to_owned(), unit.map(str::to_owned)), "{name}");
        }
    }

    fn record(fields: &[(&str, &str)]) -> SourceValue {
        let member =
            |(name, value): &(&str, &str)| ((*name).to_owned(), SourceValue::Text((*value).to_owned()));
        SourceValue::Object(fields.iter().map(member).collect())
    }

    fn found(records: &[SourceValue], has_semicolons: bool) -> FoundColumns {
        let hints = TableHints { period: None, has_semicolons };
        find_columns(records, hints, AXES_MAX).expect("few fields")
    }

    fn identity(found: &FoundColumns) -> Vec<&str> {
        found.columns.iter().filter(|column| column.is_identity).map(|column| column.axis.as_str()).collect()
    }

    fn codes(found: &FoundColumns) -> Vec<&str> {
        found.remarks.iter().map(SourceRemark::code).collect()
    }

    #[test]
    fn fewest_fields_that_are_unique_identify_a_record() {
        let record = |area: &str, code: &str, year: &str, value: &str| {
            record(&[("Area", area), ("Area Code", code), ("Year", year), ("Value", value)])
        };
        let records = [
            record("A", "1", "1999", "1.5"),
            record("A", "1", "2000", "1.5"),
            record("B", "2", "1999", "1.5"),
        ];
        let columns = found(&records, false);
        assert_eq!((identity(&columns), columns.has_identity), (vec!["area_code", "year"], true));
        let repeated = [record("A", "1", "1999", "1.5"), record("A", "1", "1999", "2.5")];
        assert!(!found(&repeated, false).has_identity);
        let equal = [repeated[0].clone(), repeated[0].clone(), record("B", "2", "1999", "1.5")];
        let equal = found(&equal, false);
        assert_eq!((identity(&equal), codes(&equal)), (vec!["area_code", "year"], vec![]));
    }

    #[test]
    fn identity_is_found_if_one_of_a_hundred_records_has_none() {
        let rows = |last: &[(&str, &str)]| -> Vec<_> {
            let row = |number: u32| {
                let (id, value) = (format!("k{number}"), format!("{number}.5"));
                record(&[("id", id.as_str()), ("name", "x"), ("value", value.as_str())])
            };
            (1..100).map(row).chain([record(last)]).collect()
        };
        for last in [
            &[("id", ""), ("name", "x"), ("value", "0.5")],
            &[("id", "k5"), ("name", "x"), ("value", "0.5")],
            &[("id", "k5"), ("name", "y"), ("value", "0.5")],
        ] {
            let found = found(&rows(last), false);
            assert_eq!(
                (identity(&found), found.has_identity, codes(&found)),
                (vec!["id"], true, vec!["identity_exceptions"]),
                "{last:?}"
            );
        }
        let few: Vec<_> = rows(&[("id", "k99"), ("name", "x"), ("value", "0.5")]).split_off(90);
        assert!(!found(&few, false).has_identity);
    }

    #[test]
    fn decimal_comma_is_usual_in_some_files_if_nothing_else_shows_a_mark() {
        let notation = |fields: &[(&str, &str)], has_semicolons: bool| {
            let found = found(&[record(fields)], has_semicolons);
            let column = found.columns.into_iter().find(|column| column.axis == "n").expect("a field");
            assert_eq!(column.remarks.iter().map(SourceRemark::code).collect::<Vec<_>>(), ["decimal_mark"]);
            match column.form {
                ValueForm::Number { notation: Some((mark, _)), .. } => mark,
                other => panic!("{other:?}"),
            }
        };
        for (fields, has_semicolons, mark) in [
            (&[("n", "1.234")][..], false, '.'),
            (&[("n", "1.234")], true, ','),
            (&[("n", "1,234")], true, ','),
            (&[("n", "1,234")], false, '.'),
            (&[("n", "1,234"), ("day", "31.12.2024")], false, ','),
            (&[("n", "1.234"), ("day", "31.12.2024"), ("other", "1.5")], true, '.'),
        ] {
            assert_eq!(notation(fields, has_semicolons), mark, "{fields:?} {has_semicolons}");
        }
    }

    /// The notation of the field `price`.
    fn price_notation(records: &[SourceValue], has_semicolons: bool) -> Option<(char, Option<char>)> {
        let found = found(records, has_semicolons);
        let column = found.columns.into_iter().find(|column| column.axis == "price").expect("a field");
        match column.form {
            ValueForm::Number { notation, .. } => notation,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn shown_decimal_point_is_kept_in_a_file_with_semicolons_or_dotted_dates() {
        for (shown, has_semicolons, day) in
            [("0.987", true, "d1"), ("1.4", true, "d1"), ("1.4", false, "31.12.2024")]
        {
            let row = |row: u32| {
                let (id, price) = (format!("k{row}"), if row < 3 { shown } else { "1.459" });
                record(&[("id", id.as_str()), ("price", price), ("day", day)])
            };
            let rows: Vec<_> = (0..603).map(row).collect();
            assert_eq!(price_notation(&rows, has_semicolons), Some(('.', None)), "{shown} {day}");
        }
    }

    #[test]
    fn number_of_json_has_a_point_if_other_records_have_a_text() {
        let number = |text: &str| SourceValue::Number(text.to_owned());
        let text = |text: &str| SourceValue::Text(text.to_owned());
        for other in ["n/a", "1.5", "2.345"] {
            let values = [vec![number("1.234"); 25], vec![number("5"); 25], vec![text(other)]].concat();
            let record = |value| SourceValue::Object(vec![("price".to_owned(), value)]);
            let records: Vec<_> = values.into_iter().map(record).collect();
            let mark = price_notation(&records, false);
            assert!(mark.is_none_or(|marks| marks == ('.', None)), "{other}: {mark:?}");
            let found = found(&records, false);
            let mut codes = found.columns.iter().flat_map(|column| &column.remarks).map(SourceRemark::code);
            assert!(codes.all(|code| code != "decimal_mark"), "{other}");
        }
    }

    #[test]
    fn identity_has_the_second_id_if_a_few_records_need_it() {
        let row = |order: u32, line: &str, amount: &str| {
            let order = (10_000 + order).to_string();
            record(&[("order_id", order.as_str()), ("line_number", line), ("amount", amount)])
        };
        let firsts = (0..1000).map(|order| row(order, "1", "1.5"));
        let mut rows: Vec<_> = firsts.chain((0..8).map(|order| row(order, "2", "2.5"))).collect();
        let exact = found(&rows, false);
        assert_eq!((identity(&exact), codes(&exact)), (vec!["order_id", "line_number"], vec![]));
        rows.push(row(0, "1", "9.5"));
        let nearly = found(&rows, false);
        assert_eq!(
            (identity(&nearly), codes(&nearly)),
            (vec!["order_id", "line_number"], vec!["identity_exceptions"])
        );
    }

    #[test]
    fn shown_mark_is_that_of_nearly_all_values() {
        let rows = |dirty: usize| -> Vec<_> {
            let other = |row: usize| if row < dirty { "1,5" } else { "1.5" };
            (0..40).map(|row| record(&[("n", "1,234"), ("a", "2.5"), ("b", other(row))])).collect()
        };
        let mark = |found: FoundColumns| {
            let column = found.columns.into_iter().find(|column| column.axis == "n").expect("a field");
            match column.form {
                ValueForm::Number { notation: Some((mark, _)), .. } => mark,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(mark(found(&rows(0), true)), '.');
        assert_eq!(mark(found(&rows(40), true)), ',', "as many points as commas");
    }
}
