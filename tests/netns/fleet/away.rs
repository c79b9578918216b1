//! Three gateways of a fleet whose etcd is away when a rotation of their CAK comes due.

use std::fs;
use std::time::{Duration, Instant};

use testkit::etcd::Etcd;

use super::super::DEADLINE;
use super::super::mka::third;
use super::super::reload::while_they_talk;
use super::keys::Plant;

/// Time for an agent to come back, and for both steps of a rotation.
const COMES_BACK: Duration = Duration::from_secs(300);

impl Plant {
    /// Key identifier of the SAK that protects what a gateway sends.
    fn ki(&self, name: &str) -> Option<String> {
        let report = self.report(name);
        let mka = report.links[0].mka.as_ref().unwrap();
        mka.saks.iter().find(|sak| sak.transmits).map(|sak| sak.ki.clone())
    }

    /// Waits until all send under one SAK, and another one than this.
    fn another_sak(&self, names: &[&str], before: Option<&String>) -> String {
        let end = Instant::now() + DEADLINE;
        loop {
            let kis: Vec<_> = names.iter().map(|name| self.ki(name)).collect();
            if let Some(first) = kis[0].clone()
                && kis.iter().all(|ki| ki.as_ref() == Some(&first))
                && before != Some(&first)
            {
                return first;
            }
            assert!(Instant::now() < end, "not another one than {before:?}: {kis:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// SAKs roll on under the CAK that is there: nobody needs the directory for that. The rotation is made up for when it is back.
#[test]
fn a_rotation_that_comes_due_while_etcd_is_away_waits_for_it_and_no_frame_is_lost() {
    let names = ["a", "b", "c"];
    let mut plant = Plant::begun("group", &names);
    let mut etcd = Etcd::start(&plant.group.scratch.path().join("etcd"), None);
    plant.directory = etcd.address();
    let inventory = plant.path("inventory/plant.toml");
    let text = fs::read_to_string(&inventory).unwrap();
    fs::write(&inventory, text + "mka.rekey = \"30s\"\nrotate_every = \"90d\"\n").unwrap();
    plant.identify(&names);
    plant.publish();
    names.iter().for_each(|name| plant.fetch(name));
    let c = third(&plant.group.topology);
    let programs =
        names.map(|name| plant.run(name, if name == "c" { &c } else { plant.group.namespace(name) }));
    let old = plant.ckn();
    plant.under(&names, &old, 2);
    let mut agents = names.map(|name| plant.follow(name));
    plant.operator_sees(0, "c: version ");
    let timer = |wait: Duration| {
        let (inventory, to, seconds) =
            (plant.path("inventory"), plant.path("rendering"), wait.as_secs().to_string());
        plant.signs_within(wait + DEADLINE, &["rotate", "--due", &inventory, "--to", &to, "--wait", &seconds])
    };
    assert_eq!(timer(Duration::ZERO).stdout, "no CAK is due\n");

    etcd.kill();
    agents.iter_mut().for_each(|agent| drop(agent.wait_for_line("the gateway runs on", DEADLINE).unwrap()));
    plant.grow_older(91);
    let sent = while_they_talk(&plant.group.topology, || {
        // Twice, as a timer does it.
        for _ in 0..2 {
            let late = timer(Duration::ZERO);
            assert!(!late.status.success(), "{}{}", late.stdout, late.stderr);
            assert!(late.stderr.contains("is etcd running there?"), "{}{}", late.stdout, late.stderr);
        }
        let first = plant.another_sak(&names, None);
        plant.another_sak(&names, Some(&first));
        plant.under(&names, &old, 2);
    });
    println!("sent while etcd is away: {sent:?}, lost 0");
    assert!(sent.iter().all(|sent| *sent > 0));

    etcd.restart();
    let sent = while_they_talk(&plant.group.topology, || {
        let done = timer(COMES_BACK);
        assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
        assert!(done.stdout.contains("press: the old CAK ends\n"), "{}", done.stdout);
        let new = plant.ckn();
        assert_ne!(new, old);
        plant.under(&names, &new, 2);
        names.iter().for_each(|name| plant.until(name, "one CAK is left", |mka| mka.caks.len() == 1));
        assert_eq!(timer(Duration::ZERO).stdout, "no CAK is due\n");
        assert_eq!(plant.ckn(), new, "it was rolled once");
    });
    println!("sent through the rotation that was late: {sent:?}, lost 0");
    assert!(sent.iter().all(|sent| *sent > 0));
    for program in programs.into_iter().chain(agents) {
        assert!(program.terminate(DEADLINE).unwrap().status.success());
    }
}
