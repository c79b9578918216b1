//! One start of a gateway: control's part of the link, and a worker whose turns the world takes.

use std::collections::VecDeque;

use dataplane::job::{Datapath, Datapaths, Job};
use dataplane::worker::ManualWorker;
use mka::{Announced, OnPeerLoss, SuiteRule, SuiteTiming};
use netdev::memory::MemoryPort;
use netdev::pool::{ChunkOctets, Pool};
use secy::{ClearVlan, SciInclusion, SecY, ValidateFrames};
use suite::CipherSuite;
use suite::mka::Cak;
use wire::MacAddr;
use wire::mkpdu::{Capability, Confidentiality};

use super::super::*;
use crate::jobs::of_kind;
use crate::sa_changes::SaChange;

/// Frames that a port holds.
const PORT: usize = 256;
const MTU: usize = 1532;
const CAK: [u8; 16] = [1; 16];

/// Settings that all gateways of a world have.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) suite: CipherSuite,
    pub(super) delay_protect: bool,
    pub(super) replay_window: u32,
}

/// One start of a gateway.
pub(super) struct Start {
    agreement: Agreement,
    handle: WorkerHandle,
    held: ManualWorker,
    datapaths: Datapaths,
    /// Jobs that are done, on their way back.
    done: VecDeque<Box<dyn Job>>,
    pub(super) machine: MemoryPort,
    pub(super) wire: MemoryPort,
    /// SAs that were installed, by AN.
    pub(super) installed: [u64; An::COUNT],
}

impl Start {
    pub(super) fn new(number: u8, plan: Plan, seed: &[u8; 32], now: Instant, moment: wire::Instant) -> Self {
        let pipeline = pipeline(number, plan);
        let ((machine, plain), (wire, protected)) = (MemoryPort::pair(PORT), MemoryPort::pair(PORT));
        let pool = Pool::new(ChunkOctets::Octets2048, PORT).expect("a pool");
        let mut link = Link::new(pool, Box::new(plain), Box::new(protected), pipeline);
        let agreement = Agreement::begin(now, moment, &mut link, key_agreement(number, plan), seed);
        let (handle, held) = WorkerHandle::manual().expect("a socket pair");
        let mut datapaths = Datapaths::default();
        datapaths.insert(0, Datapath::Link(Box::new(link)));
        let (done, installed) = (VecDeque::new(), [0; An::COUNT]);
        Self { agreement, handle, held, datapaths, done, machine, wire, installed }
    }

    /// Another program goes on in its place, unless something is under way. What the worker has said meanwhile is lost.
    pub(super) fn upgrade(
        &mut self,
        number: u8,
        plan: Plan,
        seed: &[u8; 32],
        (now, moment): (Instant, wire::Instant),
    ) -> Result<bool, String> {
        // The link leaves behind all jobs that were given before.
        self.run_jobs();
        let Some(Datapath::Link(mut link)) = self.datapaths.remove(0) else {
            return Err("there is no link".into());
        };
        let passed = self.agreement.pass_on(&link.pipeline().secy);
        let Some(passed) = passed else {
            self.datapaths.insert(0, Datapath::Link(link));
            return Ok(false);
        };
        let text = serde_json::to_string(&passed).map_err(|error| error.to_string())?;
        self.find_no_secret(&text)?;
        let passed = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let ports = link.close().ok_or("it has ports")?;
        let mut next = Link::closed(pipeline(number, plan));
        self.agreement = Agreement::go_on(now, moment, &mut next, key_agreement(number, plan), passed, seed)?;
        next.go_on(&link.words()).map_err(|error| error.to_string())?;
        next.open(ports);
        let (handle, held) = WorkerHandle::manual().map_err(|error| error.to_string())?;
        (self.handle, self.held) = (handle, held);
        self.datapaths.insert(0, Datapath::Link(Box::new(next)));
        self.done.clear();
        Ok(true)
    }

    /// Checks that neither the CAK nor a SAK is in the state passed on, in decimal or in hexadecimal digits.
    fn find_no_secret(&self, text: &str) -> Result<(), String> {
        let passed: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut secrets = vec![CAK.to_vec()];
        for sak in passed["sas"]["saks"].as_array().ok_or("there is no list of SAKs")? {
            let parts = serde_json::json!([sak["ki"], sak["suite"], sak["wrapped"]]);
            let (ki, suite, wrapped): (Ki, CipherSuite, Vec<u8>) =
                serde_json::from_value(parts).map_err(|error| error.to_string())?;
            let sak = self.agreement.kay.unwrap_sak(ki, suite, &wrapped).ok_or("a SAK is not wrapped")?;
            secrets.push(sak.octets().to_vec());
        }
        let text = text.to_lowercase();
        let is_there = |secret: &Vec<u8>| {
            let decimal = secret.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
            let hexadecimal = secret.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().concat();
            text.contains(&decimal) || text.contains(&hexadecimal)
        };
        if secrets.iter().any(is_there) { Err("a secret is passed on".into()) } else { Ok(()) }
    }

    /// Control's turn. Error: what the worker could not do.
    pub(super) fn turn_control(
        &mut self,
        now: Instant,
        moment: wire::Instant,
        wish: bool,
    ) -> Result<(), String> {
        let Self { agreement, handle, done, .. } = self;
        let mut notices = Vec::new();
        let mut around = Context {
            now: moment,
            worker: handle,
            slot: 0,
            link: "link",
            kernel: None,
            notices: &mut notices,
        };
        while let Some(job) = done.pop_front() {
            match of_kind::<LinkJob<SaChanges>>(job) {
                Ok(job) => {
                    if let Some(error) = job.data.refused {
                        return Err(format!("{error:?}"));
                    }
                    agreement.sas_changed(job.data, &mut around);
                }
                Err(other) => {
                    let pns = of_kind::<LinkJob<NextPns>>(other).map_err(|_| "a job of no kind")?;
                    agreement.next_pns(&pns.data, &mut around);
                }
            }
        }
        if wish {
            agreement.rekey(&mut around);
        }
        agreement.turn(now, &mut around);
        Ok(())
    }

    /// The worker's turn. True if it has something for control.
    pub(super) fn turn_worker(&mut self, now: Instant, moment: wire::Instant) -> bool {
        let waiting = self.agreement.mailbox.waiting();
        self.run_jobs();
        if let Some(link) = self.datapaths.link(0) {
            while link.turn(moment, now).0 > 0 {}
        }
        !self.done.is_empty() || self.agreement.mailbox.waiting() > waiting
    }

    fn run_jobs(&mut self) {
        while let Some(job) = self.held.job() {
            let mut job: Box<dyn Job> = match of_kind::<LinkJob<SaChanges>>(job) {
                Ok(job) => {
                    for change in &job.data.list {
                        if let SaChange::InstallTransmit { sa: Some(sa) } = change {
                            self.installed[sa.an().index()] += 1;
                        }
                    }
                    job
                }
                Err(other) => other,
            };
            job.run(&mut self.datapaths);
            self.done.push_back(job);
        }
    }
}

fn pipeline(number: u8, plan: Plan) -> Pipeline {
    let secy = secy::Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        mtu: MTU,
        reassemble: false,
    };
    Pipeline::new(SecY::new(settings(number, plan).sci, secy), &[], None)
}

fn key_agreement(number: u8, plan: Plan) -> KeyAgreement {
    let (ckn, cak) = (Ckn::new(&[1]).expect("a name"), Cak::new(&CAK).expect("a CAK"));
    KeyAgreement {
        settings: settings(number, plan),
        caks: vec![CakEntry { ckn, cak }],
        replay_window: plan.replay_window,
        hold: Duration::ZERO,
        express_classes: ExpressClasses::DEFAULT,
        padding: FrameSizes::default(),
        antedate: false,
        beside_stations: false,
        record: None,
    }
}

fn settings(number: u8, plan: Plan) -> Settings {
    let source = MacAddr([2, 0, 0, 0, 0, number]);
    Settings {
        sci: Sci::new(source, 1),
        source,
        destination: MacAddr([1, 0x80, 0xc2, 0, 0, 3]),
        priority: 16,
        capability: Capability::Offsets,
        confidentiality: Confidentiality::Zero,
        suite: SuiteRule::Only(plan.suite),
        announced: Announced {
            reassembles: false,
            splits: false,
            carries_whole: true,
            in_kernel: false,
            express: false,
            takes_padded: false,
            largest_sdu: 1518,
            name: None,
            suites: vec![SuiteTiming { suite: plan.suite, nanoseconds: 100 }],
        },
        fragment: false,
        concatenate: false,
        pad: false,
        delay_protect: plan.delay_protect,
        sak_lifetime: None,
        on_peer_loss: OnPeerLoss::Block,
        peers: vec![],
        accept_integrity: false,
    }
}
