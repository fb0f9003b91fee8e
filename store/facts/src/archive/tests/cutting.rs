use crate::archive::*;

fn cut(payload: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut chunks) = (payload, Vec::new());
    while let Some(len) = first_chunk(rest, (payload.len() - rest.len()) as u64, true) {
        let (chunk, after) = rest.split_at(len);
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

#[test]
fn inserted_bytes_change_few_chunks() {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut payload: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(2 << 20).collect();
    let before: HashSet<_> = cut(&payload).into_iter().map(digest).collect();
    assert!(before.len() > 60, "{} chunks", before.len());
    payload.splice(1000..1000, *b"a row");
    payload.splice(1_500_000..1_500_000, *b"another row");
    let changed = cut(&payload).into_iter().filter(|chunk| !before.contains(&digest(chunk))).count();
    assert!((2..8).contains(&changed), "{changed} chunks changed");
}

#[test]
fn chunks_are_within_their_limits_at_each_offset() {
    let bytes = vec![0; CHUNK_MAX_BYTES];
    for at in [0, 0x3ff_ffff, 0x400_0000, 0xffff_ffff, 0x1_0000_0000, u64::MAX] {
        let len = first_chunk(&bytes, at, false).expect("the bytes are enough");
        assert_eq!(len, lengths(at).max, "{at}");
        assert_eq!(first_chunk(&bytes[..len - 1], at, false), None);
        assert_eq!(first_chunk(&bytes[..5], at, true), Some(5));
    }
    assert_eq!(first_chunk(b"", 0, true), None);
}
