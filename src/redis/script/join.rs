//! Joins a script with the fragments that it uses, when the program is built (`build.rs`).
//!
//! `-- Uses: lib/keys.lua, lib/queue.lua` in a script or a fragment names the fragments whose functions it calls. Those that
//! these use are added. They come where this line is, so a script can end before it creates their functions.
//! `-- Loader: load_queue` in a fragment names its *loader*: creating a function costs a script more than most of its lines, and
//! so does every local variable that it captures. So functions that few calls need are created by another function, their
//! loader, and stored in one table. For the same reason functions that nothing calls are left out.
//!
//! `-- Takes: 2 keys or more, 1 argument` in a script says how many keys and arguments it takes. The text begins with a check
//! of that.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::{fs, io};

use super::words::{is_of_word, replace_words};

/// Before the names of fragments.
const USES: &str = "-- Uses: ";
/// The table of scripts for the functions that loaders create.
const LOADED: &str = "loaded";

/// The Lua files in a folder, by their paths in it.
pub(crate) fn read(folder: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().display().to_string();
        if path.is_dir() {
            let within = read(&path)?.into_iter();
            files.extend(within.map(|(path, text)| (format!("{name}/{path}"), text)));
        } else {
            files.insert(name, fs::read_to_string(path)?);
        }
    }
    Ok(files)
}

/// The text of a script with this file name, without its first line, `#!lua`.
///
/// # Panics
///
/// If a fragment is missing, or two functions have one name.
pub(crate) fn join(name: &str, own: &str, fragments: &BTreeMap<String, String>) -> String {
    let check = after(own, "-- Takes: ").map(|takes| check_of(name, takes));
    let mut names = Vec::new();
    add_uses(own, fragments, &mut names);
    let first = own.find(&format!("\n{USES}")).map_or(0, |end| end + 1);
    let (first, rest) = own.split_at(first);
    let mut parts = vec![first, rest];
    parts.extend(names.iter().map(|name| &*fragments[*name]));
    let parts = without_unused(&parts);
    let [first, rest, fragments @ ..] = &parts[..] else {
        unreachable!("a script has two parts of its own");
    };

    let mut joined = check.unwrap_or_default() + first;
    let mut bodies: BTreeMap<&str, String> = BTreeMap::new();
    let mut made = HashSet::new();
    for fragment in fragments {
        let Some(loader) = loader_of(fragment) else {
            joined += fragment;
            continue;
        };
        let body = bodies.entry(loader).or_default();
        for line in fragment.lines() {
            match function_of(line) {
                Some(name) => {
                    assert!(made.insert(name), "loaders make two functions {name}");
                    let rest = &line[FUNCTION.len() + name.len()..];
                    body.extend([name, " = function", rest, "\n"]);
                }
                None => body.extend([line, "\n"]),
            }
        }
    }
    if !bodies.is_empty() {
        joined.extend(["local ", LOADED, " = {}\n"]);
    }
    for (loader, body) in bodies {
        joined.extend([FUNCTION, loader, "()\n", &body, "end\n"]);
    }
    joined += rest;
    replace_words(&joined, |word| {
        made.contains(word).then(|| format!("{LOADED}.{word}"))
    })
}

/// Refuses a call with other numbers of keys and arguments than a script takes: `2 keys or more, 1 argument`.
fn check_of(name: &str, takes: &str) -> String {
    let (keys, args) = takes.split_once(", ").expect("keys, and arguments");
    let differs = |list: &str, takes: &str| {
        let is_other = if takes.ends_with(" or more") {
            "<"
        } else {
            "~="
        };
        let count = takes.split(' ').next().filter(|count| *count != "no");
        format!("#{list} {is_other} {}", count.unwrap_or("0"))
    };
    let (keys, args) = (differs("KEYS", keys), differs("ARGV", args));
    format!("if {keys} or {args} then return redis.error_reply('ERR {name}: {takes}') end\n")
}

/// Adds the names of the fragments that a text uses, each behind those that it uses itself.
fn add_uses<'a>(text: &'a str, fragments: &'a BTreeMap<String, String>, names: &mut Vec<&'a str>) {
    for name in uses_of(text) {
        if !names.contains(&name) {
            let fragment = fragments.get(name);
            let fragment = fragment.unwrap_or_else(|| panic!("there is no scripts/{name}"));
            add_uses(fragment, fragments, names);
            names.push(name);
        }
    }
}

/// The fragments that a text names.
pub(crate) fn uses_of(text: &str) -> impl Iterator<Item = &str> {
    after(text, USES)
        .into_iter()
        .flat_map(|names| names.split(", "))
}

pub(crate) fn loader_of(fragment: &str) -> Option<&str> {
    after(fragment, "-- Loader: ")
}

/// What follows these words at the beginning of a line.
fn after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(words))
}

const FUNCTION: &str = "local function ";

/// The name of the top-level function that begins in a line.
pub(crate) fn function_of(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix(FUNCTION)?.split_once('(')?;
    Some(name)
}

/// Removes functions that no part calls.
fn without_unused(parts: &[&str]) -> Vec<String> {
    let parts: Vec<Vec<Block<'_>>> = parts.iter().map(|part| blocks_of(part)).collect();
    let blocks = || parts.iter().flatten();
    let (mut used, mut open) = (HashSet::new(), Vec::new());
    open.extend(blocks().filter(|block| block.function.is_none()));
    while let Some(block) = open.pop() {
        let code = block.lines.iter();
        let code = code.filter(|line| !line.trim_start().starts_with("--"));
        for word in code.flat_map(|line| line.split(|byte| !is_of_word(byte))) {
            if used.insert(word) {
                open.extend(blocks().filter(|block| block.function == Some(word)));
            }
        }
    }
    let is_used = |block: &&Block<'_>| block.function.is_none_or(|name| used.contains(name));
    let text = |block: &Block<'_>| block.lines.iter().copied().collect::<String>();
    parts
        .iter()
        .map(|part| part.iter().filter(is_used).map(text).collect())
        .collect()
}

/// Lines of a part: a function, or the lines between two functions.
struct Block<'a> {
    function: Option<&'a str>,
    /// With line ends.
    lines: Vec<&'a str>,
}

fn blocks_of(part: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut is_within = false;
    for line in part.split_inclusive('\n') {
        let function = function_of(line);
        if function.is_some() || !is_within {
            let is_between = blocks.last().is_some_and(|last| last.function.is_none());
            if function.is_some() || !is_between {
                let lines = Vec::new();
                blocks.push(Block { function, lines });
            }
        }
        if let Some(block) = blocks.last_mut() {
            block.lines.push(line);
        }
        let ends =
            line.trim_end() == "end" || function.is_some() && line.trim_end().ends_with(" end");
        is_within = (is_within || function.is_some()) && !ends;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragments(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        all.iter().map(owned).collect()
    }

    #[test]
    fn functions_of_a_fragment_with_a_loader_are_loaded_by_it() {
        let fragment =
            "-- lib/a.lua: a.\n-- Loader: load_a\nlocal function one(x)\n  return x\nend\n";
        let fragments = fragments(&[("lib/a.lua", fragment)]);
        let own = "-- Uses: lib/a.lua\nload_a()\nreturn one(1)\n";
        let expected = "local loaded = {}\nlocal function load_a()\n-- lib/a.lua: a.\n-- Loader: load_a\n\
            loaded.one = function(x)\n  return x\nend\nend\n-- Uses: lib/a.lua\nload_a()\nreturn loaded.one(1)\n";
        assert_eq!(join("own.lua", own, &fragments), expected);
    }

    #[test]
    fn a_script_begins_with_a_check_of_the_numbers_of_its_keys_and_arguments() {
        let joined =
            |takes: &str| join("own.lua", &format!("-- Takes: {takes}\n"), &fragments(&[]));
        let exact = "if #KEYS ~= 1 or #ARGV ~= 0 then return redis.error_reply('ERR own.lua: 1 key, no argument') end\n\
            -- Takes: 1 key, no argument\n";
        assert_eq!(joined("1 key, no argument"), exact);
        assert!(
            joined("no key, 5 arguments or more").starts_with("if #KEYS ~= 0 or #ARGV < 5 then")
        );
        assert!(
            joined("2 keys or more, 1 argument").starts_with("if #KEYS < 2 or #ARGV ~= 1 then")
        );
    }

    #[test]
    fn what_a_script_does_before_it_names_fragments_comes_before_them() {
        let fragments = fragments(&[("lib/a.lua", "local A = 1\n")]);
        let own =
            "-- own.lua: ends early.\nif KEYS[1] then return 1 end\n-- Uses: lib/a.lua\nreturn A\n";
        let expected = "-- own.lua: ends early.\nif KEYS[1] then return 1 end\nlocal A = 1\n-- Uses: lib/a.lua\nreturn A\n";
        assert_eq!(join("own.lua", own, &fragments), expected);
    }

    #[test]
    fn unused_functions_are_left_out() {
        let fragment = "-- lib/a.lua: a, which three() could be called in.\nlocal function one(x)\n  return two(x)\nend\n\
            local function two(x) return x end\nlocal function three(x)\n  return one(x)\nend\n";
        let fragments = fragments(&[("lib/a.lua", fragment)]);
        let own = "-- Uses: lib/a.lua\nreturn one(1)\n";
        let expected = "-- lib/a.lua: a, which three() could be called in.\nlocal function one(x)\n  return two(x)\nend\n\
            local function two(x) return x end\n-- Uses: lib/a.lua\nreturn one(1)\n";
        assert_eq!(join("own.lua", own, &fragments), expected);
    }

    #[test]
    fn each_fragment_appears_once_after_those_it_uses() {
        let fragments = fragments(&[
            ("lib/a.lua", "-- Uses: lib/b.lua\nlocal A = B\n"),
            ("lib/b.lua", "local B = 1\n"),
        ]);
        let joined = join(
            "own.lua",
            "-- Uses: lib/a.lua, lib/b.lua\nreturn A\n",
            &fragments,
        );
        let expected = "local B = 1\n-- Uses: lib/b.lua\nlocal A = B\n-- Uses: lib/a.lua, lib/b.lua\nreturn A\n";
        assert_eq!(joined, expected);
    }
}
