//! `init link`: a link with MKA under a CAK that is made here, or came from the other box.

use suite::Secret;

use super::bundle::Bundle;
use super::{Files, InitError, Setting, quoted};
use crate::keygen::{self, KeyLength};
use config::key_file::fingerprint;

/// The suite of a link whose frames are to go through the kernel.
const KERNEL_SUITE: &str = "chacha20-poly1305";

/// Answers for a link.
#[derive(Clone, Debug)]
pub struct LinkAnswers {
    /// Of the gateway, the link and the files.
    pub name: String,
    /// The interface towards the machine.
    pub plain: String,
    /// The interface towards the network.
    pub protected: String,
    /// Its frames are to go through the kernel. On another box the bundle says so.
    pub kernel: bool,
}

/// Sets a link up, on the first box or, with the bundle of the first one, on another. What was done and what comes
/// next, a line each.
///
/// # Errors
/// [`InitError`]; then there are no new files.
pub fn link(
    setting: &Setting,
    answers: &LinkAnswers,
    join: Option<&Bundle>,
) -> Result<Vec<String>, InitError> {
    let endings: &[&str] = if join.is_some() { &["toml", "cak"] } else { &["toml", "cak", "bundle"] };
    let mut files = Files::new(setting, &answers.name, endings)?;
    let cak = Cak::drawn_or_of(join)?;
    cak.write(&mut files, "cak", "", &cak.what())?;
    let LinkAnswers { name, plain, protected, kernel } = answers;
    let own = kernel.then_some(KERNEL_SUITE);
    let suite = join.map_or(own, |bundle| bundle.values("suite").next());
    let text = format!("{}\n{}", files.gateway(), section(name, plain, protected, suite, &files));
    files.text("toml", &text, "the configuration")?;
    if join.is_none() {
        let suite = suite.map_or(String::new(), |suite| format!("suite = {suite}\n"));
        let head = format!(
            "# Frameward: the other box's part of link {name}. A SECRET: carry it over a channel that is itself\n\
             # secret, and delete it when both boxes run.\ninit = link\nname = {name}\n{suite}"
        );
        cak.write(&mut files, "bundle", &head, "a SECRET, for the other box")?;
    }
    files.check()?;
    if suite.is_some() {
        files.say(format!(
            "for the kernel: the MTU of {protected}, and of every switch on the path, has to be that of the machine plus 36: ip link set {protected} mtu 1536; check says which way frames go"
        ));
    }
    finish(files, "link", "--plain IF --protected IF", join)
}

/// The words at the end.
pub(super) fn finish(
    mut files: Files<'_>,
    kind: &str,
    options: &str,
    join: Option<&Bundle>,
) -> Result<Vec<String>, InitError> {
    files.say(files.next_here());
    let bundle = files.path("bundle");
    files.say(match join {
        None => format!(
            "next, on the other box: carry {} there over a secret channel; frameward init {kind} --join {}.bundle {options}; then delete it on both",
            bundle.display(),
            files.name
        ),
        Some(bundle) => format!("then delete {}: it is a SECRET, and is no longer needed", bundle.path().display()),
    });
    files.keep()
}

/// `[[link]]` under [link.mka], whose CAK is in the file of its gateway. Without a suite the key server chooses one.
pub(super) fn section(
    name: &str,
    plain: &str,
    protected: &str,
    suite: Option<&str>,
    files: &Files<'_>,
) -> String {
    let suite = suite.map_or(String::new(), |suite| {
        format!(
            "suite     = {}   # the same on both boxes; with it frames can stay in the kernel\n",
            quoted(suite)
        )
    });
    format!(
        "[[link]]\nname      = {}\nplain     = {}   # towards the machine\nprotected = {}   # towards the insecure network\n{suite}\n\
         [link.mka]\ncak_file = {}\n",
        quoted(name),
        quoted(plain),
        quoted(protected),
        quoted(&format!("{}.cak", files.name))
    )
}

/// A CAK and its name.
pub(super) struct Cak {
    ckn: Secret,
    key: Secret,
}

impl Cak {
    pub(super) fn drawn_or_of(join: Option<&Bundle>) -> Result<Self, InitError> {
        if let Some(bundle) = join {
            return Ok(Self { ckn: bundle.octets("ckn")?, key: bundle.octets("cak")? });
        }
        let (buffer, octets) = keygen::draw(KeyLength::Bits256)?;
        let key = Secret::new(&buffer[..octets]);
        Ok(Self { ckn: Secret::new(keygen::draw_ckn()?.octets()), key })
    }

    pub(super) fn what(&self) -> String {
        format!("the CAK, fingerprint {}", fingerprint(self.key.octets()))
    }

    /// Its two lines.
    pub(super) fn lines<'c>(&'c self, ckn: &'c str) -> [(&'c str, &'c [u8]); 2] {
        [(ckn, self.ckn.octets()), ("cak = ", self.key.octets())]
    }

    /// A file with `head` and the two lines.
    pub(super) fn write(
        &self,
        files: &mut Files<'_>,
        ending: &str,
        head: &str,
        what: &str,
    ) -> Result<(), InitError> {
        files.secret(ending, &self.lines(&format!("{head}ckn = ")), what)
    }
}
