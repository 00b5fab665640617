//! A page in a frame of any width: the browser's own window cannot be as narrow as a phone.
//!
//! A frame's script writes its findings in the page to where `--dump-dom` shows it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

pub struct Look {
    /// Of the picture.
    pub name: &'static str,
    pub width: u32,
    pub height: u32,
    pub dark: bool,
}

/// Two phones' and a desk's, light and dark.
pub fn looks(
    name: &'static str,
    phone_height: u32,
    desk_height: u32,
) -> impl Iterator<Item = Look> {
    let sizes = [
        (360, phone_height),
        (390, phone_height),
        (1280, desk_height),
    ];
    sizes.into_iter().flat_map(move |(width, height)| {
        [false, true].map(|dark| Look {
            name,
            width,
            height,
            dark,
        })
    })
}

/// One that can be run; without one a test is skipped, aloud.
pub fn browser() -> Option<&'static str> {
    let found = BROWSERS.into_iter().find(|name| {
        let asked = Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        asked.is_ok_and(|status| status.success())
    });
    if found.is_none() {
        assert!(
            std::env::var("TERRACE_BROWSER").as_deref() != Ok("required"),
            "TERRACE_BROWSER=required, and none of {BROWSERS:?} can be run"
        );
        let _ = writeln!(std::io::stderr(), "SKIPPED: no chromium");
    }
    found
}

/// Opens the page and returns its report on itself.
pub fn open(browser: &str, directory: &Path, frame: &str, look: &Look) -> serde_json::Value {
    let frame = frame
        .replace("CUT_OFF", include_str!("cut.js"))
        .replace("WIDTH", &look.width.to_string())
        .replace("HEIGHT", &look.height.to_string());
    std::fs::write(directory.join("frame.html"), frame).unwrap();
    let scheme = if look.dark { 0 } else { 1 };
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
        .args(["--hide-scrollbars", "--allow-file-access-from-files"])
        // Nothing can be asked of any other host.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!(
            "--user-data-dir={}",
            directory.join("profile").display()
        ))
        .arg(format!(
            "--window-size={},{}",
            look.width.max(500),
            look.height
        ))
        .arg(format!(
            "--screenshot={}",
            picture(directory, look).display()
        ))
        .args(["--virtual-time-budget=8000", "--dump-dom"])
        .arg(format!("file://{}", directory.join("frame.html").display()))
        .output()
        .unwrap();
    let document = String::from_utf8_lossy(&output.stdout);
    let said = document
        .split_once("<pre id=\"said\" hidden=\"\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"));
    let Some((said, _)) = said else {
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("the page said nothing: {document}\n{errors}");
    };
    serde_json::from_str(said).unwrap()
}

fn picture(directory: &Path, look: &Look) -> PathBuf {
    let kept = std::env::var_os("TERRACE_SCREENSHOTS").map(PathBuf::from);
    let scheme = if look.dark { "dark" } else { "light" };
    kept.unwrap_or_else(|| directory.into())
        .join(format!("{}-{}-{scheme}.png", look.name, look.width))
}
