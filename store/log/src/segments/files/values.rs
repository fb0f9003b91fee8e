//! Reading single values, by the positions that the database has of them.

use super::SegmentFiles;
use crate::base::database::{SegmentDamage, SegmentValues, ValuePosition};
use std::sync::Arc;
use store_base::error::StoreError;

impl SegmentFiles {
    fn value_at(&self, position: &ValuePosition) -> Result<Vec<u8>, StoreError> {
        let ValuePosition { segment, offset, length, .. } = *position;
        let open = || self.open_to_read(segment);
        let read = self.open_segments().read(segment, u64::from(offset), length as usize, open);
        let value = read.map_err(|source| self.read_error(segment, source));
        let damage = || self.damaged(segment, &format!("the value at byte {offset} is damaged"));
        let value = value.and_then(|value| if position.is_of(&value) { Ok(value) } else { Err(damage()) });
        // it is soon written again
        value.inspect_err(|_| self.open_segments().clear())
    }
}

impl SegmentValues for SegmentFiles {
    fn read(&self, position: &ValuePosition) -> Result<Vec<u8>, StoreError> {
        self.or_copy(position.segment, |files| files.value_at(position)).map_err(|error| match error {
            // if a read fails because of damage, the journal rebuilds the database from the remaining data
            StoreError::Short { dir, detail } => StoreError::Corrupt { dir, detail },
            error => error,
        })
    }

    fn check(&self, proceed: &mut dyn FnMut() -> bool) -> Result<bool, StoreError> {
        self.check_sealed(proceed)
    }

    fn damage(&self) -> &Arc<SegmentDamage> {
        &self.damage
    }
}
