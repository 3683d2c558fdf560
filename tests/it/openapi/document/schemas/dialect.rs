//! The form in which generators of clients read schemas: that of `OpenAPI` 3.0, with a name for each enum.
//!
//! Many generators don't read 3.1, and some that do lose what may be null. In 3.0 a type may be null by `nullable`, and
//! nothing is next to a reference. They name inline enums themselves, some of them twice or not at all.

use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{AllOf, AllOfBuilder, Array, Object, Schema};
use utoipa::openapi::{OpenApi, Ref, RefOr};

use super::super::{in_place, operations};
use super::parts::{drop_null, each, is_nullable, object_mut};
use super::{Schemas, schemas_of};

/// Makes each enum in a field a schema that is named after its object and the field.
pub(super) fn name_enums(schemas: &mut Schemas) {
    let mut named = Schemas::new();
    for (object, schema) in schemas.iter_mut() {
        let fields = object_mut(schema).map(|object| object.properties.iter_mut());
        for (field, schema) in fields.into_iter().flatten() {
            if matches!(
                schema,
                RefOr::T(Schema::Object(Object {
                    enum_values: Some(_),
                    ..
                }))
            ) {
                let name = format!("{object}{}", capitalised(field));
                let reference = Ref::from_schema_name(&name).into();
                named.insert(name, std::mem::replace(schema, reference));
            }
        }
    }
    for (name, schema) in named {
        let former = schemas.insert(name, schema);
        assert!(
            former.is_none(),
            "invariant: no schema has the name of an enum in a field"
        );
    }
}

/// `previous_rank` as a part of a type's name: `PreviousRank`.
fn capitalised(field: &str) -> String {
    let word = |word: &str| format!("{}{}", word[..1].to_uppercase(), &word[1..]);
    field.split('_').map(word).collect()
}

/// Writes all schemas as in `OpenAPI` 3.0.
pub(super) fn write_as_3_0(document: &mut OpenApi) {
    let write = |schema: &mut RefOr<Schema>| each(schema, &mut write_one_as_3_0);
    schemas_of(document).values_mut().for_each(write);
    for (.., operation) in operations(document) {
        let parameters = operation.parameters.iter_mut().flatten();
        for parameter in parameters.filter_map(in_place) {
            parameter.schema.iter_mut().for_each(write);
        }
        let responses = operation.responses.responses.values_mut();
        for response in responses.filter_map(in_place) {
            for header in response.headers.values_mut().filter_map(in_place) {
                if let Some(schema) = &mut header.schema {
                    drop_null(schema); // a header is there or not
                    write(schema);
                }
            }
        }
    }
}

fn write_one_as_3_0(schema: &mut RefOr<Schema>) {
    let is_nullable = is_nullable(schema);
    drop_null(schema);
    if let RefOr::Ref(reference) = schema
        && (is_nullable || !reference.description.is_empty())
    {
        let description = std::mem::take(&mut reference.description);
        let description = Some(description).filter(|text| !text.is_empty());
        let wrapped = AllOfBuilder::new().item(reference.clone());
        *schema = wrapped.description(description).into();
    }
    if let RefOr::T(Schema::Object(object)) = schema {
        object.property_names = None;
    }
    if is_nullable
        && let RefOr::T(
            Schema::Object(Object { extensions, .. })
            | Schema::Array(Array { extensions, .. })
            | Schema::AllOf(AllOf { extensions, .. }),
        ) = schema
    {
        *extensions = Some(Extensions::from_iter([("nullable", true)]));
    }
}
