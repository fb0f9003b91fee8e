//! Proofs over the log's Merkle tree, by RFC 6962 and RFC 9162: that a leaf is in the tree, and that a tree continues an
//! earlier one.

use crate::log_tiles::Subtree;
use crate::log_tree::{TreeHash, empty_root, node_hash};
use std::ops::Range;

/// The root of the tree of the first `size` leaves, from the roots of full subtrees.
///
/// # Errors
/// The error of `root_of`.
pub fn root<E>(size: u64, root_of: &mut impl FnMut(Subtree) -> Result<TreeHash, E>) -> Result<TreeHash, E> {
    if size == 0 { Ok(empty_root()) } else { root_of_range(0..size, root_of) }
}

/// The hashes that prove the leaf number `index`, counted from 0, in the tree of the first `size` leaves. There are none if the
/// tree has no such leaf.
///
/// # Errors
/// The error of `root_of`.
pub fn prove_inclusion<E>(
    index: u64,
    size: u64,
    root_of: &mut impl FnMut(Subtree) -> Result<TreeHash, E>,
) -> Result<Vec<TreeHash>, E> {
    let (mut leaves, mut proof) = (0..size, Vec::new());
    if index >= size {
        return Ok(proof);
    }
    while leaves.end - leaves.start > 1 {
        let (left, right) = split(&leaves);
        let (inner, sibling) = if index < left.end { (left, right) } else { (right, left) };
        proof.push(root_of_range(sibling, root_of)?);
        leaves = inner;
    }
    proof.reverse();
    Ok(proof)
}

/// The hashes that prove that the tree of the first `size` leaves continues that of the first `old_size`. There are none if one
/// of the trees is empty, or if they are equal.
///
/// # Errors
/// The error of `root_of`.
pub fn prove_consistency<E>(
    old_size: u64,
    size: u64,
    root_of: &mut impl FnMut(Subtree) -> Result<TreeHash, E>,
) -> Result<Vec<TreeHash>, E> {
    let (mut leaves, mut proof) = (0..size, Vec::new());
    if old_size == 0 || old_size >= size {
        return Ok(proof);
    }
    while leaves.end != old_size {
        let (left, right) = split(&leaves);
        let (inner, sibling) = if old_size <= left.end { (left, right) } else { (right, left) };
        proof.push(root_of_range(sibling, root_of)?);
        leaves = inner;
    }
    // the verifier has the root of the old tree
    if leaves.start != 0 {
        proof.push(root_of_range(leaves, root_of)?);
    }
    proof.reverse();
    Ok(proof)
}

/// Whether `proof` proves that the leaf number `index`, counted from 0, has the hash `leaf` in the tree of `size` leaves with
/// this root.
#[must_use]
pub fn is_included(leaf: TreeHash, index: u64, size: u64, proof: &[TreeHash], root: &TreeHash) -> bool {
    if index >= size {
        return false;
    }
    let (mut path, mut hash) = (LeafPath { node: index, last: size - 1 }, leaf);
    for sibling in proof {
        hash = match path.climb() {
            Some(Side::Left) => node_hash(sibling, &hash),
            Some(Side::Right) => node_hash(&hash, sibling),
            None => return false,
        };
    }
    path.last == 0 && hash == *root
}

/// Whether `proof` proves that the tree of `size` leaves with the root `root` continues the tree of `old_size` leaves with the
/// root `old_root`. Every tree continues the empty one.
#[must_use]
pub fn is_continued(
    (old_size, old_root): (u64, &TreeHash),
    (size, root): (u64, &TreeHash),
    proof: &[TreeHash],
) -> bool {
    if old_size == 0 {
        return proof.is_empty() && *old_root == empty_root();
    }
    if old_size >= size {
        return old_size == size && proof.is_empty() && old_root == root;
    }
    let shift = (old_size - 1).trailing_ones();
    let mut path = LeafPath { node: (old_size - 1) >> shift, last: (size - 1) >> shift };
    let mut hashes = proof.iter();
    // an old tree that is one full subtree is its own first hash
    let first = if old_size.is_power_of_two() { Some(old_root) } else { hashes.next() };
    let Some(first) = first else { return false };
    let (mut old_hash, mut hash) = (*first, *first);
    for sibling in hashes {
        match path.climb() {
            Some(Side::Left) => {
                old_hash = node_hash(sibling, &old_hash);
                hash = node_hash(sibling, &hash);
            }
            Some(Side::Right) => hash = node_hash(&hash, sibling),
            None => return false,
        }
    }
    path.last == 0 && old_hash == *old_root && hash == *root
}

/// A node on the way from a leaf to the root, and the last node of its level (RFC 9162, 2.1.3.2).
struct LeafPath {
    node: u64,
    last: u64,
}

/// The side of a sibling.
enum Side {
    Left,
    Right,
}

impl LeafPath {
    /// Climbs to the parent with the next sibling. Returns the side of the sibling; `None` at the root.
    fn climb(&mut self) -> Option<Side> {
        if self.last == 0 {
            return None;
        }
        let is_left = self.node % 2 == 1 || self.node == self.last;
        if is_left {
            // a last node without a sibling is its own parent
            while self.node.is_multiple_of(2) && self.node != 0 {
                (self.node, self.last) = (self.node >> 1, self.last >> 1);
            }
        }
        (self.node, self.last) = (self.node >> 1, self.last >> 1);
        Some(if is_left { Side::Left } else { Side::Right })
    }
}

/// The two parts of a subtree: the left one has the largest power of two below the number of leaves.
fn split(leaves: &Range<u64>) -> (Range<u64>, Range<u64>) {
    let middle = leaves.start + (leaves.end - leaves.start).next_power_of_two() / 2;
    (leaves.start..middle, middle..leaves.end)
}

fn root_of_range<E>(
    leaves: Range<u64>,
    root_of: &mut impl FnMut(Subtree) -> Result<TreeHash, E>,
) -> Result<TreeHash, E> {
    let count = leaves.end - leaves.start;
    if count.is_power_of_two() {
        let height = count.trailing_zeros() as u8;
        return root_of(Subtree { height, index: leaves.start >> height });
    }
    let (left, right) = split(&leaves);
    Ok(node_hash(&root_of_range(left, root_of)?, &root_of_range(right, root_of)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_tree::{LogTree, leaf_hash};
    use proptest::prelude::*;
    use std::convert::Infallible;

    fn leaf(n: u64) -> [u8; 8] {
        n.to_be_bytes()
    }

    /// The root of a full subtree by its definition.
    fn subtree(Subtree { height, index }: Subtree) -> Result<TreeHash, Infallible> {
        if height == 0 {
            return Ok(leaf_hash(&leaf(index)));
        }
        let half = |index| subtree(Subtree { height: height - 1, index });
        Ok(node_hash(&half(2 * index)?, &half(2 * index + 1)?))
    }

    fn root_at(size: u64) -> TreeHash {
        root(size, &mut subtree).unwrap_or_else(|never| match never {})
    }

    fn inclusion(index: u64, size: u64) -> Vec<TreeHash> {
        prove_inclusion(index, size, &mut subtree).unwrap_or_else(|never| match never {})
    }

    fn consistency(old_size: u64, size: u64) -> Vec<TreeHash> {
        prove_consistency(old_size, size, &mut subtree).unwrap_or_else(|never| match never {})
    }

    #[test]
    fn every_proof_of_small_trees_holds_only_for_its_leaf_and_its_trees() {
        let mut tree = LogTree::default();
        for size in 1..=70u64 {
            tree.append(&leaf(size - 1));
            let new_root = tree.root();
            assert_eq!(root_at(size), new_root, "{size}");
            for index in 0..size {
                let proof = inclusion(index, size);
                assert!(
                    is_included(leaf_hash(&leaf(index)), index, size, &proof, &new_root),
                    "{index} {size}"
                );
                assert!(!is_included(leaf_hash(&leaf(index + 1)), index, size, &proof, &new_root));
                for other in (0..size).filter(|other| *other != index) {
                    assert!(
                        !is_included(leaf_hash(&leaf(index)), other, size, &proof, &new_root),
                        "{index} {other}"
                    );
                }
            }
            for old in 0..=size {
                let (proof, old_root) = (consistency(old, size), root_at(old));
                assert!(is_continued((old, &old_root), (size, &new_root), &proof), "{old} {size}");
                let other = root_at(if old == 0 { 1 } else { old - 1 });
                assert!(!is_continued((old, &other), (size, &new_root), &proof), "{old} {size}");
                if old != 0 {
                    assert!(!is_continued((old, &old_root), (size, &leaf_hash(b"")), &proof), "{old} {size}");
                }
            }
            assert!(!is_continued((size + 1, &root_at(size + 1)), (size, &new_root), &[]));
            assert!(inclusion(size, size).is_empty());
        }
    }

    proptest! {
        #[test]
        fn changed_proof_does_not_hold(size in 2u64..3000, at in any::<prop::sample::Index>(), bit in 0usize..256, old in 1u64..3000) {
            let index = at.index(size as usize) as u64;
            let (proof, new_root) = (inclusion(index, size), root_at(size));
            let leaf = leaf_hash(&leaf(index));
            prop_assert!(is_included(leaf, index, size, &proof, &new_root));
            let mut changed = proof.clone();
            changed[at.index(proof.len())][bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!is_included(leaf, index, size, &changed, &new_root));
            prop_assert!(!is_included(leaf, index, size, &proof[1..], &new_root));
            prop_assert!(!is_included(leaf, index, size, &[&proof[..], &[leaf]].concat(), &new_root));
            let old = old.min(size);
            let (proof, old_root) = (consistency(old, size), root_at(old));
            prop_assert!(is_continued((old, &old_root), (size, &new_root), &proof));
            if !proof.is_empty() {
                let mut changed = proof.clone();
                changed[at.index(proof.len())][bit / 8] ^= 1 << (bit % 8);
                prop_assert!(!is_continued((old, &old_root), (size, &new_root), &changed));
                prop_assert!(!is_continued((old, &old_root), (size, &new_root), &proof[1..]));
            }
            prop_assert!(!is_continued((old, &old_root), (size, &new_root), &[&proof[..], &[leaf]].concat()));
        }
    }
}
