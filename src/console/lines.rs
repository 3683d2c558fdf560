//! Pasted text: lines of fields, as CSV or as cells of a spreadsheet, and the errors in them.

/// The fields of a line, trimmed.
#[derive(Debug, PartialEq)]
pub(super) struct Record {
    /// The number of the line, from 1.
    pub(super) number: usize,
    pub(super) fields: Vec<String>,
}

/// What is wrong with a line.
#[derive(Debug, PartialEq)]
pub(super) struct Fault {
    /// The number of the line; 0 for the whole text.
    pub(super) number: usize,
    pub(super) detail: String,
}

/// How many errors of a text are shown, and how many lines a preview has.
pub(super) const FAULTS_SHOWN: usize = 50;
pub(super) const LINES_SHOWN: usize = 20;

/// The lines of a text that are not blank. If the first one has the names of these columns, it is skipped.
fn records(text: &str, columns: &[&str]) -> Result<Vec<Record>, Fault> {
    let separator = if text.contains('\t') { b'\t' } else { b',' };
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(separator)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut records = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| Fault {
            number: 0,
            detail: error.to_string(),
        })?;
        let begun = record
            .position()
            .cloned()
            .unwrap_or_else(csv::Position::new);
        let index = |number: u64| usize::try_from(number).unwrap_or_default();
        // The reader skips blank lines, but counts the record from before them.
        let rest = text.as_bytes().get(index(begun.byte())..);
        let skipped = rest.unwrap_or_default().iter();
        let skipped = skipped.take_while(|byte| b"\r\n".contains(byte));
        let number = index(begun.line()) + skipped.filter(|byte| **byte == b'\n').count();
        let fields: Vec<String> = record.iter().map(ToOwned::to_owned).collect();
        let has_names = fields.len() > 1 && columns.iter().take(fields.len()).eq(&fields);
        if !(records.is_empty() && has_names) && fields != [""] {
            records.push(Record { number, fields });
        }
    }
    Ok(records)
}

/// Parses the lines of a text, each with `read`, which returns what is wrong with one; `none`: the error of an empty text.
pub(super) fn parse<T>(
    text: &str,
    columns: &[&str],
    none: &str,
    mut read: impl FnMut(&Record) -> Result<T, String>,
) -> Result<Vec<T>, Vec<Fault>> {
    let (mut lines, mut faults) = (Vec::new(), Vec::new());
    for record in records(text, columns).map_err(|fault| vec![fault])? {
        let number = record.number;
        match read(&record) {
            Ok(line) => lines.push(line),
            Err(detail) => faults.push(Fault { number, detail }),
        }
    }
    if faults.is_empty() && lines.is_empty() {
        let detail = none.to_owned();
        faults.push(Fault { number: 0, detail });
    }
    if faults.is_empty() {
        Ok(lines)
    } else {
        Err(faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_they_stand_in_the_text() {
        let read = |text: &str| {
            let records = records(text, &["member", "score"]).unwrap().into_iter();
            let lines = records.map(|Record { number, fields }| (number, fields.join("|")));
            lines.collect::<Vec<_>>()
        };
        let line = |number, text: &str| (number, text.to_owned());
        assert_eq!(read("ann, 12"), [line(1, "ann|12")]);
        let text = "member,score\r\n\"a, b\",-1.5\r\n\r\nbob,\r\n";
        assert_eq!(read(text), [line(2, "a, b|-1.5"), line(4, "bob|")]);
        assert_eq!(read("a,b\t 3\n \nc"), [line(1, "a,b|3"), line(3, "c")]);
        // Only the first line can have the names of columns.
        assert_eq!(read("ann,1\nmember,score").len(), 2);
    }
}
