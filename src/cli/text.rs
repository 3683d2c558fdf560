//! Makes untrusted texts safe for a terminal.

/// The longest untrusted text that is shown, in characters.
pub(super) const TEXT_CHARS_MAX: usize = 200;

/// A text on one line and of bounded length, without terminal control characters.
pub(super) fn shortened(text: &str) -> String {
    let mut chars = printable_chars(text);
    let mut short: String = chars.by_ref().take(TEXT_CHARS_MAX).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

/// A text on one line, without terminal control characters.
pub(super) fn printable(text: &str) -> String {
    printable_chars(text).collect()
}

fn printable_chars(text: &str) -> impl Iterator<Item = char> {
    // Control characters, and also those that change the direction of text, or end a line.
    let is_obeyed = |char: char| {
        char.is_control()
            || matches!(char, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
    };
    text.chars()
        .map(move |char| if is_obeyed(char) { ' ' } else { char })
}
