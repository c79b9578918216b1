//! URI of a key in a PKCS#11 token (RFC 7512).
//!
//! ```text
//! pkcs11:token=fleet;object=operator?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/etc/frameward/pin
//!        which token  which key       library that speaks with the token          file with the PIN
//! ```
//!
//! Left out on purpose: `pin-value`, since whoever lists processes would read the PIN, and `module-name`, which is another name on each system.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What a URI begins with.
const SCHEME: &str = "pkcs11:";
/// Attributes by which a token is found.
const OF_TOKEN: [&str; 4] = ["token", "manufacturer", "model", "serial"];

/// Where a key is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenUri {
    /// The library.
    pub(super) module: PathBuf,
    /// Attributes of [`OF_TOKEN`] that the token has to have.
    pub(super) token: Vec<(&'static str, String)>,
    /// CKA_LABEL of the key.
    pub(super) object: Option<String>,
    /// CKA_ID of the key.
    pub(super) id: Option<Vec<u8>>,
    /// The file with the PIN.
    pub(super) pin: Option<PathBuf>,
}

/// Error of a text that is no such URI.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadTokenUri {
    /// It is none.
    #[error(
        "is no PKCS#11 URI at {0:?}; write pkcs11:token=NAME;object=KEY?module-path=FILE&pin-source=file:FILE, with %20 for a space"
    )]
    Malformed(String),
    /// An attribute that says nothing here, or twice.
    #[error(
        "has an attribute {0:?} that is unknown or there twice; use token, manufacturer, model, serial, object, id, module-path and pin-source"
    )]
    Attribute(String),
    /// The PIN itself.
    #[error(
        "has a PIN in it, which others can read; change that PIN, and name a file with pin-source=file:FILE, or leave it out to be asked"
    )]
    Pin,
    /// No library.
    #[error("names no module; add ?module-path=FILE, such as /usr/lib/softhsm/libsofthsm2.so")]
    NoModule,
    /// No key.
    #[error("names no key; add object=NAME or id=%01")]
    NoKey,
    /// A PIN from something else than a file.
    #[error("has a pin-source that is no file; write pin-source=file:FILE")]
    PinSource,
}

impl TokenUri {
    /// Whether a text is meant to be one.
    pub fn is_meant(text: &str) -> bool {
        text.get(..SCHEME.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(SCHEME))
    }

    /// The file with the PIN.
    pub fn pin_file(&self) -> Option<&Path> {
        self.pin.as_deref()
    }
}

impl FromStr for TokenUri {
    type Err = BadTokenUri;

    fn from_str(text: &str) -> Result<Self, BadTokenUri> {
        if !Self::is_meant(text) {
            return Err(BadTokenUri::Malformed(text.chars().take(16).collect()));
        }
        let (path, query) = text[SCHEME.len()..].split_once('?').unwrap_or((&text[SCHEME.len()..], ""));
        let (mut token, mut object, mut id) = (Vec::new(), None, None);
        for (name, value) in attributes(path, ';')? {
            let twice = |is_there: bool| match is_there {
                true => Err(BadTokenUri::Attribute(name.clone())),
                false => Ok(()),
            };
            match (name.as_str(), OF_TOKEN.into_iter().find(|known| *known == name)) {
                (_, Some(known)) => {
                    twice(token.iter().any(|(there, _)| *there == known))?;
                    token.push((known, words(value)?));
                }
                ("object", None) => twice(object.replace(words(value)?).is_some())?,
                ("id", None) => twice(id.replace(value).is_some())?,
                ("type", None) if value == b"private" => {}
                _ => return Err(BadTokenUri::Attribute(name)),
            }
        }
        let (mut module, mut pin) = (None, None);
        for (name, value) in attributes(query, '&')? {
            match name.as_str() {
                "module-path" if module.is_none() => module = Some(PathBuf::from(words(value)?)),
                "pin-source" if pin.is_none() => pin = Some(file(&words(value)?)?),
                "pin-value" => return Err(BadTokenUri::Pin),
                _ => return Err(BadTokenUri::Attribute(name)),
            }
        }
        if object.is_none() && id.is_none() {
            return Err(BadTokenUri::NoKey);
        }
        Ok(Self { module: module.ok_or(BadTokenUri::NoModule)?, token, object, id, pin })
    }
}

impl fmt::Display for TokenUri {
    /// The token and the key, as a person names them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.object, &self.id) {
            (Some(object), _) => write!(f, "key {object:?}")?,
            (None, Some(id)) => write!(f, "key {}", hex::encode(id))?,
            (None, None) => {}
        }
        write!(f, " of {}", self.of())
    }
}

impl TokenUri {
    /// The token, as a person names it.
    pub(super) fn of(&self) -> String {
        let named: Vec<_> = self.token.iter().map(|(name, value)| format!("{name}={value}")).collect();
        match named.as_slice() {
            [] => "the token".to_owned(),
            named => format!("the token with {}", named.join(", ")),
        }
    }
}

/// Names, and values whose octets are decoded.
fn attributes(text: &str, between: char) -> Result<Vec<(String, Vec<u8>)>, BadTokenUri> {
    let pairs = text.split(between).filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let malformed = || BadTokenUri::Malformed(pair.chars().take(16).collect());
        let (name, value) = pair.split_once('=').ok_or_else(malformed)?;
        Ok((name.to_owned(), decoded(value).ok_or_else(malformed)?))
    };
    pairs.map(pair).collect()
}

/// Octets of a value: `%41` is one of them.
fn decoded(value: &str) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        if *first != b'%' {
            octets.push(*first);
            rest = behind;
            continue;
        }
        let (digits, behind) = behind.split_at_checked(2)?;
        octets.extend(hex::decode(digits).ok()?);
        rest = behind;
    }
    Some(octets)
}

fn words(octets: Vec<u8>) -> Result<String, BadTokenUri> {
    String::from_utf8(octets).map_err(|error| {
        BadTokenUri::Malformed(String::from_utf8_lossy(error.as_bytes()).chars().take(16).collect())
    })
}

/// The file of a `pin-source`: a URI of scheme file, or a path.
fn file(source: &str) -> Result<PathBuf, BadTokenUri> {
    let path = source.strip_prefix("file:").unwrap_or(source);
    let path = path.strip_prefix("//").unwrap_or(path);
    let is_file = !path.is_empty() && !path.starts_with('|') && !path.contains("://");
    if is_file { Ok(PathBuf::from(path)) } else { Err(BadTokenUri::PinSource) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_says_which_token_which_key_and_where_the_pin_is() {
        let uri: TokenUri =
            "pkcs11:token=my%20fleet;serial=0a;object=operator;id=%01%Fe;type=private?module-path=/m.so&pin-source=file:///etc/pin"
                .parse()
                .unwrap();
        assert_eq!(
            uri,
            TokenUri {
                module: "/m.so".into(),
                token: vec![("token", "my fleet".into()), ("serial", "0a".into())],
                object: Some("operator".into()),
                id: Some(vec![1, 0xfe]),
                pin: Some("/etc/pin".into()),
            }
        );
        assert_eq!(uri.to_string(), "key \"operator\" of the token with token=my fleet, serial=0a");
        for (source, path) in [("file:/etc/pin", "/etc/pin"), ("pin.txt", "pin.txt"), ("file:pin", "pin")] {
            let uri: TokenUri = format!("PKCS11:id=%41?module-path=m&pin-source={source}").parse().unwrap();
            assert_eq!((uri.pin_file(), uri.id.as_deref()), (Some(Path::new(path)), Some(b"A".as_slice())));
        }
    }

    #[test]
    fn what_is_no_uri_is_told_and_a_pin_in_it_is_not_repeated() {
        let malformed = |part: &str| BadTokenUri::Malformed(part.to_owned());
        let attribute = |name: &str| BadTokenUri::Attribute(name.to_owned());
        let module = "?module-path=/m.so";
        for (text, why) in [
            ("pkcs11".to_owned(), malformed("pkcs11")),
            ("/etc/operator.key".to_owned(), malformed("/etc/operator.ke")),
            (format!("pkcs11:token{module}"), malformed("token")),
            (format!("pkcs11:object=%4{module}"), malformed("object=%4")),
            (format!("pkcs11:object=%zz{module}"), malformed("object=%zz")),
            (format!("pkcs11:object=%ff{module}"), malformed("\u{fffd}")),
            (format!("pkcs11:token=a;token=b;object=c{module}"), attribute("token")),
            (format!("pkcs11:object=a;object=c{module}"), attribute("object")),
            (format!("pkcs11:object=a;type=cert{module}"), attribute("type")),
            (format!("pkcs11:object=a;slot-id=1{module}"), attribute("slot-id")),
            (format!("pkcs11:object=a{module}&module-path=/n.so"), attribute("module-path")),
            ("pkcs11:object=a?module-name=softhsm2".to_owned(), attribute("module-name")),
            ("pkcs11:object=a".to_owned(), BadTokenUri::NoModule),
            (format!("pkcs11:token=a{module}"), BadTokenUri::NoKey),
            (format!("pkcs11:object=a{module}&pin-source=%7Ccat"), BadTokenUri::PinSource),
            (format!("pkcs11:object=a{module}&pin-source=https://pin"), BadTokenUri::PinSource),
            (format!("pkcs11:object=a{module}&pin-value=4711"), BadTokenUri::Pin),
        ] {
            let told = text.parse::<TokenUri>().unwrap_err();
            assert_eq!(told, why, "{text}");
            assert!(!told.to_string().contains("4711"));
        }
    }
}
