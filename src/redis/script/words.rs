//! Replaces words of Lua code.

/// Replaces each word that `replaced` knows by what it returns.
pub(crate) fn replace_words<'a>(
    code: &'a str,
    replaced: impl Fn(&'a str) -> Option<String>,
) -> String {
    let (mut done, mut rest) = (String::with_capacity(code.len()), code);
    while let Some(start) = rest.find(is_of_word) {
        let (between, from_word) = rest.split_at(start);
        let end = from_word.find(|byte| !is_of_word(byte));
        let (word, behind) = from_word.split_at(end.unwrap_or(from_word.len()));
        done.push_str(between);
        match replaced(word) {
            Some(other) => done.push_str(&other),
            None => done.push_str(word),
        }
        rest = behind;
    }
    done + rest
}

/// Whether a character is part of a name.
pub(crate) fn is_of_word(byte: char) -> bool {
    byte.is_ascii_alphanumeric() || byte == '_'
}
