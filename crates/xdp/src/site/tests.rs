//! Keys of a site's lanes are in its maps as long as their lanes are open. Root, as all that loads programs.

use std::os::fd::AsFd;

use aya::maps::{Map, MapData};
use suite::tunnel::{EPOCH_SECRET_OCTETS, EpochSecret, LaneKey, TokenKey};

use super::*;

const LANES: u32 = 4;
/// `struct receive_lane`.
const RECEIVE_LANE: usize = 104;

/// Maps with secrets, which outlive the site as long as somebody has its programs.
fn maps(site: &Site) -> [Map; 2] {
    ["transmit_lanes", "receive_lanes"].map(|name| {
        let Map::Array(data) = site.programs.map_ref(name).unwrap() else { panic!("{name}") };
        Map::Array(MapData::from_fd(data.fd().as_fd().try_clone_to_owned().unwrap()).unwrap())
    })
}

/// Whether a map has any of the words of a key in one of its values.
fn has_key<const N: usize>(map: &Map, key: &LaneKey) -> bool {
    let words = layout::transmit_lane(key);
    let words = words.octets()[8..48].as_chunks::<8>().0;
    let values = Array::<_, [u8; N]>::try_from(map).unwrap();
    (0..values.len()).any(|lane| {
        let value = values.get(&lane, 0).unwrap();
        value.as_chunks::<8>().0.iter().any(|word| words.contains(word))
    })
}

#[test]
fn no_key_is_left_in_a_map_when_its_lane_is_closed() {
    let room = Room { peers: 1, lanes: LANES, watched: 1, paths: 1, flows: 8, stations: 8 };
    let settings = Settings {
        window: 64,
        lan_frame: 1500,
        port: 4789,
        station_age: Duration::from_secs(300),
        quiet: Duration::from_millis(1),
        token_key: TokenKey::new(&[0; 16]),
    };
    let mut site = Site::load(&room, &settings, Unclaimed::Drop).unwrap();
    let maps = maps(&site);
    let keys = [1, 2].map(|secret| EpochSecret::new(&[secret; EPOCH_SECRET_OCTETS]).lane_key(1));
    let has_keys = |which: usize| {
        let key = &keys[which];
        [has_key::<{ layout::TRANSMIT_LANE }>(&maps[0], key), has_key::<RECEIVE_LANE>(&maps[1], key)]
    };
    let open = |site: &mut Site| {
        for (lane, key) in (0..).zip(&keys) {
            site.open_transmit(lane, key).unwrap();
            site.open_receive(lane, 0, key).unwrap();
            site.fill(lane).unwrap();
        }
        assert_eq!([0, 1].map(has_keys), [[true; 2]; 2]);
    };
    // A lane that is only watched, behind them.
    let watched = EpochSecret::new(&[3; EPOCH_SECRET_OCTETS]).lane_key(0);
    let is_watched = || has_key::<RECEIVE_LANE>(&maps[1], &watched);
    site.watch_receive(LANES, &watched).unwrap();
    assert!(is_watched());
    site.close_receive(LANES).unwrap();
    assert!(!is_watched());
    site.watch_receive(LANES, &watched).unwrap();
    open(&mut site);
    site.close_transmit(0).unwrap();
    site.close_receive(0).unwrap();
    assert_eq!([0, 1].map(has_keys), [[false; 2], [true; 2]]);
    site.close_transmit(1).unwrap();
    site.close_receive(1).unwrap();
    assert_eq!([0, 1].map(has_keys), [[false; 2]; 2]);
    open(&mut site);
    drop(site);
    assert!(!is_watched());
    assert_eq!([0, 1].map(has_keys), [[false; 2]; 2], "behind the site");
}
