//! What of a document breaks clients that were generated from an earlier one.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::schemas::{Document, Way, is_nullable, is_required};

/// The bounds of values: a lower one may not grow in a request, and an upper one may not shrink.
const LOWER: [&str; 4] = ["minimum", "exclusiveMinimum", "minLength", "minItems"];
const UPPER: [&str; 4] = ["maximum", "exclusiveMaximum", "maxLength", "maxItems"];

/// Whether a version says that clients of an earlier one break: the first number that is not 0 has grown.
pub fn says_so(old: &str, new: &str) -> bool {
    let [old, new] = [old, new].map(|version| {
        let numbers = version
            .split('.')
            .map(|number| number.parse::<u32>().unwrap());
        numbers.take(3).collect::<Vec<_>>()
    });
    let leading = old.iter().position(|number| *number > 0).unwrap_or(2);
    new[..=leading] > old[..=leading]
}

/// What in a new document breaks clients of an old one.
pub fn breaks(old: &Document, new: &Document) -> Vec<String> {
    let mut compared = Comparison {
        old,
        new,
        breaks: Vec::new(),
    };
    for (name, operation) in old.operations() {
        match new.operations().find(|(other, _)| *other == name) {
            Some((_, with)) => compared.operation(&name, operation, with),
            None => compared.breaks.push(format!("{name} is gone")),
        }
    }
    compared.breaks
}

struct Comparison<'a> {
    old: &'a Document,
    new: &'a Document,
    breaks: Vec<String>,
}

fn fields<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema[name].as_object().into_iter().flat_map(Map::iter)
}

fn values(schema: &Value) -> Option<BTreeSet<&str>> {
    let values = schema["enum"].as_array()?;
    Some(values.iter().filter_map(Value::as_str).collect())
}

impl Comparison<'_> {
    fn expect(&mut self, holds: bool, place: &str, what: &str) {
        if !holds {
            self.breaks.push(format!("{place} {what}"));
        }
    }

    fn operation(&mut self, name: &str, old: &Value, new: &Value) {
        let none = Vec::new();
        let [before, after] =
            [old, new].map(|operation| operation["parameters"].as_array().unwrap_or(&none));
        let same = |a: &Value, b: &Value| a["name"] == b["name"] && a["in"] == b["in"];
        for parameter in after {
            let old = before.iter().find(|old| same(old, parameter));
            let was_required = old.is_some_and(|old| old["required"] == true);
            let is_fine = was_required || parameter["required"] != true;
            self.expect(
                is_fine,
                &format!("{name}: {}", parameter["name"]),
                "is required now",
            );
        }
        for parameter in before {
            let place = format!("{name}: {}", parameter["name"]);
            match after.iter().find(|new| same(new, parameter)) {
                Some(new) => {
                    let [schema, with] = [parameter, new].map(|parameter| &parameter["schema"]);
                    self.schema(Way::Request, &place, schema, with);
                    let style = |of: &Value| (of["style"].clone(), of["explode"].clone());
                    self.expect(style(parameter) == style(new), &place, "has another style");
                }
                None => self.expect(false, &place, "is gone"),
            }
        }
        let [before, after] = [old, new].map(|operation| &operation["requestBody"]);
        let is_new = before.is_null() && after["required"] == true;
        self.expect(!is_new, name, "needs a body now");
        self.contents(Way::Request, name, before, after);
        for (status, response) in fields(old, "responses") {
            if !status.starts_with(['4', '5']) {
                let place = format!("{name}: {status}");
                let with = &new["responses"][status];
                self.expect(!with.is_null(), &place, "is gone");
                self.contents(Way::Answer, &place, response, with);
            }
        }
        // All problems have one schema.
        let [before, after] = [old, new].map(|operation| &operation["responses"]["500"]);
        self.contents(Way::Answer, name, before, after);
    }

    fn contents(&mut self, way: Way, place: &str, old: &Value, new: &Value) {
        for (kind, content) in fields(old, "content") {
            let with = &new["content"][kind];
            self.expect(!with.is_null(), place, "has no such content any more");
            self.schema(way, place, &content["schema"], &with["schema"]);
        }
    }

    fn schema(&mut self, way: Way, place: &str, old: &Value, new: &Value) {
        if old.is_null() || new.is_null() {
            return;
        }
        let nullable = (is_nullable(old), is_nullable(new));
        let is_fine = match way {
            Way::Request => nullable != (true, false),
            Way::Answer => nullable != (false, true),
        };
        self.expect(is_fine, place, "changes whether it may be null");
        let (old, new) = (self.old.resolve(old), self.new.resolve(new));
        self.expect(old["type"] == new["type"], place, "has another type");
        self.expect(old["format"] == new["format"], place, "has another format");
        self.values(way, place, old, new);
        self.unions(way, place, old, new);
        self.fields(way, place, old, new);
        if way == Way::Request {
            self.bounds(place, old, new);
        }
        for name in ["items", "additionalProperties"] {
            self.schema(way, &format!("{place}/*"), &old[name], &new[name]);
        }
    }

    fn values(&mut self, way: Way, place: &str, old: &Value, new: &Value) {
        let is_fine = match (way, values(old), values(new)) {
            (_, None, None) => true,
            (Way::Request, Some(old), Some(new)) => old.is_subset(&new),
            (Way::Answer, Some(old), Some(new)) => new.is_subset(&old),
            (Way::Request, _, new) => new.is_none(),
            (Way::Answer, old, _) => old.is_none(),
        };
        self.expect(is_fine, place, "has other values");
    }

    /// The members of unions, by the values of the discriminator.
    fn unions(&mut self, way: Way, place: &str, old: &Value, new: &Value) {
        let [old, new] = [old, new].map(|schema| &schema["discriminator"]["mapping"]);
        let lead = |mapping: &Value, value: &str| serde_json::json!({"$ref": mapping[value]});
        for (value, _) in old.as_object().into_iter().flatten() {
            let place = format!("{place}/{value}");
            if new[value].is_null() {
                self.expect(way == Way::Answer, &place, "is gone");
            } else {
                self.schema(way, &place, &lead(old, value), &lead(new, value));
            }
        }
        for (value, _) in new.as_object().into_iter().flatten() {
            let is_fine = way == Way::Request || !old[value].is_null();
            self.expect(
                is_fine,
                &format!("{place}/{value}"),
                "is a new member of a union",
            );
        }
    }

    fn fields(&mut self, way: Way, place: &str, old: &Value, new: &Value) {
        for (name, field) in fields(old, "properties") {
            let place = format!("{place}/{name}");
            let with = &new["properties"][name];
            self.expect(!with.is_null(), &place, "is gone");
            let was_always_there = way == Way::Answer && is_required(old, name);
            let is_fine = !was_always_there || with.is_null() || is_required(new, name);
            self.expect(is_fine, &place, "may be missing now");
            self.schema(way, &place, field, with);
        }
        for (name, _) in fields(new, "properties") {
            let is_fine = way == Way::Answer || is_required(old, name) || !is_required(new, name);
            self.expect(is_fine, &format!("{place}/{name}"), "is required now");
        }
    }

    fn bounds(&mut self, place: &str, old: &Value, new: &Value) {
        let number = |schema: &Value, name: &str| schema[name].as_f64();
        let is_fine = LOWER.iter().all(|name| {
            number(new, name).is_none_or(|new| number(old, name).is_some_and(|old| new <= old))
        }) && UPPER.iter().all(|name| {
            number(new, name).is_none_or(|new| number(old, name).is_some_and(|old| new >= old))
        }) && (new["pattern"].is_null() || old["pattern"] == new["pattern"]);
        self.expect(is_fine, place, "takes fewer values");
    }
}
