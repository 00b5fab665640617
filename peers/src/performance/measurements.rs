//! What docs/performance.md shows: a list of comparisons, each held by one command.

/// Comparisons of one kind: they have a place in the document.
pub struct Section {
    /// The marker in the document.
    pub marker: &'static str,
    pub measurements: &'static [Measurement],
}

/// One `peers compare`.
pub struct Measurement {
    /// Of its results' files.
    pub name: &'static str,
    /// What is typed behind `peers compare`, without directories and outputs.
    pub arguments: &'static str,
}

impl Measurement {
    /// Within a memory cgroup.
    pub fn is_bounded(&self) -> bool {
        self.arguments.contains("--memory bounded")
    }

    /// Once more in an open loop.
    pub fn is_paced(&self) -> bool {
        self.arguments.contains("--paced")
    }

    /// Every write synced.
    pub fn is_durable(&self) -> bool {
        self.arguments.contains("--durable")
    }
}

const fn measured(name: &'static str, arguments: &'static str) -> Measurement {
    Measurement { name, arguments }
}

/// Records of 1 KB in memory.
const FITS_1K: &[Measurement] = &[
    measured(
        "fits-1k",
        "ycsb c b a f d --records 2000000 --operations 1000000 --warm-up 100 \
         --stores terrace,rocksdb,leveldb,fjall,lmdb",
    ),
    measured(
        "fits-1k-h",
        "ycsb h --records 2000000 --operations 1000000 --warm-up 100 \
         --stores terrace,rocksdb,leveldb,fjall",
    ),
    measured(
        "fits-1k-uniform",
        "ycsb uniform --records 2000000 --operations 300000 --warm-up 1000 \
         --stores terrace,rocksdb,leveldb,fjall,lmdb",
    ),
    measured(
        "fits-1k-e",
        "ycsb e --records 2000000 --operations 100000 --warm-up 400 \
         --stores terrace,rocksdb,leveldb,fjall,lmdb",
    ),
    measured(
        "fits-1k-clients",
        "ycsb c a --clients 4 --records 2000000 --operations 1000000 --warm-up 100 \
         --stores terrace,rocksdb,leveldb,fjall",
    ),
];

const FITS_100: &[Measurement] = &[
    measured(
        "fits-100",
        "ycsb uniform c b a f d h --records 10000000 --value-bytes 100 --operations 1000000 \
         --warm-up 100 --stores terrace,rocksdb,leveldb,fjall,lmdb",
    ),
    measured(
        "fits-100-e",
        "ycsb e --records 10000000 --value-bytes 100 --operations 100000 --warm-up 400 \
         --stores terrace,rocksdb,leveldb,fjall,lmdb",
    ),
];

/// C and B have a long warm-up: a cache of records learns late which of 2,000,000 are asked for most.
const BOUNDED_1K: &[Measurement] = &[
    measured(
        "bounded-1k-cb",
        "ycsb c b --memory bounded --records 2000000 --operations 300000 --warm-up 1000 \
         --stores terrace,rocksdb",
    ),
    measured(
        "bounded-1k-d",
        "ycsb d --memory bounded --records 2000000 --operations 300000 --warm-up 100 \
         --stores terrace,rocksdb",
    ),
    measured(
        "bounded-1k-af",
        "ycsb a f --memory bounded --records 2000000 --operations 1000000 --warm-up 20 \
         --stores terrace,rocksdb",
    ),
    measured(
        "bounded-1k-h",
        "ycsb h --memory bounded --records 2000000 --operations 1000000 --warm-up 100 \
         --stores terrace,rocksdb",
    ),
    measured(
        "bounded-1k-ue",
        "ycsb uniform e --memory bounded --records 2000000 --operations 30000 --warm-up 100 \
         --stores terrace,rocksdb",
    ),
];

const BOUNDED_100: &[Measurement] = &[
    measured(
        "bounded-100-cb",
        "ycsb c b --memory bounded --records 10000000 --value-bytes 100 --operations 300000 \
         --warm-up 1000 --stores terrace,rocksdb",
    ),
    measured(
        "bounded-100-d",
        "ycsb d --memory bounded --records 10000000 --value-bytes 100 --operations 300000 \
         --warm-up 100 --stores terrace,rocksdb",
    ),
    measured(
        "bounded-100-af",
        "ycsb a f --memory bounded --records 10000000 --value-bytes 100 --operations 1000000 \
         --warm-up 20 --stores terrace,rocksdb",
    ),
    measured(
        "bounded-100-h",
        "ycsb h --memory bounded --records 10000000 --value-bytes 100 --operations 1000000 \
         --warm-up 100 --stores terrace,rocksdb",
    ),
    measured(
        "bounded-100-ue",
        "ycsb uniform e --memory bounded --records 10000000 --value-bytes 100 --operations 30000 \
         --warm-up 100 --stores terrace,rocksdb",
    ),
];

/// Few operations and no long warm-up: some take a thousand times as long as in memory.
const BOUNDED_OTHERS: &[Measurement] = &[measured(
    "bounded-1k-others",
    "ycsb c b a d --memory bounded --records 2000000 --operations 20000 --warm-up 200 --repeats 1 \
     --stores terrace,rocksdb,leveldb,fjall,lmdb",
)];

const DURABLE: &[Measurement] = &[measured(
    "durable",
    "ycsb g --durable --clients 8 --records 100000 --stores terrace,rocksdb,leveldb,fjall",
)];

const PACED: &[Measurement] = &[
    measured(
        "paced-fits",
        "ycsb a b c f --paced 70 --repeats 5 --records 2000000 --operations 300000 --warm-up 100 \
         --stores terrace,rocksdb,leveldb,fjall",
    ),
    measured(
        "paced-bounded",
        "ycsb a c --paced 70 --repeats 5 --memory bounded --records 2000000 --operations 100000 \
         --warm-up 100 --stores terrace,rocksdb",
    ),
];

/// All of them, in the order in which they are held.
pub const SECTIONS: &[Section] = &[
    Section {
        marker: "fits-1k",
        measurements: FITS_1K,
    },
    Section {
        marker: "bounded-1k",
        measurements: BOUNDED_1K,
    },
    Section {
        marker: "bounded-others",
        measurements: BOUNDED_OTHERS,
    },
    Section {
        marker: "durable",
        measurements: DURABLE,
    },
    Section {
        marker: "paced",
        measurements: PACED,
    },
    Section {
        marker: "fits-100",
        measurements: FITS_100,
    },
    Section {
        marker: "bounded-100",
        measurements: BOUNDED_100,
    },
];
