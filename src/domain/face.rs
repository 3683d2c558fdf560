//! What stands for a member without a picture: the first letter of its name, on a colour of its own.

/// How many colours the stylesheets have.
const TINTS: u32 = 12;

/// The first letter or digit of a name, as a capital.
pub fn initial(name: &str) -> String {
    let first = name.chars().find(|letter| letter.is_alphanumeric());
    first.map_or_else(|| "?".to_owned(), |letter| letter.to_uppercase().collect())
}

/// The number of a member's colour. It follows from the id, so that a new name does not change it. `embed.js` has the same.
pub fn tint(member: &str) -> u32 {
    let add = |sum: u32, byte: u8| sum.wrapping_mul(31).wrapping_add(byte.into());
    member.bytes().fold(7, add) % TINTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_letter_of_a_name_stands_for_it() {
        for (name, letter) in [
            ("ann", "A"),
            ("*élan*", "É"),
            ("ユキ", "ユ"),
            ("4you", "4"),
            ("…", "?"),
        ] {
            assert_eq!(initial(name), letter);
        }
    }

    #[test]
    fn a_member_keeps_its_colour() {
        assert_eq!(["", "a", "ann", "ユキ"].map(tint), [7, 2, 6, 3]);
    }
}
