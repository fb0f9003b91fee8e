//! Proofs over the log's Merkle tree.

use crate::audit::log::{LogLine, LogQuery, leaf};
use crate::base::engine::TableReader;
use crate::base::error::StoreError;
use crate::base::log_hashes::{LogHashes, name_of};
use crate::base::meta;
use crate::base::rows::{self, TableId};
use oracled_domain::audit::log_proof::{prove_consistency, prove_inclusion, root};
use oracled_domain::audit::log_tiles::{LastTiles, TILE_HASHES, TilePlace, root_of};
use oracled_domain::audit::log_tree::{LogTree, TreeHash, leaf_hash};

impl LogHashes {
    /// The hashes of the log whose tree is `tree`, read from its last entries and its stored tiles.
    ///
    /// # Errors
    /// `Corrupt` if the tiles do not belong to the tree, or the store cannot be read.
    pub(crate) fn read(store: &TableReader, tree: LogTree) -> Result<Self, StoreError> {
        let size = tree.size();
        let last_of = |count: u64| (count - count % TILE_HASHES as u64)..count;
        let mut hashes = Vec::new();
        let mut after = last_of(size).start;
        while after < size {
            let limit = (size - after) as usize;
            let lines = store.log_page(&LogQuery { after, limit, ..LogQuery::default() })?.lines;
            let Some(LogLine { seq, .. }) = lines.last() else { break };
            after = *seq;
            for line in &lines {
                hashes.push(leaf_hash(leaf(store.dir(), &line.json)?.as_bytes()));
            }
        }
        let mut levels = vec![hashes];
        let (mut below, mut tiles) = (0, size / TILE_HASHES as u64);
        while tiles > 0 {
            let roots =
                last_of(tiles).map(|index| Ok(root_of(&store.tile(TilePlace { level: below, index })?)));
            levels.push(roots.collect::<Result<_, StoreError>>()?);
            (below, tiles) = (below + 1, tiles / TILE_HASHES as u64);
        }
        let read = Self::new(tree, LastTiles::new(levels));
        if root(size, &mut read.root_of(|place| store.tile(place)))? == read.tree.root() {
            return Ok(read);
        }
        let detail = "the tiles of its log differ from the log's Merkle tree".to_owned();
        Err(StoreError::Corrupt { dir: store.dir().to_owned(), detail })
    }
}

impl TableReader {
    /// The name of the log in its checkpoints.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn log_name(&self) -> Result<String, StoreError> {
        Ok(format!("oracled/{:016x}", meta::store_id(self.engine())?))
    }

    /// The size and the root of the log's Merkle tree.
    #[must_use]
    pub fn log_head(&self) -> (u64, TreeHash) {
        let hashes = self.engine().log_hashes();
        (hashes.tree.size(), hashes.tree.root())
    }

    /// The root of the Merkle tree of the first `size` entries; `None` if the log has fewer.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn log_root(&self, size: u64) -> Result<Option<TreeHash>, StoreError> {
        let hashes = self.engine().log_hashes();
        if size > hashes.tree.size() {
            return Ok(None);
        }
        root(size, &mut hashes.root_of(|place| self.tile(place))).map(Some)
    }

    /// The proof that the log of the first `size` entries has the entry `seq`. `None` if one of them does not exist.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn prove_entry(&self, seq: u64, size: u64) -> Result<Option<Vec<TreeHash>>, StoreError> {
        let hashes = self.engine().log_hashes();
        let Some(index) = seq.checked_sub(1).filter(|_| seq <= size && size <= hashes.tree.size()) else {
            return Ok(None);
        };
        if size == hashes.tree.size() && self.log_root(size)? != Some(hashes.tree.root()) {
            return Err(self.damaged_tile("a tile of its log differs from the log's Merkle tree".to_owned()));
        }
        prove_inclusion(index, size, &mut hashes.root_of(|place| self.tile(place))).map(Some)
    }

    /// The proof that the log of the first `size` entries continues that of the first `old_size`. `None` if one of them does
    /// not exist.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn prove_continuation(&self, old_size: u64, size: u64) -> Result<Option<Vec<TreeHash>>, StoreError> {
        let hashes = self.engine().log_hashes();
        if old_size > size || size > hashes.tree.size() {
            return Ok(None);
        }
        prove_consistency(old_size, size, &mut hashes.root_of(|place| self.tile(place))).map(Some)
    }

    /// The hashes of a full tile.
    fn tile(&self, place: TilePlace) -> Result<Vec<TreeHash>, StoreError> {
        let row = self.read(|db, _| rows::get(db, self.dir(), TableId::Tiles, &name_of(place)))?;
        let hashes = row.map(|row| row.value.as_chunks().0.to_vec());
        hashes.filter(|hashes| hashes.len() == TILE_HASHES).ok_or_else(|| {
            let TilePlace { level, index } = place;
            self.damaged_tile(format!(
                "tile {index} of level {level} of its log's Merkle tree is missing or not whole"
            ))
        })
    }

    /// The error for a wrong tile, which the journal repairs.
    fn damaged_tile(&self, detail: String) -> StoreError {
        let error = StoreError::Corrupt { dir: self.dir().to_owned(), detail };
        self.engine().note_damage(&error);
        error
    }
}
