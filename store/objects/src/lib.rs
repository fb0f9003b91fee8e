//! The objects that all hosts of a cluster share, in a bucket of S3, Google Cloud Storage or Azure, or in a folder.

use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::prefix::PrefixStore;
use object_store::{ClientConfigKey, Error, ObjectStore, ObjectStoreExt as _, WriteMultipart};
use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;
use store_facts::objects::{ObjectName, SharedObjects};
use tokio::runtime::{Builder, Runtime};

/// The length of a part of a long object, in bytes. An object has at most 10,000 parts.
const PART_BYTES: usize = 16 << 20;
/// The parts that are sent at once.
const PARTS_AT_ONCE: usize = 4;
/// The time limits of the HTTP client. They replace those of the environment; its other settings stay, as that which allows plain HTTP.
const TIMEOUTS: [(ClientConfigKey, &str); 2] = [
    // in effect none: a long object may need any time
    (ClientConfigKey::Timeout, "1year"),
    // how long a bucket may send nothing
    (ClientConfigKey::ReadTimeout, "30s"),
];

/// Why an address of objects cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The address names no supported service.
    #[error(
        "it is not s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, file:///FOLDER or the absolute path of a folder"
    )]
    Form,
    /// The service, its credentials or the folder cannot be used.
    #[error("{0}")]
    Unusable(String),
}

impl From<Error> for AddressError {
    fn from(error: Error) -> Self {
        Self::Unusable(error.to_string())
    }
}

impl From<io::Error> for AddressError {
    fn from(error: io::Error) -> Self {
        Self::Unusable(error.to_string())
    }
}

/// The place of the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ObjectAddress<'a> {
    S3,
    Google,
    Azure,
    Folder(&'a Path),
}

impl<'a> ObjectAddress<'a> {
    /// The place, and the path in its bucket before the names of the objects.
    fn parse(address: &'a str) -> Result<(Self, &'a str), AddressError> {
        let folder = address.strip_prefix("file://").unwrap_or(address);
        if folder.starts_with('/') {
            return Ok((Self::Folder(Path::new(folder)), ""));
        }
        let (scheme, rest) = address.split_once("://").ok_or(AddressError::Form)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let place = match scheme {
            "s3" => Self::S3,
            "gs" => Self::Google,
            "az" => Self::Azure,
            _ => return Err(AddressError::Form),
        };
        if bucket.is_empty() || bucket.contains(['@', '?', '#']) {
            return Err(AddressError::Form);
        }
        Ok((place, prefix.trim_matches('/')))
    }
}

/// Checks the form of an address, as [`ObjectBucket::open`] does.
///
/// # Errors
/// `Form` if the address names no supported service.
pub fn check_address(address: &str) -> Result<(), AddressError> {
    ObjectAddress::parse(address).map(drop)
}

/// A bucket or a folder with objects. It has a thread of its own for the network, so that calls block only their caller.
#[derive(Debug)]
pub struct ObjectBucket {
    store: Arc<dyn ObjectStore>,
    /// `None` only while this is dropped.
    runtime: Option<Runtime>,
}

impl ObjectBucket {
    /// Opens the objects at this address, with the credentials that the environment has. A folder must exist: a missing one may be that of
    /// a disk that is not mounted. Nothing is sent to a bucket yet.
    ///
    /// # Errors
    /// The address, the credentials or the folder cannot be used.
    pub fn open(address: &str) -> Result<Self, AddressError> {
        // the only possible error is that a provider is already installed, which is fine
        drop(rustls::crypto::ring::default_provider().install_default());
        let (place, prefix) = ObjectAddress::parse(address)?;
        let store: Arc<dyn ObjectStore> = match place {
            ObjectAddress::Folder(folder) => {
                Arc::new(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true))
            }
            ObjectAddress::S3 => {
                let builder = AmazonS3Builder::from_env().with_url(address);
                let builder = TIMEOUTS.into_iter().fold(builder, |builder, (key, limit)| {
                    builder.with_config(AmazonS3ConfigKey::Client(key), limit)
                });
                under(prefix, builder.build()?)?
            }
            ObjectAddress::Google => {
                let builder = GoogleCloudStorageBuilder::from_env().with_url(address);
                let builder = TIMEOUTS.into_iter().fold(builder, |builder, (key, limit)| {
                    builder.with_config(GoogleConfigKey::Client(key), limit)
                });
                under(prefix, builder.build()?)?
            }
            ObjectAddress::Azure => {
                let builder = MicrosoftAzureBuilder::from_env().with_url(address);
                let builder = TIMEOUTS.into_iter().fold(builder, |builder, (key, limit)| {
                    builder.with_config(AzureConfigKey::Client(key), limit)
                });
                under(prefix, builder.build()?)?
            }
        };
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name("objects").enable_all().build()?;
        Ok(Self { store, runtime: Some(runtime) })
    }

    fn run<T>(&self, call: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        self.runtime.as_ref().ok_or(ErrorKind::NotConnected)?.block_on(call)
    }

    async fn put_parts(&self, path: &ObjectPath, first: Vec<u8>, content: &mut dyn Read) -> io::Result<()> {
        let upload = self.store.put_multipart(path).await.map_err(io_error)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let mut part = first;
        while !part.is_empty() {
            upload.put(part.into());
            let sent = upload.wait_for_capacity(PARTS_AT_ONCE).await.map_err(io_error);
            part = match sent.and_then(|()| read_part(content)) {
                Ok(part) => part,
                Err(error) => {
                    // if this fails, too, the service removes the parts by its own rules
                    drop(upload.abort().await);
                    return Err(error);
                }
            };
        }
        upload.finish().await.map(drop).map_err(io_error)
    }
}

/// The objects of a bucket whose names begin with `prefix`.
fn under(prefix: &str, bucket: impl ObjectStore) -> Result<Arc<dyn ObjectStore>, AddressError> {
    let prefix = ObjectPath::parse(prefix).map_err(Error::from)?;
    Ok(Arc::new(PrefixStore::new(bucket, prefix)))
}

fn io_error(error: Error) -> io::Error {
    let kind = match &error {
        Error::NotFound { .. } => ErrorKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => ErrorKind::PermissionDenied,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// Reads the next part; a shorter one is the last.
fn read_part(content: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    content.take(PART_BYTES as u64).read_to_end(&mut part)?;
    Ok(part)
}

fn path_of(name: &ObjectName) -> ObjectPath {
    ObjectPath::from(name.to_string())
}

impl SharedObjects for ObjectBucket {
    fn find(&self, name: &ObjectName) -> io::Result<Option<u64>> {
        self.run(async {
            match self.store.head(&path_of(name)).await {
                Ok(found) => Ok(Some(found.size)),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(io_error(error)),
            }
        })
    }

    fn put(&self, name: &ObjectName, content: &mut dyn Read) -> io::Result<()> {
        let (path, first) = (path_of(name), read_part(content)?);
        self.run(async {
            if first.len() < PART_BYTES {
                let payload = Bytes::from(first).into();
                return self.store.put(&path, payload).await.map(drop).map_err(io_error);
            }
            self.put_parts(&path, first, content).await
        })
    }

    fn get(&self, name: &ObjectName, into: &mut dyn Write) -> io::Result<()> {
        self.run(async {
            let found = self.store.get(&path_of(name)).await.map_err(io_error)?;
            let mut pieces = found.into_stream();
            while let Some(piece) = pieces.next().await {
                into.write_all(&piece.map_err(io_error)?)?;
            }
            Ok(())
        })
    }
}

impl Drop for ObjectBucket {
    /// A runtime must not wait for its threads where an actor runs.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_base::digest::Sha256Hex;
    use std::fs;

    fn name(bytes: &[u8]) -> ObjectName {
        ObjectName::Sorted(Sha256Hex::of(bytes))
    }

    #[test]
    fn object_is_read_as_it_was_written_and_replaces_an_earlier_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = dir.path().join("objects");
        let address = folder.to_str().expect("UTF-8");
        assert!(matches!(ObjectBucket::open(address), Err(AddressError::Unusable(_))), "it may be unmounted");
        fs::create_dir(&folder).expect("it is created");
        write_and_read(address);
        let names = fs::read_dir(folder.join("facts")).into_iter().flatten().flatten();
        assert_eq!(names.count(), 3);
    }

    #[test]
    #[ignore = "needs an empty bucket of a service, which ORACLED_OBJECTS names, and its credentials"]
    fn object_of_a_service_is_read_as_it_was_written() {
        let address = std::env::var("ORACLED_OBJECTS").expect("the address of a bucket");
        write_and_read(&address);
        fail_to_write(&address);
    }

    /// Writes short and long objects to the empty place at this address, and reads them.
    fn write_and_read(address: &str) {
        let bucket = ObjectBucket::open(address).expect("the place is opened");
        let long: Vec<u8> = (0..2 * PART_BYTES + 5).map(|n| (n % 251) as u8).collect();
        for content in [&b""[..], b"short", &long] {
            let name = name(content);
            assert_eq!(bucket.find(&name).expect("the folder is read"), None);
            let missing = bucket.get(&name, &mut Vec::new()).map_err(|error| error.kind());
            assert_eq!(missing, Err(ErrorKind::NotFound));
            for written in [&b"damaged"[..], content] {
                bucket.put(&name, &mut &*written).expect("the object is written");
                assert_eq!(bucket.find(&name).expect("the folder is read"), Some(written.len() as u64));
                let mut read = Vec::new();
                bucket.get(&name, &mut read).expect("the object is read");
                assert!(read == written);
            }
        }
    }

    #[test]
    fn object_does_not_exist_if_its_content_cannot_be_read() {
        let dir = tempfile::tempdir().expect("a directory");
        fail_to_write(&format!("file://{}", dir.path().display()));
        let files = fs::read_dir(dir.path().join("facts")).into_iter().flatten().count();
        assert_eq!(files, 0, "no part of it stays");
    }

    /// Writes an object to the place at this address with content that cannot be read to its end, short and long.
    fn fail_to_write(address: &str) {
        struct Failing(usize);
        impl Read for Failing {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let count = self.0.min(into.len());
                self.0 -= count;
                if count == 0 { Err(ErrorKind::InvalidData.into()) } else { Ok(count) }
            }
        }
        let bucket = ObjectBucket::open(address).expect("the place is opened");
        let name = name(b"failing");
        for bytes in [5, PART_BYTES + 5] {
            let put = bucket.put(&name, &mut Failing(bytes)).map_err(|error| error.kind());
            assert_eq!(put, Err(ErrorKind::InvalidData));
            assert_eq!(bucket.find(&name).expect("the place is read"), None);
        }
    }

    #[test]
    fn address_names_a_bucket_with_a_prefix_or_a_folder() {
        // no network is needed to make a client
        for address in ["s3://bucket/a/b", "gs://bucket/a"] {
            assert!(ObjectBucket::open(address).is_ok(), "{address}");
        }
        for (address, place) in [
            ("s3://bucket/a/b/", (ObjectAddress::S3, "a/b")),
            ("gs://bucket", (ObjectAddress::Google, "")),
            ("az://container/a", (ObjectAddress::Azure, "a")),
            ("file:///shared/facts", (ObjectAddress::Folder(Path::new("/shared/facts")), "")),
            ("/shared/facts", (ObjectAddress::Folder(Path::new("/shared/facts")), "")),
        ] {
            assert_eq!(ObjectAddress::parse(address).expect("a valid address"), place);
        }
        for refused in
            ["", "facts", "./facts", "file://facts", "s3://", "s3:///a", "http://host/a", "s3://key@bucket"]
        {
            assert!(matches!(check_address(refused), Err(AddressError::Form)), "{refused}");
        }
    }
}
