//! The fields of a sample: their types, their units, and which of them identify a record.

mod identity;

use super::notation::{FieldHints, FieldMark, FoundForm, ValueForm, affix_code, find_form, is_missing};
use super::remark::{MarkOrigin, SourceRemark, shown_list};
use domain_base::raw::SourceValue;
use domain_base::text_form::without_marks;
use domain_base::unit::UcumUnit;
use domain_ground::axis::is_group_key;
use domain_ground::ontology::AXES_MAX;
use identity::{IdentitySample, find_identity};
use std::collections::{BTreeMap, BTreeSet, HashSet};
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

    pub(super) fn record(fields: &[(&str, &str)]) -> SourceValue {
        let member =
            |(name, value): &(&str, &str)| ((*name).to_owned(), SourceValue::Text((*value).to_owned()));
        SourceValue::Object(fields.iter().map(member).collect())
    }

    pub(super) fn found(records: &[SourceValue], has_semicolons: bool) -> FoundColumns {
        let hints = TableHints { period: None, has_semicolons };
        find_columns(records, hints, AXES_MAX).expect("few fields")
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
