//! Comparisons that contradict each other: RULE-CONT-002.
//!
//! A comparison `L op R` with `<`, `>`, `<=` or `>=` states that one operand is above another. Together with the order
//! of the numbers among the operands, comparisons form a graph. A cycle in it with a strict step is a contradiction.

mod read;

use super::candidate::RuleContext;
use super::contradiction::{negations, note_unknown, requested_pairs};
use super::result::{EvidenceFinding, EvidenceOutput};
use super::result::{FullViolation, RuleError, RuleFindings, quoted};
use domain_base::digest::Sha256Hex;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, EdgeReference, NodeIndex};
use petgraph::visit::EdgeRef;
use read::{MarkedNumber, OperandComparison, comparisons, constraint};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// RULE-CONT-002: no pair of opposites appears, and the comparisons of the candidate are consistent with each other and
/// with the constraints.
///
/// # Errors
/// The constraints contradict each other, so the candidate cannot be checked.
pub(super) fn incompatible(subject: &RuleContext<'_>, findings: &mut RuleFindings) -> Result<(), RuleError> {
    negations(subject, findings);
    let (mut all, not_understood) = constraints(subject);
    let given = &subject.check.constraints;
    let given = format!("constraints: {}, {}", given.len(), Sha256Hex::of_json(given));
    let result = if are_compatible(findings, &all, &given) {
        for (part, text) in subject.texts().enumerate() {
            all.extend(comparisons(text, Some(part)));
        }
        report_cycles(subject, findings, &all, &given);
        Ok(())
    } else {
        let cause = "the constraints contradict each other, so no candidate can satisfy them; the evidence names them";
        Err(RuleError(cause.into()))
    };
    note_unknown(findings, requested_pairs(subject));
    for text in not_understood {
        findings.step(text, "L < R, L > R, L <= R, L >= R", || EvidenceOutput {
            finding: EvidenceFinding::ConstraintNotUnderstood,
            ..EvidenceOutput::default()
        });
    }
    result
}

/// The comparisons in the check's constraints, and the constraints that cannot be parsed.
fn constraints<'a>(subject: &RuleContext<'a>) -> (Vec<OperandComparison>, Vec<&'a str>) {
    let (mut all, mut not_understood) = (Vec::new(), Vec::new());
    for text in &subject.check.constraints {
        match constraint(text) {
            Some(compared) => all.extend(compared),
            None => not_understood.push(text.as_str()),
        }
    }
    (all, not_understood)
}

/// Whether the constraints are consistent; `given` identifies them in the evidence.
fn are_compatible(findings: &mut RuleFindings, constraints: &[OperandComparison], given: &str) -> bool {
    let circles = find_cycles(constraints);
    for circle in &circles {
        findings.step(&circle.text, given, || EvidenceOutput {
            finding: EvidenceFinding::ConstraintsIncompatible,
            ..EvidenceOutput::default()
        });
    }
    circles.is_empty()
}

/// Reports contradictions within `all`: the comparisons of the constraints, then those of the candidate.
fn report_cycles(
    subject: &RuleContext<'_>,
    findings: &mut RuleFindings,
    all: &[OperandComparison],
    given: &str,
) {
    let circles = find_cycles(all);
    let candidate = subject.candidate_sha256();
    let span =
        |comparison: &OperandComparison| Some(subject.span(comparison.part?, comparison.range.clone()));
    for ComparisonCycle { text, members } in &circles {
        let latest = members.iter().max().and_then(|latest| all.get(*latest));
        let words = latest.and_then(|latest| Some(subject.text_at(latest.part?, latest.range.clone())));
        findings.step(text, candidate.as_str(), || EvidenceOutput {
            finding: EvidenceFinding::Incompatible,
            span: latest.and_then(span),
            ..EvidenceOutput::default()
        });
        findings.violation(|| FullViolation {
            message: format!("these cannot hold together: {}", quoted(text)),
            text: words.unwrap_or_default().to_owned(),
            span: latest.and_then(span),
            related: None,
        });
    }
    let compared = format!("comparisons: {}, {candidate}", all.len());
    findings.step(&compared, given, || EvidenceOutput {
        count: Some(all.len() as u64),
        finding: if circles.is_empty() { EvidenceFinding::Compatible } else { EvidenceFinding::Incompatible },
        ..EvidenceOutput::default()
    });
    // the comparisons in a cycle come first
    let mut is_in_circle = vec![false; all.len()];
    for index in circles.iter().flat_map(|circle| &circle.members) {
        if let Some(is_in_circle) = is_in_circle.get_mut(*index) {
            *is_in_circle = true;
        }
    }
    let (first, rest): (Vec<_>, Vec<_>) = all.iter().zip(is_in_circle).partition(|(_, is_in)| *is_in);
    for (comparison, _) in first.into_iter().chain(rest) {
        let with = comparison.part.map_or(given, |_| candidate.as_str());
        findings.step(&comparison.text, with, || EvidenceOutput {
            finding: EvidenceFinding::Comparison,
            span: span(comparison),
            ..EvidenceOutput::default()
        });
    }
}

/// A cycle with a strict step.
struct ComparisonCycle {
    /// Its steps, in their order.
    text: String,
    /// The indexes of its comparisons.
    members: Vec<usize>,
}

/// A step from the higher operand to the lower one: by a comparison, or by the order of numbers.
#[derive(Debug, Clone, Copy)]
struct ComparisonStep {
    strict: bool,
    by: Option<usize>,
}

/// The contradictions among `comparisons`: one cycle for each strongly connected set of operands.
fn find_cycles(comparisons: &[OperandComparison]) -> Vec<ComparisonCycle> {
    let mut graph: DiGraph<&str, ComparisonStep> = DiGraph::new();
    let mut nodes: BTreeMap<&str, NodeIndex> = BTreeMap::new();
    for (index, comparison) in comparisons.iter().enumerate() {
        let [above, below] = [&comparison.above, &comparison.below]
            .map(|name| *nodes.entry(name).or_insert_with(|| graph.add_node(name)));
        graph.add_edge(above, below, ComparisonStep { strict: comparison.strict, by: Some(index) });
    }
    let mut amounts: Vec<(MarkedNumber, NodeIndex)> =
        nodes.iter().filter_map(|(name, node)| Some((MarkedNumber::parse(name)?, *node))).collect();
    amounts.sort_by(|one, other| one.0.cmp(&other.0));
    for pair in amounts.windows(2) {
        if let [(lower, below), (higher, above)] = pair
            && lower.mark == higher.mark
        {
            graph.add_edge(*above, *below, ComparisonStep { strict: true, by: None });
        }
    }
    let mut group_of = vec![0; graph.node_count()];
    for (group, members) in kosaraju_scc(&graph).into_iter().enumerate() {
        for member in members {
            if let Some(slot) = group_of.get_mut(member.index()) {
                *slot = group;
            }
        }
    }
    let group = |node: NodeIndex| group_of.get(node.index()).copied();
    let mut first_strict: BTreeMap<usize, EdgeReference<'_, ComparisonStep>> = BTreeMap::new();
    // in the order of the text; every cycle contains a comparison, because numbers alone form none
    for edge in graph.edge_references() {
        if let (Some(group), true) = (group(edge.source()), group(edge.source()) == group(edge.target()))
            && edge.weight().strict
        {
            first_strict.entry(group).or_insert(edge);
        }
    }
    let mut circles: Vec<(usize, ComparisonCycle)> = first_strict
        .into_values()
        .map(|edge| (edge.id().index(), find_shortest_cycle(&graph, comparisons, edge, &group)))
        .collect();
    circles.sort_by_key(|(first, _)| *first);
    circles.into_iter().map(|(_, circle)| circle).collect()
}

/// The shortest cycle through `edge`.
fn find_shortest_cycle(
    graph: &DiGraph<&str, ComparisonStep>,
    comparisons: &[OperandComparison],
    edge: EdgeReference<'_, ComparisonStep>,
    group: &impl Fn(NodeIndex) -> Option<usize>,
) -> ComparisonCycle {
    let mut came_by: HashMap<NodeIndex, EdgeReference<'_, ComparisonStep>> =
        HashMap::from([(edge.target(), edge)]);
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
    let text = |step: &EdgeReference<'_, ComparisonStep>| match step
        .weight()
        .by
        .and_then(|by| comparisons.get(by))
    {
        Some(comparison) => comparison.text.clone(),
        None => {
            let name = |node| graph.node_weight(node).copied().unwrap_or_default();
            format!("{} > {}", name(step.source()), name(step.target()))
        }
    };
    ComparisonCycle {
        text: steps.iter().map(text).collect::<Vec<_>>().join(", "),
        members: steps.iter().filter_map(|step| step.weight().by).collect(),
    }
}
