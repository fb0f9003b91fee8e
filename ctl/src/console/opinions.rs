//! The opinions of several models on the verdict of an order.

use super::parts::table;
use crate::verdict::orders::{SHARE_COLUMNS, share_row};
use domain_verdict::opinion::{OpinionDecision, OpinionTally};
use domain_verdict::order::Order;
use maud::{Markup, html};

/// The result of the opinions on the verdict of an order.
pub(super) fn opinions_row(order: &Order) -> Option<(&'static str, Markup)> {
    let tally = order.opinions.as_ref()?;
    let decided = match tally.decision() {
        OpinionDecision::Agreed(label) => label.into_str(),
        OpinionDecision::Disagreed => "no label can be agreed",
        OpinionDecision::Open => "no label is agreed yet",
    };
    let OpinionTally { count, agree, .. } = tally;
    Some(("opinions", html! { (agree) " of " (count) " must agree: " (decided) }))
}

/// The labels of the opinions by model.
pub(super) fn render_opinions(order: &Order) -> Markup {
    let shares = order.opinions.iter().flat_map(|opinions| &opinions.shares);
    let shares: Vec<_> = shares.map(|share| share_row(share).map(|cell| html! { (cell) }).to_vec()).collect();
    html! { @if !shares.is_empty() { (table("Opinions", &SHARE_COLUMNS, &shares)) } }
}
