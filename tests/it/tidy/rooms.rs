//! Which file may use which: `rooms.txt` has the rules. `violations.txt` lists what breaks them today, and may only shrink.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::Sources;
use crate::harness::repository;

/// Types whose methods are all in the room of the type, except for methods of traits.
const CLOSED: [&str; 3] = ["Engine", "Service", "Store"];

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
    /// The room of a file or a folder, and the folder or the file in the room, if the table names one.
    paths: BTreeMap<String, (String, String)>,
}

impl Rooms {
    fn read(table: &str) -> Self {
        let (mut rooms, mut shared) = (Self::default(), BTreeSet::new());
        let mut room = String::new();
        let is_empty = |line: &&str| line.is_empty() || line.starts_with('#');
        for line in table.lines().filter(|line| !is_empty(line)) {
            let header = line.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
            let Some(header) = header else {
                let (path, inner) = line.split_once(' ').unwrap_or((line, ""));
                let of_path = (room.clone(), inner.to_owned());
                let before = rooms.paths.insert(path.to_owned(), of_path);
                assert!(before.is_none(), "{path} has two rooms");
                continue;
            };
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
            name.clone_into(&mut room);
            rooms.used.insert(room.clone(), used);
        }
        rooms
    }

    fn of(&self, file: &str) -> &(String, String) {
        let covers = |path: &str| file == path || path.ends_with('/') && file.starts_with(path);
        let rows = self.paths.iter().filter(|(path, _)| covers(path.as_str()));
        let row = rows.max_by_key(|(path, _)| path.len());
        row.unwrap_or_else(|| panic!("rooms.txt has no room for {file}"))
            .1
    }

    fn violations(&self, sources: &Sources) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (file, text) in sources.texts() {
            let (room, inner) = self.of(file);
            let is_model = inner == "model";
            for (other, name) in sources.used_by(file) {
                let (other_room, other_inner) = self.of(&other);
                let is_pure = other_room == "domain" || other_inner == "model";
                if room != other_room && !self.used[room].contains(other_room) {
                    found.insert(format!(
                        "{room} -> {other_room}: {file} uses {name} of {other}"
                    ));
                } else if is_model && !is_pure {
                    found.insert(format!("model: {file} uses {name} of {other}"));
                }
            }
            if is_model {
                let io = IO.iter().filter(|name| text.contains(**name));
                found.extend(io.map(|name| format!("model: {file} has {name}")));
            }
        }
        for (name, of, file) in sources.impls() {
            let room = &self.of(file).0;
            if CLOSED.contains(&name) && room != &self.of(of).0 {
                found.insert(format!("impl {name}: {file} is in {room}"));
            }
        }
        found
    }
}

#[test]
fn rooms_use_only_what_they_may() {
    let folder = repository().join("tests/it/tidy");
    let rooms = Rooms::read(&std::fs::read_to_string(folder.join("rooms.txt")).unwrap());
    let sources = Sources::read();
    for path in rooms.paths.keys() {
        let is_there = sources.texts().any(|(file, _)| file.starts_with(path));
        assert!(is_there, "rooms.txt has {path}, which is gone");
    }
    let found = rooms.violations(&sources);
    let path = folder.join("violations.txt");
    if std::env::var_os("STANDINGS_WRITE_VIOLATIONS").is_some() {
        let lines = found.iter().flat_map(|line| [line, "\n"]);
        std::fs::write(&path, lines.collect::<String>()).unwrap();
    }
    let listed = std::fs::read_to_string(&path).unwrap_or_default();
    let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    let new: Vec<_> = found.difference(&listed).collect();
    assert!(
        new.is_empty(),
        "these break the rules of rooms.txt: {new:#?}"
    );
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(
        gone.is_empty(),
        "these are fixed; take them off the list: STANDINGS_WRITE_VIOLATIONS=1 cargo test --test it rooms_use: {gone:#?}"
    );
}

#[test]
fn a_room_uses_the_shared_rooms_above_it_and_those_that_it_names() {
    let rooms = Rooms::read("[a]\nx/\n[b]\n[c:]\nx/y.rs model\n[d: c]\n[e: *]\n");
    let used = |room: &str| {
        let used = rooms.used[room].iter();
        used.map(String::as_str).collect::<Vec<_>>().join("")
    };
    assert_eq!(
        ["a", "b", "c", "d", "e"].map(used),
        ["", "a", "ab", "abc", "abcd"]
    );
    assert_eq!(rooms.of("x/y.rs"), &("c".to_owned(), "model".to_owned()));
    assert_eq!(rooms.of("x/z.rs"), &("a".to_owned(), String::new()));
}
