//! A rendering: a folder with one folder for each gateway, which holds the gateway's configuration and key files as they would stand
//! on its box.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use config::Finding;
use zeroize::Zeroizing;

use crate::files::{FILES_OCTETS, FileName, Files, FilesError};
use crate::install;
use crate::name::GatewayName;

/// What a rendering has for one gateway.
#[derive(Debug)]
pub struct Rendered {
    /// The gateway.
    pub name: GatewayName,
    /// Its files.
    pub files: Files,
    /// Whether there are static keys among them: their packet numbers are remembered on the box alone.
    pub has_static_keys: bool,
}

/// Why a rendering cannot be published: each gateway's configuration passes `frameward check`, and its folder holds nothing else.
#[derive(Debug, thiserror::Error)]
pub enum RenderingError {
    /// Something cannot be read.
    #[error("{}: cannot be read: {source}; name a folder with one folder for each gateway", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A folder that is named after no gateway.
    #[error("{}: is not the name of a gateway; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first", .0.display())]
    GatewayName(PathBuf),
    /// Not a file that can be sent.
    #[error("{}: is no file of a gateway; a folder has files alone, with names of letters, digits, dots, _ and -", .0.display())]
    FileName(PathBuf),
    /// Too many files, or too long ones.
    #[error("{}: {source}", path.display())]
    Files {
        /// The gateway's folder.
        path: PathBuf,
        /// What is too much.
        source: FilesError,
    },
    /// No gateway at all.
    #[error("{}: has no folder of a gateway; name a folder with one folder for each gateway", .0.display())]
    Empty(PathBuf),
    /// A configuration is wrong, or is not there.
    #[error("{0}")]
    Configuration(Finding),
}

/// Reads a rendering. Files beside the folders are nobody's, and so are hidden folders.
///
/// # Errors
/// All that is wrong, in one or the other gateway's folder.
pub fn read(rendering: &Path) -> Result<Vec<Rendered>, Vec<RenderingError>> {
    let mut gateways = Vec::new();
    let mut errors = Vec::new();
    for path in entries(rendering).map_err(|error| vec![error])? {
        let name = path.file_name().unwrap_or_default();
        if !path.is_dir() || name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let Some(name) = name.to_str().and_then(GatewayName::new) else {
            errors.push(RenderingError::GatewayName(path));
            continue;
        };
        // Keys that are wrong are told with the line that names them.
        let config = match install::load(&path.join(FileName::CONFIGURATION)) {
            Ok((config, _)) => config,
            Err(findings) => {
                errors.extend(findings.into_iter().map(RenderingError::Configuration));
                continue;
            }
        };
        let has_static_keys = config.links.iter().any(|link| link.static_sas().is_some());
        match read_gateway(&path) {
            Ok(files) => gateways.push(Rendered { name, files, has_static_keys }),
            Err(error) => errors.push(error),
        }
    }
    if gateways.is_empty() && errors.is_empty() {
        errors.push(RenderingError::Empty(rendering.to_owned()));
    }
    if errors.is_empty() { Ok(gateways) } else { Err(errors) }
}

fn read_gateway(folder: &Path) -> Result<Files, RenderingError> {
    let mut files = Files::default();
    for path in entries(folder)? {
        let name = path.file_name().and_then(|name| FileName::new(name.to_str()?)).filter(|_| path.is_file());
        let Some(name) = name else { return Err(RenderingError::FileName(path)) };
        let content = read_file(&path).map_err(|source| RenderingError::Read { path, source })?;
        let inserted = files.insert(name, content);
        inserted.map_err(|source| RenderingError::Files { path: folder.to_owned(), source })?;
    }
    Ok(files)
}

/// Paths in a folder, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, RenderingError> {
    let read = fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths: Vec<_> =
        read.map_err(|source| RenderingError::Read { path: folder.to_owned(), source })?;
    paths.sort();
    Ok(paths)
}

/// The content of a file, and no more than is too much of it. It is in memory once.
fn read_file(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut content = Zeroizing::new(vec![0; FILES_OCTETS + 1]);
    let mut file = File::open(path)?;
    let mut octets = 0;
    while octets < content.len() {
        match file.read(&mut content[octets..]) {
            Ok(0) => break,
            Ok(read) => octets += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Zeroizing::new(content[..octets].to_vec()))
}
