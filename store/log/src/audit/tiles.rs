//! Proofs over the log's Merkle tree.

#[cfg(test)]
mod tests;

use crate::audit::log::{LogLine, LogQuery, leaf};
use crate::base::engine::TableReader;
use crate::base::log_hashes::{LogHashes, TILES, name_of};
use crate::base::{meta, rows};
use domain_audit::log_proof::{is_continued, is_included, prove_consistency, prove_inclusion, root};
use domain_audit::log_tiles::{
    LastTiles, Subtree, TILE_HASHES, TILE_HEIGHT, TILE_LEVELS, TilePlace, root_of,
};
use domain_audit::log_tree::{LogTree, TreeHash, leaf_hash};
use std::ops::Range;
use store_base::error::StoreError;

impl LogHashes {
    /// The hashes of the log whose tree is `tree`, read from its last entries and its stored tiles.
    ///
    /// # Errors
    /// `Corrupt` if the tiles do not belong to the tree, or the store cannot be read.
    pub(crate) fn read(store: &TableReader, tree: LogTree) -> Result<Self, StoreError> {
        // the opening itself rebuilds a damaged database
        Self::read_checked(store, tree).inspect_err(|_| drop(store.engine().take_damage()))
    }

    fn read_checked(store: &TableReader, tree: LogTree) -> Result<Self, StoreError> {
        let mut count = tree.size();
        let mut levels: [Vec<TreeHash>; TILE_LEVELS] = Default::default();
        for (level, hashes) in (0u8..).zip(&mut levels) {
            let last = (count - count % TILE_HASHES as u64)..count;
            *hashes = match level.checked_sub(1) {
                None => store.leaf_hashes(last)?,
                Some(level) => {
                    let roots = last.map(|index| Ok(root_of(&store.tile(TilePlace { level, index })?)));
                    roots.collect::<Result<_, StoreError>>()?
                }
            };
            count /= TILE_HASHES as u64;
        }
        let read = Self::new(tree, LastTiles::new(levels));
        store.checked_root(&read, read.tree.size())?;
        Ok(read)
    }
}

impl TableReader {
    /// The name of the log in its checkpoints.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn log_name(&self) -> Result<String, StoreError> {
        Ok(format!("oracled/{:016x}", self.store_id()?))
    }

    /// The random id of the store, which its copies have, too.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn store_id(&self) -> Result<u64, StoreError> {
        meta::store_id(self.engine())
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
    /// A tile is damaged, or the store cannot be read.
    pub fn log_root(&self, size: u64) -> Result<Option<TreeHash>, StoreError> {
        let hashes = self.engine().log_hashes();
        (size <= hashes.tree.size()).then(|| self.checked_root(&hashes, size)).transpose()
    }

    /// The tree of the first `size` entries.
    ///
    /// # Errors
    /// A tile is damaged, or the store cannot be read.
    pub(crate) fn tree_of(&self, size: u64) -> Result<LogTree, StoreError> {
        let hashes = self.engine().log_hashes();
        let mut subtrees = self.subtrees(&hashes);
        LogTree::from_subtrees(size, |height, index| subtrees(Subtree { height, index }))
    }

    /// The proof that the log of the first `size` entries has the entry `seq`. `None` if one of them does not exist.
    ///
    /// # Errors
    /// A tile is damaged, or the store cannot be read.
    pub fn prove_entry(&self, seq: u64, size: u64) -> Result<Option<Vec<TreeHash>>, StoreError> {
        let hashes = self.engine().log_hashes();
        let Some(index) = seq.checked_sub(1).filter(|_| seq <= size && size <= hashes.tree.size()) else {
            return Ok(None);
        };
        let root = self.checked_root(&hashes, size)?;
        let mut subtrees = self.subtrees(&hashes);
        let proof = prove_inclusion(index, size, &mut subtrees)?;
        let leaf = subtrees(Subtree { height: 0, index })?;
        if is_included(leaf, index, size, &proof, &root) {
            Ok(Some(proof))
        } else {
            Err(self.different_tile())
        }
    }

    /// The proof that the log of the first `size` entries continues that of the first `old_size`. `None` if one of them does
    /// not exist.
    ///
    /// # Errors
    /// A tile is damaged, or the store cannot be read.
    pub fn prove_continuation(&self, old_size: u64, size: u64) -> Result<Option<Vec<TreeHash>>, StoreError> {
        let hashes = self.engine().log_hashes();
        if old_size > size || size > hashes.tree.size() {
            return Ok(None);
        }
        let (old_root, root) = (self.checked_root(&hashes, old_size)?, self.checked_root(&hashes, size)?);
        let proof = prove_consistency(old_size, size, &mut self.subtrees(&hashes))?;
        let is_proved = is_continued((old_size, &old_root), (size, &root), &proof);
        if is_proved { Ok(Some(proof)) } else { Err(self.different_tile()) }
    }

    /// The first `width` hashes of a tile; `None` if the log has fewer.
    ///
    /// # Errors
    /// The tile is damaged, or the store cannot be read.
    pub fn log_tile(&self, place: TilePlace, width: usize) -> Result<Option<Vec<TreeHash>>, StoreError> {
        let hashes = self.engine().log_hashes();
        let known = hashes.tree.size().checked_shr(u32::from(TILE_HEIGHT * place.level)).unwrap_or_default();
        if place.index.saturating_mul(TILE_HASHES as u64).saturating_add(width as u64) > known {
            return Ok(None);
        }
        let tile = match hashes.last_tile(place) {
            Some(last) => last.to_vec(),
            None => self.tile(place)?,
        };
        tile.get(..width).map(<[_]>::to_vec).ok_or_else(|| self.missing_tile(place)).map(Some)
    }

    /// The leaves of the entries with these numbers, counted from 0; `None` if the log has fewer.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn log_leaves(&self, entries: Range<u64>) -> Result<Option<Vec<String>>, StoreError> {
        if entries.end > self.engine().log_hashes().tree.size() {
            return Ok(None);
        }
        let mut leaves = Vec::new();
        self.read_leaves(entries, |leaf| leaves.push(leaf.to_owned()))?;
        Ok(Some(leaves))
    }

    /// Compares each full tile with its root in the tile above it, and the highest tiles with the root of the tree. Calls
    /// `proceed` after each; it returns whether to continue. Returns false if `proceed` stopped the check.
    ///
    /// # Errors
    /// `Corrupt` if a tile is damaged, or the store cannot be read.
    pub fn check_tiles(&self, mut proceed: impl FnMut() -> bool) -> Result<bool, StoreError> {
        let hashes = self.engine().log_hashes();
        self.checked_root(&hashes, hashes.tree.size())?;
        let mut subtrees = self.subtrees(&hashes);
        let mut tiles = hashes.tree.size() / TILE_HASHES as u64;
        for level in 0.. {
            for index in 0..tiles {
                let (place, height) = (TilePlace { level, index }, TILE_HEIGHT * (level + 1));
                if root_of(&self.tile(place)?) != subtrees(Subtree { height, index })? {
                    return Err(self.different_tile());
                }
                if !proceed() {
                    return Ok(false);
                }
            }
            tiles /= TILE_HASHES as u64;
            if tiles == 0 {
                break;
            }
        }
        Ok(true)
    }

    /// The root of the first `size` entries. The tree of all entries must continue it, so that a wrong tile is found.
    fn checked_root(&self, hashes: &LogHashes, size: u64) -> Result<TreeHash, StoreError> {
        let (tree, mut subtrees) = (&hashes.tree, self.subtrees(hashes));
        let root = root(size, &mut subtrees)?;
        let proof = prove_consistency(size, tree.size(), &mut subtrees)?;
        let is_proved = is_continued((size, &root), (tree.size(), &tree.root()), &proof);
        if is_proved { Ok(root) } else { Err(self.different_tile()) }
    }

    /// The roots of full subtrees.
    fn subtrees<'s>(
        &'s self,
        hashes: &'s LogHashes,
    ) -> impl FnMut(Subtree) -> Result<TreeHash, StoreError> + 's {
        // a proof has several hashes from each tile
        let mut cached: Option<(TilePlace, Vec<TreeHash>)> = None;
        move |subtree| {
            let (place, range) = subtree.tile();
            if let Some(last) = hashes.last_tile(place) {
                return last.get(range).map(root_of).ok_or_else(|| self.missing_tile(place));
            }
            let tile = match cached.take() {
                Some((of, tile)) if of == place => tile,
                _ => self.tile(place)?,
            };
            let root = tile.get(range).map(root_of);
            cached = Some((place, tile));
            root.ok_or_else(|| self.missing_tile(place))
        }
    }

    /// The hashes of the leaves with these numbers, counted from 0.
    fn leaf_hashes(&self, leaves: Range<u64>) -> Result<Vec<TreeHash>, StoreError> {
        let mut hashes = Vec::new();
        self.read_leaves(leaves, |leaf| hashes.push(leaf_hash(leaf.as_bytes())))?;
        Ok(hashes)
    }

    /// Passes the leaves with these numbers to `visit`, counted from 0.
    fn read_leaves(&self, leaves: Range<u64>, mut visit: impl FnMut(&str)) -> Result<(), StoreError> {
        let mut after = leaves.start;
        while after < leaves.end {
            let limit = (leaves.end - after) as usize;
            let lines = self.log_page(&LogQuery { after, limit, ..LogQuery::default() })?.lines;
            let Some(LogLine { seq, .. }) = lines.last() else {
                let detail = format!("its log must have {} entries, and has {after}", leaves.end);
                return Err(StoreError::Short { dir: self.dir().to_owned(), detail });
            };
            after = *seq;
            for line in &lines {
                visit(&leaf(self.dir(), &line.json)?);
            }
        }
        Ok(())
    }

    /// The hashes of a full tile.
    fn tile(&self, place: TilePlace) -> Result<Vec<TreeHash>, StoreError> {
        let row = self.read(|db, _| rows::get(db, self.dir(), TILES, &name_of(place)))?;
        let hashes = row.map(|row| row.value.as_chunks().0.to_vec());
        hashes.filter(|hashes| hashes.len() == TILE_HASHES).ok_or_else(|| self.missing_tile(place))
    }

    fn missing_tile(&self, TilePlace { level, index }: TilePlace) -> StoreError {
        self.damaged_tile(format!(
            "tile {index} of level {level} of its log's Merkle tree is missing or not whole"
        ))
    }

    fn different_tile(&self) -> StoreError {
        self.damaged_tile("a tile of its log differs from the log's Merkle tree".to_owned())
    }

    /// The error for a wrong tile, which the journal repairs.
    fn damaged_tile(&self, detail: String) -> StoreError {
        let error = StoreError::Corrupt { dir: self.dir().to_owned(), detail };
        self.engine().note_damage(&error);
        error
    }
}
