//! The operator's signing key: in a file, or in a PKCS#11 token.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use crossterm::terminal;
use fleet::{Operator, Token, TokenUri};
use zeroize::Zeroizing;

use crate::{Failure, told};

/// The longest PIN that is typed.
const LONGEST_PIN: usize = 256;

/// The operator whose key is in a file, or in the token that a URI names.
pub(super) fn operator(key: &Path) -> Result<Operator, Failure> {
    if let Some(uri) = uri(key)? {
        let operator = Token::open(&uri, &mut ask).map(Operator::of_token);
        return operator.map_err(|error| told(&error, Failure::Usage));
    }
    if !key.exists() {
        let line = format_args!(
            "{} does not exist; name the operator's signing key, or make one with: frameward fleet operator --out FILE",
            key.display()
        );
        return Err(told(&line, Failure::Usage));
    }
    let identity = config::key_file::read_identity(key);
    identity.map(Operator::new).map_err(|error| told(&error, Failure::Usage))
}

/// The URI of a key in a token, if it is meant to be one.
pub(super) fn uri(key: &Path) -> Result<Option<TokenUri>, Failure> {
    let text = key.to_str().filter(|text| TokenUri::is_meant(text));
    let uri = text.map(str::parse::<TokenUri>).transpose();
    // The text is not repeated: there may be a PIN in it.
    uri.map_err(|error| told(&format_args!("the URI of the signing key {error}"), Failure::Usage))
}

/// Asks whoever sits at the terminal for the PIN of a token. `None`: nobody does, or will not say.
pub(super) fn ask(token: &str) -> Option<Zeroizing<String>> {
    let mut asked = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
    // Nothing is shown, and an interrupt is a character, so the terminal is put back; not after a SIGTERM or SIGKILL.
    terminal::enable_raw_mode().ok()?;
    let typed = write!(asked, "PIN of {token}: ").and_then(|()| line(&mut asked));
    let is_back = terminal::disable_raw_mode();
    let _ = writeln!(asked);
    typed.ok().flatten().filter(|_| is_back.is_ok())
}

/// A line that is typed; `None` if it is given up.
fn line(terminal: &mut File) -> io::Result<Option<Zeroizing<String>>> {
    // Allocated whole at first, so that growing leaves no copy behind.
    let mut typed = Zeroizing::new(Vec::with_capacity(LONGEST_PIN));
    let mut octet = [0];
    while typed.len() < LONGEST_PIN && terminal.read(&mut octet)? == 1 {
        match octet[0] {
            b'\n' | b'\r' => {
                return Ok(std::str::from_utf8(&typed).ok().map(|text| Zeroizing::new(text.to_owned())));
            }
            // Ctrl-C, Ctrl-D, Ctrl-\.
            3 | 4 | 28 => return Ok(None),
            // A character, with all of its octets.
            8 | 127 => while typed.pop().is_some_and(|octet| octet & 0xc0 == 0x80) {},
            other => typed.push(other),
        }
    }
    Ok(None)
}
