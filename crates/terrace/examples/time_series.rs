//! Measurements by sensor and time, of which old ones are removed.

use terrace::{Db, Options, Result};

/// Returns the key of a measurement. Numbers in big endian have the order of their values.
fn key(sensor: &str, second: u64) -> Vec<u8> {
    [sensor.as_bytes(), &[0], &second.to_be_bytes()].concat()
}

/// Returns the mean of a sensor's measurements in a time.
fn mean(db: &Db, sensor: &str, from: u64, to: u64) -> Result<f64> {
    let (mut sum, mut number) = (0.0, 0.0);
    for entry in db.range(key(sensor, from)..key(sensor, to))? {
        let (_, value) = entry?;
        sum += f64::from_be_bytes(value.try_into().expect("a measurement has eight bytes"));
        number += 1.0;
    }
    Ok(sum / number)
}

pub fn main() -> Result<()> {
    const HOUR: u64 = 3600;
    let directory = tempfile::tempdir().expect("a directory for the example");
    let db = Db::open(directory.path().join("climate"), Options::default())?;
    for second in (0..24 * HOUR).step_by(60) {
        for (sensor, degrees) in [("cellar", 12.0), ("roof", 20.0)] {
            let measured: f64 = degrees + (second / HOUR) as f64 / 10.0;
            db.put(key(sensor, second), measured.to_be_bytes())?;
        }
    }
    assert_eq!(mean(&db, "cellar", 10 * HOUR, 11 * HOUR)?, 13.0);

    // The newest of each sensor is the last before the next sensor's.
    let newest = db.prefix("roof\0")?.next_back().expect("a measurement")?;
    assert_eq!(newest.0, key("roof", 24 * HOUR - 60));

    // One record removes a range, however many measurements it holds.
    for sensor in ["cellar", "roof"] {
        db.delete_range(key(sensor, 0), key(sensor, 12 * HOUR))?;
    }
    let oldest = db.first()?.expect("a measurement");
    assert_eq!(oldest.0, key("cellar", 12 * HOUR));
    println!("{} measurements are left", db.range(..)?.count());
    Ok(())
}
