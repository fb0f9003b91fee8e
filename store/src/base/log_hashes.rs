//! The hashes of the log's Merkle tree. Full tiles are rows; the last tile of each level is in memory.

use crate::base::row_batch::RowBatch;
use crate::base::rows::{self, TableId};
use oracled_domain::audit::log_tiles::{LastTiles, Subtree, TilePlace, root_of};
use oracled_domain::audit::log_tree::{LogTree, TreeHash, empty_root};

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

    /// Appends a leaf, and adds the tiles that it completes to `batch`. Returns the bytes of these tiles.
    pub(crate) fn append(&mut self, leaf: &[u8], batch: &mut RowBatch) -> usize {
        let index = self.tree.size();
        let hash = self.tree.append(leaf);
        let (mut bytes, revision) = (0, self.tree.size());
        self.last.append(index, hash, &mut |place, hashes| {
            let value = hashes.as_flattened();
            rows::put(batch, TableId::Tiles, &name_of(place), revision, value, 0);
            bytes += value.len();
        });
        bytes
    }

    /// The roots of full subtrees. `read_tile` reads a full tile.
    pub(crate) fn root_of<'s, E>(
        &'s self,
        mut read_tile: impl FnMut(TilePlace) -> Result<Vec<TreeHash>, E> + 's,
    ) -> impl FnMut(Subtree) -> Result<TreeHash, E> + 's {
        // a proof has several hashes from each tile
        let mut cached: Option<(TilePlace, Vec<TreeHash>)> = None;
        move |subtree| {
            let (place, range) = subtree.tile();
            let full_tiles = self.tree.size() >> (8 * u32::from(place.level)) >> 8;
            if place.index >= full_tiles
                && let Some(hashes) = self.last.of_level(place.level).get(range.clone())
            {
                return Ok(root_of(hashes));
            }
            if cached.as_ref().is_none_or(|(of, _)| *of != place) {
                cached = Some((place, read_tile(place)?));
            }
            let hashes = cached.as_ref().and_then(|(_, hashes)| hashes.get(range));
            Ok(hashes.map_or_else(empty_root, root_of))
        }
    }
}

/// The name of the row of a tile.
pub(crate) fn name_of(TilePlace { level, index }: TilePlace) -> [u8; 9] {
    let mut name = [level; 9];
    name[1..].copy_from_slice(&index.to_be_bytes());
    name
}
