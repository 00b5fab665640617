//! The options of a keyspace as bytes.

use crate::key::KeyspaceId;
use crate::keyspace_options::{KeyspaceOptions, Placement};
use crate::levels::edit::KeyspaceFormed;
use crate::levels::fields::{Field, FieldError, FieldWriter, Group};
use crate::levels::tiers::take_tier_names;
use crate::table::{Compression, RESTART_INTERVAL};

/// Tags inside the options of a keyspace.
mod tag {
    pub(super) const KEYSPACE: u32 = 1;
    pub(super) const BLOCK_BYTES: u32 = 2;
    pub(super) const RESTART_INTERVAL: u32 = 3;
    pub(super) const FILTER_BITS_PER_KEY: u32 = 4;
    pub(super) const COMPRESSION: u32 = 5;
    pub(super) const TABLE_BYTES: u32 = 6;
    pub(super) const LEVEL1_BYTES: u32 = 7;
    pub(super) const LEVEL_RATIO: u32 = 8;
    pub(super) const LEVEL_TIERS: u32 = 9;
    pub(super) const PLACEMENT: u32 = 10;
    pub(super) const PINNED_TIERS: u32 = 11;
    pub(super) const TIER_AGES_SECONDS: u32 = 12;
    pub(super) const LARGEST: u32 = TIER_AGES_SECONDS;
}

pub(super) fn put_form(out: &mut FieldWriter, formed: &KeyspaceFormed) {
    let options = &formed.options;
    let compression: Vec<u8> = options.compression.iter().map(|&c| c as u8).collect();
    out.number(tag::KEYSPACE, formed.id.0.into());
    out.number(tag::BLOCK_BYTES, options.block_bytes as u64);
    out.number(tag::RESTART_INTERVAL, RESTART_INTERVAL as u64);
    out.number(tag::FILTER_BITS_PER_KEY, options.filter_bits_per_key.into());
    out.bytes(tag::COMPRESSION, &compression);
    out.number(tag::TABLE_BYTES, options.table_bytes);
    out.number(tag::LEVEL1_BYTES, options.level1_bytes);
    out.number(tag::LEVEL_RATIO, options.level_ratio);
    put_tier_rules(out, options);
}

/// Notes the options of placement that are not the defaults.
fn put_tier_rules(out: &mut FieldWriter, options: &KeyspaceOptions) {
    let default = KeyspaceOptions::default();
    // No name has this byte.
    if !options.level_tiers.is_empty() {
        out.bytes(tag::LEVEL_TIERS, options.level_tiers.join("\0").as_bytes());
    }
    if options.placement != default.placement {
        out.number(tag::PLACEMENT, options.placement as u64);
    }
    if !options.pinned_tiers.is_empty() {
        out.bytes(
            tag::PINNED_TIERS,
            options.pinned_tiers.join("\0").as_bytes(),
        );
    }
    if options.tier_ages_seconds != default.tier_ages_seconds {
        let ages = options.tier_ages_seconds.iter();
        let ages: Vec<u8> = ages.flat_map(|age| age.to_le_bytes()).collect();
        out.bytes(tag::TIER_AGES_SECONDS, &ages);
    }
}

fn take_placement(group: &Group<'_>) -> Result<Placement, FieldError> {
    let number = match group.optional(tag::PLACEMENT)? {
        0 => return Ok(Placement::default()),
        number => number,
    };
    let known = u8::try_from(number).ok().and_then(Placement::from_number);
    known.ok_or_else(|| FieldError::Unknown(format!("placement {number}")))
}

fn take_tier_ages(group: &Group<'_>) -> Result<Vec<u64>, FieldError> {
    let Some(bytes) = group.bytes_if_present(tag::TIER_AGES_SECONDS) else {
        return Ok(KeyspaceOptions::default().tier_ages_seconds);
    };
    match bytes.as_chunks::<8>() {
        (ages, []) => Ok(ages.iter().map(|age| u64::from_le_bytes(*age)).collect()),
        _ => Err(group.malformed(tag::TIER_AGES_SECONDS)),
    }
}

/// Reads the options and holds their values to the same ranges as those that a caller gives.
pub(super) fn take_form(field: Field<'_>) -> Result<KeyspaceFormed, FieldError> {
    let group = Group::read(field, "the options of a keyspace", tag::LARGEST)?;
    let compression = group.bytes(tag::COMPRESSION)?.iter().map(|&number| {
        let known = Compression::from_number(number)
            .ok_or_else(|| FieldError::Unknown(format!("compression {number}")))?;
        // Sound, and no damage: another program reads it.
        match known.is_built_in() {
            true => Ok(known),
            false => Err(FieldError::Unknown(format!(
                "compression {name}, without whose feature `{name}` this program was built",
                name = known.name()
            ))),
        }
    });
    let options = KeyspaceOptions {
        block_bytes: group.number(tag::BLOCK_BYTES)?,
        filter_bits_per_key: group.number(tag::FILTER_BITS_PER_KEY)?,
        compression: compression.collect::<Result<_, _>>()?,
        table_bytes: group.number(tag::TABLE_BYTES)?,
        level1_bytes: group.number(tag::LEVEL1_BYTES)?,
        level_ratio: group.number(tag::LEVEL_RATIO)?,
        level_tiers: take_tier_names(&group, tag::LEVEL_TIERS)?,
        placement: take_placement(&group)?,
        pinned_tiers: take_tier_names(&group, tag::PINNED_TIERS)?,
        tier_ages_seconds: take_tier_ages(&group)?,
    };
    options.check().map_err(|_| field.malformed())?;
    Ok(KeyspaceFormed {
        id: KeyspaceId(group.nonzero(tag::KEYSPACE)?),
        options,
    })
}
