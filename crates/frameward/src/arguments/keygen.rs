//! `frameward keygen`: its arguments, and the files that it makes.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use frameward::keygen::{self, KeyLength, KeygenError};
use frameward::privilege;
use wire::Ckn;

use super::Owner;
use crate::{Failure, print, told};

#[derive(Subcommand)]
pub(crate) enum Keygen {
    /// Make a static key in a new file of mode 0600, and print its fingerprint
    #[command(after_help = "\
The command never overwrites a file. Copy the file to the other end over a secret channel. Compare
the fingerprints of both ends: `check` and `status` show them too. A fingerprint is the first 8
octets of SHA-256 over \"frameward key\" and the key.

Suites with 128 bits: gcm-aes-128, gcm-aes-xpn-128, aegis-128l, morus-640-128, morus-1280-128.
Suites with 256 bits: gcm-aes-256, gcm-aes-xpn-256, chacha20-poly1305, chacha20-poly1305-xpn,
aegis-256.

Examples:
  frameward keygen static --out press.key
  frameward keygen static --bits 256 --salt --out press.key     (for gcm-aes-xpn-256)")]
    Static {
        /// The length of the key
        #[arg(long, value_enum, default_value = "128")]
        bits: Bits,
        /// Also print a salt for the XPN suites; it is no secret, and the same at all ends of a key
        #[arg(long)]
        salt: bool,
        #[command(flatten)]
        file: NewFile,
    },
    /// Make a CAK for links with [link.mka] in a new file of mode 0600, and print its name (CKN) and fingerprint
    #[command(after_help = "\
The command never overwrites a file. Copy the file to every box of the group over a secret
channel: anybody who has it can become a member. Name and key belong together; `check` and
`status` show the name and the fingerprint. Without --ckn the name is 32 random digits. If the
other end is a switch or wpa_supplicant, enter both lines of the file there (wpa_supplicant:
mka_ckn and mka_cak).

Examples:
  frameward keygen cak --out line.cak
  frameward keygen cak --bits 128 --ckn 6c696e652d37 --out line.cak     (for a switch with CAKs of 128 bits only)")]
    Cak {
        /// The length of the CAK
        #[arg(long, value_enum, default_value = "256")]
        bits: Bits,
        /// Its name: 2 to 64 hexadecimal digits
        #[arg(long, value_name = "HEX", value_parser = ckn)]
        ckn: Option<Ckn>,
        #[command(flatten)]
        file: NewFile,
    },
    /// Make a site's identity in a new file of mode 0600, and print the public key for its peers
    #[command(after_help = "\
The identity is an Ed25519 key pair. Each site makes its own, and the file never leaves its box.
The command never overwrites a file. The printed public key is no secret: each peer writes it into
its [[site.peer]] for this site. `check` prints it again.

Example:
  frameward keygen site --out /etc/frameward/dresden.key")]
    Site {
        #[command(flatten)]
        file: NewFile,
    },
    /// Make the master key of a [[fieldbus]] in a new file of mode 0600, and print its fingerprint
    #[command(after_help = "\
The key has 256 bits; the keys of all relations are derived from it. The command never overwrites a
file. Copy the file to the other gateway of the cell over a secret channel. Give each cell a key
of its own. Compare the fingerprints of both gateways: `check` and `status` show them too.

Example:
  frameward keygen fieldbus --out /etc/frameward/cell-4.key")]
    Fieldbus {
        #[command(flatten)]
        file: NewFile,
    },
}

/// The file of a new key.
#[derive(Args)]
pub(crate) struct NewFile {
    /// The file to make
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    owner: Owner,
}

impl NewFile {
    /// Has the key made and gives its file to the gateway's user. A file that cannot be given goes again: that user could not read it.
    fn make<T>(&self, key: impl FnOnce(&Path) -> Result<T, KeygenError>) -> Result<T, Failure> {
        privilege::keep_from_being_dumped().map_err(|error| told(&error, Failure::Failed))?;
        let owner = self.owner.numbers()?;
        let made = key(&self.out).map_err(|error| told(&error, Failure::Failed))?;
        privilege::give(&self.out, owner).map_err(|error| {
            let _ = fs::remove_file(&self.out);
            told(&error, Failure::Failed)
        })?;
        Ok(made)
    }
}

impl Keygen {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Static { bits, salt, file } => {
                let fingerprint = file.make(|path| keygen::static_key(bits.into(), path))?;
                print(&format_args!("fingerprint {fingerprint}\n"))?;
                if salt {
                    let salt = keygen::salt().map_err(|error| told(&error, Failure::Failed))?;
                    print(&format_args!("salt = \"{salt}\"\n"))?;
                }
                Ok(())
            }
            Self::Cak { bits, ckn, file } => {
                let made = file.make(|path| keygen::cak(bits.into(), ckn, path))?;
                print(&format_args!("ckn {}\nfingerprint {}\n", made.ckn, made.fingerprint))
            }
            Self::Site { file } => {
                let public = file.make(keygen::site)?;
                print(&format_args!("public_key = \"{public}\"\n"))
            }
            Self::Fieldbus { file } => {
                let fingerprint = file.make(keygen::fieldbus)?;
                print(&format_args!("fingerprint {fingerprint}\n"))
            }
        }
    }
}

fn ckn(digits: &str) -> Result<Ckn, &'static str> {
    let octets = hex::decode(digits).ok();
    octets
        .and_then(|octets| Ckn::new(&octets))
        .ok_or("a name is 2 to 64 hexadecimal digits, two for each octet")
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Bits {
    #[value(name = "128")]
    Bits128,
    #[value(name = "256")]
    Bits256,
}

impl From<Bits> for KeyLength {
    fn from(bits: Bits) -> Self {
        match bits {
            Bits::Bits128 => Self::Bits128,
            Bits::Bits256 => Self::Bits256,
        }
    }
}
