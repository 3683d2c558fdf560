//! Writes the manual pages and the completions of shells into a folder, for the archive of a release:
//! `cargo run --features manual --example manual -- FOLDER`.
//!
//! It is no command of the program, so that the program has neither generator.

use std::path::PathBuf;
use std::{env, fs, io};

use clap::CommandFactory;
use clap_complete::Shell;

use standings::config::Cli;

fn main() -> io::Result<()> {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("name the folder to write into"));
    };
    let [man, completions] = ["man", "completions"].map(|name| folder.join(name));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut Cli::command(), "standings", &completions)?;
    }
    clap_mangen::generate_to(Cli::command(), &man)
}
