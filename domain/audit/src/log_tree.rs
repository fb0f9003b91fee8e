//! The Merkle tree of the log, by RFC 6962: each entry is a leaf.

use sha2::{Digest, Sha256};

/// A hash of the tree.
pub type TreeHash = [u8; 32];

/// Prefix of the bytes of a leaf, and of an inner node.
const LEAF_PREFIX: u8 = 0;
const NODE_PREFIX: u8 = 1;

/// The right edge of the tree, to which leaves are appended: the roots of its full subtrees, the largest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogTree {
    size: u64,
    peaks: Vec<TreeHash>,
}

impl LogTree {
    /// The number of leaves.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Appends a leaf with these bytes, and returns its hash.
    pub fn append(&mut self, leaf: &[u8]) -> TreeHash {
        let leaf = leaf_hash(leaf);
        self.append_hash(leaf);
        leaf
    }

    /// Appends the leaf with this hash.
    pub fn append_hash(&mut self, leaf: TreeHash) {
        let mut hash = leaf;
        // for each trailing one bit of the size, the new leaf completes a full subtree to one of twice its size
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                hash = node_hash(&left, &hash);
            }
        }
        self.peaks.push(hash);
        self.size += 1;
    }

    /// The tree of the first `size` leaves. `root_of` returns the root of the full subtree with a height and a number.
    ///
    /// # Errors
    /// The error of `root_of`.
    pub fn from_subtrees<E>(
        size: u64,
        mut root_of: impl FnMut(u8, u64) -> Result<TreeHash, E>,
    ) -> Result<Self, E> {
        let heights = (0..64u8).rev().filter(|height| size >> height & 1 == 1);
        // the subtrees before one of this height are larger, so they have a multiple of its leaves
        let peaks = heights.map(|height| root_of(height, (size >> height) - 1)).collect::<Result<_, E>>()?;
        Ok(Self { size, peaks })
    }

    /// The root of the tree.
    #[must_use]
    pub fn root(&self) -> TreeHash {
        let root = self.peaks.iter().rev().copied().reduce(|right, left| node_hash(&left, &right));
        root.unwrap_or_else(empty_root)
    }

    /// The size, then the peaks.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.size.to_be_bytes()[..], self.peaks.as_flattened()].concat()
    }

    /// Parses the bytes of a tree; `None` if there are more or fewer peaks than its size requires.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (size, peaks) = bytes.split_first_chunk()?;
        let size = u64::from_be_bytes(*size);
        let (peaks, rest) = peaks.as_chunks();
        let is_whole = rest.is_empty() && peaks.len() == size.count_ones() as usize;
        is_whole.then(|| Self { size, peaks: peaks.to_vec() })
    }
}

/// The hash of a leaf with these bytes.
#[must_use]
pub fn leaf_hash(leaf: &[u8]) -> TreeHash {
    hash(LEAF_PREFIX, [leaf, &[]])
}

/// The hash of an inner node.
#[must_use]
pub fn node_hash(left: &TreeHash, right: &TreeHash) -> TreeHash {
    hash(NODE_PREFIX, [left, right])
}

/// The root of a tree without leaves.
#[must_use]
pub fn empty_root() -> TreeHash {
    Sha256::digest([]).into()
}

fn hash(prefix: u8, parts: [&[u8]; 2]) -> TreeHash {
    let mut hasher = Sha256::new_with_prefix([prefix]);
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_base::digest::Sha256Hex;
    use proptest::prelude::*;

    fn tree(leaves: &[Vec<u8>]) -> LogTree {
        let mut tree = LogTree::default();
        for leaf in leaves {
            tree.append(leaf);
        }
        tree
    }

    /// The root by the definition in RFC 6962, section 2.1.
    fn root_by_definition(leaves: &[Vec<u8>]) -> TreeHash {
        match leaves {
            [] => empty_root(),
            [leaf] => leaf_hash(leaf),
            leaves => {
                let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                node_hash(&root_by_definition(left), &root_by_definition(right))
            }
        }
    }

    /// The leaves and roots with which Certificate Transparency's reference implementation is tested.
    #[test]
    fn root_equals_that_of_the_reference_implementation() {
        let leaves: [&[u8]; 8] = [
            &[],
            &[0x00],
            &[0x10],
            &[0x20, 0x21],
            &[0x30, 0x31],
            &[0x40, 0x41, 0x42, 0x43],
            &[0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57],
            &[0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f],
        ];
        let leaves = leaves.map(<[u8]>::to_vec);
        let roots = [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        for (size, root) in (1..).zip(roots) {
            assert_eq!(Sha256Hex::from_bytes(&tree(&leaves[..size]).root()).as_str(), root, "{size} leaves");
        }
    }

    proptest! {
        #[test]
        fn root_equals_the_definition_at_every_size(leaves in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..40)) {
            let tree = tree(&leaves);
            prop_assert_eq!(tree.root(), root_by_definition(&leaves));
            prop_assert_eq!(tree.size(), leaves.len() as u64);
            prop_assert_eq!(LogTree::from_bytes(&tree.to_bytes()), Some(tree));
        }
    }

    #[test]
    fn tree_without_all_peaks_is_not_parsed() {
        let bytes = tree(&[vec![1], vec![2], vec![3]]).to_bytes();
        for damaged in [
            &bytes[..7],
            &bytes[..bytes.len() - 1],
            &bytes[..bytes.len() - 32],
            &[&bytes[..], &[0; 32]].concat(),
        ] {
            assert_eq!(LogTree::from_bytes(damaged), None);
        }
    }
}
