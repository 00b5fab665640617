//! Secrets as `nvme gen-dhchap-key` writes them, and files of them.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::Hash;
use crate::wire::fabrics::MAX_NQN_BYTES;

/// Text that secrets begin with.
const PREFIX: &str = "DHHC-1";
/// Text that a transformation adds to the name.
const TRANSFORM: &[u8] = b"NVMe-over-Fabrics";
/// Bytes of the checksum behind the key.
const CHECKSUM_BYTES: usize = 4;

/// A secret of a host or of a subsystem. It prints nothing of itself.
#[derive(Clone)]
pub struct Secret {
    transform: Option<Hash>,
    key: Zeroizing<Vec<u8>>,
}

/// The defect of a text that is no secret. It has nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretError {
    /// The text is not `DHHC-1:<hash>:<base64>:`.
    Form,
    /// The hash is not 00, 01, 02 or 03.
    Hash,
    /// The key is no base64.
    Base64,
    /// The key has a length other than 32, 48 or 64 bytes.
    Length,
    /// The checksum is not that of the key.
    Checksum,
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SecretError::Form => "the secret is not of the form DHHC-1:<hash>:<base64>:",
            SecretError::Hash => "the secret's hash is not 00, 01, 02 or 03",
            SecretError::Base64 => "the secret's key is no base64",
            SecretError::Length => "the secret's key has not 32, 48 or 64 bytes",
            SecretError::Checksum => "the secret's checksum is wrong: copy it again",
        })
    }
}

impl std::error::Error for SecretError {}

impl Secret {
    /// Reads a secret.
    ///
    /// ```
    /// use terrace_nvmf::auth::Secret;
    /// let text = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
    /// assert_eq!(format!("{:?}", Secret::parse(text)?), "Secret(..)");
    /// # Ok::<(), terrace_nvmf::auth::SecretError>(())
    /// ```
    ///
    /// # Errors
    /// If the text has another form or its checksum is wrong.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let mut fields = text.split(':');
        let form = (fields.next(), fields.next(), fields.next(), fields.next());
        let (Some(PREFIX), Some(hash), Some(key), Some("")) = form else {
            return Err(SecretError::Form);
        };
        if fields.next().is_some() {
            return Err(SecretError::Form);
        }
        let transform = match hash {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            "03" => Some(Hash::Sha512),
            _ => return Err(SecretError::Hash),
        };
        let bytes = STANDARD.decode(key).map_err(|_| SecretError::Base64)?;
        let bytes = Zeroizing::new(bytes);
        let Some((key, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(SecretError::Length);
        };
        if !matches!(key.len(), 32 | 48 | 64) {
            return Err(SecretError::Length);
        }
        if crc32(key).to_le_bytes() != *checksum {
            return Err(SecretError::Checksum);
        }
        let key = Zeroizing::new(key.to_vec());
        Ok(Secret { transform, key })
    }

    /// Returns the key that answers challenges to the host or subsystem `name`.
    pub(crate) fn key_of(&self, name: &str) -> Key {
        Key(match self.transform {
            None => self.key.clone(),
            Some(hash) => {
                let digest = hash.hmac(&self.key, &[name.as_bytes(), TRANSFORM]);
                Zeroizing::new(digest.as_bytes().to_vec())
            }
        })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A secret made ready for one name.
#[derive(Clone)]
pub(crate) struct Key(Zeroizing<Vec<u8>>);

impl Key {
    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Computes the CRC-32 of zlib. Keys are short and rarely read, so no table is worth its memory.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 * (crc & 1))
        })
    })
}

/// The secrets between a host and a subsystem.
#[derive(Clone, Debug)]
pub struct SecretPair {
    /// Secret that the host proves to know.
    pub host: Secret,
    /// Secret that the controller proves to know, if hosts may ask for that.
    pub controller: Option<Secret>,
}

/// The secrets of the hosts that a subsystem admits.
///
/// ```
/// let text = "# host, its secret\n\
///     nqn.2014-08.org.example:a DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:\n";
/// let secrets = terrace_nvmf::auth::Secrets::parse(text)?;
/// assert!(secrets.get("nqn.2014-08.org.example:a").is_some());
/// # Ok::<(), terrace_nvmf::auth::FileError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    hosts: BTreeMap<String, SecretPair>,
}

/// A line of a file of secrets that cannot be read. It has nothing of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The defect.
    pub defect: LineDefect,
}

/// The defect of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineDefect {
    /// The line has not two or three fields.
    Fields,
    /// The host's name does not begin with `nqn.` or is longer than 223 bytes.
    Name,
    /// An earlier line has the same host.
    Duplicate,
    /// The host's secret is none.
    Host(SecretError),
    /// The controller's secret is none.
    Controller(SecretError),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match self.defect {
            LineDefect::Fields => {
                f.write_str("a line is <host NQN> <secret> [<controller secret>]")
            }
            LineDefect::Name => f.write_str("the host is no NQN of at most 223 bytes"),
            LineDefect::Duplicate => f.write_str("an earlier line has the same host"),
            LineDefect::Host(error) => write!(f, "host: {error}"),
            LineDefect::Controller(error) => write!(f, "controller: {error}"),
        }
    }
}

impl std::error::Error for FileError {}

impl Secrets {
    /// Reads lines of `<host NQN> <secret> [<controller secret>]`.
    ///
    /// Blank lines and lines that begin with `#` are ignored.
    ///
    /// # Errors
    /// If a line is something else, with its number.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let mut secrets = Secrets::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            secrets.add(line).map_err(|defect| FileError {
                line: index + 1,
                defect,
            })?;
        }
        Ok(secrets)
    }

    fn add(&mut self, line: &str) -> Result<(), LineDefect> {
        let mut fields = line.split_ascii_whitespace();
        let (Some(name), Some(host)) = (fields.next(), fields.next()) else {
            return Err(LineDefect::Fields);
        };
        let controller = fields.next();
        if fields.next().is_some() {
            return Err(LineDefect::Fields);
        }
        if !name.starts_with("nqn.") || name.len() > MAX_NQN_BYTES {
            return Err(LineDefect::Name);
        }
        let pair = SecretPair {
            host: Secret::parse(host).map_err(LineDefect::Host)?,
            controller: controller
                .map(Secret::parse)
                .transpose()
                .map_err(LineDefect::Controller)?,
        };
        match self.hosts.insert(name.to_owned(), pair) {
            None => Ok(()),
            Some(_) => Err(LineDefect::Duplicate),
        }
    }

    /// Returns the secrets of a host.
    pub fn get(&self, host: &str) -> Option<&SecretPair> {
        self.hosts.get(host)
    }

    /// Returns whether no host has a secret.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }
}

#[cfg(test)]
mod tests;
