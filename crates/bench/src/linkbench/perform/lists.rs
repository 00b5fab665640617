//! Reads of several links: some by their ids, or all of a node in the order of time.

use super::GraphClient;
use crate::draw::{mix_64, scale};
use crate::linkbench::graph::LongList;
use crate::linkbench::request::{LinkKey, MAX_LISTED};
use crate::linkbench::rows;
use crate::linkbench::{INDEX, LINK};
use crate::run::Tally;
use crate::{Error, Result};

/// Returns several links of a node and a type, no two of them the same.
pub(in crate::linkbench) fn some_links(
    id1: u64,
    link_type: u64,
    links: u64,
    range: u64,
    seed: u64,
) -> Vec<LinkKey> {
    let mut ids: Vec<u64> = Vec::new();
    if range <= links {
        // As in the original: neighbours, more than there are.
        ids.extend(id1..id1 + links);
    }
    let mut draws = (0..).map(|number| id1 + scale(mix_64(seed ^ mix_64(number)), range));
    while (ids.len() as u64) < links {
        ids.extend(draws.next().filter(|id2| !ids.contains(id2)));
    }
    let link = |id2| LinkKey {
        link_type,
        id1,
        id2,
    };
    ids.into_iter().map(link).collect()
}

impl GraphClient<'_> {
    pub(super) fn get_links(&mut self, links: &[LinkKey], tally: &mut Tally) -> Result<()> {
        let keys = links.iter().map(|link| rows::link_key(link).to_vec());
        let keys: Vec<Vec<u8>> = keys.collect();
        let (expected, mut wrong, mut found) = (&mut self.value, None, 0);
        let view = self.store.tables.view()?;
        view.multi_get(LINK, &keys, &mut |place, value| {
            found += 1;
            tally.read_bytes += (24 + value.len()) as u64;
            let Some(link) = links.get(place) else { return };
            if rows::link_in(link, value, expected).is_none() {
                wrong = Some(*link);
            }
        })?;
        tally.found += found;
        tally.missing += links.len() as u64 - found;
        match wrong {
            None => Ok(()),
            Some(link) => Err(format!("{link:?} has another value than was written").into()),
        }
    }

    /// Lists visible links, all of them or those behind one, and reads the row of each at the same moment.
    pub(super) fn list_links(
        &mut self,
        id1: u64,
        link_type: u64,
        behind: Option<(u64, u64)>,
        tally: &mut Tally,
    ) -> Result<()> {
        let range = rows::listed(id1, link_type, behind);
        let view = self.store.tables.view()?;
        let (mut links, mut keys, mut is_right) = (Vec::new(), Vec::new(), true);
        view.scan(
            INDEX,
            &*range.start..&*range.end,
            MAX_LISTED,
            &mut |key, _| {
                tally.read_bytes += key.len() as u64;
                let Some((link, true, time)) = rows::indexed(key) else {
                    is_right = false;
                    return;
                };
                let is_older = |(_, last): &(LinkKey, u64)| time <= *last;
                let is_of_list = link.id1 == id1 && link.link_type == link_type;
                is_right &= is_of_list && links.last().is_none_or(is_older);
                keys.push(rows::link_key(&link).to_vec());
                links.push((link, time));
            },
        )?;
        let (mut found, expected) = (0, &mut self.value);
        if !keys.is_empty() {
            view.multi_get(LINK, &keys, &mut |place, value| {
                found += 1;
                tally.read_bytes += (24 + value.len()) as u64;
                let Some((link, time)) = links.get(place) else {
                    return;
                };
                let row = rows::link_in(link, value, expected);
                is_right &= row.is_some_and(|row| row.is_visible && row.time == *time);
            })?;
        }
        drop(view);
        if !is_right || found != keys.len() as u64 {
            return Err(wrong_list(id1, link_type, keys.len(), found));
        }
        tally.scanned += found;
        let is_end = found < MAX_LISTED;
        let last = links.last().map(|(link, time)| (*time, link.id2));
        if let Some(last) = last.or(behind)
            && (behind.is_some() || !is_end)
        {
            let list = LongList {
                id1,
                link_type,
                last,
            };
            self.store.in_use.remember(list, is_end);
        }
        Ok(())
    }
}

fn wrong_list(id1: u64, link_type: u64, listed: usize, found: u64) -> Error {
    format!(
        "the list of links of node {id1}, type {link_type}, disagrees with their rows: {listed} in the \
         index, {found} rows found"
    )
    .into()
}
