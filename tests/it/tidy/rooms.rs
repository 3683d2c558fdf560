//! Which file may use which: `rooms.txt` has the rules.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::Sources;
use crate::harness::repository;

/// Types whose methods are all in the room of the type, except for methods of traits.
const CLOSED: [&str; 2] = ["Engine", "Store"];

/// What a `model` does not contain.
const IO: [&str; 9] = [
    "async ",
    ".await",
    "axum::",
    "fred::",
    "reqwest::",
    "std::fs",
    "tokio::",
    "Instant::now",
    "SystemTime",
];

/// What `rooms.txt` says.
#[derive(Default)]
struct Rooms {
    /// The rooms that each room may use.
    used: BTreeMap<String, BTreeSet<String>>,
}

/// The room of a file.
fn room_of(file: &str) -> &str {
    file.split_once('/').map_or("root", |(folder, _)| folder)
}

/// Whether a file has no IO.
fn is_model(file: &str) -> bool {
    file.ends_with("/model.rs") || ["boards/draft.rs", "boards/preview.rs"].contains(&file)
}

impl Rooms {
    fn read(table: &str) -> Self {
        let (mut rooms, mut shared) = (Self::default(), BTreeSet::new());
        let is_empty = |line: &&str| line.is_empty() || line.starts_with('#');
        for header in table.lines().filter(|line| !is_empty(line)) {
            let (name, others) = header.split_once(':').unwrap_or((header, ""));
            let mut used: BTreeSet<String> = shared.clone();
            for other in others.split_whitespace() {
                if other == "*" {
                    used.extend(rooms.used.keys().cloned());
                    continue;
                }
                assert!(
                    rooms.used.contains_key(other),
                    "{other} is not above {name}"
                );
                used.insert(other.to_owned());
            }
            if name == header {
                shared.insert(name.to_owned());
            }
            rooms.used.insert(name.to_owned(), used);
        }
        rooms
    }

    fn violations(&self, sources: &Sources) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (file, text) in sources.texts() {
            let room = room_of(file);
            let used = self
                .used
                .get(room)
                .unwrap_or_else(|| panic!("rooms.txt has no {room} ({file})"));
            for (other, name) in sources.used_by(file) {
                let other_room = room_of(&other);
                let is_pure = other_room == "domain" || is_model(&other);
                if room != other_room && !used.contains(other_room) {
                    found.insert(format!(
                        "{room} -> {other_room}: {file} uses {name} of {other}"
                    ));
                } else if is_model(file) && !is_pure {
                    found.insert(format!("model: {file} uses {name} of {other}"));
                }
            }
            if is_model(file) {
                let io = IO.iter().filter(|name| text.contains(**name));
                found.extend(io.map(|name| format!("model: {file} has {name}")));
            }
        }
        for (name, of, file) in sources.impls() {
            let room = room_of(file);
            if CLOSED.contains(&name) && room != room_of(of) {
                found.insert(format!("impl {name}: {file} is in {room}"));
            }
        }
        found
    }
}

#[test]
fn lint_rooms_use_only_what_they_may() {
    let table = std::fs::read_to_string(repository().join("tests/it/tidy/rooms.txt"));
    let rooms = Rooms::read(&table.unwrap());
    let sources = Sources::read();
    for room in rooms.used.keys() {
        let is_there = sources.texts().any(|(file, _)| room_of(file) == room);
        assert!(is_there, "rooms.txt has {room}, which is gone");
    }
    let found = rooms.violations(&sources);
    assert!(
        found.is_empty(),
        "these break the rules of rooms.txt: {found:#?}"
    );
}

#[test]
fn a_room_uses_the_shared_rooms_above_it_and_those_that_it_names() {
    let rooms = Rooms::read("# what it is\na\nb\nc:\nd: c\ne: *\n");
    let used = |room: &str| {
        let used = rooms.used[room].iter();
        used.map(String::as_str).collect::<Vec<_>>().join("")
    };
    assert_eq!(
        ["a", "b", "c", "d", "e"].map(used),
        ["", "a", "ab", "abc", "abcd"]
    );
    assert_eq!(room_of("c/d.rs"), "c");
    assert_eq!(room_of("lib.rs"), "root");
}
