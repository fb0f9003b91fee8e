//! Reading single values, by the positions that the database has of them.

use super::SegmentFiles;
use crate::base::database::{SegmentDamage, SegmentValues, ValuePosition};
use store_base::error::StoreError;

impl SegmentFiles {
    fn value_at(&self, position: &ValuePosition) -> Result<Vec<u8>, StoreError> {
        let ValuePosition { segment, offset, length, .. } = *position;
        let open = || self.open_to_read(segment);
        let read = self.open_segments().read(segment, u64::from(offset), length as usize, open);
        let value = read.map_err(|source| self.read_error(segment, source))?;
        let damage = || self.damaged(segment, &format!("the value at byte {offset} is damaged"));
        if position.is_of(&value) { Ok(value) } else { Err(damage()) }
    }
}

impl SegmentValues for SegmentFiles {
    fn read(&self, position: &ValuePosition) -> Result<Vec<u8>, StoreError> {
        let damage = match self.value_at(position) {
            Err(damage) if damage.damage().is_some() => damage,
            read => return read,
        };
        self.open_segments().clear();
        // the copy is read without a cache: the segment is soon written again from it
        match self.copy().value_at(position) {
            Ok(value) => {
                SegmentValues::damage(self).note(&damage);
                Ok(value)
            }
            Err(error) if error.damage().is_none() => Err(error),
            Err(_) => Err(match damage {
                // a read that fails for damage makes the journal rebuild the database, with what is left
                StoreError::Short { dir, detail } => StoreError::Corrupt { dir, detail },
                damage => damage,
            }),
        }
    }

    fn check(&self, proceed: &mut dyn FnMut() -> bool) -> Result<bool, StoreError> {
        self.check_sealed(proceed)
    }

    fn damage(&self) -> &SegmentDamage {
        self.segment_damage()
    }
}
