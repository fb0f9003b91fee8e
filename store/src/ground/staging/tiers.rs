//! Selects the files with which a run's statements are merged, so that a lookup never has to search many files.

use oracled_domain::ground::run::SortedFileRef;

/// A file is merged with newer statements unless it has more than this many times as many statements.
const FACTOR: u64 = 4;

/// The number of the oldest of `files` that stay unchanged when `fresh` statements are added. Each of the
/// resulting files has fewer statements than a quarter of the file before it.
pub(super) fn count_unchanged_files(files: &[SortedFileRef], fresh: u64) -> usize {
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
    use oracled_domain::Sha256Hex;

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
