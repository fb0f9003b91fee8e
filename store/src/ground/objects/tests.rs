use super::*;
use crate::ground::testing::*;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Mutex;

/// Objects in memory.
#[derive(Debug, Default)]
struct TestObjects(Mutex<BTreeMap<String, Vec<u8>>>);

impl SharedObjects for TestObjects {
    fn find(&self, name: &ObjectName) -> io::Result<Option<u64>> {
        Ok(self.0.lock().unwrap().get(&name.to_string()).map(|object| object.len() as u64))
    }

    fn put(&self, name: &ObjectName, content: &mut dyn Read) -> io::Result<()> {
        let mut object = Vec::new();
        content.read_to_end(&mut object)?;
        self.0.lock().unwrap().insert(name.to_string(), object);
        Ok(())
    }

    fn get(&self, name: &ObjectName, into: &mut dyn Write) -> io::Result<()> {
        let object = self.0.lock().unwrap().get(&name.to_string()).cloned();
        into.write_all(&object.ok_or(ErrorKind::NotFound)?)
    }
}

/// A source with two releases whose files are objects.
fn shared() -> (TestStore, TestObjects) {
    let (mut world, objects) = (TestStore::new(), TestObjects::default());
    let statements = |people| (0..300).map(move |year| test_statement("ABW", year, people + u64::from(year)));
    for (version, released_s, people) in [("1", 100, 1), ("2", 200, 5000)] {
        let reading = test_run(version, released_s, true, statements(people).collect());
        world.ingest(&reading);
        world.archive(&reading);
        let uploaded = world.store().upload_payload(&objects, &oracle_id(), &reading.input().raw_sha256);
        uploaded.expect("the payload is uploaded");
        let state = world.view().state.clone();
        let uploaded = world.store().upload_sorted(&objects, &oracle_id(), state.sorted_files(), false);
        uploaded.expect("the files are uploaded");
    }
    world.store().share_files();
    world.store().reopen(&oracle_id());
    (world, objects)
}

fn missing(store: &Store) -> Vec<MissingFile> {
    let (mut sorted, payloads) = (store.missing_sorted().unwrap(), store.missing_payloads().unwrap());
    sorted.extend(payloads);
    sorted
}

fn remove_all(world: &TestStore) {
    for folder in ["facts", "raw"] {
        for entry in fs::read_dir(world.dir.path().join("ground").join(folder)).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    world.store().reopen(&oracle_id());
}

#[test]
fn missing_files_are_fetched_from_their_objects() {
    let (mut world, objects) = shared();
    let (before, names) = (world.export(), world.file_names());
    assert_eq!(missing(world.store()), []);
    remove_all(&world);
    let absent = missing(world.store());
    let sorted = world.store().missing_sorted().unwrap();
    let (files, size_bytes) = (sorted.len() as u64, sorted.iter().map(|file| file.size_bytes).sum::<u64>());
    match world.store().view(&oracle_id()) {
        Err(StoreError::FactsNotHere { oracle_id, files: absent, size_bytes: bytes }) => {
            assert_eq!((oracle_id.as_str(), absent, bytes), (SOURCE, files, size_bytes));
        }
        other => panic!("{other:?}"),
    }
    assert!(absent.len() > sorted.len() && files > 0);
    for file in &absent {
        let fetched = world.store().fetch_file(&objects, file).expect("the object is whole");
        fetched.put_in_place().expect("the write succeeds");
    }
    assert_eq!(missing(world.store()), []);
    assert_eq!(world.export(), before);
    world.reopen();
    assert_eq!(world.file_names(), names, "and no mark stays");
}

#[test]
fn damaged_missing_or_longer_object_is_refused() {
    let (world, objects) = shared();
    remove_all(&world);
    for file in missing(world.store()) {
        let name = file.object().to_string();
        let whole = objects.0.lock().unwrap().get(&name).cloned().unwrap();
        let mut others = vec![None, Some(Vec::new()), Some(whole[..whole.len() - 1].to_vec())];
        others.push(Some([whole.as_slice(), b"x"].concat()));
        for at in (0..whole.len()).step_by(whole.len() / 50 + 1).chain([whole.len() - 1]) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            others.push(Some(flipped));
        }
        for other in others {
            match other.clone() {
                Some(object) => objects.0.lock().unwrap().insert(name.clone(), object),
                None => objects.0.lock().unwrap().remove(&name),
            };
            match world.store().fetch_file(&objects, &file) {
                Err(StoreError::Object { .. } | StoreError::ObjectDamaged { .. }) => {}
                // zstd does not cover each bit of its header: the payload itself is compared
                Ok(fetched) if fetched.is_payload() => {}
                fetched => panic!("{name}: {fetched:?}"),
            }
            assert!(missing(world.store()).contains(&file));
        }
        objects.0.lock().unwrap().insert(name, whole);
    }
}

#[test]
fn object_of_another_payload_is_refused() {
    let (world, objects) = shared();
    remove_all(&world);
    let payloads = world.store().missing_payloads().unwrap();
    let names: Vec<_> = payloads.iter().map(|file| file.object().to_string()).collect();
    let [one, other] = names.as_slice() else { panic!("{names:?}") };
    let content = objects.0.lock().unwrap().get(other).cloned().unwrap();
    objects.0.lock().unwrap().insert(one.clone(), content);
    let fetched = world.store().fetch_file(&objects, &payloads[0]);
    assert!(matches!(fetched, Err(StoreError::ObjectDamaged { .. })), "{fetched:?}");
}

#[test]
fn lost_object_is_uploaded_again_if_its_file_is_here() {
    let (world, objects) = shared();
    let lost = std::mem::take(&mut *objects.0.lock().unwrap());
    // one is not lost but cut off
    let cut = world.view().state.sorted_files().next().expect("a file").sha256.clone();
    objects.0.lock().unwrap().insert(ObjectName::Sorted(cut).to_string(), b"short".to_vec());
    world.store().upload_lost(&objects, &oracle_id()).expect("the files are here");
    let uploaded = objects.0.lock().unwrap().clone();
    assert!(uploaded.iter().all(|(name, object)| lost.get(name) == Some(object)));
    remove_all(&world);
    let absent = missing(world.store());
    assert_eq!(absent.len(), uploaded.len());
    for file in absent {
        let fetched = world.store().fetch_file(&objects, &file).expect("the object is whole");
        fetched.put_in_place().expect("the write succeeds");
    }
    // without its files, a host uploads nothing
    remove_all(&world);
    objects.0.lock().unwrap().clear();
    world.store().upload_lost(&objects, &oracle_id()).expect("the rows are read");
    assert!(objects.0.lock().unwrap().is_empty());
}
