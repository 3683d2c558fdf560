//! Parts of schemas: finding and changing them, whatever the kind of schema.

use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, AllOf, AnyOf, Array, ArrayItems, Object, ObjectBuilder, OneOf,
    OneOfBuilder, Schema, SchemaType, Type,
};

/// Calls `change` for a schema and all schemas in it.
pub(super) fn each(schema: &mut RefOr<Schema>, change: &mut dyn FnMut(&mut RefOr<Schema>)) {
    change(schema);
    match schema {
        RefOr::T(Schema::Object(object)) => {
            for property in object.properties.values_mut() {
                each(property, change);
            }
            if let Some(AdditionalProperties::RefOr(value)) =
                object.additional_properties.as_deref_mut()
            {
                each(value, change);
            }
        }
        RefOr::T(Schema::Array(array)) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items {
                each(items, change);
            }
        }
        RefOr::T(
            Schema::OneOf(OneOf { items, .. })
            | Schema::AllOf(AllOf { items, .. })
            | Schema::AnyOf(AnyOf { items, .. }),
        ) => items.iter_mut().for_each(|item| each(item, change)),
        RefOr::T(_) | RefOr::Ref(_) => {}
    }
}

/// The object, if its fields are known by name.
pub(super) fn object(schema: &RefOr<Schema>) -> Option<&Object> {
    match schema {
        RefOr::T(Schema::Object(object)) if !object.properties.is_empty() => Some(object),
        _ => None,
    }
}

pub(super) fn object_mut(schema: &mut RefOr<Schema>) -> Option<&mut Object> {
    match schema {
        RefOr::T(Schema::Object(object)) if !object.properties.is_empty() => Some(object),
        _ => None,
    }
}

pub(super) fn take_default(schema: &mut RefOr<Schema>) -> Option<Value> {
    match schema {
        RefOr::Ref(reference) => reference.default.take(),
        RefOr::T(Schema::Object(object)) => object.default.take(),
        RefOr::T(Schema::Array(array)) => array.default.take(),
        RefOr::T(_) => None,
    }
}

/// Adds a sentence to a description, if there is one to add.
pub(super) fn describe(schema: &mut RefOr<Schema>, sentence: &str) {
    if sentence.is_empty() {
        return;
    }
    let with = |before: &str| format!("{before} {sentence}").trim().to_owned();
    match schema {
        RefOr::Ref(reference) => reference.description = with(&reference.description),
        RefOr::T(
            Schema::Object(Object { description, .. }) | Schema::Array(Array { description, .. }),
        ) => {
            *description = Some(with(description.as_deref().unwrap_or_default()));
        }
        RefOr::T(_) => {}
    }
}

pub(super) fn is_null(schema: &RefOr<Schema>) -> bool {
    matches!(schema, RefOr::T(Schema::Object(object)) if object.schema_type == SchemaType::Type(Type::Null))
}

pub(super) fn is_nullable(schema: &RefOr<Schema>) -> bool {
    match schema {
        RefOr::T(
            Schema::Object(Object { schema_type, .. }) | Schema::Array(Array { schema_type, .. }),
        ) => matches!(schema_type, SchemaType::Array(types) if types.contains(&Type::Null)),
        RefOr::T(Schema::OneOf(one)) => one.items.iter().any(is_null),
        RefOr::T(_) | RefOr::Ref(_) => false,
    }
}

/// Turns the schema of `T or null` into that of `T`.
pub(super) fn drop_null(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(
            Schema::Object(Object { schema_type, .. }) | Schema::Array(Array { schema_type, .. }),
        ) => {
            if let SchemaType::Array(types) = schema_type {
                types.retain(|one| *one != Type::Null);
                if let [one] = types.as_slice() {
                    *schema_type = SchemaType::Type(one.clone());
                }
            }
        }
        RefOr::T(Schema::OneOf(one)) => {
            one.items.retain(|item| !is_null(item));
            if one.items.len() == 1 {
                let description = one.description.take();
                *schema = one.items.remove(0);
                describe(schema, description.as_deref().unwrap_or_default());
            }
        }
        RefOr::T(_) | RefOr::Ref(_) => {}
    }
}

/// Turns the schema of `T` into that of `T or null`.
pub(super) fn with_null(mut schema: RefOr<Schema>) -> RefOr<Schema> {
    match &mut schema {
        RefOr::T(
            Schema::Object(Object { schema_type, .. }) | Schema::Array(Array { schema_type, .. }),
        ) => {
            if let SchemaType::Type(one) = schema_type {
                *schema_type = SchemaType::Array(vec![one.clone(), Type::Null]);
            }
            schema
        }
        RefOr::T(_) | RefOr::Ref(_) => {
            let null = ObjectBuilder::new().schema_type(Type::Null);
            OneOfBuilder::new().item(schema).item(null).into()
        }
    }
}
