//! `standings token`: prints a player's token for trying, as an app's backend signs them (docs/keys.md#players).

use std::io::{self, Write};

use clap::builder::PossibleValuesParser;
use serde_json::json;

use super::Failure;
use super::args::PlayerKeyArgs;
use crate::access::players::TOKEN_SCOPES;
use crate::domain::access::{BoardPattern, Boards};
use crate::domain::clock::Clock;
use crate::domain::ids::MemberId;

/// How long a token is valid, in seconds.
const LIFE_S: i64 = 600;

/// Print a player's token for trying: valid for ten minutes, and signed with the secret of the settings.
#[derive(clap::Args, Clone, Debug)]
pub struct TokenArgs {
    /// The player's member id.
    #[arg(long, value_parser = MemberId::parse)]
    pub sub: MemberId,
    /// A board, or a pattern of boards such as `vote-*`. Repeat it for more, up to 100.
    #[arg(long, required = true, value_parser = pattern)]
    pub board: Vec<String>,
    /// What the token allows: `read`, `play`, `vote`. Repeat it for more.
    #[arg(long, required = true, value_delimiter = ',', value_parser = PossibleValuesParser::new(TOKEN_SCOPES))]
    pub scope: Vec<String>,
    /// The keys of players' tokens.
    #[command(flatten)]
    pub keys: PlayerKeyArgs,
}

fn pattern(text: &str) -> Result<String, String> {
    BoardPattern::parse(text).map(|_| text.to_owned())
}

/// Prints the token.
pub fn command(args: &TokenArgs) -> Result<(), Failure> {
    let named = |error| format!("STANDINGS_JWT_KEYS, STANDINGS_JWT_KEY: {error}");
    let keys = args.keys.keys().map_err(named)?;
    if keys.is_empty() {
        return Err("no key is set: set STANDINGS_JWT_KEY to the secret of the service, of at least 32 bytes".into());
    }
    Boards::parse(&args.board).map_err(|error| format!("--board {error}"))?;
    let iat = Clock::local_us().div_euclid(1_000_000);
    let token = keys.sign(json!({
        "sub": args.sub.as_str(), "iat": iat, "exp": iat + LIFE_S, "boards": args.board, "scopes": args.scope,
    }));
    let Some(token) = token else {
        return Err(
            "the configured keys are public keys, which can't sign: this command needs a secret for HS256 in STANDINGS_JWT_KEY or STANDINGS_JWT_KEYS".into(),
        );
    };
    writeln!(io::stdout(), "{token}")?;
    Ok(())
}
