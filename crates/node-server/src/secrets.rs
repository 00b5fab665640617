//! Files of secrets.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use terrace_nvmf::auth::Secrets;
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// Permissions of others than the owner, with which a file of secrets is refused.
const OF_OTHERS: u32 = 0o077;
/// The largest file: a line has 600 bytes at most.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a file of secrets: in each line the name of a host, its secret, and perhaps the secret by which
/// the node proves itself to that host. Lines that begin with `#` are comments.
///
/// `nvme gen-dhchap-key` writes such secrets.
///
/// # Errors
/// The file cannot be read, others than its owner may open it, or a line is illegal. No error has
/// anything of a secret.
pub fn read_secrets(path: &Path) -> Result<Secrets> {
    let refused = |what: String| Error::File {
        path: path.to_owned(),
        what,
    };
    let file = File::open(path).map_err(|error| refused(error.to_string()))?;
    let metadata = file
        .metadata()
        .map_err(|error| refused(error.to_string()))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & OF_OTHERS != 0 {
        return Err(refused(format!(
            "others than its owner may open it (mode {mode:04o}): `chmod 600` it"
        )));
    }
    // Room for the whole file at once: a buffer that grows leaves copies behind.
    let room = metadata.len().min(MAX_BYTES + 1) as usize + 1;
    let mut text = Zeroizing::new(String::with_capacity(room));
    file.take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| refused(error.to_string()))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(refused("it is larger than 16 MiB".to_owned()));
    }
    let secrets = Secrets::parse(&text).map_err(|error| refused(error.to_string()))?;
    if secrets.is_empty() {
        return Err(refused(
            "it has no secrets, so no host could connect".to_owned(),
        ));
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SECRET: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";

    fn told(text: &str, mode: u32) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        match read_secrets(file.path()) {
            Ok(secrets) => format!("read: {}", secrets.get("nqn.2026-11.a").is_some()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_file_is_its_owners_alone() {
        let text = format!("# a host\nnqn.2026-11.a {SECRET}\n");
        assert_eq!(told(&text, 0o600), "read: true");
        assert_eq!(told(&text, 0o400), "read: true");
        for mode in [0o640, 0o604, 0o660, 0o666] {
            let told = told(&text, mode);
            assert!(told.contains("chmod 600"), "{told}");
        }
    }

    #[test]
    fn errors_name_the_line_and_nothing_of_the_secret() {
        let text = format!("nqn.2026-11.a {SECRET}\nnqn.2026-11.b DHHC-1:00:private:\n");
        let told_of = told(&text, 0o600);
        assert!(
            told_of.contains('2') && !told_of.contains("private"),
            "{told_of}"
        );
        assert!(told("# none\n", 0o600).contains("no secrets"));
    }
}
