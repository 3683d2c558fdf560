//! The forms of the schemas.
//!
//! What the service takes differs from what it sends, even where one type is used for both:
//!
//! - A request may leave out what has a default or may be null. So these fields are not required, and the schema does not
//!   offer null. It has no `default` either, because generated clients would send it: the description states it. The
//!   service refuses unknown fields.
//! - A response always has what has a default or may be null. So these fields are required. A later release may add fields
//!   to a response.
//!
//! A schema with both forms exists twice: `Quota` is sent, `QuotaDefinition` is taken.

mod dialect;
mod parts;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use utoipa::PartialSchema;
use utoipa::openapi::path::ParameterIn;
use utoipa::openapi::schema::{
    AdditionalProperties, Array, ArrayItems, Discriminator, Object, ObjectBuilder, OneOf, Schema,
    SchemaType, Type,
};
use utoipa::openapi::{OpenApi, Ref, RefOr};

use self::dialect::{name_enums, write_as_3_0};
use self::parts::{
    describe, drop_null, each, is_null, is_nullable, object, object_mut, take_default, with_null,
};
use super::{in_place, operations};
use standings::api::values::VALUE;
use standings::domain::ids::{BoardId, MemberId, NAME_BYTES_MAX};
use standings::domain::include::Include;

type Schemas = BTreeMap<String, RefOr<Schema>>;

/// The pattern of patterns of board ids ([`standings::domain::access::BoardPattern`]).
const BOARD_PATTERN: &str = "^[A-Za-z0-9._*-]{1,128}$";
/// How a reference to a schema begins.
const HERE: &str = "#/components/schemas/";

/// Gives all schemas their forms.
pub(super) fn settle(document: &mut OpenApi) {
    let schemas = prepared(std::mem::take(schemas_of(document)));
    let (taken_roots, sent_roots) = roots(document);
    let taken = reachable(&schemas, &taken_roots);
    let sent = reachable(&schemas, &sent_roots);

    let forms = |names: &BTreeSet<String>, form: fn(&mut RefOr<Schema>)| -> Schemas {
        let of_name = |name: &String| {
            let mut schema = schemas[name].clone();
            each(&mut schema, &mut |schema| {
                unwrap(schema);
                form(schema);
            });
            (name.clone(), schema)
        };
        names.iter().map(of_name).collect()
    };
    let (mut taken, sent) = (forms(&taken, as_taken), forms(&sent, as_sent));
    let required = |form: &RefOr<Schema>| object(form).map(|object| object.required.clone());
    let differs = |(name, form): &(&String, &RefOr<Schema>)| {
        let sent = sent.get(*name);
        sent.is_some_and(|sent| required(sent) != required(form))
    };
    let split: BTreeSet<String> = taken
        .iter()
        .filter(differs)
        .map(|(name, _)| name.clone())
        .collect();
    for schema in taken.values_mut() {
        each(schema, &mut |schema| lead_to_definitions(schema, &split));
    }
    let mut settled = sent.clone();
    for (name, schema) in &sent {
        if let RefOr::T(Schema::AllOf(_)) = schema
            && let Some(whole) = flat(schema, &sent)
        {
            settled.insert(name.clone(), Schema::Object(whole).into());
        }
    }
    for (name, schema) in taken {
        settled.insert(name_of_taken(&name, &split), schema);
    }
    add_patch(&mut settled);
    add_listed_board(&mut settled);
    let used = reachable(&settled, &[taken_roots, sent_roots].concat());
    settled.retain(|name, _| used.contains(name));
    name_enums(&mut settled);
    *schemas_of(document) = settled;
    settle_parameters(document);
    write_as_3_0(document);
}

/// The schemas, with references to values replaced by the values, with unions that have discriminators, and with those that
/// are composed here.
fn prepared(mut schemas: Schemas) -> Schemas {
    let before = schemas.clone();
    for schema in schemas.values_mut() {
        each(schema, &mut |schema| place_value(schema, &before));
    }
    for (name, schema) in before {
        if let RefOr::T(Schema::OneOf(union)) = schema {
            tell_apart(&name, union, &mut schemas);
        }
    }
    add_board(&mut schemas);
    add_event(&mut schemas);
    schemas
}

fn schemas_of(document: &mut OpenApi) -> &mut Schemas {
    let components = document.components.as_mut();
    &mut components.expect("there are schemas").schemas
}

/// Replaces a reference to a value of the domain by the value.
fn place_value(schema: &mut RefOr<Schema>, values: &Schemas) {
    let (reference, is_nullable) = match schema {
        RefOr::Ref(reference) => (reference, false),
        RefOr::T(Schema::OneOf(one)) => match one.items.as_mut_slice() {
            [RefOr::Ref(reference), null] if is_null(null) => (reference, true),
            _ => return,
        },
        RefOr::T(_) => return,
    };
    let Some(name) = name_of(&reference.ref_location).filter(|name| name.starts_with(VALUE)) else {
        return;
    };
    let mut value = values[name].clone();
    describe(&mut value, &reference.description);
    if let RefOr::T(Schema::Object(value)) = &mut value {
        value.default = reference.default.take();
    }
    *schema = if is_nullable { with_null(value) } else { value };
}

/// Describes a union by its discriminator: the schema of each kind has the tag. The tag `status` is a field of the kind
/// wherever it is sent. With the tag `type` a kind may also be a response by itself, without the tag: then it has a
/// separate schema in the union, such as `PageQueryResult`.
fn tell_apart(union: &str, mut one: OneOf, schemas: &mut Schemas) {
    let mut discriminator = Discriminator::default();
    for kind in std::mem::take(&mut one.items) {
        let tagged = tagged(&kind).unwrap_or_else(|| panic!("invariant: {union} has a tag"));
        let (target, field, word, description) = tagged;
        let name = match field {
            "status" => target.to_owned(),
            _ => format!("{}{}{union}", word[..1].to_uppercase(), &word[1..]),
        };
        if let Some(own) = schemas.get_mut(&name).and_then(object_mut) {
            let tag = own
                .properties
                .entry(field.to_owned())
                .or_insert_with(|| ObjectBuilder::new().schema_type(Type::String).into());
            describe(tag, &description);
            if let RefOr::T(Schema::Object(tag)) = tag {
                tag.enum_values.get_or_insert_default().push(word.into());
            }
            if !own.required.iter().any(|name| name == field) {
                own.required.push(field.to_owned());
            }
        }
        let reference = Ref::from_schema_name(&name);
        field.clone_into(&mut discriminator.property_name);
        let mapping = &mut discriminator.mapping;
        mapping.insert(word.to_owned(), reference.ref_location.clone());
        if !one.items.contains(&reference.clone().into()) {
            one.items.push(reference.into());
        }
        schemas.entry(name).or_insert(kind);
    }
    one.discriminator = Some(discriminator);
    schemas.insert(union.to_owned(), Schema::OneOf(one).into());
}

/// Of a kind of a union: the name of its schema without the tag, the field of the tag, its value, and its description.
fn tagged(kind: &RefOr<Schema>) -> Option<(&str, &str, &str, String)> {
    let RefOr::T(Schema::AllOf(all)) = kind else {
        return None;
    };
    let [RefOr::Ref(target), RefOr::T(Schema::Object(tag))] = all.items.as_slice() else {
        return None;
    };
    let (field, RefOr::T(Schema::Object(tag))) = tag.properties.first()? else {
        return None;
    };
    let word = tag.enum_values.as_ref()?.first()?.as_str()?;
    let description = format!("`{word}`: {}", all.description.as_deref()?);
    Some((name_of(&target.ref_location)?, field, word, description))
}

/// A board is shown as its definition with its id. The definition allows no other field, so the two can't be composed in
/// the document: the schema is built here.
fn add_board(schemas: &mut Schemas) {
    let definition = object(&schemas["Definition"]).expect("a definition is an object");
    let mut board = definition.clone();
    let mut id = BoardId::schema();
    describe(&mut id, "The board's id.");
    board.description = Some("A board: its id and its definition, with all defaults.".into());
    board.properties.insert("board".into(), id);
    board.required = board.properties.keys().cloned().collect();
    schemas.insert("Board".into(), Schema::Object(board).into());
}

/// A board in a list has all fields of a board, most of them only for callers that may configure it. Only its description
/// comes from the code.
fn add_listed_board(schemas: &mut Schemas) {
    let mut listed = object(&schemas["Board"])
        .expect("a board is an object")
        .clone();
    if let Some(before) = object(&schemas["ListedBoard"]) {
        listed.description.clone_from(&before.description);
    }
    listed.required = ["board", "title", "tags", "public", "windows"]
        .map(str::to_owned)
        .into();
    schemas.insert("ListedBoard".to_owned(), Schema::Object(listed).into());
}

/// An event whose board the path names is an event of a batch without its board.
fn add_event(schemas: &mut Schemas) {
    let mut event = object(&schemas["BatchEvent"])
        .expect("an event is an object")
        .clone();
    event.description = Some("One event, whose board the path names.".into());
    event.properties.shift_remove("board");
    event.required.retain(|name| name != "board");
    schemas.insert("Event".into(), Schema::Object(event).into());
}

/// The merge patch of a definition. Only its description comes from the code.
fn add_patch(schemas: &mut Schemas) {
    let mut patch = patch(&schemas["Definition"], schemas);
    if let (Some(patch), Some(before)) = (object_mut(&mut patch), schemas.get("DefinitionPatch"))
        && let RefOr::T(Schema::Object(before)) = before
    {
        patch.description.clone_from(&before.description);
    }
    schemas.insert("DefinitionPatch".to_owned(), patch);
}

/// The schemas that requests and responses refer to directly.
fn roots(document: &mut OpenApi) -> (Vec<String>, Vec<String>) {
    let (mut taken, mut sent) = (Vec::new(), Vec::new());
    for (.., operation) in operations(document) {
        taken.extend(references(&operation.request_body));
        sent.extend(references(&operation.responses));
    }
    (taken, sent)
}

/// The names of the schemas that something refers to.
fn references(of: &impl Serialize) -> Vec<String> {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                let reference = fields.get("$ref").and_then(Value::as_str);
                found.extend(reference.and_then(name_of).map(ToOwned::to_owned));
                fields.values().for_each(|field| walk(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    let value = serde_json::to_value(of).expect("the document is JSON");
    walk(&value, &mut found);
    found
}

fn name_of(reference: &str) -> Option<&str> {
    reference.strip_prefix(HERE)
}

/// The schemas that can be reached from these.
fn reachable(schemas: &Schemas, roots: &[String]) -> BTreeSet<String> {
    let mut open = roots.to_vec();
    let mut reached = BTreeSet::new();
    while let Some(name) = open.pop() {
        let schema = schemas
            .get(&name)
            .unwrap_or_else(|| panic!("invariant: there is a schema {name}"));
        if reached.insert(name) {
            open.extend(references(schema));
        }
    }
    reached
}

/// Replaces an inline schema that has a description next to it by the schema with this description.
fn unwrap(schema: &mut RefOr<Schema>) {
    if let RefOr::T(Schema::AllOf(all)) = schema
        && let [
            RefOr::T(Schema::Object(inline)),
            RefOr::T(Schema::Object(beside)),
        ] = all.items.as_mut_slice()
        && beside.properties.is_empty()
    {
        inline.description = beside.description.take();
        *schema = all.items.remove(0);
    }
}

/// The form in which the service takes an object.
fn as_taken(schema: &mut RefOr<Schema>) {
    let Some(object) = object_mut(schema) else {
        return;
    };
    object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
    for (name, property) in &mut object.properties {
        if !object.required.contains(name) {
            drop_null(property);
        }
        restrict(name, property);
        if let Some(default) = take_default(property) {
            let text = default
                .as_str()
                .map_or_else(|| default.to_string(), ToOwned::to_owned);
            describe(property, &format!("Default: `{text}`."));
        }
    }
}

/// Says what a field or a parameter of this name may contain, if it holds an id, ids, or patterns of boards.
fn restrict(name: &str, schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(text)) if is_text(text) && is_id(name, text) => restrict_id(text),
        RefOr::T(Schema::Array(Array {
            items: ArrayItems::RefOrSchema(item),
            ..
        })) => {
            if let RefOr::T(Schema::Object(item)) = &mut **item
                && is_text(item)
            {
                match name {
                    "ids" => restrict_id(item),
                    "boards" => item.pattern = Some(BOARD_PATTERN.to_owned()),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Whether a text of this name is an id; other texts have other lengths.
fn is_id(name: &str, text: &Object) -> bool {
    name == "member" || text.max_length == Some(NAME_BYTES_MAX)
}

/// Turns a text into an id of a member, an event or a voter. The service counts its bytes, the document characters.
fn restrict_id(text: &mut Object) {
    if let RefOr::T(Schema::Object(id)) = MemberId::schema() {
        text.min_length = id.min_length;
        text.max_length = id.max_length;
        text.pattern = id.pattern;
    }
}

/// Whether it is a string of any content.
fn is_text(schema: &Object) -> bool {
    let is_string = |one: &Type| *one == Type::String;
    let is_text = match &schema.schema_type {
        SchemaType::Type(one) => is_string(one),
        SchemaType::Array(types) => types.iter().any(is_string),
        SchemaType::AnyValue => false,
    };
    is_text && schema.enum_values.is_none() && schema.format.is_none() && schema.pattern.is_none()
}

/// The form in which the service sends an object.
fn as_sent(schema: &mut RefOr<Schema>) {
    let Some(object) = object_mut(schema) else {
        return;
    };
    if let Some(AdditionalProperties::FreeForm(_)) = object.additional_properties.as_deref() {
        object.additional_properties = None;
    }
    let mut required = Vec::new();
    for (name, property) in &mut object.properties {
        if let RefOr::T(Schema::Object(text)) = property {
            text.pattern = None; // clients don't check it, and a generated one may refuse what a later release sends
        }
        let has_default = take_default(property).is_some();
        // Sent only if the request asks for it, or in messages of streams, and may be null then.
        let is_included = Include::ALL.iter().any(|word| word.name() == *name);
        let is_of_streams = name == "previous_rank";
        let is_nullable = is_nullable(property) && !is_included && !is_of_streams;
        if has_default || is_nullable || object.required.contains(name) {
            required.push(name.clone());
        }
    }
    object.required = required;
}

/// The name of the form in which a schema is taken; a separate one if its form in responses differs.
fn name_of_taken(name: &str, split: &BTreeSet<String>) -> String {
    let end = if split.contains(name) {
        "Definition"
    } else {
        ""
    };
    format!("{name}{end}")
}

/// Makes a reference to one of these schemas refer to the form in which it is taken.
fn lead_to_definitions(schema: &mut RefOr<Schema>, split: &BTreeSet<String>) {
    if let RefOr::Ref(Ref { ref_location, .. }) = schema
        && let Some(name) = name_of(ref_location)
    {
        *ref_location = format!("{HERE}{}", name_of_taken(name, split));
    }
}

/// Merges what several schemas say of one object into one. The fields of a part that may be missing may be missing too.
fn flat(schema: &RefOr<Schema>, schemas: &Schemas) -> Option<Object> {
    let all = match schema {
        RefOr::Ref(reference) => return flat(&schemas[name_of(&reference.ref_location)?], schemas),
        RefOr::T(Schema::OneOf(one)) => {
            let mut part = one.items.iter().find_map(|item| flat(item, schemas))?;
            part.required.clear();
            return Some(part);
        }
        RefOr::T(Schema::AllOf(all)) => all,
        schema @ RefOr::T(_) => return object(schema).cloned(),
    };
    let mut whole = ObjectBuilder::new().schema_type(Type::Object).build();
    whole.description.clone_from(&all.description);
    let (optional, parts): (Vec<_>, Vec<_>) = all.items.iter().partition(|part| is_nullable(part));
    for part in parts.into_iter().chain(optional) {
        let part = flat(part, schemas)?;
        whole.properties.extend(part.properties);
        whole.required.extend(part.required);
    }
    Some(whole)
}

/// A merge patch of an object: each field may be left out, and may be null. Fields of inner objects are merged too.
fn patch(schema: &RefOr<Schema>, schemas: &Schemas) -> RefOr<Schema> {
    let target = match schema {
        RefOr::Ref(reference) => {
            name_of(&reference.ref_location).and_then(|name| schemas.get(name))
        }
        RefOr::T(_) => None,
    };
    let RefOr::T(Schema::Object(target)) = target.unwrap_or(schema) else {
        return schema.clone();
    };
    let mut patched = target.clone();
    if let Some(AdditionalProperties::RefOr(value)) = patched.additional_properties.as_deref_mut() {
        *value = with_null(value.clone());
    } else if target.properties.is_empty() {
        return schema.clone();
    }
    patched.required.clear();
    for property in patched.properties.values_mut() {
        *property = with_null(patch(property, schemas));
    }
    let mut patched = Schema::Object(patched).into();
    if let RefOr::Ref(Ref { description, .. }) = schema {
        describe(&mut patched, description);
    }
    patched
}

/// A parameter is present or absent; it is never null.
fn settle_parameters(document: &mut OpenApi) {
    for (.., operation) in operations(document) {
        let parameters = operation.parameters.iter_mut().flatten();
        for parameter in parameters.filter_map(in_place) {
            if let Some(schema) = &mut parameter.schema {
                drop_null(schema);
                restrict(&parameter.name, schema);
                if parameter.parameter_in == ParameterIn::Query {
                    fill(&parameter.name, schema);
                }
            }
        }
    }
}

/// Says that an entry of a list, or words in a query, are not empty.
fn fill(name: &str, schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(text)) if is_text(text) && matches!(name, "after" | "before") => {
            text.min_length.get_or_insert(1);
        }
        RefOr::T(Schema::Array(array)) => {
            array.min_items.get_or_insert(1);
        }
        _ => {}
    }
}
