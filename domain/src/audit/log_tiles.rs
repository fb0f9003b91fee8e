//! The hashes of the log's Merkle tree in tiles of 256, by C2SP `tlog-tiles`.
//!
//! A tile of level 0 has hashes of leaves. A tile of a higher level has the roots of 256 full tiles of the level below. Full
//! tiles never change and are stored; the last tile of each level is kept here.

use crate::audit::log_tree::{TreeHash, empty_root, node_hash};

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
    use crate::audit::log_proof::{is_continued, is_included, prove_consistency, prove_inclusion, root};
    use crate::audit::log_tree::{LogTree, leaf_hash};
    use std::collections::BTreeMap;
    use std::convert::Infallible;

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
