//! Keys and values of a program's own types, in the order of the keys. Needs the feature `typed`.

use serde::{Deserialize, Serialize};
use terrace::{Db, DecodeKey, EncodeKey, Options, Result};

/// A key: readings of a station are beside each other, in the order of time.
#[derive(Debug, PartialEq)]
struct Moment {
    station: String,
    seconds: i64,
}

impl EncodeKey for Moment {
    fn encode(&self, key: &mut Vec<u8>) {
        self.station.encode(key);
        self.seconds.encode(key);
    }
}

impl DecodeKey for Moment {
    fn decode(key: &mut &[u8]) -> Option<Self> {
        let (station, seconds) = DecodeKey::decode(key)?;
        Some(Moment { station, seconds })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Weather {
    celsius: f32,
    words: Option<String>,
}

fn moment(station: &str, seconds: i64) -> Moment {
    let station = station.to_string();
    Moment { station, seconds }
}

pub fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let db = Db::open(directory.path().join("weather"), Options::default())?;
    let weather = db
        .get_or_create_keyspace("weather", Default::default())?
        .typed::<Moment, Weather>();
    for (station, seconds, celsius) in [
        ("harbour", 60, 18.5),
        ("airport", 0, 17.0),
        ("harbour", -60, 19.0),
    ] {
        let words = (celsius > 18.0).then(|| "warm".to_string());
        weather.put(&moment(station, seconds), &Weather { celsius, words })?;
    }
    let of_harbour = moment("harbour", i64::MIN)..=moment("harbour", i64::MAX);
    for entry in weather.range(of_harbour)? {
        let (moment, weather) = entry?;
        println!(
            "{:>4} s: {} degrees, {:?}",
            moment.seconds, weather.celsius, weather.words
        );
    }
    let (first, _) = weather.iter()?.next().expect("an entry")?;
    assert_eq!(first, moment("airport", 0));
    Ok(())
}
