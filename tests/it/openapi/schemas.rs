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
    let types = schema["type"].as_array();
    let items = schema["oneOf"].as_array();
    types.is_some_and(|types| types.contains(&json!("null")))
        || items.is_some_and(|items| items.iter().any(|item| item["type"] == "null"))
}

pub fn is_required(schema: &Value, field: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|required| required.contains(&json!(field)))
}

/// The example of a body; of several, the first.
pub fn example_of(content: &Value) -> &Value {
    let content = &content["application/json"];
    match content["examples"].as_object() {
        Some(examples) => &examples.values().next().unwrap()["value"],
        None => &content["example"],
    }
}

impl Document {
    pub fn of_code() -> Self {
        Self(serde_json::to_value(standings::api::document::document()).unwrap())
    }

    /// All operations, with what they are called.
    pub fn operations(&self) -> impl Iterator<Item = (String, &Value)> {
        let paths = self.0["paths"].as_object().unwrap();
        paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
        })
    }

    /// The schema that a reference leads to, or the schema itself.
    pub fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let Some(reference) = schema["$ref"].as_str() else {
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
        for (name, schema) in schemas {
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

    /// A union says by which field its members are told apart, and each member has it.
    fn check_unions(&self, name: &str, schema: &Value) {
        assert!(
            schema["allOf"].is_null() && schema["anyOf"].is_null(),
            "{name}"
        );
        if let Some(items) = schema["oneOf"].as_array()
            && !is_nullable(schema)
        {
            let field = schema["discriminator"]["propertyName"]
                .as_str()
                .unwrap_or_else(|| panic!("{name} has no discriminator"));
            let mapping = schema["discriminator"]["mapping"].as_object().unwrap();
            for item in items {
                let values = &self.resolve(item)["properties"][field]["enum"];
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

fn fits_type(types: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the type {other} is not known"),
    };
    match types {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().any(|name| is(name.as_str().unwrap())),
        _ => true,
    }
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
            assert!(
                is_right || ON_DEMAND.contains(&&*place),
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
