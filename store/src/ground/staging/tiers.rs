//! Merges the rows of a run with those of the last files, so that a lookup never has to search many files.

use super::facts::FactsWriter;
use super::{PROCEED_INTERVAL_RECORDS, index_of};
use crate::ground::files::{GroundFiles, UncommittedFiles, facts_owner};
use crate::ground::view::{STATEMENT, SourceView};
use domain_ground::run::SortedFileRef;
use store_base::error::StoreError;
use store_facts::sorted::{MergedKeys, RowMerge, RowSource, SortedFile};

/// A file is merged with newer rows unless it has more than this many times as many.
const FACTOR: u64 = 4;

/// Adds the new file `fresh` to the files of the source, and merges it with the last of them if they are not much
/// larger. Only these files are read and written again. Returns `None` if `proceed` returned false.
pub(super) fn add_file(
    (files, view, name): (&GroundFiles, &SourceView, &str),
    fresh: SortedFileRef,
    new_files: &mut UncommittedFiles,
    proceed: &mut dyn FnMut() -> bool,
) -> Result<Option<Vec<SortedFileRef>>, StoreError> {
    let mut result = view.state.files.clone();
    let unchanged = count_unchanged_files(&result, fresh.statements);
    result.truncate(unchanged);
    if unchanged == view.state.files.len() {
        result.push(fresh);
        return Ok(Some(result));
    }
    let opened = files.open_sorted(&fresh, &facts_owner(&view.state))?;
    let merged = view.open.iter().skip(unchanged).map(SortedFile::uncached);
    let merged: Vec<_> = merged.chain([opened]).collect();
    let mut rows = RowMerge::new(merged.iter().map(|file| file.with_prefix(&[STATEMENT])).collect());
    let mut facts = FactsWriter::create(files, format!("{name}.merged"))?;
    let mut written = 0_u64;
    rows.advance()?;
    while let Some((key, row)) = rows.current() {
        facts.push_row(key, row)?;
        rows.advance()?;
        written += 1;
        if written.is_multiple_of(PROCEED_INTERVAL_RECORDS) {
            files.check_free_space()?;
            if !proceed() {
                return Ok(None);
            }
        }
    }
    let index = MergedKeys::new(merged.iter().map(index_of).collect());
    result.push(facts.finish(files, index, new_files)?);
    new_files.remove_file(&fresh);
    Ok(Some(result))
}

/// The number of the oldest of `files` that stay unchanged when `fresh` rows are added. Each of the resulting
/// files has fewer rows than a quarter of the file before it.
fn count_unchanged_files(files: &[SortedFileRef], fresh: u64) -> usize {
    let mut merged = fresh;
    let mut unchanged = files.len();
    for file in files.iter().rev() {
        if file.statements > merged.saturating_mul(FACTOR) {
            break;
        }
        merged += file.statements;
        unchanged -= 1;
    }
    unchanged
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_base::digest::Sha256Hex;

    #[test]
    fn tiers_limit_files_and_rewrites_over_many_runs() {
        const RUNS: u64 = 2000;
        let mut files: Vec<SortedFileRef> = Vec::new();
        let (mut most, mut rewritten) = (0, 0);
        for _ in 0..RUNS {
            let unchanged = count_unchanged_files(&files, 10);
            let statements = 10 + files.drain(unchanged..).map(|file| file.statements).sum::<u64>();
            rewritten += statements;
            files.push(SortedFileRef { sha256: Sha256Hex::of(b""), size_bytes: 0, rows: 0, statements });
            most = most.max(files.len());
        }
        assert_eq!(files.iter().map(|file| file.statements).sum::<u64>(), RUNS * 10);
        assert!(most <= 6, "{most} files");
        assert!(rewritten < RUNS * 10 * 25, "each statement was written {} times", rewritten / (RUNS * 10));
    }
}
