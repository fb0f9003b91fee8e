//! `oraclectl describe ontology`.

use crate::base::error::CtlError;
use crate::base::output::format_table;
use oracled_domain::base::moment::format_span;
use oracled_domain::ground::axis::{Axis, AxisClass, ConservativeSide};
use oracled_domain::ground::ontology::{FactTemplate, Ontology};
use std::io::Write;

/// Maximum number of allowed values that are shown for an axis.
const WORDS_MAX: usize = 12;

pub(super) fn show(out: &mut dyn Write, ontology: &Ontology) -> Result<(), CtlError> {
    let row = |axis: &Axis| {
        [
            axis.axis.clone(),
            axis.kind.into_str().to_owned(),
            axis.unit.clone().unwrap_or_default(),
            describe_properties(axis).join(", "),
            axis.description.clone(),
        ]
    };
    let rows = ontology.axes.iter().map(row).collect();
    writeln!(out, "{}", format_table(["axis", "type", "unit", "marks", "description"], rows))?;
    if ontology.fact_templates.is_empty() {
        return Ok(());
    }
    let row = |written: &FactTemplate| [written.template_id.to_string(), written.template.clone()];
    let rows = ontology.fact_templates.iter().map(row).collect();
    Ok(writeln!(out, "\n{}", format_table(["template", "of facts"], rows))?)
}

/// The further properties of an axis, in words.
fn describe_properties(axis: &Axis) -> Vec<String> {
    let mark = |holds: bool, mark: &str| holds.then(|| mark.to_owned());
    let careful = |way| match way {
        ConservativeSide::Lower => "the lower value is conservative".to_owned(),
        ConservativeSide::Higher => "the higher value is conservative".to_owned(),
    };
    let more = axis.values.len().saturating_sub(WORDS_MAX);
    let mut words = axis.values.iter().take(WORDS_MAX).cloned().collect::<Vec<_>>().join(" | ");
    if more > 0 {
        words += &format!(" and {more} more");
    }
    let marks = [
        mark(axis.identity, "identity"),
        mark(axis.indexed, "indexed"),
        mark(axis.class == AxisClass::SelfReported, "self-reported"),
        (!words.is_empty()).then_some(words),
        axis.precision.map(|digits| format!("equal up to {digits} decimal places")),
        axis.relative_tolerance.as_ref().map(|part| format!("equal within {part} of the larger magnitude")),
        axis.conservative.map(careful),
        mark(axis.state_sensitive, "state sensitive"),
        axis.max_ttl_seconds.map(|ttl_s| format!("at most {} old", format_span(ttl_s))),
    ];
    marks.into_iter().flatten().collect()
}
