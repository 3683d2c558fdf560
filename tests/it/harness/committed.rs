//! Files that are generated and committed.

use super::repository;

/// Checks that a committed file is what the code generates. Writes it if this variable is set.
pub fn assert_committed(file: &str, expected: &str, variable: &str) {
    let path = repository().join(file);
    if std::env::var_os(variable).is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let mut lines = committed.lines().zip(expected.lines());
    let first = lines.find(|(committed, expected)| committed != expected);
    assert!(
        committed == expected,
        "{file} is out of date, first at {first:?}; run this test with {variable}=1 to write it"
    );
}
