//! The open reviews in the inbox.

use crate::platform::inbox::InboxKind;
use domain_base::inbox::{ITEMS_PER_KIND, InboxImportance, WaitingItem};
use domain_base::text_form::encode_segment;
use domain_ground::subject::name_subject;
use domain_ground::value::AxisValue;
use domain_verification::ReviewCase;
use oracled_store::{Store, StoreError};
use std::collections::BTreeMap;

const KIND: &str = "review";

/// The kinds of items of the feature.
pub(crate) const INBOX: &[InboxKind] = &[InboxKind { name: KIND, read: read_reviews }];

fn read_reviews(store: &Store) -> Result<Vec<WaitingItem>, StoreError> {
    let mut items = Vec::new();
    for state in store.oldest_open_reviews(ITEMS_PER_KIND)? {
        let review = state.review;
        items.push(WaitingItem {
            kind: KIND.to_owned(),
            title: title_of(store, &review)?,
            cause: review.cause(),
            importance: InboxImportance::Answer,
            since: review.opened_at,
            sources: review.candidates.keys().map(ToString::to_string).collect(),
            link: format!("/reviews/{}", encode_segment(&review.review_id)),
            id: review.review_id,
        });
    }
    Ok(items)
}

/// The title of a review, in words, such as "Population, Aruba, 2000". If the files of its source cannot be read, the subject has no
/// names.
pub(super) fn title_of(store: &Store, review: &ReviewCase) -> Result<String, StoreError> {
    let ontology = store.ontology(&review.ontology)?;
    let names = match subject_names(store, review) {
        Err(StoreError::SourceFile { .. } | StoreError::FactsNotHere { .. }) => BTreeMap::new(),
        names => names?,
    };
    Ok(review.title(ontology.as_ref(), &names))
}

/// The names of the subject in the record of a candidate.
fn subject_names(store: &Store, review: &ReviewCase) -> Result<BTreeMap<String, AxisValue>, StoreError> {
    for (oracle_id, candidate) in &review.candidates {
        let Some(provenance) = candidate.provenance.as_deref() else { continue };
        let Some(view) = store.view(oracle_id)? else { continue };
        let run = view.state.completed.iter().rfind(|run| run.run_id == provenance.ingestion_run_id);
        let Some(run) = run.map(|run| run.release.run) else { continue };
        let Some(record) = view.record(run, provenance.raw.position)? else { continue };
        let Some(statement) = record.of_run(run) else { continue };
        let Some(content) = view.content(statement)? else { continue };
        return Ok(name_subject(review.subject.keys(), &content.axes));
    }
    Ok(BTreeMap::new())
}
