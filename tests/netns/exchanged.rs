//! Two boxes whose configurations were exchanged. Each would send under key and SCI of the other, from PN 1, and take its
//! own old frames for new ones: neither starts, neither takes it over while it runs, and put back all is as it was.

use lab::program::Output;
use lab::topology::Gateway;
use lab::{Shape, Topology};
use perf::demo::pair::{Choice, Scratch, Station, configure};

use super::start::{refused, run_in};
use super::{DEADLINE, EXPERIMENT, exchange, marked, program, reload};

const KEYS: [(&str, &str); 2] = [("00:01/1", "00:02/1"), ("a.key", "b.key")];

/// A box: its namespace, and a directory of its own with both keys, its configuration and its state.
struct Place<'t> {
    home: &'t Gateway,
    name: &'static str,
    scratch: Scratch,
    own: String,
}

impl<'t> Place<'t> {
    fn both(topology: &'t Topology) -> [Self; 2] {
        let made = Scratch::new().unwrap();
        configure(&made, &Choice::default()).unwrap();
        let homes = [(&topology.gateway_a, "a"), (&topology.gateway_b, "b")];
        homes.map(|(home, name)| {
            let scratch = Scratch::new().unwrap();
            for key in ["a.key", "b.key"] {
                std::fs::copy(made.path().join(key), scratch.path().join(key)).unwrap();
            }
            let text = std::fs::read_to_string(made.path().join(format!("{name}.toml"))).unwrap();
            let own = text.replace(&made.path().display().to_string(), &scratch.path().display().to_string());
            let place = Self { home, name, scratch, own };
            place.put_back();
            place
        })
    }

    fn write(&self, text: &str) {
        self.scratch.write(&format!("{}.toml", self.name), text).unwrap();
    }

    fn put_back(&self) {
        self.write(&self.own);
    }

    /// SCIs and key files are those of the other box.
    fn exchange(&self) {
        self.write_with(&KEYS);
    }

    /// The whole configuration is the other box's, which has a state directory of its own name.
    fn exchange_whole(&self) {
        self.write_with(&[&KEYS[..], &[("state-a", "state-b"), ("name = \"a\"", "name = \"b\"")]].concat());
    }

    /// Its own configuration with these words exchanged.
    fn write_with(&self, pairs: &[(&str, &str)]) {
        let exchanged = pairs.iter().fold(self.own.clone(), |text, (one, other)| {
            text.replace(one, "between").replace(other, one).replace("between", other)
        });
        self.write(&exchanged);
    }

    fn start(&self) -> Station {
        Station::start(program(), &self.home.namespace, &self.scratch, self.name).unwrap()
    }

    fn check(&self) -> Output {
        let config = self.scratch.path().join(format!("{}.toml", self.name)).display().to_string();
        let check = [program().to_str().unwrap(), "check", &config];
        self.home.namespace.spawn(&check).unwrap().wait(DEADLINE).unwrap()
    }

    fn is_refused(&self, says: &str) {
        let file = format!("{}.toml:", self.name);
        let words = [&file, "press", says, "exchanged; put them back, or make new keys on both"];
        refused(&run_in(&self.home.namespace, &self.scratch, self.name), 2, &words);
        refused(&self.check(), 2, &words);
    }
}

#[test]
fn boxes_whose_configurations_were_exchanged_do_not_start() {
    let topology = Topology::build(&Shape::default()).unwrap();
    let mut places = Place::both(&topology);
    // The peer's table is the last one.
    places[1].own += "replay_floor = \"off\"\n";
    places[1].put_back();
    // No frame is sent: what counts is that it could have been.
    for place in &places {
        place.start().stop().unwrap();
    }
    places.iter().for_each(Place::exchange);
    places.iter().for_each(|place| place.is_refused("floors"));
    places.iter().for_each(Place::exchange_whole);
    places.iter().for_each(|place| place.is_refused("used"));
    // Put back all is well, and what was tried in vain has cost nothing.
    places.iter().for_each(Place::put_back);
    let stations = [places[0].start(), places[1].start()];
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    let talk = |seed| {
        exchange(a, b, &[marked(b.mac, a.mac, EXPERIMENT, 90, seed)]);
        exchange(b, a, &[marked(a.mac, b.mac, EXPERIMENT, 90, seed)]);
    };
    talk(1);
    for place in &places {
        place.exchange();
        let refusal = reload::reload(&place.scratch, place.name);
        refused(&refusal, 2, &["not reloaded"]);
        assert!(refusal.stderr.contains("were exchanged; put them back"), "{}", refusal.stderr);
    }
    talk(2);
    for place in &places {
        place.put_back();
        reload::reloaded(&place.scratch, place.name);
    }
    talk(3);
    for station in stations {
        station.stop().unwrap();
    }
    // Without the state it is the marks beside the keys that know.
    for place in &places {
        std::fs::remove_dir_all(place.scratch.path().join(format!("state-{}", place.name))).unwrap();
        place.exchange();
        place.is_refused("used");
    }
}
