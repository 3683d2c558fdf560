//! The domain's types that are a single value in JSON, each described once: fields of these types need no description.

use std::borrow::Cow;

use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::domain::access::{Boards, Rate, Scope, Scopes};
use crate::domain::board::AcceptLate;
use crate::domain::data::EntryData;
use crate::domain::ids::{BoardId, EventId, Label, MemberId};
use crate::domain::league::{Share, TierName};
use crate::domain::name::Name;
use crate::domain::quota::QuotaWindow;
use crate::domain::reward::{Percent, Reward, RuleId};
use crate::domain::score::{Bound, Decimals, ShownScore};
use crate::domain::time::{Span, Timestamp};
use crate::domain::timezone::Zone;

/// The prefix of the names of these schemas. Where utoipa refers to one of them, the document has the value itself.
pub const VALUE: &str = "Value.";

/// Describes types, with the attributes that fields have otherwise.
macro_rules! values {
    ($($($kind:ty),+: $schema:tt;)*) => {$($(
        const _: () = {
            #[derive(ToSchema)]
            #[schema $schema]
            #[expect(dead_code, reason = "carries the attributes")]
            struct Described(String);

            impl ToSchema for $kind {
                fn name() -> Cow<'static, str> {
                    format!("{VALUE}{}", stringify!($kind)).into()
                }

                fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                    Described::schemas(schemas);
                }
            }

            impl PartialSchema for $kind {
                fn schema() -> RefOr<Schema> {
                    Described::schema()
                }
            }
        };
    )+)*};
}

values! {
    AcceptLate: (value_type = String, pattern = r"^(any|[0-9]{1,9}[smhd])$", example = "48h");
    BoardId: (value_type = String, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$");
    Boards: (value_type = Vec<String>, min_items = 1, max_items = 100, example = json!(["vote-*"]));
    Bound, ShownScore: (value_type = f64);
    Decimals: (value_type = u8, minimum = 0, maximum = 6);
    EntryData: (value_type = Object);
    MemberId, EventId, Label: (value_type = String, min_length = 1, max_length = 128, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$");
    Name: (value_type = String, min_length = 1, example = "Ann");
    Percent: (value_type = f64, minimum = 0.000_001, maximum = 100, example = 5);
    QuotaWindow: (value_type = String, example = "1m");
    Rate: (value_type = String, pattern = "^[1-9][0-9]{0,6}/[smh]$", example = "50/s");
    Reward: (value_type = serde_json::Value);
    RuleId: (value_type = String, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$");
    Scopes: (value_type = Vec<Scope>, min_items = 1);
    Share: (value_type = f64, minimum = 0, maximum = 1, example = 0.2);
    Span: (value_type = String, pattern = r"^[0-9]{1,9}[smhd]$", example = "1h");
    TierName: (value_type = String, pattern = "^[a-z0-9][a-z0-9_]{0,31}$", example = "silver");
    Timestamp: (value_type = String, format = DateTime);
    Zone: (value_type = String, example = "Asia/Shanghai");
}
