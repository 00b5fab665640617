//! Changes of links, each with its index and its count in one transaction.

use super::{GraphClient, Writing, count_found};
use crate::Result;
use crate::linkbench::graph::InUse;
use crate::linkbench::request::LinkKey;
use crate::linkbench::rows::{self, Count, Link};
use crate::linkbench::{COUNT, INDEX, LINK};
use crate::run::Tally;

impl GraphClient<'_> {
    pub(super) fn add_link(&mut self, link: &LinkKey, time: u64, tally: &mut Tally) -> Result<()> {
        let key = rows::link_key(link);
        let old = self.transact(tally, |writing| {
            let old = writing.read(LINK, &key, Link::read)?;
            let row = Link {
                is_visible: true,
                time,
                version: old.map_or(1, |old| old.version + 1),
            };
            row.write(link, writing.value);
            writing.put(LINK, &key)?;
            replace_index(writing, link, old.as_ref(), &row)?;
            if !old.is_some_and(|old| old.is_visible) {
                add_to_count(writing, link, 1, time)?;
            }
            Ok(old)
        })?;
        let in_use = self.store.in_use;
        InUse::count(&in_use.link_versions, 1);
        InUse::count(&in_use.links, old.is_none().into());
        let was_visible = old.is_some_and(|old| old.is_visible);
        InUse::count(&in_use.visible, (!was_visible).into());
        Ok(())
    }

    pub(super) fn delete_link(&mut self, link: &LinkKey, tally: &mut Tally) -> Result<()> {
        let key = rows::link_key(link);
        let is_there = self.transact(tally, |writing| {
            let old = writing.read(LINK, &key, Link::read)?;
            let Some(old) = old.filter(|old| old.is_visible) else {
                return Ok(false);
            };
            let row = Link {
                is_visible: false,
                ..old
            };
            row.write(link, writing.value);
            writing.put(LINK, &key)?;
            replace_index(writing, link, Some(&old), &row)?;
            add_to_count(writing, link, -1, old.time)?;
            Ok(true)
        })?;
        tally.deletes += u64::from(is_there);
        InUse::count(&self.store.in_use.visible, -i64::from(is_there));
        Ok(())
    }

    pub(super) fn count_links(
        &mut self,
        id1: u64,
        link_type: u64,
        tally: &mut Tally,
    ) -> Result<()> {
        let key = rows::count_key(id1, link_type);
        let mut is_right = true;
        let is_there = self.store.tables.get(COUNT, &key, &mut |value| {
            is_right = Count::read(value).is_some();
            tally.read_bytes += (key.len() + value.len()) as u64;
        })?;
        count_found(is_there, tally);
        match is_right {
            true => Ok(()),
            false => Err(format!("the count of node {id1} is no count").into()),
        }
    }
}

/// Writes the index entry of a link's new row in place of the old one.
fn replace_index(
    writing: &mut Writing<'_>,
    link: &LinkKey,
    old: Option<&Link>,
    new: &Link,
) -> Result<()> {
    if let Some(old) = old {
        writing.delete(INDEX, &rows::index_key(link, old))?;
    }
    writing.put_key(INDEX, &rows::index_key(link, new))
}

/// Changes the number of visible links of a node and a type.
fn add_to_count(writing: &mut Writing<'_>, link: &LinkKey, more: i32, time: u64) -> Result<()> {
    let key = rows::count_key(link.id1, link.link_type);
    let old = writing.read(COUNT, &key, Count::read)?.unwrap_or_default();
    let links = old.links.checked_add_signed(more);
    let count = Count {
        links: links.ok_or_else(|| format!("the count of node {} is below 0", link.id1))?,
        time: old.time.max(time),
        version: old.version + 1,
    };
    count.write(writing.value);
    writing.put(COUNT, &key)
}
