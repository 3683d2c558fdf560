//! The schemas of the document: the rules that they keep, and whether a value is what its schema says.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use standings::domain::include::Include;

/// Fields of an answer that are there only if the request asks for them, and may be null then.
const ON_DEMAND: [&str; 1] = ["StandingChange/rank"];

/// Whether a field is there only if the request includes it, or in messages of streams.
fn is_included(name: &str) -> bool {
    Include::ALL.iter().any(|word| word.name() == name) || name == "previous_rank"
}

/// What generated clients call types of their own, or languages theirs.
const GENERATED: [&str; 20] = [
    "apiclient",
    "apierror",
    "apiexception",
    "apiresponse",
    "client",
    "configuration",
    "date",
    "error",
    "exception",
    "file",
    "json",
    "list",
    "map",
    "model",
    "object",
    "pair",
    "record",
    "request",
    "response",
    "string",
];

/// The document, and its schemas by their names.
pub struct Document(pub Value);

/// What is sent to the service, or by it.
#[derive(Clone, Copy, Eq, PartialEq)]
pub enum Way {
    Request,
    Answer,
}

/// An object of the document whose fields are known.
fn has_fields(schema: &Value) -> bool {
    schema["properties"].is_object()
}

pub fn is_nullable(schema: &Value) -> bool {
    schema["nullable"] == true
}

pub fn is_required(schema: &Value, field: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|required| required.contains(&json!(field)))
}

/// The example of a body; of several, the one whose board the other examples are of.
pub fn example_of(content: &Value) -> &Value {
    let content = &content["application/json"];
    match content["examples"].get("all-kinds") {
        Some(example) => &example["value"],
        None => &content["example"],
    }
}

impl Document {
    pub fn of_code() -> Self {
        let text = super::document::text().unwrap();
        Self(serde_json::from_str(&text).unwrap())
    }

    /// All operations, with what they are called.
    pub fn operations(&self) -> impl Iterator<Item = (String, &Value)> {
        let paths = self.0["paths"].as_object().unwrap();
        paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
        })
    }

    /// The schema that a reference leads to, also one with a description or that may be null; or the schema itself.
    pub fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let reference = schema.pointer("/allOf/0").unwrap_or(schema);
        let Some(reference) = reference["$ref"].as_str() else {
            return schema;
        };
        let pointer = reference.strip_prefix('#').unwrap();
        let target = self.0.pointer(pointer);
        target.unwrap_or_else(|| panic!("{reference} leads nowhere"))
    }

    /// The names of the schemas that requests, or answers, are made of.
    fn names(&self, way: Way) -> BTreeSet<String> {
        let mut open: Vec<&Value> = self
            .operations()
            .map(|(_, operation)| match way {
                Way::Request => &operation["requestBody"],
                Way::Answer => &operation["responses"],
            })
            .collect();
        let mut names = BTreeSet::new();
        while let Some(value) = open.pop() {
            if let Some(Value::String(reference)) = value.get("$ref") {
                let name = reference.strip_prefix("#/components/schemas/").unwrap();
                if names.insert(name.to_owned()) {
                    open.push(self.resolve(value));
                }
            }
            match value {
                Value::Object(fields) => open.extend(fields.values()),
                Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
        names
    }

    /// Checks that all schemas keep the rules.
    pub fn check_rules(&self) {
        let (requests, answers) = (self.names(Way::Request), self.names(Way::Answer));
        let schemas = self.0["components"]["schemas"].as_object().unwrap();
        self.check_names();
        for (name, schema) in schemas {
            check_for_generators(name, schema);
            for suffix in ["Body", "Schema"] {
                assert!(
                    !name.ends_with(suffix),
                    "{name} is no word of the interface"
                );
            }
            let (is_taken, is_sent) = (requests.contains(name), answers.contains(name));
            assert!(is_taken || is_sent, "nothing refers to {name}");
            if is_taken {
                check_request(name, schema, name == "DefinitionPatch");
            }
            if is_sent {
                check_answer(name, schema);
            }
            self.check_unions(name, schema);
        }
        for (name, operation) in self.operations() {
            let none = Vec::new();
            for parameter in operation["parameters"].as_array().unwrap_or(&none) {
                let schema = &parameter["schema"];
                let key = &parameter["name"];
                assert!(!is_nullable(schema), "{name}: {key} can't be null");
                if schema["type"] == "array" {
                    let form = (&parameter["style"], &parameter["explode"]);
                    assert_eq!(form, (&json!("form"), &json!(false)), "{name}: {key}");
                }
            }
        }
    }

    /// Each schema becomes a type of generated clients, next to those that the generators add.
    fn check_names(&self) {
        let schemas = self.0["components"]["schemas"].as_object().unwrap();
        let operations = self.operations();
        let of_operations: BTreeSet<String> = operations
            .flat_map(|(_, operation)| {
                let id = operation["operationId"].as_str().unwrap().replace('_', "");
                ["request", "response"].map(|end| format!("{id}{end}"))
            })
            .collect();
        let mut names = BTreeSet::new();
        for name in schemas.keys() {
            let lower = name.to_lowercase();
            let is_own = GENERATED.contains(&&*lower) || of_operations.contains(&lower);
            assert!(!is_own, "generators have a type {name} of their own");
            assert!(
                !name.starts_with("New") && !name.starts_with("Nullable"),
                "{name} is what Go's generator makes of another schema"
            );
            assert!(
                names.insert(lower),
                "{name} differs from another name by case only"
            );
        }
    }

    /// A union says by which field its members are told apart, and each member has it.
    fn check_unions(&self, name: &str, schema: &Value) {
        let wrapped = schema["allOf"].as_array();
        let is_reference = |all: &Vec<Value>| all.len() == 1 && !all[0]["$ref"].is_null();
        assert!(wrapped.is_none_or(is_reference), "{name}");
        assert!(schema["anyOf"].is_null(), "{name}");
        if let Some(items) = schema["oneOf"].as_array() {
            let field = schema["discriminator"]["propertyName"]
                .as_str()
                .unwrap_or_else(|| panic!("{name} has no discriminator"));
            let mapping = schema["discriminator"]["mapping"].as_object().unwrap();
            for item in items {
                let tag = &self.resolve(item)["properties"][field];
                let values = &self.resolve(tag)["enum"];
                let mapped: BTreeSet<&str> = mapping
                    .iter()
                    .filter(|(_, target)| item["$ref"] == **target)
                    .map(|(value, _)| value.as_str())
                    .collect();
                let values: BTreeSet<&str> = values
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect();
                assert_eq!(values, mapped, "{name}: {item}");
                assert!(is_required(self.resolve(item), field), "{name}: {item}");
            }
        }
        match schema {
            Value::Object(fields) => fields
                .iter()
                .for_each(|(field, value)| self.check_unions(&format!("{name}/{field}"), value)),
            Value::Array(items) => items.iter().for_each(|item| self.check_unions(name, item)),
            _ => {}
        }
    }

    /// What of a value is not as its schema says; fields that the schema does not know are wrong too.
    pub fn errors(&self, schema: &Value, value: &Value, place: &str) -> Vec<String> {
        if is_nullable(schema) && value.is_null() {
            return Vec::new();
        }
        let schema = self.resolve(schema);
        let says = ["type", "oneOf", "enum", "properties"];
        if says.iter().all(|name| schema[name].is_null()) {
            // It may be anything.
            return Vec::new();
        }
        if let Some(items) = schema["oneOf"].as_array() {
            let errors: Vec<_> = items
                .iter()
                .map(|item| self.errors(item, value, place))
                .collect();
            let fitting = errors.iter().filter(|errors| errors.is_empty()).count();
            return match fitting {
                1 => Vec::new(),
                _ => [
                    vec![format!("{place}: {fitting} members of the union fit")],
                    errors.concat(),
                ]
                .concat(),
            };
        }
        let mut errors = Vec::new();
        if let Some(values) = schema["enum"].as_array()
            && !values.contains(value)
        {
            errors.push(format!("{place}: {value} is none of {values:?}"));
        }
        if !fits_type(&schema["type"], value) {
            errors.push(format!("{place}: {value} is not {}", schema["type"]));
        }
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let place = format!("{place}/{index}");
                    errors.extend(self.errors(&schema["items"], item, &place));
                }
            }
            Value::Object(fields) => errors.extend(self.field_errors(schema, fields, place)),
            _ => {}
        }
        errors
    }

    fn field_errors(
        &self,
        schema: &Value,
        fields: &Map<String, Value>,
        place: &str,
    ) -> Vec<String> {
        let required = schema["required"].as_array().into_iter().flatten();
        let missing = required.filter(|name| !fields.contains_key(name.as_str().unwrap()));
        let mut errors: Vec<_> = missing
            .map(|name| format!("{place}: {name} is missing"))
            .collect();
        for (name, value) in fields {
            let known = schema["properties"]
                .get(name)
                .or(schema.get("additionalProperties"));
            let place = format!("{place}/{name}");
            match known {
                Some(known) if known.is_object() => {
                    errors.extend(self.errors(known, value, &place));
                }
                _ => errors.push(format!("{place} is not known")),
            }
        }
        errors
    }

    /// A request body, once with a field too much in each of its objects, and once without each field that is required.
    pub fn damaged(&self, schema: &Value, body: &Value) -> Vec<Value> {
        let schema = self.resolve(schema);
        let mapping = &schema["discriminator"]["mapping"];
        if let Some(field) = schema["discriminator"]["propertyName"].as_str() {
            let target = &mapping[body[field].as_str().unwrap()];
            return self.damaged(&json!({"$ref": target}), body);
        }
        let mut all = Vec::new();
        if has_fields(schema) {
            let mut more = body.clone();
            more["surplus"] = json!(1);
            all.push(more);
            for name in schema["required"].as_array().into_iter().flatten() {
                let mut less = body.clone();
                less.as_object_mut().unwrap().remove(name.as_str().unwrap());
                all.push(less);
            }
        }
        let inner: Vec<(Value, &Value, &Value)> = match body {
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| (json!(name), &schema["properties"][name], value))
                .collect(),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(index, item)| (json!(index), &schema["items"], item))
                .collect(),
            _ => Vec::new(),
        };
        for (place, schema, value) in inner {
            for damaged in self.damaged(schema, value) {
                let mut whole = body.clone();
                match &place {
                    Value::String(name) => whole[name] = damaged,
                    index => whole[usize::try_from(index.as_u64().unwrap()).unwrap()] = damaged,
                }
                all.push(whole);
            }
        }
        all
    }
}

fn fits_type(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        None => name.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some(other) => panic!("the type {other} is not known"),
    }
}

/// What generators trip over, wherever it is in a schema: lists of types, null as a type, and enums without names.
fn check_for_generators(place: &str, schema: &Value) {
    let of_type = &schema["type"];
    assert!(
        of_type.is_null() || of_type.is_string(),
        "{place} has a list of types"
    );
    assert_ne!(
        of_type, "null",
        "{place}: `nullable` says that it may be null"
    );
    inner(schema, |name, schema| {
        let place = format!("{place}/{name}");
        assert!(schema["enum"].is_null(), "{place}: an enum has a name");
        check_for_generators(&place, schema);
    });
}

/// What is sent to the service: unknown fields are refused, and what may be left out is not sent as null. There is no
/// `default`, because generated clients would send it.
fn check_request(place: &str, schema: &Value, is_patch: bool) {
    if has_fields(schema) {
        assert_eq!(
            schema["additionalProperties"], false,
            "{place} is not closed"
        );
        for (name, field) in schema["properties"].as_object().unwrap() {
            let place = format!("{place}/{name}");
            let may_be_null = is_nullable(field) && !is_required(schema, name);
            assert_eq!(may_be_null, is_patch, "{place}");
            assert!(field["default"].is_null(), "{place} has a default");
        }
    }
    inner(schema, |name, schema| {
        check_request(&format!("{place}/{name}"), schema, is_patch);
    });
}

/// What the service sends: what may be null is always there.
fn check_answer(place: &str, schema: &Value) {
    if has_fields(schema) {
        for (name, field) in schema["properties"].as_object().unwrap() {
            let place = format!("{place}/{name}");
            let is_right = !is_nullable(field) || is_required(schema, name) || is_included(name);
            // Callers that may not configure a board see only some of its fields in a list.
            let is_restricted = place.starts_with("ListedBoard/");
            assert!(
                is_right || is_restricted || ON_DEMAND.contains(&&*place),
                "{place} is not required"
            );
        }
    }
    inner(schema, |name, schema| {
        check_answer(&format!("{place}/{name}"), schema);
    });
}

/// The schemas directly in a schema.
fn inner(schema: &Value, mut check: impl FnMut(&str, &Value)) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        check(name, field);
    }
    for name in ["items", "additionalProperties"] {
        if schema[name].is_object() {
            check(name, &schema[name]);
        }
    }
    for item in schema["oneOf"].as_array().into_iter().flatten() {
        check("oneOf", item);
    }
}
