use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::screen::draw;
use super::state::{Sort, State};
use crate::cockpit::overview::{
    ConnectionView, GatewayView, Overview, PartView, PlantView, State as Stands, Verdict,
};
use crate::cockpit::{DirectoryView, Seen};

const NOW: u64 = 1_800_000_000;

fn gateway(name: &str, plant: &str, state: Stands, verdict: Verdict) -> GatewayView {
    let is_well = verdict == Verdict::Good;
    GatewayView {
        name: name.to_owned(),
        plant: Some(plant.to_owned()),
        state,
        verdict,
        cause: if is_well { String::new() } else { format!("{name} has a cause") },
        cure: if is_well { String::new() } else { format!("cure {name}") },
        heard: (state != Stands::NeverHeard).then_some(NOW - 30),
        in_use: Some(1_799_990_000),
        published: Some(1_799_990_000),
        parts: vec![PartView {
            kind: "link".to_owned(),
            name: format!("line-{name}"),
            verdict,
            words: if is_well { "protecting" } else { "keys differ" }.to_owned(),
        }],
        parts_left_out: 0,
        page: false,
    }
}

fn fleet(gateways: Vec<GatewayView>) -> Seen {
    shown(gateways, None)
}

fn shown(gateways: Vec<GatewayView>, away: Option<String>) -> Seen {
    let names = gateways.iter().map(|one| one.name.clone()).collect();
    let verdict = gateways.iter().map(|one| one.verdict).max().unwrap_or(Verdict::Good);
    let ring = ConnectionView {
        kind: "group".to_owned(),
        name: "ring".to_owned(),
        gateways: names,
        verdict,
        words: "crane: keys differ".to_owned(),
    };
    let plants = [("dresden", Verdict::Good), ("ulm", verdict)];
    let plants = plants.map(|(name, verdict)| PlantView { name: name.to_owned(), gateways: 2, verdict });
    let overview = Overview {
        fleet: "1b9f".to_owned(),
        time: NOW,
        verdict,
        gateways,
        connections: vec![ring],
        plants: plants.into(),
    };
    let directory = DirectoryView { answered: Some(NOW), away };
    Seen::Shown { revision: 1, overview: Box::new(overview), directory, problems: Vec::new() }
}

/// Four gateways, in the order of their names.
fn four() -> Vec<GatewayView> {
    vec![
        gateway("cabinet", "ulm", Stands::Waiting, Verdict::Idle),
        gateway("crane", "dresden", Stands::Confirmed, Verdict::Alarm),
        gateway("paint", "dresden", Stands::Confirmed, Verdict::Good),
        gateway("press", "ulm", Stands::NeverHeard, Verdict::Unknown),
    ]
}

fn seen() -> State {
    let mut state = State::default();
    state.take(fleet(four()));
    state
}

/// Presses keys: letters, and words in brackets.
fn press(state: &mut State, keys: &str) -> bool {
    let mut ended = false;
    let mut rest = keys;
    while let Some(first) = rest.chars().next() {
        let named = [
            ("[enter]", KeyCode::Enter, KeyModifiers::NONE),
            ("[esc]", KeyCode::Esc, KeyModifiers::NONE),
            ("[back]", KeyCode::Backspace, KeyModifiers::NONE),
            ("[down]", KeyCode::Down, KeyModifiers::NONE),
            ("[end]", KeyCode::End, KeyModifiers::NONE),
            ("[home]", KeyCode::Home, KeyModifiers::NONE),
            ("[pagedown]", KeyCode::PageDown, KeyModifiers::NONE),
            ("[ctrl-c]", KeyCode::Char('c'), KeyModifiers::CONTROL),
            ("[ctrl-u]", KeyCode::Char('u'), KeyModifiers::CONTROL),
        ];
        let key = named.into_iter().find(|(name, ..)| rest.starts_with(name));
        let (length, code, modifiers) = key.map_or(
            (first.len_utf8(), KeyCode::Char(first), KeyModifiers::NONE),
            |(name, code, modifiers)| (name.len(), code, modifiers),
        );
        ended = state.press(KeyEvent::new(code, modifiers));
        rest = rest.get(length..).unwrap_or_default();
    }
    ended
}

fn rows(state: &State) -> Vec<&str> {
    (0..state.rows.len()).filter_map(|row| Some(state.gateway(row)?.name.as_str())).collect()
}

fn chosen(state: &State) -> &str {
    state.chosen().map_or("", |one| one.name.as_str())
}

#[test]
fn keys_choose_search_filter_and_sort() {
    for (keys, shown, choice) in [
        ("", &["crane", "press", "cabinet", "paint"][..], "crane"),
        ("j", &["crane", "press", "cabinet", "paint"], "press"),
        ("[down][down][down][down][down]", &["crane", "press", "cabinet", "paint"], "paint"),
        ("[end]k", &["crane", "press", "cabinet", "paint"], "cabinet"),
        ("[end][home]", &["crane", "press", "cabinet", "paint"], "crane"),
        ("r", &["paint", "cabinet", "press", "crane"], "paint"),
        ("s", &["cabinet", "crane", "paint", "press"], "cabinet"),
        ("ss", &["crane", "paint", "cabinet", "press"], "crane"),
        ("sss", &["press", "cabinet", "crane", "paint"], "press"),
        ("ssss", &["crane", "press", "cabinet", "paint"], "crane"),
        ("f", &["crane", "press"], "crane"),
        ("ff", &["crane", "press", "cabinet", "paint"], "crane"),
        // Letters of commands are letters while a search is typed.
        ("/qs", &[], ""),
        ("/PRESS", &["press"], "press"),
        // In any order, and in what its parts say.
        ("/differ dresden", &["crane"], "crane"),
        ("/never", &["press"], "press"),
        ("/pressx[back]", &["press"], "press"),
        ("/none[ctrl-u]", &["crane", "press", "cabinet", "paint"], "crane"),
        ("/press[esc]", &["crane", "press", "cabinet", "paint"], "crane"),
        ("/ulm[enter]j", &["press", "cabinet"], "cabinet"),
        ("/ulm[enter]f[esc]", &["crane", "press", "cabinet", "paint"], "crane"),
    ] {
        let mut state = seen();
        assert!(!press(&mut state, keys), "{keys}");
        assert_eq!((rows(&state).as_slice(), chosen(&state)), (shown, choice), "{keys}");
    }
    for keys in ["q", "[ctrl-c]", "/x[ctrl-c]", "/x[enter]q"] {
        assert!(press(&mut seen(), keys), "{keys}");
    }
}

#[test]
fn an_open_gateway_closes_before_a_search_is_forgotten() {
    let mut state = seen();
    press(&mut state, "/crane[enter][enter]");
    assert!(state.is_open);
    press(&mut state, "[esc]");
    assert!(!state.is_open && state.search == "crane");
    press(&mut state, "[esc]");
    assert_eq!((state.search.as_str(), rows(&state).len()), ("", 4));
    press(&mut state, &format!("/{}", "x".repeat(300)));
    assert_eq!(state.search.len(), 80, "bounded");
}

#[test]
fn the_chosen_gateway_stays_chosen_when_others_change() {
    let mut state = seen();
    press(&mut state, "jj");
    assert_eq!(chosen(&state), "cabinet");
    let mut gateways = four();
    for one in &mut gateways {
        one.verdict = Verdict::Good;
    }
    state.take(fleet(gateways.clone()));
    assert_eq!((rows(&state)[0], chosen(&state)), ("cabinet", "cabinet"));
    // It is gone: the choice stays where it was, and inside.
    state.take(fleet(gateways.split_off(1)));
    assert_eq!(chosen(&state), "crane");
    state.take(fleet(Vec::new()));
    assert_eq!((chosen(&state), rows(&state).len()), ("", 0));
    press(&mut state, "j[enter][pagedown][end]");
    assert_eq!(drawn(&mut state, 80, 24).len(), 24);
    assert_eq!(state.sort, Sort::Verdict);
}

fn drawn(state: &mut State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, NOW, true)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(row).collect()
}

#[test]
fn a_fleet_on_the_screen() {
    let mut state = seen();
    press(&mut state, "[enter]");
    assert_eq!(
        drawn(&mut state, 120, 16),
        [
            "fleet  live  2 plants, operator 1b9f",
            "  ! 1 of 4 gateways fine; 1 idle or waiting; 2 need somebody: 1 with a part that is not well, 1 never heard",
            "    crane: crane has a cause; cure crane",
            "VERDICT     GATEWAY                    PLANT         STATE       HEARD            WHAT IS WRONG",
            "! ALARM     crane                      dresden       confirmed   30 seconds ago   crane has a cause",
            "? unknown   press                      ulm           never heard never            press has a cause",
            "- idle      cabinet                    ulm           waiting     30 seconds ago   cabinet has a cause",
            "+ fine      paint                      dresden       confirmed   30 seconds ago",
            "",
            "",
            "------------------------------------------------------------------------------------------------------------------------",
            "crane  ALARM  confirmed, plant dresden, version 1799990000, heard 30 seconds ago",
            "  ! crane has a cause; cure crane",
            "  ! link line-crane                keys differ",
            "  ! group ring                     with cabinet, paint, press: crane: keys differ",
            "4 shown, by verdict   q quits, / searches, f needs somebody, s sorts, r turns, Enter opens",
        ]
    );
}

#[test]
fn it_fits_every_size() {
    for (width, height) in [(1, 1), (10, 3), (40, 10), (63, 24), (80, 24), (300, 100)] {
        let mut state = seen();
        press(&mut state, "[enter]");
        assert_eq!(drawn(&mut state, width, height).len(), usize::from(height));
    }
    // A narrow one has the names, and what is wrong.
    let narrow = drawn(&mut seen(), 60, 12).join("\n");
    assert!(narrow.contains("crane") && narrow.contains("crane has a c"), "{narrow}");
    assert!(!narrow.contains("PLANT"), "{narrow}");
}

#[test]
fn of_thousands_those_around_the_chosen_one_are_drawn() {
    let gateways =
        (0..5000).map(|number| gateway(&format!("g{number:04}"), "ulm", Stands::Confirmed, Verdict::Good));
    let mut state = State::default();
    state.take(fleet(gateways.collect()));
    assert!(drawn(&mut state, 120, 24).join("\n").contains("5000 of 5000 gateways fine"));
    press(&mut state, "[end]");
    let last = drawn(&mut state, 120, 24);
    assert!(last[22].contains("g4999") && last[4].contains("g4981"), "{last:#?}");
    press(&mut state, "[home]");
    assert!(drawn(&mut state, 120, 24).join("\n").contains("g0000"));
}

#[test]
fn a_silent_directory_is_told_and_what_was_known_stays() {
    let mut state = State::default();
    assert!(drawn(&mut state, 80, 5)[0].starts_with("fleet  asking"));
    state.take(Seen::Waiting(Some("10.0.0.1 does not answer; see that it runs".to_owned())));
    let screen = drawn(&mut state, 80, 5);
    assert!(screen[0].contains("NO ANSWER") && screen[1].contains("10.0.0.1 does not answer"), "{screen:#?}");
    state.take(fleet(four()));
    assert!(drawn(&mut state, 80, 10)[0].contains("live"));
    state.take(Seen::Same);
    assert!(drawn(&mut state, 80, 10)[0].contains("live"));
    state.take(shown(four(), Some("gone".to_owned())));
    let screen = drawn(&mut state, 80, 12).join("\n");
    assert!(screen.contains("NO ANSWER") && screen.contains("crane"), "{screen}");
}

#[test]
fn no_control_character_of_others_reaches_the_terminal() {
    let hostile = "\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}1m\u{202e}";
    let mut one = gateway("press", "ulm", Stands::Refused, Verdict::Alarm);
    one.plant = Some(format!("ulm{hostile}"));
    one.cause = format!("refused: {hostile}enp1s0\nline");
    one.cure = hostile.to_owned();
    one.parts[0].words = hostile.to_owned();
    let mut state = State::default();
    state.take(fleet(vec![one]));
    if let Some(overview) = &mut state.overview {
        overview.connections[0].words = hostile.to_owned();
        overview.fleet = hostile.to_owned();
    }
    state.problems = vec![hostile.to_owned()];
    press(&mut state, &format!("[enter]/{hostile}[enter]"));
    for width in [60, 120] {
        state.search.clear();
        press(&mut state, "s");
        let screen = drawn(&mut state, width, 24).join("");
        assert!(screen.contains("refused"), "{screen}");
        let obeyed = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!screen.contains(obeyed), "{screen:?}");
    }
}
