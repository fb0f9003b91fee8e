//! The changes of a run: the largest ones as bars, and each changed record with the parts that differ.

use super::Console;
use super::catalog::read_ontology;
use super::chart::{BarRow, bars};
use super::items::Difference;
use super::layout::PageError;
use super::parts::{Tone, card, cut, group_digits, group_in_text, table, unit_of, words};
use crate::base::error::CtlError;
use crate::ground::documents::find_document;
use crate::ground::ingest::{UNKNOWN_CHANGES, raw_texts, read_changes, read_run};
use domain_base::document::Document;
use domain_base::page::{ListPage, PageLimit};
use domain_base::wording::format_count;
use domain_ground::pipeline::PipelineDefinition;
use domain_ground::run::{IngestionRun, RunState, split_record_id};
use domain_ground::timeline::VersionChangeKind;
use domain_ground::wire::RunChangeReport;
use maud::{Markup, html};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// Number of changed records in the table.
const CHANGES: usize = 50;
/// Number of the largest changes that are drawn.
const LARGEST: usize = 8;
/// The most earlier runs whose columns are read.
const RUNS_BEFORE: usize = 8;

/// The names of the parts of raw records.
#[derive(Debug, Default)]
struct PartNames {
    /// The columns of the run, in the order of the fields; empty if they are not known.
    header: Vec<String>,
    /// Those of earlier runs, by the beginnings of the ids of their records.
    before: BTreeMap<String, Vec<String>>,
    /// The axes with their units, by the columns or members that the pipeline maps to them.
    axes: BTreeMap<String, String>,
}

impl PartNames {
    async fn read(console: &Console, run: &IngestionRun, changes: &[RunChangeReport]) -> Self {
        if changes.is_empty() {
            return Self::default();
        }
        let runs: BTreeSet<_> = changes.iter().filter_map(run_before).collect();
        let mut before = BTreeMap::new();
        for run_id in runs.into_iter().take(RUNS_BEFORE) {
            if let Ok(report) = read_run(&console.options, run_id).await {
                before.insert(run_id.to_owned(), report.run.counts.header);
            }
        }
        let axes = read_axes(console, run).await.unwrap_or_default();
        Self { header: run.counts.header.clone(), before, axes }
    }

    /// The name of a part as its axis and unit, or in words.
    fn name(&self, part: &str) -> String {
        self.axes.get(part).cloned().unwrap_or_else(|| words(part))
    }

    /// The parts of a changed record that differ: members of objects by their names, and fields of rows by those of the columns.
    /// `None` if the records have no such parts in common.
    fn changed(&self, change: &RunChangeReport) -> Option<Vec<(String, String, String)>> {
        let (before, after) = change.before.as_ref().zip(change.after.as_ref())?;
        let header = run_before(change).and_then(|run_id| self.before.get(run_id));
        let changed =
            changed_parts(before, after, [header.map(Vec::as_slice).unwrap_or_default(), &self.header])?;
        Some(changed.into_iter().map(|(name, before, after)| (self.name(&name), before, after)).collect())
    }
}

/// The beginning of the id of the run whose record is changed.
fn run_before(change: &RunChangeReport) -> Option<&str> {
    Some(split_record_id(change.record_id.as_deref()?)?.0)
}

/// The axes that the pipeline of a run maps to, as `population, persons`, by their fields. Empty if the pipeline has changed since.
async fn read_axes(console: &Console, run: &IngestionRun) -> Result<BTreeMap<String, String>, PageError> {
    let pipeline =
        find_document(&console.options, PipelineDefinition::TYPE.into(), run.pipeline_id.as_str()).await?;
    if pipeline.summary.sha256 != run.input.pipeline_sha256 {
        return Ok(BTreeMap::new());
    }
    let pipeline: PipelineDefinition =
        serde_json::from_value(pipeline.document).map_err(std::io::Error::from)?;
    let ontology = read_ontology(console, &run.input.ontology).await?;
    let named = pipeline.normalization.axis_mappings.into_iter().map(|mapping| {
        let unit = ontology.axis(&mapping.target_axis).and_then(|axis| axis.unit.as_ref());
        let unit = unit.map(|unit| format!(", {}", unit_of("", unit))).unwrap_or_default();
        let name = format!("{}{unit}", words(&mapping.target_axis));
        (mapping.source_field, name)
    });
    Ok(named.collect())
}

/// The fields of a row by the names of the columns; `None` if it does not have as many fields. Without a name, a field can be
/// another one in a later release.
fn row_fields(text: &str, columns: &[String]) -> Option<Vec<(String, String)>> {
    let is_named = |fields: &Vec<String>| fields.len() > 1 && fields.len() == columns.len();
    let fields = [b';', b'\t', b',', b'|'].into_iter().map(|mark| split_row(text, mark)).find(is_named)?;
    Some(columns.iter().cloned().zip(fields).collect())
}

fn split_row(text: &str, mark: u8) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new();
    let mut reader = reader.delimiter(mark).has_headers(false).flexible(true).from_reader(text.as_bytes());
    let row = reader.records().next().and_then(Result::ok).unwrap_or_default();
    row.iter().map(|field| field.trim().to_owned()).collect()
}

/// The parts of two raw records that differ, each record with the columns of its run.
fn changed_parts(
    before: &str,
    after: &str,
    headers: [&[String]; 2],
) -> Option<Vec<(String, String, String)>> {
    let parsed = |text: &str| serde_json::from_str::<serde_json::Map<String, Json>>(text).ok();
    let parts = |text: &str, header: &[String]| -> Option<Vec<(String, String)>> {
        if let Some(members) = parsed(text) {
            let text = |value: Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            return Some(members.into_iter().map(|(name, value)| (name, text(value))).collect());
        }
        row_fields(text, header)
    };
    let [before_header, after_header] = headers;
    let (before, after) = (parts(before, before_header)?, parts(after, after_header)?);
    if before.len() != after.len() || before.len() < 2 {
        return None;
    }
    // a release may have its columns in another order
    let old = |name: &str| before.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    let pairs: Option<Vec<_>> =
        after.into_iter().map(|(name, value)| Some((old(&name)?, name, value))).collect();
    let changed = pairs?.into_iter().filter(|(old, _, new)| old != new);
    Some(changed.map(|(old, name, new)| (name, old, new)).collect())
}

/// The number of characters of a raw record or a value in the table of changes.
const CELL_CHARS: usize = 120;

/// The changes without those of new records that a superseded one names already.
fn without_repeated(changes: &[RunChangeReport]) -> Vec<&RunChangeReport> {
    let replaced: BTreeSet<_> = changes
        .iter()
        .filter(|change| change.kind == VersionChangeKind::Superseded && change.after.is_some())
        .map(|change| (change.source_record_id.as_str(), change.after.as_deref()))
        .collect();
    let is_repeated = |change: &RunChangeReport| {
        change.kind == VersionChangeKind::BecameValid
            && replaced.contains(&(change.source_record_id.as_str(), change.after.as_deref()))
    };
    changes.iter().filter(|change| !is_repeated(change)).collect()
}

/// One row for each part of a record that changes, or for the whole record. A cell without a text is empty: a narrow screen leaves
/// it out.
fn change_rows(change: &RunChangeReport, names: &PartNames) -> Vec<Vec<Markup>> {
    let kind = match change.kind {
        VersionChangeKind::Superseded if change.after.is_some() => "changed".to_owned(),
        kind => words(kind.into_str()),
    };
    let row = |name: &str, before: Markup, after: Markup, difference: String| {
        vec![
            html! { (kind) },
            html! { span.id { (change.source_record_id) } },
            html! { (name) },
            before,
            after,
            html! { (difference) },
        ]
    };
    let value = |text: &str| match text {
        "" => html! { span.muted { "empty" } },
        text => html! { code.breakall { (cut(&group_in_text(text), CELL_CHARS)) } },
    };
    let Some(parts) = names.changed(change) else {
        let [before, after] = raw_texts(change).map(|text| {
            if text == "-" {
                html! {}
            } else {
                value(text)
            }
        });
        return vec![row("", before, after, String::new())];
    };
    let rows = parts.iter().map(|(name, before, after)| {
        let difference = Difference::of(before, after);
        let difference = difference.map_or_else(String::new, |difference| difference.percent());
        row(name, value(before), value(after), difference)
    });
    rows.collect()
}

/// The parts of records with the largest differences in percent, as bars.
fn largest_changes(changes: &[&RunChangeReport], names: &PartNames) -> Vec<BarRow> {
    let differences = changes.iter().flat_map(|change| {
        names.changed(change).into_iter().flatten().filter_map(move |(name, before, after)| {
            let difference = Difference::of(&before, &after)?;
            let note = format!("{} → {}", group_digits(&before), group_digits(&after));
            Some((difference, format!("{}: {name}", change.source_record_id), note))
        })
    });
    let mut differences: Vec<_> = differences.collect();
    differences.sort_by(|(one, ..), (other, ..)| other.share().total_cmp(&one.share()));
    let row = |(difference, name, note): (Difference, String, String)| BarRow {
        name,
        parts: vec![(Tone::Held, difference.share().min(1.0))],
        text: difference.percent(),
        note: Some(note),
    };
    differences.into_iter().take(LARGEST).map(row).collect()
}

fn render_largest(changes: &[&RunChangeReport], names: &PartNames, has_more: bool) -> Markup {
    let rows = largest_changes(changes, names);
    html! {
        @if !rows.is_empty() {
            div.body { div.chart {
                h3 { "Largest changes, in percent of the larger value" }
                @if has_more { p.small.muted { "Of the first " (group_digits(&changes.len().to_string())) " changes. The run has more." } }
                (bars(&rows))
            } }
        }
    }
}

/// The changes of a run after a number; before the first ones, the largest as a picture.
pub(super) async fn render(console: &Console, run: &IngestionRun, after: Option<u64>) -> Markup {
    let limit = if after.is_none() { <PageLimit>::MAX } else { 2 * CHANGES };
    let changes = read_changes(&console.options, run.run_id.as_str(), after, Some(limit)).await;
    let items = changes.as_ref().map(|page| page.items.as_slice()).unwrap_or_default();
    let names = PartNames::read(console, run, items).await;
    render_changes(run, changes, &names, after.is_none())
}

fn render_changes(
    run: &IngestionRun,
    changes: Result<ListPage<RunChangeReport>, CtlError>,
    names: &PartNames,
    is_first: bool,
) -> Markup {
    let content = match changes {
        Err(error) => html! { div.body { (PageError::from(error).render()) } },
        Ok(_) if run.rows.is_none() && run.state == RunState::Held => {
            html! { div.body { p { (UNKNOWN_CHANGES) } } }
        }
        Ok(changes) if changes.items.is_empty() => return html! {},
        Ok(ListPage { items, next }) => {
            let all = without_repeated(&items);
            let (shown, rest) = all.split_at(all.len().min(CHANGES));
            let rows: Vec<_> = shown.iter().flat_map(|change| change_rows(change, names)).collect();
            let heading = ["change", "record", "part", "before", "after", "#difference"];
            let records: BTreeSet<_> = shown.iter().map(|change| &change.source_record_id).collect();
            // the next page begins with the first change that is not shown
            let first_left = rest.first().map(|change| change.number);
            let is_shown = |change: &&RunChangeReport| first_left.is_none_or(|left| change.number < left);
            let last = items.iter().filter(is_shown).map(|change| change.number).max().unwrap_or_default();
            html! {
                @if is_first { (render_largest(&all, names, next.is_some())) }
                (table("Changed records", &heading, &rows))
                @if next.is_some() || !rest.is_empty() {
                    div.pager {
                        span { (format_count(records.len(), "record", "records")) }
                        span.right { a.btn.slim href=(format!("/runs/{}?changes_after={last}", run.run_id)) { "Further changes" } }
                    }
                }
            }
        }
    };
    html! { div #changes { (card("Changed records", &html! { span.muted.small { "of a changed record only what differs, of others the whole" } }, &content)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header<const N: usize>(names: [&str; N]) -> Vec<String> {
        names.map(str::to_owned).to_vec()
    }

    fn part(name: &str, before: &str, after: &str) -> (String, String, String) {
        (name.to_owned(), before.to_owned(), after.to_owned())
    }

    #[test]
    fn change_shows_only_the_parts_that_differ() {
        let changed = |before: &str, after: &str| changed_parts(before, after, [&[], &[]]);
        let members = changed(r#"{"a_b":"x","n":5}"#, r#"{"a_b":"x","n":6}"#);
        assert_eq!(members, Some(vec![part("n", "5", "6")]));
        assert_eq!(changed("Aruba,ABW,2000,90588", "Aruba,ABW,2000,90866"), None, "no field has a name");
        assert_eq!(changed("a", "b"), None);
    }

    #[test]
    fn changed_field_has_the_name_of_its_own_column() {
        let two = header(["mountain", "height_m"]);
        let changed = changed_parts("Everest,8848", "Everest,8849.86", [&two, &two]);
        assert_eq!(changed, Some(vec![part("height_m", "8848", "8849.86")]));
        let four = header(["Country", "Code", "Year", "Population"]);
        for (before, after) in [
            ("\"Korea, Rep.\",KOR,2000,5", "\"Korea, Rep.\",KOR,2000,6"),
            ("Korea, Rep.;KOR;2000;5", "Korea, Rep.;KOR;2000;6"),
        ] {
            let changed = changed_parts(before, after, [&four, &four]);
            assert_eq!(changed, Some(vec![part("Population", "5", "6")]));
        }
        // another order of the columns, columns that are not known, another number of fields, and another column
        let other = header(["height_m", "mountain"]);
        let changed = changed_parts("8848,Everest", "Everest,8849", [&other, &two]);
        assert_eq!(changed, Some(vec![part("height_m", "8848", "8849")]));
        assert_eq!(changed_parts("8848,Everest", "Everest,8849", [&[], &two]), None);
        assert_eq!(changed_parts("Everest,8848", "Everest,Nepal,8849", [&two, &two]), None);
        let renamed = header(["mountain", "metres"]);
        assert_eq!(changed_parts("Everest,8848", "Everest,8849", [&renamed, &two]), None);
    }

    /// A change of a record of the run `0000000000000000`.
    fn change(number: u64, kind: &str, before: Option<&str>, after: Option<&str>) -> RunChangeReport {
        let record_id = before.map(|_| format!("{}-{number}", "0".repeat(16)));
        serde_json::from_value(serde_json::json!({
            "number": number, "kind": kind, "source_record_id": format!("ABW/{}", number / 2), "record_id": record_id,
            "valid_from": "2026-11-20T10:00:00Z", "valid_until": null, "before": before, "after": after,
        }))
        .expect("a change")
    }

    fn names(columns: &[String]) -> PartNames {
        let before = [("0".repeat(16), columns.to_vec())].into();
        let axes = [("population".to_owned(), "population, persons".to_owned())].into();
        PartNames { header: columns.to_vec(), before, axes }
    }

    #[test]
    fn largest_changes_need_the_columns_of_the_earlier_run() {
        let change = change(1, "replaced", Some("8848,4"), Some("4,8849"));
        let names = PartNames { before: BTreeMap::new(), ..names(&header(["count", "height_m"])) };
        assert!(largest_changes(&[&change], &names).is_empty());
        let rows = change_rows(&change, &names);
        assert!(rows.len() == 1 && rows[0][3].0.contains("8848,4"), "the whole record");
    }

    #[test]
    fn largest_changes_are_drawn_before_the_first_ones_in_percent_with_axis_and_unit() {
        let replaced = |number: u64, before, after| change(2 * number, "replaced", Some(before), Some(after));
        let mut items: Vec<_> = (1..=60).map(|number| replaced(number, "ABW,100", "ABW,101")).collect();
        items.extend([replaced(61, "ABW,100", "ABW,400"), replaced(62, "north,1", "south,1")]);
        let items: Vec<_> = items.iter().collect();
        let names = names(&header(["area", "population"]));
        let rows = largest_changes(&items, &names);
        assert_eq!(
            (rows.len(), rows[0].name.as_str(), rows[0].text.as_str()),
            (LARGEST, "ABW/61: population, persons", "75 %")
        );
        assert_eq!(
            (rows[0].parts.clone(), rows[0].note.as_deref()),
            (vec![(Tone::Held, 0.75)], Some("100 → 400"))
        );
        let page = |has_more| render_largest(&items, &names, has_more).into_string();
        let note = "<p class=\"small muted\">";
        assert!(!page(false).contains(note) && page(true).contains(note));
    }

    #[test]
    fn changed_record_has_one_row() {
        let changes = [
            change(2, "superseded", Some("ABW,1"), Some("ABW,2")),
            change(3, "became_valid", None, Some("ABW,2")),
            change(4, "became_valid", None, Some("ABW,2")),
        ];
        let kept: Vec<_> = without_repeated(&changes).iter().map(|change| change.number).collect();
        assert_eq!(kept, [2, 4]);
        let rows = change_rows(&changes[0], &names(&header(["area", "population"])));
        let cells: Vec<_> = rows[0].iter().map(|cell| cell.0.as_str()).collect();
        assert_eq!((rows.len(), cells[0], cells[2]), (1, "changed", "population, persons"));
    }

    #[test]
    fn change_of_a_whole_record_has_no_text_in_its_empty_cells() {
        let change = change(1, "became_valid", None, Some("Aruba,ABW,5"));
        let rows: Vec<Vec<_>> = change_rows(&change, &PartNames::default())
            .into_iter()
            .map(|row| row.into_iter().map(Markup::into_string).collect())
            .collect();
        let after = "<code class=\"breakall\">Aruba,ABW,5</code>";
        assert_eq!(rows[0][2..], ["", "", after, ""].map(str::to_owned));
    }
}
