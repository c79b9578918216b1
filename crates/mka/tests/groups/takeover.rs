//! A key server of another make takes a group over whose members it does not all hear yet.

use wire::{An, Ki};

use crate::scripted::{Alone, Scripted};
use crate::station::{ms, seconds, settings};

/// The KaY as key server with one member that protects with its SAK, and a new key server that hears the KaY alone: it has
/// handed a SAK out, and protects with it.
struct Takeover {
    alone: Alone,
    member: Scripted,
    server: Scripted,
    /// The SAK of the KaY, and that of the new key server.
    before: Ki,
    ki: Ki,
}

impl Takeover {
    fn begin() -> Self {
        let (mut alone, mut member, mut server) =
            (Alone::new(settings(0)), Scripted::new(2), Scripted::new(3));
        (member.basic.priority, member.basic.key_server) = (200, false);
        alone.meets(&mut member);
        alone.pass(ms(500));
        let before = *alone.installed().last().expect("a SAK for the member");
        member.uses(before, An::ALL[1], true, true);
        alone.hears(&member.mkpdu());
        alone.pass(ms(500));

        alone.hears(&server.mkpdu());
        alone.pass(ms(10));
        server.hears(alone.last_sent());
        server.hand_out(1, 0, 7);
        let ki = Ki { server: server.basic.mi, kn: 1 };
        alone.hears(&server.mkpdu());
        alone.pass(ms(10));
        assert_eq!(alone.installed().last(), Some(&ki));
        server.uses(ki, An::ALL[0], true, true);
        alone.hears(&server.mkpdu());
        alone.pass(ms(10));
        Self { alone, member, server, before, ki }
    }

    fn transmits(&self) -> bool {
        let saks = self.alone.kay.status(self.alone.now).saks;
        saks.iter().any(|sak| sak.ki == self.ki && sak.transmits)
    }

    /// The member still protects with the SAK before, and says whether it accepts the new one.
    fn member_says(&mut self, accepts: bool) {
        let last = self.alone.last_sent().to_vec();
        self.member.hears(&last);
        let of_server = self.server.mkpdu();
        self.member.hears(&of_server);
        if accepts {
            self.member.uses(self.ki, An::ALL[0], false, true);
        } else {
            self.member.uses(self.before, An::ALL[1], true, true);
        }
        self.alone.hears(&self.member.mkpdu());
        self.alone.pass(ms(10));
    }
}

/// The member has no other key than that of the SAK before: frames under the new one would be lost.
#[test]
fn frames_go_on_under_the_sak_before_until_all_its_users_accept_the_new_one() {
    let mut group = Takeover::begin();
    assert!(!group.transmits(), "the member cannot verify frames under it");
    group.member_says(false);
    group.alone.pass(ms(500));
    assert!(!group.transmits());
    group.member_says(true);
    assert!(group.transmits(), "nobody needs the SAK before");
}

/// Others end reception under the SAK before 3 s after they protect with the next.
#[test]
fn a_member_that_never_accepts_the_new_sak_is_not_waited_for_long() {
    let mut group = Takeover::begin();
    group.alone.pass(ms(700));
    group.member_says(false);
    assert!(!group.transmits());
    group.alone.pass(ms(200));
    assert!(group.transmits());
    // The SAK before still verifies what that member sends.
    group.alone.pass(seconds(1));
    assert_eq!(group.alone.kay.status(group.alone.now).saks.len(), 2);
}
