//! Files that several hosts share as objects. Each is named by the SHA-256 of its content, and never changes.

use domain_base::digest::Sha256Hex;
use std::fmt::{self, Debug, Display};
use std::io::{self, Read, Write};

/// The objects that all hosts of a cluster share. The calls block.
pub trait SharedObjects: Debug + Send + Sync + 'static {
    /// The length of an object, in bytes; `None` if it does not exist.
    ///
    /// # Errors
    /// The objects cannot be read now.
    fn find(&self, name: &ObjectName) -> io::Result<Option<u64>>;

    /// Writes an object durably, in the place of one with this name. Others see it only when it is complete.
    ///
    /// # Errors
    /// The object cannot be written now, or `content` cannot be read. There is no new object then.
    fn put(&self, name: &ObjectName, content: &mut dyn Read) -> io::Result<()>;

    /// Copies an object to `into`. The content is not compared with the name.
    ///
    /// # Errors
    /// `NotFound` if the object does not exist; it cannot be read now, or `into` cannot be written.
    fn get(&self, name: &ObjectName, into: &mut dyn Write) -> io::Result<()>;
}

/// The name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectName {
    /// A file of sorted rows, as it is on the disk of each host.
    Sorted(Sha256Hex),
    /// A payload, compressed by zstd as a whole. The digest is that of the uncompressed payload.
    Payload(Sha256Hex),
}

impl Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sorted(sha256) => write!(f, "facts/{sha256}.sorted"),
            Self::Payload(sha256) => write!(f, "payloads/{sha256}.zst"),
        }
    }
}
