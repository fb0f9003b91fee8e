//! Comparisons that cannot hold together: RULE-CONT-002's own part.
//!
//! `L op R` with `<`, `>`, `<=` or `>=` on one line says that one operand is above another. Together with the order of
//! the numbers among the operands they make a graph, and a circle in it that has a strict step cannot be.

use super::candidate::Subject;
use super::findings::{Findings, RuleError, Violated, quoted};
use super::normal::normalize;
use super::number::Number;
use super::result::{Finding, Output};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, EdgeReference, NodeIndex};
use petgraph::visit::EdgeRef;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

/// The longest operand, in bytes; what is longer is no simple one.
const OPERAND_MAX_BYTES: usize = 64;

/// One comparison that the candidate makes, or a constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Comparison {
    above: String,
    below: String,
    strict: bool,
    /// As it is quoted.
    text: String,
    /// Where the candidate makes it; none for a constraint.
    at: Option<(usize, Range<usize>)>,
}

/// RULE-CONT-002's own part: the comparisons of the candidate hold together, with each other and with the constraints.
///
/// # Errors
/// Where the constraints themselves do not: nothing can be told by them.
pub(super) fn incompatible(subject: &Subject<'_>, findings: &mut Findings) -> Result<(), RuleError> {
    let mut all = constraints(subject, findings)?;
    for (part, text) in subject.texts().enumerate() {
        all.extend(comparisons(text, |range| Some((part, range))));
    }
    let circles = circles(&all);
    for Circle { text, latest } in &circles {
        let (span, words) = match latest.and_then(|latest| all.get(latest)?.at.clone()) {
            Some((part, range)) => {
                (Some(subject.span(part, range.clone())), subject.text_at(part, range).to_owned())
            }
            None => (None, String::new()),
        };
        findings.step(text, "the comparisons", || Output {
            finding: Finding::Incompatible,
            span: span.clone(),
            ..Output::default()
        });
        findings.violation(|| Violated {
            message: format!("these cannot hold together: {}", quoted(text)),
            text: words,
            span,
            related: None,
        });
    }
    findings.step("the comparisons", "each other", || Output {
        count: Some(all.len() as u64),
        finding: if circles.is_empty() { Finding::Compatible } else { Finding::Incompatible },
        ..Output::default()
    });
    Ok(())
}

/// The comparisons of the check's own constraints, which hold together.
fn constraints(subject: &Subject<'_>, findings: &mut Findings) -> Result<Vec<Comparison>, RuleError> {
    let mut all = Vec::new();
    for text in &subject.check.constraints {
        let compared = comparisons(text, |_| None);
        if compared.is_empty() {
            findings.step(text, "comparisons", || Output {
                finding: Finding::ConstraintNotUnderstood,
                ..Output::default()
            });
        }
        all.extend(compared);
    }
    let circles = circles(&all);
    for circle in &circles {
        findings.step(&circle.text, "the constraints", || Output {
            finding: Finding::ConstraintsIncompatible,
            ..Output::default()
        });
    }
    if circles.is_empty() {
        return Ok(all);
    }
    Err(RuleError(
        "the constraints cannot hold together, whatever the candidate says; the evidence names them".into(),
    ))
}

/// The comparisons of `text`, in its order.
fn comparisons(text: &str, place: impl Fn(Range<usize>) -> Option<(usize, Range<usize>)>) -> Vec<Comparison> {
    let mut found = Vec::new();
    for (at, sign) in text.match_indices(['<', '>']) {
        let (before, rest) = text.split_at(at);
        let behind = rest.get(sign.len()..).unwrap_or_default();
        let (or_equal, behind) = match behind.strip_prefix('=') {
            Some(behind) => (true, behind),
            None => (false, behind),
        };
        // arrows, shifts and the like
        if before.ends_with(['-', '=', '<', '>']) || behind.starts_with(['-', '=', '<', '>']) {
            continue;
        }
        if is_bracket(sign, before, behind) {
            continue;
        }
        let (left, right) = (before.trim_end_matches([' ', '\t']), behind.trim_start_matches([' ', '\t']));
        let (left, right) = (operand_behind(left), operand_before(right));
        if [left, right].iter().any(|operand| operand.is_empty() || operand.len() > OPERAND_MAX_BYTES) {
            continue;
        }
        let offset = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
        let range = offset(left)..offset(right) + right.len();
        let text = normalize(text.get(range.clone()).unwrap_or_default());
        let (above, below) = if sign == ">" { (left, right) } else { (right, left) };
        let [above, below] = [above, below].map(operand);
        found.push(Comparison { above, below, strict: !or_equal, text, at: place(range) });
    }
    found
}

/// Whether `sign` is one of the brackets around a tag's name or a type's parameter: `<b>`, `</b>`, `Vec<T>`.
fn is_bracket(sign: &str, before: &str, behind: &str) -> bool {
    if sign == "<" {
        behind.strip_prefix(operand_before(behind)).is_some_and(|rest| rest.starts_with('>'))
    } else {
        let rest = before.strip_suffix(operand_behind(before));
        rest.is_some_and(|rest| rest.strip_suffix('/').unwrap_or(rest).ends_with('<'))
    }
}

/// The operand that `text` ends with.
fn operand_behind(text: &str) -> &str {
    let mut start = text.len();
    let mut behind = None;
    for (at, character) in text.char_indices().rev() {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        if !is_of_operand(before, character, behind) || text.len() - at > OPERAND_MAX_BYTES + 4 {
            break;
        }
        (start, behind) = (at, Some(character));
    }
    text.get(start..).unwrap_or_default()
}

/// The operand that `text` begins with.
fn operand_before(text: &str) -> &str {
    let mut before = None;
    let mut characters = text.char_indices().peekable();
    let mut end = 0;
    while let Some((at, character)) = characters.next() {
        let behind = characters.peek().map(|(_, character)| *character);
        if !is_of_operand(before, character, behind) || at > OPERAND_MAX_BYTES {
            break;
        }
        (end, before) = (at + character.len_utf8(), Some(character));
    }
    text.get(..end).unwrap_or_default()
}

/// Letters, digits and what belongs to them; points, commas and hyphens between two of these; a sign before a digit.
fn is_of_operand(before: Option<char>, character: char, behind: Option<char>) -> bool {
    let word =
        |character: char| character.is_alphanumeric() || matches!(character, '_' | '%' | '°' | '$' | '€');
    let joined = before.is_some_and(word) && behind.is_some_and(word);
    let signs = !before.is_some_and(word) && behind.is_some_and(|behind| behind.is_ascii_digit());
    match character {
        '.' | ',' => joined,
        '-' => joined || signs,
        _ => word(character),
    }
}

/// An operand as it is known: numbers by their value, all else by its letters.
fn operand(text: &str) -> String {
    Number::parse(text).map_or_else(|| normalize(text), |number| number.text())
}

/// A circle that cannot be.
struct Circle {
    /// Its steps, in their order.
    text: String,
    /// The last comparison in it, by its place.
    latest: Option<usize>,
}

/// A step from what is above to what is below: by a comparison, or by the order of numbers.
#[derive(Debug, Clone, Copy)]
struct Step {
    strict: bool,
    by: Option<usize>,
}

/// What cannot hold together among `comparisons`: one circle for each set of operands that hang together in one.
fn circles(comparisons: &[Comparison]) -> Vec<Circle> {
    let mut graph: DiGraph<&str, Step> = DiGraph::new();
    let mut nodes: BTreeMap<&str, NodeIndex> = BTreeMap::new();
    for (place, comparison) in comparisons.iter().enumerate() {
        let [above, below] = [&comparison.above, &comparison.below]
            .map(|name| *nodes.entry(name).or_insert_with(|| graph.add_node(name)));
        graph.add_edge(above, below, Step { strict: comparison.strict, by: Some(place) });
    }
    let mut numbers: Vec<(Number, NodeIndex)> =
        nodes.iter().filter_map(|(name, node)| Some((Number::parse(name)?, *node))).collect();
    numbers.sort_by(|one, other| one.0.cmp(&other.0));
    for pair in numbers.windows(2) {
        if let [(_, below), (_, above)] = pair {
            graph.add_edge(*above, *below, Step { strict: true, by: None });
        }
    }
    let mut group_of = vec![0; graph.node_count()];
    for (group, members) in kosaraju_scc(&graph).into_iter().enumerate() {
        for member in members {
            if let Some(place) = group_of.get_mut(member.index()) {
                *place = group;
            }
        }
    }
    let group = |node: NodeIndex| group_of.get(node.index()).copied();
    let mut first_strict: BTreeMap<usize, EdgeReference<'_, Step>> = BTreeMap::new();
    // in the order of the text: a circle always has a comparison, since numbers alone have none
    for edge in graph.edge_references() {
        if let (Some(group), true) = (group(edge.source()), group(edge.source()) == group(edge.target()))
            && edge.weight().strict
        {
            first_strict.entry(group).or_insert(edge);
        }
    }
    let mut circles: Vec<(usize, Circle)> = first_strict
        .into_values()
        .map(|edge| (edge.id().index(), circle(&graph, comparisons, edge, &group)))
        .collect();
    circles.sort_by_key(|(first, _)| *first);
    circles.into_iter().map(|(_, circle)| circle).collect()
}

/// The shortest circle through `edge`.
fn circle(
    graph: &DiGraph<&str, Step>,
    comparisons: &[Comparison],
    edge: EdgeReference<'_, Step>,
    group: &impl Fn(NodeIndex) -> Option<usize>,
) -> Circle {
    let mut came_by: HashMap<NodeIndex, EdgeReference<'_, Step>> = HashMap::from([(edge.target(), edge)]);
    let mut waiting = VecDeque::from([edge.target()]);
    while let Some(node) = waiting.pop_front() {
        if node == edge.source() {
            break;
        }
        let mut edges: Vec<_> =
            graph.edges(node).filter(|next| group(next.target()) == group(node)).collect();
        edges.sort_by_key(|next| next.id());
        for next in edges {
            if let std::collections::hash_map::Entry::Vacant(new) = came_by.entry(next.target()) {
                new.insert(next);
                waiting.push_back(next.target());
            }
        }
    }
    let mut steps = Vec::new();
    let mut node = edge.source();
    while let Some(step) = came_by.get(&node) {
        steps.push(*step);
        node = step.source();
        if step.id() == edge.id() {
            break;
        }
    }
    steps.reverse();
    let text = |step: &EdgeReference<'_, Step>| match step.weight().by.and_then(|by| comparisons.get(by)) {
        Some(comparison) => comparison.text.clone(),
        None => {
            let name = |node| graph.node_weight(node).copied().unwrap_or_default();
            format!("{} > {}", name(step.source()), name(step.target()))
        }
    };
    Circle {
        text: steps.iter().map(text).collect::<Vec<_>>().join(", "),
        latest: steps.iter().filter_map(|step| step.weight().by).max(),
    }
}
