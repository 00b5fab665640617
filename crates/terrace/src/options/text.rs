//! Settings as text: a file that an operator keeps beside a store.

use terrace_lsm::toml_text::{read, write};

use crate::Result;
use crate::options::Options;

impl Options {
    /// Reads settings from TOML, one `name = value` for each field of [`Options`] that is not to
    /// have its default. A field that has fields itself is a `[group]`. Sizes are numbers of bytes, or
    /// texts such as `"64MiB"`. Components have no text form and keep their defaults.
    ///
    /// ```
    /// let options = terrace::Options::from_toml(
    ///     r#"
    ///     durability = "PowerSafe"
    ///     cache_bytes = "256MiB"
    ///
    ///     [default_keyspace]
    ///     compression = ["none", "none", "lz4", "zstd"]
    ///     "#,
    /// )?;
    /// assert_eq!(options.durability, Some(terrace::Durability::PowerSafe));
    /// assert_eq!(options.cache_bytes, 256 << 20);
    /// assert_eq!(options.default_keyspace.level_ratio, 10);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument), naming the line, the option and
    /// its accepted values.
    pub fn from_toml(text: &str) -> Result<Self> {
        let options: Options = read(text)?;
        options.check()?;
        Ok(options)
    }

    /// Writes the settings as [`Options::from_toml`] reads them. An option that is `None` has no
    /// line. A path that is not UTF-8 is in hexadecimal: `{ hex = "2fff" }`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a value that TOML has no form
    /// for; today there is none.
    pub fn to_toml(&self) -> Result<String> {
        write(self)
    }
}

/// A time as seconds, with a fraction.
pub(super) mod seconds {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(in crate::options) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| time.as_secs_f64()).serialize(serializer)
    }

    pub(in crate::options) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(deserializer)?;
        let time = seconds.map(Duration::try_from_secs_f64).transpose();
        // The reader adds the line, with the option's name.
        time.map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Background, CompactionPolicy, Compression, Durability, ForwardPolicy, KeyspaceOptions,
        PersistMethod, ReadBufferOptions,
    };

    #[test]
    fn every_setting_comes_back_as_it_was_written() {
        let options = Options {
            read_only: true,
            wait_for_lock: Some(std::time::Duration::from_millis(250)),
            durability: Some(Durability::PowerSafe),
            default_keyspace: KeyspaceOptions {
                compression: vec![Compression::Zstd, Compression::None],
                level_ratio: 7,
                ..KeyspaceOptions::default()
            },
            background_bytes_per_second: Some(u64::MAX),
            persist_every: Some(std::time::Duration::from_millis(1500)),
            region_dir: Some("/fast/region".into()),
            persist_method: PersistMethod::Mapped,
            background: Background::Threads,
            compaction_policy: CompactionPolicy::Lazy,
            tombstone_percent: 0,
            tombstone_age_seconds: 86_400,
            direct_io: true,
            poll_reads: Some(false),
            memory_bytes: Some(1 << 30),
            read_buffer: ReadBufferOptions {
                policy: ForwardPolicy::All,
                share_percent: 0,
            },
            ..Options::default()
        };
        let text = options.to_toml().unwrap();
        let again = Options::from_toml(&text).unwrap();
        assert_eq!(format!("{again:?}"), format!("{options:?}"));
        assert!(
            text.contains("compression = [\"zstd\", \"none\"]\n"),
            "{text}"
        );
        assert!(text.contains("wait_for_lock_seconds = 0.25\n"), "{text}");
        let empty = Options::from_toml("").unwrap();
        assert_eq!(format!("{empty:?}"), format!("{:?}", Options::default()));
    }

    #[test]
    fn sizes_are_numbers_or_texts_with_a_unit() {
        let text = "memory_bytes = \"1GiB\"\ncache_bytes = 4096\ndefault_keyspace.block_bytes = \"8 KiB\"\n\
                    background_bytes_per_second = \"1MiB\"\n";
        let options = Options::from_toml(text).unwrap();
        assert_eq!(options.memory_bytes, Some(1 << 30));
        assert_eq!(options.cache_bytes, 4096);
        assert_eq!(options.default_keyspace.block_bytes, 8192);
        assert_eq!(options.background_bytes_per_second, Some(1 << 20));
        let large = crate::KeyspaceOptions::from_toml("table_bytes = \"2GiB\"").unwrap();
        assert_eq!(large.table_bytes, 2 << 30);
    }

    #[test]
    fn what_is_not_an_option_is_named_with_what_would_be() {
        let refused = |text| Options::from_toml(text).unwrap_err().to_string();
        for (text, names) in [
            ("arena_size = 1", &["arena_size", "`arena_bytes`"][..]),
            ("max_arenas = \"10\"", &["max_arenas", "10"]),
            ("cache_bytes = -1", &["cache_bytes", "-1", "64MiB"]),
            ("arena_bytes = \"64MB\"", &["arena_bytes", "64MB", "MiB"]),
            ("max_arenas = -1", &["max_arenas", "-1"]),
            ("durability = \"Safe\"", &["durability", "`CrashSafe`"]),
            (
                "default_keyspace.compression = [\"gzip\"]",
                &["compression", "`zstd`"],
            ),
            ("persist_method = \"x\"", &["persist_method", "`mapped`"]),
            (
                "compaction_policy = \"x\"",
                &["compaction_policy", "`lazy`"],
            ),
            ("storage = 1", &["storage"]),
            ("[read_buffer]\nshare = 1", &["share", "`share_percent`"]),
            (
                "[read_buffer]\nshare_percent = 91",
                &["read_buffer.share_percent", "from 0 to 90"],
            ),
            (
                "[default_keyspace]\nlevel_ratio = 1",
                &["default_keyspace.level_ratio", "from 2 to 1000"],
            ),
            ("level_ratio = 7", &["level_ratio", "`default_keyspace`"]),
            (
                "tombstone_percent = 101",
                &["tombstone_percent", "from 0 to 100"],
            ),
            ("level_ratio = ", &["level_ratio"]),
            (
                "persist_every_seconds = -1",
                &["persist_every_seconds", "negative"],
            ),
            (
                "wait_for_lock_seconds = nan",
                &["wait_for_lock_seconds", "seconds"],
            ),
        ] {
            let error = refused(text);
            assert!(error.starts_with("invalid argument: "), "{error}");
            for name in names {
                assert!(error.contains(name), "{text}: {error}");
            }
        }
    }

    #[test]
    fn a_path_that_is_not_text_comes_back_from_hexadecimal() {
        use std::os::unix::ffi::OsStrExt;
        let options = Options {
            region_dir: Some(std::ffi::OsStr::from_bytes(b"/\xff").into()),
            ..Options::default()
        };
        let text = options.to_toml().unwrap();
        let again = Options::from_toml(&text).unwrap();
        assert_eq!(format!("{again:?}"), format!("{options:?}"), "{text}");
        let inline = Options::from_toml("region_dir = { hex = \"2fff\" }").unwrap();
        assert_eq!(inline.region_dir, options.region_dir);
        for wrong in ["1", "{ hex = \"2f0\" }", "{ hax = \"2f\" }", "{}"] {
            let refused = Options::from_toml(&format!("region_dir = {wrong}"));
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("region_dir"), "{text}");
        }
    }

    fn refusal(text: &str) -> String {
        let error = toml::from_str::<crate::Options>(text).unwrap_err();
        terrace_lsm::toml_text::toml_refusal(text, &error)
    }

    #[test]
    fn a_refusal_names_place_and_line() {
        let text = "max_arenas = 3\nlevel0_merge = \"10\"\n";
        assert_eq!(
            refusal(text),
            "line 2, column 16, `level0_merge = \"10\"`: invalid type: string \"10\", expected usize"
        );
    }

    #[test]
    fn a_refusal_is_one_line_whatever_the_file_holds() {
        for text in [
            "\"a\\nerror: b\" = 1",
            "level_ratio = ",
            "a\u{202e}\x07 = \n1",
            "\r",
        ] {
            let refusal = refusal(text);
            let is_shown = |c: char| !c.is_control() && c != '\u{202e}';
            assert!(refusal.chars().all(is_shown), "{refusal:?}");
        }
    }
}
