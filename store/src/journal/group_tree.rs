//! The Merkle tree of the log after a group of damaged segments. A group of another store, or of another history of this one, has
//! another tree.

use crate::audit::log::{self, LOG, first_seq_of, row};
use crate::base::row_batch::RowBatch;
use crate::base::{meta, rows};
use crate::segments::ReadableGroup;
use domain_audit::log_tree::LogTree;
use std::collections::BTreeMap;
use std::path::Path;
use store_base::error::StoreError;

/// The tree after `group`, which follows `tree`. Passes the tree after each of its entries to `check`.
///
/// # Errors
/// `Short` if the tree of the group is another; the error of `check`.
pub(super) fn tree_after(
    dir: &Path,
    tree: &LogTree,
    group: &ReadableGroup,
    mut check: impl FnMut(&LogTree) -> Result<(), StoreError>,
) -> Result<LogTree, StoreError> {
    let mut tree = tree.clone();
    for (_, line) in lines_in(&group.rows).range(group.after_entry + 1..) {
        tree.append(log::leaf(dir, line)?.as_bytes());
        check(&tree)?;
    }
    if meta::tree_in(&group.rows).as_ref() == Some(&tree) && tree.size() == group.entries {
        return Ok(tree);
    }
    let detail = format!(
        "the entries before entry {} are others than those of the Merkle tree in segment {}",
        group.after_entry + 1,
        group.segment
    );
    Err(StoreError::Short { dir: dir.to_owned(), detail })
}

/// The entries in the rows of the log of a group. Damaged rows are left out.
pub(super) fn lines_in(rows: &RowBatch) -> BTreeMap<u64, String> {
    let firsts = rows.range(rows::all(LOG)).filter(|(key, _)| rows::is_first_chunk(key));
    let mut lines = BTreeMap::new();
    for (key, _) in firsts {
        let value = rows::get_from(rows, LOG, rows::name(key).unwrap_or_default()).flatten();
        let text = value.as_deref().and_then(row::decode);
        if let Some((first, text)) = first_seq_of(key).zip(text) {
            lines.extend((first..).zip(text.lines().map(str::to_owned)));
        }
    }
    lines
}
