//! The operator's patterns for names that are blocked at once.

use std::fmt;

use regex::{RegexSet, RegexSetBuilder};

use super::name::Name;

/// The memory limit for all compiled patterns, in bytes.
const COMPILED_BYTES_MAX: usize = 64 << 20;

/// Patterns that no name may match. Matching takes time proportional to the length of the name, whatever the patterns.
#[derive(Clone, Default)]
pub struct Blocklist {
    /// The patterns as written.
    written: RegexSet,
    /// The likenesses of patterns without operators.
    likenesses: RegexSet,
}

impl fmt::Debug for Blocklist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blocklist({})", self.written.len())
    }
}

impl Blocklist {
    /// Parses a list with a regular expression per line. Empty lines and lines that begin with `#` are ignored.
    ///
    /// # Errors
    ///
    /// Which line is not a valid pattern, and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines: Vec<(usize, &str)> = text
            .lines()
            .map(str::trim)
            .enumerate()
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .collect();
        for (index, line) in &lines {
            // Compiled separately, so that the error names its line.
            compile([*line]).map_err(|error| format!("line {}: {error}", index + 1))?;
        }
        let written = lines.iter().map(|(_, line)| *line);
        let likenesses = written
            .clone()
            .filter(|line| regex::escape(line) == *line)
            .filter_map(|line| {
                let likeness = Name::parse(line).ok()?.likeness();
                (!likeness.is_empty()).then_some(likeness)
            });
        Ok(Self {
            likenesses: compile(likenesses)?,
            written: compile(written)?,
        })
    }

    /// Whether a pattern matches this name.
    pub fn matches(&self, name: &Name) -> bool {
        if self.written.is_empty() {
            return false;
        }
        let is_written = |form: &String| self.written.is_match(form);
        self.likenesses.is_match(&name.likeness()) || name.forms().iter().any(is_written)
    }
}

fn compile<T: AsRef<str>>(patterns: impl IntoIterator<Item = T>) -> Result<RegexSet, String> {
    let mut builder = RegexSetBuilder::new(patterns);
    builder
        .case_insensitive(true)
        .size_limit(COMPILED_BYTES_MAX);
    builder.build().map_err(|error| {
        // The crate's message shows the place of the error over several lines.
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        last.trim_start_matches("error: ").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(list: &str, name: &str) -> bool {
        let list = Blocklist::parse(list).unwrap();
        list.matches(&Name::parse(name).unwrap())
    }

    #[test]
    fn a_pattern_matches_a_name_in_every_spelling() {
        for name in [
            "admin",
            "The Admin",
            "ＡＤＭＩＮ",
            "аdmіn",
            "АDМІN",
            "a d_m.i-n",
            "ádmín",
            "adrnin",
            "ADMlN",
            "👑admin👑",
        ] {
            assert!(blocks("# staff\n\nadmin\n", name), "{name}");
        }
        for name in [
            "ᴀᴅᴍɪɴ",
            "🅰dmin",
            "🇦🇩🇲🇮🇳",
            "ᗩᗪᗰIᑎ",
            "аԁmіп",
            "@dmin",
            "4dmin",
            "4DM1N_2026",
        ] {
            for list in ["admin", "^adm[i]n"] {
                assert!(blocks(list, name), "{list}: {name}");
            }
        }
        for name in ["m0d", "M0D", "rn0d", "mоd", "M0D3R4T0R", "🅼🅾🅳", "ᴍᴏᴅ"] {
            assert!(blocks("mod", name), "{name}");
            let is_of_letters = name != "rn0d";
            assert_eq!(blocks("^mod(erator)?$", name), is_of_letters, "{name}");
        }
        assert!(blocks("ass", "a5shole"));
        for name in ["455", "Ann 455", "ann55", "year 2055"] {
            assert!(!blocks("ass", name), "{name}: a number");
        }
        for name in ["Ann", "adman", "Ελένη"] {
            assert!(!blocks("admin", name), "{name}");
        }
        assert!(blocks("^(site )?admin$", "Site Admin"));
        assert!(!blocks("^(site )?admin$", "no admin"));
        assert!(blocks("PAYPAL", "paypaI"));
        assert!(blocks("админ", "Админ"));
        assert!(!blocks("", "admin"));
        assert!(!blocks("#admin", "admin"));
    }

    #[test]
    fn an_invalid_pattern_is_reported_with_its_line() {
        for (list, line) in [
            ("a\n\n(b", "line 3: "),
            ("[a-", "line 1: "),
            ("# x\n(?=a)", "line 2: "),
        ] {
            let error = Blocklist::parse(list).unwrap_err();
            assert!(error.starts_with(line) && !error.contains('\n'), "{error}");
        }
        assert!(
            Blocklist::parse(r"(\w{1000}){1000}{100}").is_err(),
            "it would take too much memory"
        );
    }

    #[test]
    fn no_pattern_takes_long() {
        let list = Blocklist::parse(r"(a*)*(a*)*(a*)*b$").unwrap();
        assert!(!list.matches(&Name::parse(&"a".repeat(64)).unwrap()));
    }
}
