//! The colours in the address of an embedded page.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

use crate::http::inner::address;

/// Up to this luminance of the background, text on it is white. There black and white are equally readable (WCAG 2).
const DARK_MAX: f64 = 0.179;

const TRANSPARENT: &str = "transparent";

/// A colour: red, green and blue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Colour([u8; 3]);

/// The colours; those that are absent follow the viewer's system.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Colours {
    /// Of the line below the title.
    accent: Option<Colour>,
    background: Option<Background>,
    text: Option<Colour>,
}

/// What is behind the standing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Background {
    Filled(Colour),
    /// The page around the frame.
    Transparent,
}

impl Colour {
    /// Three or six hexadecimal digits.
    fn parse(text: &str) -> Option<Self> {
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
            .collect();
        match digits?.as_slice() {
            [red, green, blue] => Some(Self([red * 17, green * 17, blue * 17])),
            [r, red, g, green, b, blue] => {
                Some(Self([r * 16 + red, g * 16 + green, b * 16 + blue]))
            }
            _ => None,
        }
    }

    /// The relative luminance, from 0 to 1 (WCAG 2).
    fn luminance(self) -> f64 {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        };
        let [red, green, blue] = self.0.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn is_dark(self) -> bool {
        self.luminance() <= DARK_MAX
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "{red:02x}{green:02x}{blue:02x}")
    }
}

impl fmt::Display for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filled(colour) => colour.fmt(f),
            Self::Transparent => f.write_str(TRANSPARENT),
        }
    }
}

impl<'de> Deserialize<'de> for Background {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || {
            let detail = "must be `transparent`, or 3 or 6 hexadecimal digits, such as `1f5f8b`";
            de::Error::custom(detail)
        };
        match text.as_str() {
            TRANSPARENT => Ok(Self::Transparent),
            text => Colour::parse(text).map(Self::Filled).ok_or_else(wrong),
        }
    }
}

impl<'de> Deserialize<'de> for Colour {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || de::Error::custom("must be 3 or 6 hexadecimal digits, such as `1f5f8b`");
        Self::parse(&text).ok_or_else(wrong)
    }
}

impl Colours {
    /// The address of their stylesheet, if there are any.
    pub(super) fn address(&self) -> Option<String> {
        let values = self.named();
        let query = values
            .each_ref()
            .map(|(name, value)| (*name, value.as_deref().unwrap_or_default()));
        let is_any = values.iter().any(|(_, value)| value.is_some());
        is_any.then(|| address(&["embed", "colours.css"], &query))
    }

    /// Their stylesheet. On a background without a text colour, the text is black or white, whichever is readable.
    pub(super) fn stylesheet(&self) -> String {
        let of_ground = match self.background {
            Some(Background::Filled(ground)) if ground.is_dark() => {
                Some(("dark", Colour([255; 3])))
            }
            Some(Background::Filled(_)) => Some(("light", Colour([0; 3]))),
            Some(Background::Transparent) | None => None,
        };
        let with_text = Self {
            text: self.text.or(of_ground.map(|(_, text)| text)),
            ..*self
        };
        let scheme = of_ground.map(|(scheme, _)| format!(" color-scheme: {scheme};"));
        let rules = with_text.named().into_iter().filter_map(|(name, value)| {
            let value = value?;
            let sign = if value == TRANSPARENT { "" } else { "#" };
            Some(format!(" --{name}: {sign}{value};"))
        });
        let rules: Vec<String> = scheme.into_iter().chain(rules).collect();
        format!(":root {{{} }}\n", rules.concat())
    }

    fn named(&self) -> [(&'static str, Option<String>); 3] {
        let written = |colour: Option<Colour>| colour.map(|colour| colour.to_string());
        [
            ("accent", written(self.accent)),
            (
                "background",
                self.background.map(|ground| ground.to_string()),
            ),
            ("text", written(self.text)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_is_hexadecimal_digits_and_nothing_else() {
        assert_eq!(Colour::parse("1f5F8b"), Some(Colour([0x1f, 0x5f, 0x8b])));
        assert_eq!(Colour::parse("0af"), Some(Colour([0, 0xaa, 0xff])));
        for wrong in [
            "", "#fff", "ff", "ffff", "fffffff", "red", "ggg", "+ff", "fff;}", "fff\n",
        ] {
            assert_eq!(Colour::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn text_is_readable_on_the_chosen_background() {
        let on = |ground: &str| {
            let background = Colour::parse(ground).map(Background::Filled);
            let colours = Colours {
                background,
                ..Colours::default()
            };
            colours.stylesheet()
        };
        let white = ":root { color-scheme: light; --background: #ffffff; --text: #000000; }\n";
        assert_eq!(on("fff"), white);
        let blue = ":root { color-scheme: dark; --background: #000080; --text: #ffffff; }\n";
        assert_eq!(on("000080"), blue);
        assert!(on("767676").contains("#000000") && on("747474").contains("#ffffff"));
    }

    #[test]
    fn omitted_colours_are_left_alone() {
        let accent = Colour::parse("c00");
        let colours = Colours {
            accent,
            ..Colours::default()
        };
        assert_eq!(colours.stylesheet(), ":root { --accent: #cc0000; }\n");
        let expected = Some("/embed/colours.css?accent=cc0000".to_owned());
        assert_eq!(colours.address(), expected);
        assert_eq!(Colours::default().address(), None);
    }

    #[test]
    fn a_transparent_background_decides_nothing_about_the_text() {
        let colours = Colours {
            background: Some(Background::Transparent),
            ..Colours::default()
        };
        assert_eq!(
            colours.stylesheet(),
            ":root { --background: transparent; }\n"
        );
        let expected = Some("/embed/colours.css?background=transparent".to_owned());
        assert_eq!(colours.address(), expected);
    }
}
