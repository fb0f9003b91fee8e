//! The hashes of the log's Merkle tree. Full tiles are rows; the last tile of each level is in memory.

use crate::base::row_batch::RowBatch;
use crate::base::rows;
use domain_audit::log_tiles::{LastTiles, TILE_HEIGHT, TilePlace};
use domain_audit::log_tree::{LogTree, TreeHash};

/// The table of the full tiles of the log's Merkle tree.
pub(crate) const TILES: &str = "tiles";

/// The Merkle tree of the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LogHashes {
    pub(crate) tree: LogTree,
    last: LastTiles,
}

impl LogHashes {
    pub(crate) const fn new(tree: LogTree, last: LastTiles) -> Self {
        Self { tree, last }
    }

    /// Appends a leaf, and adds the tiles that it completes to `batch`. Returns the hash of the leaf, and the
    /// bytes of these tiles.
    pub(crate) fn append(&mut self, leaf: &[u8], batch: &mut RowBatch) -> (TreeHash, usize) {
        let index = self.tree.size();
        let hash = self.tree.append(leaf);
        let (mut bytes, revision) = (0, self.tree.size());
        self.last.append(index, hash, &mut |place, hashes| {
            let value = hashes.as_flattened();
            rows::put(batch, TILES, &name_of(place), revision, value, 0);
            bytes += value.len();
        });
        (hash, bytes)
    }

    /// The hashes of this tile if it is the last one of its level, which is not full.
    pub(crate) fn last_tile(&self, place: TilePlace) -> Option<&[TreeHash]> {
        let full_tiles = self.tree.size() >> (TILE_HEIGHT * place.level) >> TILE_HEIGHT;
        (place.index == full_tiles).then(|| self.last.of_level(place.level))
    }
}

/// The name of the row of a tile.
pub(crate) fn name_of(TilePlace { level, index }: TilePlace) -> [u8; 9] {
    let mut name = [level; 9];
    name[1..].copy_from_slice(&index.to_be_bytes());
    name
}
