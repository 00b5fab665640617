//! The contents that a store must have: every batch tried, in order, and the state after each.

use std::collections::BTreeMap;

use terrace::{Db, IterOptions, KeyspaceId, ReadOptions, Result, Snapshot, WriteBatch, internal};

/// One keyspace's content.
pub type Content = BTreeMap<Vec<u8>, Vec<u8>>;
/// The content of every keyspace.
pub type State = BTreeMap<u32, Content>;

/// A write: keyspace, key, and change.
pub type Write = (KeyspaceId, Vec<u8>, Change);

/// Effect of a write.
#[derive(Clone, Debug)]
pub enum Change {
    Put(Vec<u8>),
    Delete,
    /// Deletes from the write's key up to this one.
    DeleteRange(Vec<u8>),
}

/// The key under which every batch leaves its number, so that a recovered state names the batch it
/// ends with.
const COUNTER: &[u8] = b"~batch";

/// The batches tried so far.
#[derive(Clone, Default)]
pub struct Model {
    batches: Vec<Vec<Write>>,
    /// The state after the last batch.
    pub state: State,
    /// Batches that were acknowledged.
    pub acknowledged: usize,
    /// Batches that survive a power cut.
    pub persisted: usize,
}

impl Model {
    /// Returns the number of batches tried.
    pub fn tried(&self) -> usize {
        self.batches.len()
    }

    /// Returns the counter's key, and its value after the last batch tried.
    pub fn counter(&self) -> (&'static [u8], Option<Vec<u8>>) {
        let tried = self.batches.len() as u64;
        (COUNTER, (tried > 0).then(|| tried.to_be_bytes().to_vec()))
    }

    /// Adds a batch of values in the default keyspace. Returns its entries, sorted, each key once.
    pub fn sorted(&mut self, entries: Content) -> Content {
        let number = (self.batches.len() as u64 + 1).to_be_bytes().to_vec();
        let mut entries = entries;
        entries.insert(COUNTER.to_vec(), number);
        let writes: Vec<Write> = entries
            .iter()
            .map(|(key, value)| (KeyspaceId::DEFAULT, key.clone(), Change::Put(value.clone())))
            .collect();
        apply(&mut self.state, &writes);
        self.batches.push(writes);
        entries
    }

    /// Adds a batch and returns it in the store's form.
    pub fn batch(&mut self, mut writes: Vec<Write>) -> WriteBatch {
        let number = (self.batches.len() as u64 + 1).to_be_bytes().to_vec();
        let counter = Change::Put(number);
        writes.push((KeyspaceId::DEFAULT, COUNTER.to_vec(), counter));
        let mut batch = WriteBatch::new();
        for (keyspace, key, change) in &writes {
            match change {
                Change::Put(value) => internal::put(&mut batch, *keyspace, key, value),
                Change::Delete => internal::delete(&mut batch, *keyspace, key),
                Change::DeleteRange(to) => internal::delete_range(&mut batch, *keyspace, key, to),
            }
            .unwrap();
        }
        apply(&mut self.state, &writes);
        self.batches.push(writes);
        batch
    }

    /// Returns the state after the first `count` batches.
    pub fn after(&self, count: usize) -> State {
        let mut state = State::new();
        self.batches[..count]
            .iter()
            .for_each(|writes| apply(&mut state, writes));
        state
    }

    /// Asserts that the store holds the state after some batch, not before the one numbered
    /// `promised`, and forgets the batches after it.
    pub fn check_recovered(
        &mut self,
        db: &Db,
        keyspaces: &[KeyspaceId],
        promised: usize,
    ) -> Result<()> {
        let found = read_all(db, keyspaces, None)?;
        let counter = found
            .get(&KeyspaceId::DEFAULT.number())
            .and_then(|content| content.get(COUNTER));
        let count = counter.map_or(0, |bytes| u64::from_be_bytes(bytes[..].try_into().unwrap()));
        let count = count as usize;
        assert!(
            (promised..=self.tried()).contains(&count),
            "{count} batches came back, {promised} were promised, {} tried",
            self.tried()
        );
        assert_same(&found, &self.after(count));
        self.batches.truncate(count);
        self.state = found;
        self.acknowledged = count;
        self.persisted = self.persisted.min(count);
        Ok(())
    }

    /// Asserts that the store holds the state after the last batch.
    pub fn check(&self, db: &Db, keyspaces: &[KeyspaceId]) -> Result<()> {
        assert_same(&read_all(db, keyspaces, None)?, &self.state);
        Ok(())
    }
}

fn apply(state: &mut State, writes: &[Write]) {
    for (keyspace, key, change) in writes {
        let content = state.entry(keyspace.number()).or_default();
        match change {
            Change::Put(value) => {
                content.insert(key.clone(), value.clone());
            }
            Change::Delete => {
                content.remove(key);
            }
            Change::DeleteRange(to) => content.retain(|other, _| other < key || other >= to),
        }
    }
    state.retain(|_, content| !content.is_empty());
}

/// Reads a whole store by iterators, forwards and backwards, and by gets; all must agree.
pub fn read_all(db: &Db, keyspaces: &[KeyspaceId], snapshot: Option<&Snapshot>) -> Result<State> {
    let mut state = State::new();
    for &keyspace in keyspaces {
        let iterator = || {
            let options = IterOptions {
                snapshot: snapshot.cloned(),
                ..IterOptions::default()
            };
            internal::iter(db, keyspace, options)
        };
        let content: Content = iterator()?.entries().collect::<Result<_>>()?;
        let mut backwards: Vec<_> = iterator()?.entries().rev().collect::<Result<_>>()?;
        backwards.reverse();
        assert!(
            content
                .iter()
                .eq(backwards.iter().map(|(key, value)| (key, value)))
        );
        check_gets(db, keyspace, &content, snapshot)?;
        if !content.is_empty() {
            state.insert(keyspace.number(), content);
        }
    }
    Ok(state)
}

/// Reads every key, one by one and all at once, and asserts that its value is the one given.
pub fn check_gets(
    db: &Db,
    keyspace: KeyspaceId,
    content: &Content,
    snapshot: Option<&Snapshot>,
) -> Result<()> {
    for (key, value) in content {
        let got = internal::get(db, keyspace, key, snapshot)?;
        assert_eq!(
            got.as_deref(),
            Some(value.as_slice()),
            "{}",
            key.escape_ascii()
        );
    }
    let keyspaces = db.keyspaces();
    let keyspace = keyspaces.iter().find(|one| one.id() == keyspace).unwrap();
    let options = ReadOptions {
        snapshot: snapshot.cloned(),
        ..ReadOptions::default()
    };
    let keys: Vec<&[u8]> = content.keys().rev().map(Vec::as_slice).collect();
    let values = keyspace.multi_get(&keys, &options)?;
    let expected = content.values().rev().map(|value| Some(value.as_slice()));
    assert!(expected.eq(values.iter().map(|value| value.as_deref())));
    Ok(())
}

/// Compares states and shows only the differences.
pub fn assert_same(found: &State, expected: &State) {
    if found == expected {
        return;
    }
    let mut differences = Vec::new();
    let keyspaces = found.keys().chain(expected.keys());
    for keyspace in keyspaces {
        let (empty, none) = (Content::new(), Content::new());
        let found = found.get(keyspace).unwrap_or(&empty);
        let expected = expected.get(keyspace).unwrap_or(&none);
        for key in found.keys().chain(expected.keys()) {
            let (found, expected) = (found.get(key), expected.get(key));
            if found != expected {
                let show =
                    |value: Option<&Vec<u8>>| value.map(|value| value.escape_ascii().to_string());
                differences.push(format!(
                    "keyspace {keyspace} key {}: found {:?}, expected {:?}",
                    key.escape_ascii(),
                    show(found),
                    show(expected)
                ));
            }
        }
    }
    panic!(
        "the store differs from the model:\n{}",
        differences.join("\n")
    );
}
