//! A program whose marked functions make one call of the engine each.

use terrace::{Background, Db, Options};

#[inline(never)]
fn put_once(db: &Db) {
    db.put(b"key-000500", [8; 100].as_slice()).expect("a put");
}

#[inline(never)]
fn get_once(db: &Db) {
    let value = db.get(b"key-000700").expect("a get");
    assert_eq!(value.expect("a row").len(), 100);
}

fn main() {
    let directory = std::env::args().nth(1).expect("a directory");
    let mut options = Options::default();
    options.background = Background::Inline;
    options.arena_bytes = 8 << 20;
    let db = Db::open(&directory, options).expect("a store");
    for number in 0..1000 {
        let key = format!("key-{number:06}");
        db.put(key.as_bytes(), [7; 100].as_slice()).expect("a put");
    }
    db.flush().expect("a flush");
    // Their blocks are in memory from here on, and the arena is not the first.
    for number in 690..710 {
        db.get(format!("key-{number:06}").as_bytes()).expect("a get");
    }
    for number in 400..450 {
        let key = format!("key-{number:06}");
        db.put(key.as_bytes(), [9; 100].as_slice()).expect("a put");
    }
    put_once(&db);
    get_once(&db);
    std::process::exit(0);
}
