//! The hashes of the log's Merkle tree in tiles of 256, by C2SP `tlog-tiles`.
//!
//! A tile of level 0 has hashes of leaves. A tile of a higher level has the roots of 256 full tiles of the level below. Full
//! tiles never change and are stored; the last tile of each level is kept here.

use crate::log_tree::{TreeHash, empty_root, node_hash};
use std::fmt;
use std::str::FromStr;

/// The height of a tile: it covers 2⁸ hashes.
pub const TILE_HEIGHT: u8 = 8;
/// The number of hashes in a full tile.
pub const TILE_HASHES: usize = 1 << TILE_HEIGHT;
/// The number of levels: the number of an entry has 64 bits.
pub const TILE_LEVELS: usize = 64 / TILE_HEIGHT as usize;

/// The place of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TilePlace {
    pub level: u8,
    /// Its number among those of its level, from 0.
    pub index: u64,
}

/// The content of a file of a log in tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TileContent {
    /// Hashes of this level.
    Hashes(u8),
    /// The leaves under the tile of level 0, each after its length in 2 bytes, big-endian.
    Leaves,
}

/// A file of a log in tiles, whose name is its path after `tile/`: for example `0/x001/067`, `1/002.p/8` or `entries/005`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TileFile {
    pub content: TileContent,
    /// Its number, from 0.
    pub index: u64,
    /// The number of hashes or leaves: 1 to 256.
    pub width: usize,
}

/// Why a path does not name a file of a log in tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not the path of a tile; allowed: LEVEL/N or entries/N, by C2SP `tlog-tiles`, such as 0/x001/067 or entries/002.p/8"
)]
pub struct TilePathError;

impl TileFile {
    /// All files of a log with `size` entries. The last one of each level can have less than 256 hashes or leaves.
    pub fn all(size: u64) -> impl Iterator<Item = Self> {
        let contents =
            [TileContent::Leaves].into_iter().chain((0..TILE_LEVELS as u8).map(TileContent::Hashes));
        contents.flat_map(move |content| {
            let level = match content {
                TileContent::Hashes(level) => level,
                TileContent::Leaves => 0,
            };
            let hashes = size >> (TILE_HEIGHT * level);
            let width =
                move |index: u64| (hashes - index * TILE_HASHES as u64).min(TILE_HASHES as u64) as usize;
            let files = hashes.div_ceil(TILE_HASHES as u64);
            (0..files).map(move |index| Self { content, index, width: width(index) })
        })
    }

    /// The numbers of the entries whose leaves or hashes the file has, if it is of the lowest level: counted from 0.
    #[must_use]
    pub const fn entries(&self) -> std::ops::Range<u64> {
        let first = self.index * TILE_HASHES as u64;
        first..first + self.width as u64
    }
}

impl fmt::Display for TileFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.content {
            TileContent::Hashes(level) => write!(f, "{level}/")?,
            TileContent::Leaves => f.write_str("entries/")?,
        }
        let digits = format!("{:03}", self.index);
        let first = digits.len() % 3;
        let groups = digits.as_bytes().get(first..).unwrap_or_default().chunks(3);
        let head = digits.get(..first).filter(|head| !head.is_empty()).map(|head| format!("{head:0>3}"));
        let mut groups: Vec<_> =
            head.into_iter().chain(groups.map(|group| String::from_utf8_lossy(group).into_owned())).collect();
        let last = groups.pop().unwrap_or_default();
        for group in groups {
            write!(f, "x{group}/")?;
        }
        f.write_str(&last)?;
        if self.width < TILE_HASHES { write!(f, ".p/{}", self.width) } else { Ok(()) }
    }
}

impl FromStr for TileFile {
    type Err = TilePathError;

    fn from_str(path: &str) -> Result<Self, TilePathError> {
        let parse = || {
            let (content, rest) = path.split_once('/')?;
            let content = match content {
                "entries" => TileContent::Leaves,
                level => TileContent::Hashes(level.parse().ok()?),
            };
            let (index, width) = match rest.split_once(".p/") {
                Some((index, width)) => (index, width.parse().ok()?),
                None => (rest, TILE_HASHES),
            };
            let index = index.replace(['x', '/'], "").parse().ok()?;
            Some(Self { content, index, width })
        };
        // there is one form of each path
        let is_allowed = |file: &Self| {
            file.width > 0
                && !matches!(file.content, TileContent::Hashes(level) if usize::from(level) >= TILE_LEVELS)
                && file.index < u64::MAX / TILE_HASHES as u64
                && file.to_string() == path
        };
        parse().filter(is_allowed).ok_or(TilePathError)
    }
}

/// A full subtree: that of the 2^`height` leaves from `index` · 2^`height` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subtree {
    pub height: u8,
    pub index: u64,
}

impl Subtree {
    /// The tile that has the hashes of the subtree, and their place in it.
    #[must_use]
    pub fn tile(self) -> (TilePlace, std::ops::Range<usize>) {
        let (level, height_in_tile) = (self.height / TILE_HEIGHT, self.height % TILE_HEIGHT);
        let first = self.index << height_in_tile;
        let begin = (first % TILE_HASHES as u64) as usize;
        (TilePlace { level, index: first / TILE_HASHES as u64 }, begin..begin + (1 << height_in_tile))
    }
}

/// The root over the hashes of a full subtree, whose number is a power of two.
#[must_use]
pub fn root_of(hashes: &[TreeHash]) -> TreeHash {
    match hashes {
        [] => empty_root(),
        [hash] => *hash,
        hashes => {
            let (left, right) = hashes.split_at(hashes.len() / 2);
            node_hash(&root_of(left), &root_of(right))
        }
    }
}

/// The last tile of each level. None of them is full.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LastTiles {
    levels: [Vec<TreeHash>; TILE_LEVELS],
}

impl LastTiles {
    /// The last tiles with these hashes, from level 0 on.
    #[must_use]
    pub const fn new(levels: [Vec<TreeHash>; TILE_LEVELS]) -> Self {
        Self { levels }
    }

    /// Appends the hash of the leaf number `index`. Calls `full` with each tile that it completes.
    pub fn append(&mut self, index: u64, leaf: TreeHash, full: &mut impl FnMut(TilePlace, &[TreeHash])) {
        let (mut index, mut hash) = (index, leaf);
        for (level, tile) in (0..).zip(&mut self.levels) {
            tile.push(hash);
            if tile.len() < TILE_HASHES {
                return;
            }
            index /= TILE_HASHES as u64;
            full(TilePlace { level, index }, tile);
            hash = root_of(tile);
            tile.clear();
        }
    }

    /// The hashes of the last tile of a level.
    #[must_use]
    pub fn of_level(&self, level: u8) -> &[TreeHash] {
        self.levels.get(usize::from(level)).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_proof::{is_continued, is_included, prove_consistency, prove_inclusion, root};
    use crate::log_tree::{LogTree, leaf_hash};
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    #[test]
    fn path_of_a_tile_has_the_form_of_the_specification() {
        let file = |content, index, width| TileFile { content, index, width };
        for (path, expected) in [
            ("0/000", file(TileContent::Hashes(0), 0, 256)),
            ("1/067.p/8", file(TileContent::Hashes(1), 67, 8)),
            ("0/x001/x234/067", file(TileContent::Hashes(0), 1_234_067, 256)),
            ("entries/x001/000.p/1", file(TileContent::Leaves, 1000, 1)),
        ] {
            assert_eq!((path.parse(), expected.to_string().as_str()), (Ok(expected), path));
        }
        for path in
            ["", "0", "0/", "0/1", "0/x001/1", "8/000", "0/000.p/0", "0/000.p/256", "0/000.p/08", "x/000"]
        {
            assert_eq!(path.parse::<TileFile>(), Err(TilePathError), "{path}");
        }
        assert_eq!("0/x999/x999/x999/x999/x999/x999/999".parse::<TileFile>(), Err(TilePathError));
    }

    #[test]
    fn all_files_have_each_hash_once() {
        let files: Vec<_> = TileFile::all(70_000).collect();
        let names: Vec<_> = files.iter().map(ToString::to_string).collect();
        assert_eq!(files.len(), 274 + 274 + 2 + 1);
        for last in ["entries/273.p/112", "0/273.p/112", "1/001.p/17", "2/000.p/1"] {
            assert!(names.contains(&last.to_owned()), "{last}");
        }
        assert_eq!(TileFile::all(0).count(), 0);
        assert_eq!(
            TileFile::all(256).map(|file| file.to_string()).collect::<Vec<_>>(),
            ["entries/000", "0/000", "1/000.p/1"]
        );
    }

    #[test]
    fn subtree_is_in_its_tile() {
        let place = |height, index| Subtree { height, index }.tile();
        assert_eq!(place(0, 300), (TilePlace { level: 0, index: 1 }, 44..45));
        assert_eq!(place(7, 3), (TilePlace { level: 0, index: 1 }, 128..256));
        assert_eq!(place(8, 3), (TilePlace { level: 1, index: 0 }, 3..4));
        assert_eq!(place(17, 1), (TilePlace { level: 2, index: 0 }, 2..4));
    }

    #[test]
    fn tiles_of_66000_leaves_have_the_hashes_of_the_tree() {
        let (mut tree, mut last, mut stored) = (LogTree::default(), LastTiles::default(), BTreeMap::new());
        let size = 66_000u64;
        for n in 0..size {
            let hash = tree.append(&n.to_be_bytes());
            last.append(n, hash, &mut |place, hashes| {
                assert!(stored.insert(place, hashes.to_vec()).is_none(), "{place:?} is completed once");
            });
        }
        let of_level = |level| stored.keys().filter(|place| place.level == level).count();
        assert_eq!((of_level(0), of_level(1), of_level(2)), (257, 1, 0));
        assert_eq!([0, 1, 2].map(|level| last.of_level(level).len()), [208, 1, 1]);
        assert_eq!(stored[&TilePlace { level: 0, index: 1 }][2], leaf_hash(&258u64.to_be_bytes()));
        assert_eq!(
            stored[&TilePlace { level: 1, index: 0 }][1],
            root_of(&stored[&TilePlace { level: 0, index: 1 }])
        );
        assert_eq!(last.of_level(2)[0], root_of(&stored[&TilePlace { level: 1, index: 0 }]));
    }

    #[test]
    fn proofs_from_tiles_hold_at_sizes_around_a_full_tile_of_tiles() {
        let leaf = |n: u64| n.to_be_bytes();
        let sizes = [1, 255, 256, 257, 65_535, 65_536, 65_537, 66_000u64];
        let (mut tree, mut last, mut stored) = (LogTree::default(), LastTiles::default(), BTreeMap::new());
        let mut roots = Vec::new();
        for n in 0..66_000 {
            let hash = tree.append(&leaf(n));
            last.append(n, hash, &mut |place, hashes| drop(stored.insert(place, hashes.to_vec())));
            if sizes.contains(&(n + 1)) {
                roots.push((n + 1, tree.root()));
            }
        }
        let mut subtree = |subtree: Subtree| -> Result<TreeHash, Infallible> {
            let (place, range) = subtree.tile();
            let hashes = stored.get(&place).map_or_else(|| last.of_level(place.level), Vec::as_slice);
            Ok(root_of(&hashes[range]))
        };
        for (size, expected) in &roots {
            assert_eq!(root(*size, &mut subtree), Ok(*expected), "{size}");
            for index in [0, size / 3, size / 2, size - 1] {
                let Ok(proof) = prove_inclusion(index, *size, &mut subtree);
                assert!(
                    is_included(leaf_hash(&leaf(index)), index, *size, &proof, expected),
                    "{index} {size}"
                );
            }
            for (old_size, old_root) in roots.iter().filter(|(old_size, _)| old_size <= size) {
                let Ok(proof) = prove_consistency(*old_size, *size, &mut subtree);
                assert!(is_continued((*old_size, old_root), (*size, expected), &proof), "{old_size} {size}");
            }
        }
    }
}
