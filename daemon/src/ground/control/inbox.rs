//! Held runs in the inbox.

use crate::platform::inbox::InboxKind;
use domain_base::inbox::{ITEMS_PER_KIND, InboxImportance, WaitingItem};
use oracled_store::{Store, StoreError};

const KIND: &str = "held_run";

/// The kinds of items of the feature.
pub(crate) const INBOX: &[InboxKind] = &[InboxKind { name: KIND, read: read_held_runs }];

fn read_held_runs(store: &Store) -> Result<Vec<WaitingItem>, StoreError> {
    let mut items = Vec::new();
    for run_id in store.sources()?.into_iter().flat_map(|source| source.held).take(ITEMS_PER_KIND) {
        let Some((run, _)) = store.run(&run_id)? else { continue };
        items.push(WaitingItem {
            kind: KIND.to_owned(),
            title: format!("{}, release {}", run.oracle_id, run.input.version),
            cause: run.cause.unwrap_or_default(),
            importance: InboxImportance::Answer,
            since: run.ended_at.unwrap_or(run.started_at),
            sources: vec![run.oracle_id.to_string()],
            link: format!("/runs/{run_id}"),
            id: run_id.to_string(),
        });
    }
    Ok(items)
}
