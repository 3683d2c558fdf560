//! Joins the scripts from their fragments, and packs the OpenAPI document: the program is 0.6 MB smaller.
//!
//! What is joined is in `target/*/build/standings-*/out/scripts/`.

#[path = "src/redis/script/join.rs"]
mod join;
#[path = "src/redis/script/words.rs"]
mod words;

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

const DOCUMENT: &str = "openapi/openapi.json";
const SCRIPTS: &str = "scripts";
/// The fragments, in the folder of the scripts.
const FRAGMENTS: &str = "lib";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={DOCUMENT}");
    println!("cargo::rerun-if-changed={SCRIPTS}");
    let folder = PathBuf::from(std::env::var("OUT_DIR")?);
    let file = File::create(folder.join("openapi.json.gz"))?;
    let mut packed = GzEncoder::new(file, Compression::best());
    packed.write_all(&fs::read(DOCUMENT)?)?;
    packed.finish()?;

    let mut scripts = join::read(Path::new(SCRIPTS))?;
    let fragments = scripts
        .extract_if(.., |path, _| path.starts_with(FRAGMENTS))
        .collect();
    for (path, own) in scripts {
        let joined = folder.join(SCRIPTS).join(&path);
        let (_, name) = path.rsplit_once('/').ok_or("a script is in a folder")?;
        fs::create_dir_all(joined.parent().ok_or("a script is in a folder")?)?;
        fs::write(joined, join::join(name, &own, &fragments))?;
    }
    Ok(())
}
