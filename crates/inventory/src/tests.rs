mod garbage;
mod imports;
mod layouts;
mod mistakes;
mod plans;
mod renderings;
mod renewals;
mod revocations;
mod schedules;

use std::path::{Path, PathBuf};

use testkit::TestDirectory;

use crate::{Inventory, KEYS, KeyFolder, Rendering, Written, write};

/// The files of the golden inventory.
const GOLDEN: [(&str, &str); 2] = [
    ("gateways.toml", include_str!("../tests/golden/gateways.toml")),
    ("shared.toml", include_str!("../tests/golden/shared.toml")),
];

/// A folder with an inventory.
struct Place(TestDirectory);

impl Place {
    fn golden(name: &str) -> Self {
        Self::of(name, &GOLDEN)
    }

    fn of(name: &str, files: &[(&str, &str)]) -> Self {
        let place = Self(TestDirectory::new(name));
        std::fs::create_dir(place.inventory()).unwrap();
        files.iter().for_each(|(file, text)| place.put(file, text));
        place
    }

    fn put(&self, file: &str, text: &str) {
        std::fs::write(self.inventory().join(file), text).unwrap();
    }

    fn inventory(&self) -> PathBuf {
        self.0.path().join("inventory")
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("rendering")
    }

    /// Renders it in memory.
    fn rendering(&self) -> Result<(Rendering, KeyFolder), Vec<String>> {
        let mut keys = KeyFolder::new(self.inventory().join(KEYS));
        let lines = |findings: Vec<config::Finding>| {
            let folder = format!("{}/", self.inventory().display());
            findings.iter().map(|finding| finding.to_string().replace(&folder, "")).collect::<Vec<_>>()
        };
        let rendering = Inventory::read(&self.inventory()).and_then(|inventory| inventory.render(&mut keys));
        rendering.map(|rendering| (rendering, keys)).map_err(lines)
    }

    /// Renders it to its folder.
    fn render(&self) -> Result<Written, Vec<String>> {
        let (rendering, mut keys) = self.rendering()?;
        keys.make().unwrap();
        Ok(write(&rendering, &self.out()).unwrap())
    }
}

/// Each file below a folder with its octets and mode, in order.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>, u32)> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
        } else {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
            all.push((path.clone(), std::fs::read(&path).unwrap(), mode));
        }
    }
    all.sort();
    all
}
