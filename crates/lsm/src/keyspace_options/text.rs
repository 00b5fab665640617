//! Options of a keyspace as text.

use crate::Result;
use crate::keyspace_options::KeyspaceOptions;
use crate::toml_text::{read, write};

impl KeyspaceOptions {
    /// Reads settings of a keyspace written as TOML, as those of a store in `Options::from_toml`.
    ///
    /// ```
    /// use terrace::{Compression, KeyspaceOptions};
    /// let pictures = KeyspaceOptions::from_toml("block_bytes = 16384\ncompression = ['none']")?;
    /// assert_eq!(pictures.block_bytes, 16 << 10);
    /// assert_eq!(pictures.compression, [Compression::None]);
    /// assert_eq!(KeyspaceOptions::from_toml(&pictures.to_toml()?)?, pictures);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument), naming the line, the option and
    /// the values that it accepts.
    pub fn from_toml(text: &str) -> Result<Self> {
        let options: KeyspaceOptions = read(text)?;
        options.check()?;
        Ok(options)
    }

    /// Writes the settings as [`KeyspaceOptions::from_toml`] reads them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a value that TOML has no form
    /// for; today there is none.
    pub fn to_toml(&self) -> Result<String> {
        write(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyspace_says_what_it_does_not_accept() {
        let refused = |text| KeyspaceOptions::from_toml(text).unwrap_err().to_string();
        assert!(refused("level_ratio = 1").contains("level_ratio is 1; it must be from 2 to 1000"));
        assert!(refused("cache_bytes = 1").contains("`block_bytes`"));
        let text = KeyspaceOptions::default().to_toml().unwrap();
        assert!(text.contains("level_ratio = 10\n"), "{text}");
    }
}
