//! Edits as bytes: the tags of docs/formats.md. Numbers given here are given for ever.

mod form;
mod home;

use self::form::{put_form, take_form};
use self::home::{put_home, take_home};
use super::LEVELS;
use super::edit::{
    ArenaEnd, ArenaIssued, CleanClose, Domain, Edit, Identity, KeyspaceCreated, KeyspaceRenamed,
    TableAdded, TableMoved, TableNarrowed, TableRemoved,
};
use super::fields::{Field, FieldError, FieldWriter, Fields, Group};
use super::moments::{put_moment, take_moment};
use super::table_meta::{KeyRange, TableMeta};
use super::tiers::{TableMigrated, put_tier, take_tier};
use super::version::Place;
use crate::key::{KeyspaceId, MAX_KEY_BYTES, MAX_SEQUENCE};
use crate::region_loss::RegionLoss;
use crate::table::Superseded;

/// Tags of an edit. Reserved for later versions: 20 range tombstones, 23 sketches of a sub-level, 24 files
/// of separated values.
mod tag {
    pub(super) const IDENTITY: u32 = 1;
    pub(super) const KEYSPACE_CREATED: u32 = 2;
    pub(super) const KEYSPACE_DROPPED: u32 = 3;
    pub(super) const TABLE_REMOVED: u32 = 4;
    pub(super) const TABLE_NARROWED: u32 = 5;
    pub(super) const TABLE_MOVED: u32 = 6;
    pub(super) const TABLE_ADDED: u32 = 7;
    pub(super) const ARENA_RETIRED: u32 = 8;
    pub(super) const ARENA_ISSUED: u32 = 9;
    pub(super) const FLUSHED_SEQUENCE: u32 = 10;
    pub(super) const PERSISTED_UNTIL: u32 = 11;
    pub(super) const NEXT_TABLE_NUMBER: u32 = 12;
    pub(super) const NEXT_GENERATION: u32 = 13;
    pub(super) const NEXT_SUB_LEVEL: u32 = 14;
    pub(super) const NEXT_KEYSPACE: u32 = 15;
    pub(super) const CLEAN_CLOSE: u32 = 16;
    pub(super) const DOMAIN: u32 = 17;
    pub(super) const ARENA_HOME: u32 = 18;
    pub(super) const REGION_LOSS: u32 = 19;
    pub(super) const TIER: u32 = 21;
    pub(super) const TABLE_MIGRATED: u32 = 22;
    pub(super) const KEYSPACE_FORMED: u32 = 25;
    pub(super) const OPENING_BITS: u32 = 26;
    pub(super) const ARENA_END: u32 = 29;
    pub(super) const KEYSPACE_RENAMED: u32 = 30;
    pub(super) const MOMENT: u32 = 31;
}

/// Tags inside the identity.
mod identity {
    pub(super) const STORE_ID: u32 = 1;
    pub(super) const HASH_SEED: u32 = 2;
    pub(super) const DOMAIN: u32 = 3;
    pub(super) const LARGEST: u32 = DOMAIN;
}

/// Tags inside a keyspace that is created or renamed.
mod keyspace {
    pub(super) const ID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const LARGEST: u32 = NAME;
}

/// Tags inside everything that concerns a table; each structure has those that it needs.
mod table {
    pub(super) const KEYSPACE: u32 = 1;
    pub(super) const NUMBER: u32 = 2;
    pub(super) const LEVEL: u32 = 3;
    pub(super) const SUB_LEVEL: u32 = 4;
    pub(super) const AGE: u32 = 5;
    pub(super) const SMALLEST: u32 = 6;
    pub(super) const LARGEST_KEY: u32 = 7;
    pub(super) const LARGEST_EXCLUDED: u32 = 8;
    pub(super) const NARROWED: u32 = 9;
    pub(super) const SIZE_BYTES: u32 = 10;
    pub(super) const ENTRIES: u32 = 11;
    pub(super) const TOMBSTONES: u32 = 12;
    pub(super) const MIN_SEQUENCE: u32 = 13;
    pub(super) const MAX_SEQUENCE: u32 = 14;
    pub(super) const TIER: u32 = 15;
    pub(super) const RANGE_TOMBSTONES: u32 = 16;
    pub(super) const ASSIGNED: u32 = 17;
    pub(super) const OLDEST_TOMBSTONE: u32 = 18;
    pub(super) const IDENTITY: u32 = 19;
    pub(super) const SUPERSEDED: u32 = 24;

    /// Returns whether this release reads a tag; 20 to 23 are not given yet.
    pub(super) fn is_known(tag: u32) -> bool {
        (1..=IDENTITY).contains(&tag) || tag == SUPERSEDED
    }
}

/// Tags inside an issued arena.
mod arena {
    pub(super) const GENERATION: u32 = 1;
    pub(super) const SLOT: u32 = 2;
    pub(super) const CAPACITY_BYTES: u32 = 3;
    pub(super) const REPLACED_GENERATION: u32 = 4;
    pub(super) const LARGEST: u32 = REPLACED_GENERATION;
}

/// Tags inside the end of an arena.
mod arena_end {
    pub(super) const GENERATION: u32 = 1;
    pub(super) const END_BYTES: u32 = 2;
    pub(super) const LARGEST: u32 = END_BYTES;
}

/// Tags inside a lost region.
mod loss {
    pub(super) const KEPT: u32 = 1;
    pub(super) const PROMISED: u32 = 2;
    pub(super) const LARGEST: u32 = PROMISED;
}

impl Edit {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = FieldWriter::default();
        if let Some(value) = &self.identity {
            out.nested(tag::IDENTITY, |out| {
                out.bytes(identity::STORE_ID, &value.store_id.to_le_bytes());
                out.bytes(identity::HASH_SEED, &value.hash_seed.to_le_bytes());
                out.number(identity::DOMAIN, value.domain as u64);
            });
        }
        for created in &self.keyspaces_created {
            out.nested(tag::KEYSPACE_CREATED, |out| {
                put_keyspace(out, created.id, &created.name);
            });
        }
        for id in &self.keyspaces_dropped {
            out.number(tag::KEYSPACE_DROPPED, id.0.into());
        }
        self.put_tables(&mut out);
        for &generation in &self.arenas_retired {
            out.number(tag::ARENA_RETIRED, generation);
        }
        for issued in &self.arenas_issued {
            out.nested(tag::ARENA_ISSUED, |out| {
                out.number(arena::GENERATION, issued.generation);
                out.number(arena::SLOT, issued.slot);
                out.number(arena::CAPACITY_BYTES, issued.capacity_bytes);
                out.optional_number(arena::REPLACED_GENERATION, issued.replaced_generation);
            });
        }
        out.optional_number(tag::FLUSHED_SEQUENCE, self.flushed_sequence);
        out.optional_number(tag::PERSISTED_UNTIL, self.persisted_until);
        out.optional_number(tag::NEXT_TABLE_NUMBER, self.next_table_number);
        out.optional_number(tag::NEXT_GENERATION, self.next_generation);
        out.optional_number(tag::NEXT_SUB_LEVEL, self.next_sub_level);
        out.optional_number(tag::NEXT_KEYSPACE, self.next_keyspace.map(u64::from));
        out.optional_number(tag::CLEAN_CLOSE, self.clean_close.map(|c| c.last_sequence));
        out.optional_number(tag::DOMAIN, self.domain.map(|domain| domain as u64));
        if let Some(value) = &self.arena_home {
            out.nested(tag::ARENA_HOME, |out| put_home(out, value));
        }
        for value in &self.region_losses {
            out.nested(tag::REGION_LOSS, |out| {
                out.number(loss::KEPT, value.kept);
                out.number(loss::PROMISED, value.promised);
            });
        }
        for formed in &self.keyspaces_formed {
            out.nested(tag::KEYSPACE_FORMED, |out| put_form(out, formed));
        }
        if let Some(bits) = self.opening_bits {
            out.bytes(tag::OPENING_BITS, &bits.to_le_bytes());
        }
        for end in &self.arena_ends {
            out.skippable_nested(tag::ARENA_END, |out| {
                out.number(arena_end::GENERATION, end.generation);
                out.number(arena_end::END_BYTES, end.end_bytes);
            });
        }
        for tier in &self.tiers {
            out.nested(tag::TIER, |out| put_tier(out, tier));
        }
        for moment in &self.moments {
            out.skippable_nested(tag::MOMENT, |out| put_moment(out, moment));
        }
        for renamed in &self.keyspaces_renamed {
            out.nested(tag::KEYSPACE_RENAMED, |out| {
                put_keyspace(out, renamed.id, &renamed.name);
            });
        }
        out.finish()
    }

    fn put_tables(&self, out: &mut FieldWriter) {
        for removed in &self.tables_removed {
            out.nested(tag::TABLE_REMOVED, |out| {
                put_table(out, removed.keyspace, removed.number);
            });
        }
        for narrowed in &self.tables_narrowed {
            out.nested(tag::TABLE_NARROWED, |out| {
                put_table(out, narrowed.keyspace, narrowed.number);
                put_bounds(out, &narrowed.bounds);
            });
        }
        for moved in &self.tables_moved {
            out.nested(tag::TABLE_MOVED, |out| {
                put_table(out, moved.keyspace, moved.number);
                put_place(out, moved.to);
            });
        }
        for migrated in &self.tables_migrated {
            out.nested(tag::TABLE_MIGRATED, |out| {
                put_table(out, migrated.keyspace, migrated.number);
                out.number(table::TIER, migrated.tier.into());
            });
        }
        for added in &self.tables_added {
            out.nested(tag::TABLE_ADDED, |out| put_added(out, added));
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Edit, FieldError> {
        let mut edit = Edit::default();
        for field in Fields::new(bytes, "an edit") {
            let field = field?;
            match field.tag {
                tag::IDENTITY => set(&mut edit.identity, field, take_identity(field)?)?,
                tag::KEYSPACE_CREATED => {
                    let (id, name) = take_keyspace(field)?;
                    edit.keyspaces_created.push(KeyspaceCreated { id, name });
                }
                tag::KEYSPACE_DROPPED => {
                    edit.keyspaces_dropped.push(KeyspaceId(field.number_as()?));
                }
                tag::TABLE_REMOVED => edit.tables_removed.push(take_removed(field)?),
                tag::TABLE_NARROWED => edit.tables_narrowed.push(take_narrowed(field)?),
                tag::TABLE_MOVED => edit.tables_moved.push(take_moved(field)?),
                tag::TABLE_ADDED => edit.tables_added.push(take_added(field)?),
                tag::ARENA_RETIRED => edit.arenas_retired.push(field.number()?),
                tag::ARENA_ISSUED => edit.arenas_issued.push(take_arena(field)?),
                tag::FLUSHED_SEQUENCE => {
                    set(&mut edit.flushed_sequence, field, sequence(field)?)?;
                }
                tag::PERSISTED_UNTIL => set(&mut edit.persisted_until, field, sequence(field)?)?,
                tag::NEXT_TABLE_NUMBER => {
                    set(&mut edit.next_table_number, field, field.number()?)?;
                }
                tag::NEXT_GENERATION => set(&mut edit.next_generation, field, field.number()?)?,
                tag::NEXT_SUB_LEVEL => set(&mut edit.next_sub_level, field, field.number()?)?,
                tag::NEXT_KEYSPACE => set(&mut edit.next_keyspace, field, field.number_as()?)?,
                tag::CLEAN_CLOSE => {
                    let last_sequence = sequence(field)?;
                    set(&mut edit.clean_close, field, CleanClose { last_sequence })?;
                }
                tag::DOMAIN => {
                    let domain = Domain::from_number(field.number_as()?);
                    set(
                        &mut edit.domain,
                        field,
                        domain.ok_or_else(|| field.malformed())?,
                    )?;
                }
                tag::ARENA_HOME => set(&mut edit.arena_home, field, take_home(field)?)?,
                tag::REGION_LOSS => edit.region_losses.push(take_loss(field)?),
                tag::KEYSPACE_FORMED => edit.keyspaces_formed.push(take_form(field)?),
                tag::OPENING_BITS => {
                    let bits = <[u8; 8]>::try_from(field.bytes()).map_err(|_| field.malformed())?;
                    set(&mut edit.opening_bits, field, u64::from_le_bytes(bits))?;
                }
                tag::TIER => edit.tiers.push(take_tier(field)?),
                tag::MOMENT => edit.moments.push(take_moment(field)?),
                tag::TABLE_MIGRATED => edit.tables_migrated.push(take_migrated(field)?),
                tag::ARENA_END => edit.arena_ends.push(take_arena_end(field)?),
                tag::KEYSPACE_RENAMED => {
                    let (id, name) = take_keyspace(field)?;
                    edit.keyspaces_renamed.push(KeyspaceRenamed { id, name });
                }
                _ => field.unknown()?,
            }
        }
        Ok(edit)
    }
}

fn set<T>(slot: &mut Option<T>, field: Field<'_>, value: T) -> Result<(), FieldError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(field.malformed()),
    }
}

fn sequence(field: Field<'_>) -> Result<u64, FieldError> {
    let number = field.number()?;
    if number > MAX_SEQUENCE {
        return Err(field.malformed());
    }
    Ok(number)
}

fn put_table(out: &mut FieldWriter, id: KeyspaceId, number: u64) {
    out.number(table::KEYSPACE, id.0.into());
    out.number(table::NUMBER, number);
}

fn put_place(out: &mut FieldWriter, place: Place) {
    out.number(table::LEVEL, place.level.into());
    out.number(table::SUB_LEVEL, place.sub_level);
    out.number(table::AGE, place.age);
}

fn put_flag(out: &mut FieldWriter, tag: u32, flag: bool) {
    if flag {
        out.number(tag, 1);
    }
}

fn put_bounds(out: &mut FieldWriter, bounds: &KeyRange) {
    out.bytes(table::SMALLEST, &bounds.smallest);
    out.bytes(table::LARGEST_KEY, &bounds.largest);
    put_flag(out, table::LARGEST_EXCLUDED, bounds.largest_excluded);
}

fn put_added(out: &mut FieldWriter, added: &TableAdded) {
    let meta = &added.table;
    put_table(out, meta.keyspace, meta.number);
    put_place(out, added.place);
    put_bounds(out, &meta.bounds);
    put_flag(out, table::NARROWED, meta.narrowed);
    out.number(table::SIZE_BYTES, meta.size_bytes);
    out.number(table::ENTRIES, meta.entries);
    out.number(table::TOMBSTONES, meta.tombstones);
    out.number(table::MIN_SEQUENCE, meta.min_sequence);
    out.number(table::MAX_SEQUENCE, meta.max_sequence);
    out.number(table::TIER, meta.tier.into());
    if meta.range_tombstones > 0 {
        out.number(table::RANGE_TOMBSTONES, meta.range_tombstones);
    }
    put_flag(out, table::ASSIGNED, meta.assigned);
    if let Some(seconds) = meta.oldest_tombstone_seconds {
        out.skippable_number(table::OLDEST_TOMBSTONE, seconds);
    }
    out.bytes(table::IDENTITY, &meta.identity.to_le_bytes());
    if let Some(superseded) = &meta.superseded {
        out.skippable_bytes(table::SUPERSEDED, &superseded.encode());
    }
}

fn take_identity(field: Field<'_>) -> Result<Identity, FieldError> {
    let group = Group::read(field, "the store's identity", identity::LARGEST)?;
    let store_id = <[u8; 16]>::try_from(group.bytes(identity::STORE_ID)?)
        .map_err(|_| group.malformed(identity::STORE_ID))?;
    let hash_seed = <[u8; 8]>::try_from(group.bytes(identity::HASH_SEED)?)
        .map_err(|_| group.malformed(identity::HASH_SEED))?;
    let domain = group.nonzero::<u8>(identity::DOMAIN)?;
    Ok(Identity {
        store_id: u128::from_le_bytes(store_id),
        hash_seed: u64::from_le_bytes(hash_seed),
        domain: Domain::from_number(domain)
            .ok_or_else(|| FieldError::Unknown(format!("persistence domain {domain}")))?,
    })
}

fn put_keyspace(out: &mut FieldWriter, id: KeyspaceId, name: &str) {
    out.number(keyspace::ID, id.0.into());
    out.bytes(keyspace::NAME, name.as_bytes());
}

fn take_keyspace(field: Field<'_>) -> Result<(KeyspaceId, String), FieldError> {
    let group = Group::read(field, "a keyspace", keyspace::LARGEST)?;
    let name = str::from_utf8(group.bytes(keyspace::NAME)?)
        .map_err(|_| group.malformed(keyspace::NAME))?;
    let id = KeyspaceId(group.nonzero(keyspace::ID)?);
    Ok((id, name.to_owned()))
}

fn table_group(field: Field<'_>) -> Result<Group<'_>, FieldError> {
    Group::read_known(field, "a table", table::is_known)
}

fn keyspace_of(group: &Group<'_>) -> Result<KeyspaceId, FieldError> {
    Ok(KeyspaceId(group.nonzero(table::KEYSPACE)?))
}

fn take_place(group: &Group<'_>) -> Result<Place, FieldError> {
    let level = group.number::<u8>(table::LEVEL)?;
    if usize::from(level) >= LEVELS {
        return Err(group.malformed(table::LEVEL));
    }
    Ok(Place {
        level,
        sub_level: group.nonzero(table::SUB_LEVEL)?,
        age: group.nonzero(table::AGE)?,
    })
}

fn take_bounds(group: &Group<'_>) -> Result<KeyRange, FieldError> {
    let bounds = KeyRange {
        smallest: group.bytes(table::SMALLEST)?.to_vec(),
        largest: group.bytes(table::LARGEST_KEY)?.to_vec(),
        largest_excluded: group.flag(table::LARGEST_EXCLUDED)?,
    };
    if bounds.is_empty() || bounds.largest.len() > MAX_KEY_BYTES {
        return Err(group.malformed(table::LARGEST_KEY));
    }
    Ok(bounds)
}

fn take_removed(field: Field<'_>) -> Result<TableRemoved, FieldError> {
    let group = table_group(field)?;
    Ok(TableRemoved {
        keyspace: keyspace_of(&group)?,
        number: group.nonzero(table::NUMBER)?,
    })
}

fn take_narrowed(field: Field<'_>) -> Result<TableNarrowed, FieldError> {
    let group = table_group(field)?;
    Ok(TableNarrowed {
        keyspace: keyspace_of(&group)?,
        number: group.nonzero(table::NUMBER)?,
        bounds: take_bounds(&group)?,
    })
}

fn take_moved(field: Field<'_>) -> Result<TableMoved, FieldError> {
    let group = table_group(field)?;
    Ok(TableMoved {
        keyspace: keyspace_of(&group)?,
        number: group.nonzero(table::NUMBER)?,
        to: take_place(&group)?,
    })
}

fn take_migrated(field: Field<'_>) -> Result<TableMigrated, FieldError> {
    let group = table_group(field)?;
    Ok(TableMigrated {
        keyspace: keyspace_of(&group)?,
        number: group.nonzero(table::NUMBER)?,
        tier: group.nonzero(table::TIER)?,
    })
}

fn take_added(field: Field<'_>) -> Result<TableAdded, FieldError> {
    let group = table_group(field)?;
    let identity = <[u8; 16]>::try_from(group.bytes(table::IDENTITY)?)
        .map_err(|_| group.malformed(table::IDENTITY))?;
    let meta = TableMeta {
        number: group.nonzero(table::NUMBER)?,
        identity: u128::from_le_bytes(identity),
        keyspace: keyspace_of(&group)?,
        size_bytes: group.number(table::SIZE_BYTES)?,
        entries: group.number(table::ENTRIES)?,
        tombstones: group.number(table::TOMBSTONES)?,
        bounds: take_bounds(&group)?,
        narrowed: group.flag(table::NARROWED)?,
        min_sequence: group.number(table::MIN_SEQUENCE)?,
        max_sequence: group.number(table::MAX_SEQUENCE)?,
        assigned: group.flag(table::ASSIGNED)?,
        tier: group.nonzero(table::TIER)?,
        range_tombstones: group.optional(table::RANGE_TOMBSTONES)?,
        oldest_tombstone_seconds: group.number_if_present(table::OLDEST_TOMBSTONE)?,
        superseded: take_superseded(&group)?,
    };
    let largest_by = meta.superseded.map(|superseded| superseded.largest_by);
    if largest_by > Some(meta.max_sequence) {
        return Err(group.malformed(table::SUPERSEDED));
    }
    if meta.min_sequence > meta.max_sequence || meta.max_sequence > MAX_SEQUENCE {
        return Err(group.malformed(table::MAX_SEQUENCE));
    }
    // 0 is no write's number: a cursor could not seek behind it.
    if meta.assigned && (meta.min_sequence != meta.max_sequence || meta.max_sequence == 0) {
        return Err(group.malformed(table::ASSIGNED));
    }
    Ok(TableAdded {
        place: take_place(&group)?,
        table: meta,
    })
}

fn take_superseded(group: &Group<'_>) -> Result<Option<Superseded>, FieldError> {
    let Some(bytes) = group.bytes_if_present(table::SUPERSEDED) else {
        return Ok(None);
    };
    let (entries, size_bytes) = (
        group.number(table::ENTRIES)?,
        group.number(table::SIZE_BYTES)?,
    );
    let superseded = Superseded::decode(bytes, entries, size_bytes);
    let superseded = superseded.ok_or_else(|| group.malformed(table::SUPERSEDED))?;
    Ok(Some(superseded))
}

fn take_arena(field: Field<'_>) -> Result<ArenaIssued, FieldError> {
    let group = Group::read(field, "an arena", arena::LARGEST)?;
    let issued = ArenaIssued {
        generation: group.nonzero(arena::GENERATION)?,
        slot: group.number(arena::SLOT)?,
        capacity_bytes: group.nonzero(arena::CAPACITY_BYTES)?,
        replaced_generation: group.number_if_present(arena::REPLACED_GENERATION)?,
    };
    if issued.replaced_generation >= Some(issued.generation) {
        return Err(group.malformed(arena::REPLACED_GENERATION));
    }
    Ok(issued)
}

fn take_arena_end(field: Field<'_>) -> Result<ArenaEnd, FieldError> {
    let group = Group::read(field, "the end of an arena", arena_end::LARGEST)?;
    Ok(ArenaEnd {
        generation: group.nonzero(arena_end::GENERATION)?,
        end_bytes: group.nonzero(arena_end::END_BYTES)?,
    })
}

fn take_loss(field: Field<'_>) -> Result<RegionLoss, FieldError> {
    let group = Group::read(field, "a lost region", loss::LARGEST)?;
    let loss = RegionLoss {
        kept: group.number(loss::KEPT)?,
        promised: group.number(loss::PROMISED)?,
    };
    if loss.kept > loss.promised || loss.promised > MAX_SEQUENCE {
        return Err(group.malformed(loss::PROMISED));
    }
    Ok(loss)
}

#[cfg(test)]
mod tests;
