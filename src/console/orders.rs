//! What forms order that need one call of a route of `/v1`, among them all questions before what can't be undone.

use axum::extract::MatchedPath;
use axum::response::{IntoResponse, Redirect};

use super::page::DONE;
use super::prelude::*;
use crate::http::inner::fault;

/// Where each form is sent to, below `/console` ¦ the call ¦ the field in its body ¦ the field whose value has to be typed
/// first, if the order can't be undone ¦ the page that follows, below `/console` ¦ its notice.
///
/// `{name}` is a part of the path or a field of the form, or the `id` of the response; after `?` stand the names of those
/// that are parameters.
const ORDERS: &str = "\
/boards/{board}/delete ¦ DELETE /v1/boards/{board} ¦ ¦ board ¦ /boards?done ¦ deleted
/boards/{board}/close-period ¦ POST /v1/boards/{board}/standings/{window}/periods/{key}/close ¦ ¦ key ¦ /boards/{board}/upkeep?done ¦ final
/boards/{board}/erase ¦ DELETE /v1/boards/{board}/members/{member} ¦ ¦ member ¦ /boards/{board}/standings/{window}/member?member&key&done ¦ erased
/boards/{board}/tier ¦ PUT /v1/boards/{board}/league/members/{member} ¦ tier ¦ member ¦ /boards/{board}/standings/{window}/member?member&key&done ¦ ordered
/boards/{board}/join ¦ POST /v1/boards/{board}/league/members ¦ member ¦ ¦ /boards/{board}/standings/{window}/member?member&key&done ¦ joined
/boards/{board}/leave ¦ POST /v1/boards/{board}/league/leave ¦ member ¦ ¦ /boards/{board}/standings/{window}/member?member&key&done ¦ left
/boards/{board}/retract ¦ POST /v1/boards/{board}/events/{event}/retract?member&player ¦ reason ¦ ¦ /boards/{board}/standings/{window}/member?member&key&older&done ¦ retracted
/boards/{board}/restore ¦ POST /v1/boards/{board}/events/{event}/restore?member&player ¦ reason ¦ ¦ /boards/{board}/standings/{window}/member?member&key&older&done ¦ restored
/boards/{board}/restore-revocation ¦ POST /v1/boards/{board}/revocations/{revocation}/restore ¦ reason ¦ ¦ /boards/{board}/revocations?done ¦ events-restored
/boards/{board}/standings/{window}/periods/{key}/claim ¦ PUT /v1/boards/{board}/standings/{window}/periods/{key}/rewards/{rule}/members/{member}/claim ¦ by ¦ ¦ /boards/{board}/standings/{window}/periods/{key}?cohort&after&done ¦ claimed
/member/delete-profile ¦ DELETE /v1/members/{member}/profile ¦ ¦ member ¦ /member?member&done ¦ deleted
/member/erase ¦ DELETE /v1/members/{member} ¦ ¦ member ¦ /jobs/{id} ¦
/keys/{name}/delete ¦ DELETE /v1/keys/{name}?with ¦ ¦ name ¦ /keys?done&name ¦ key-deleted
/webhooks/{name}/delete ¦ DELETE /v1/webhooks/{name} ¦ ¦ name ¦ /webhooks?done&name ¦ webhook-deleted
/webhooks/{name}/test ¦ POST /v1/webhooks/{name}/test ¦ ¦ ¦ /webhooks/{name}?done ¦ tested
/webhooks/{name}/retry ¦ POST /v1/webhooks/{name}/deliveries/{delivery}/retry ¦ ¦ ¦ /webhooks/{name}?status&done ¦ resent";

/// The cells of each row.
fn orders() -> impl Iterator<Item = [&'static str; 6]> {
    let cells = |row: &'static str| row.split('¦').map(str::trim).collect::<Vec<_>>();
    ORDERS
        .lines()
        .filter_map(move |row| cells(row).try_into().ok())
}

/// The address with these fields filled in.
fn filled_in(pattern: &str, fields: &Form) -> String {
    let (path, query) = pattern.split_once('?').unwrap_or((pattern, ""));
    let parts = path.split('/').skip(1).map(|part| {
        let name = part
            .strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'));
        name.map_or(part, |name| fields.field(name))
    });
    let path: Vec<&str> = parts.collect();
    let query = query.split('&').map(|name| (name, fields.field(name)));
    address(&path, &query.collect::<Vec<_>>())
}

/// Carries out the order of this path.
pub(super) async fn order<P: Page>(viewer: Viewer, path: MatchedPath, form: Form) -> Answer {
    let own = path.as_str().strip_prefix("/console");
    let row = orders().find(|[at, ..]| Some(*at) == own);
    let [_, call, field, typed, page, done] = row.ok_or_else(|| fault("an unknown order"))?;
    let (method, route) = call.split_once(' ').unwrap_or_default();
    let ordered = async {
        let mut body = None;
        if !field.is_empty() {
            form.required(field)?;
            body = Some(json!({field: form.field(field)}));
        }
        if !typed.is_empty() {
            form.confirm(form.field(typed))?;
        }
        let method = method.parse().map_err(fault)?;
        let route = filled_in(route, &form);
        let made: Value = viewer.call(method, &route, body.as_ref()).await?;
        let id = made["id"].as_str().unwrap_or_default().to_owned();
        let more: Form = [(DONE, done.to_owned()), ("id", id)].into_iter().collect();
        let page = filled_in(page, &form.clone().and(more));
        Ok(Redirect::to(&format!("/console{page}")).into_response())
    };
    carry_out::<P>(&viewer, &form, ordered).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::table::routes;

    #[test]
    fn each_order_calls_a_route() {
        assert_eq!(orders().count(), ORDERS.lines().count());
        // The names of parts need not be those of the routes.
        let shape = |call: &str| {
            let parts = call.split('/');
            let parts = parts.map(|part| if part.starts_with('{') { "{}" } else { part });
            parts.collect::<Vec<_>>().join("/")
        };
        let routes = routes().into_iter();
        let routes = routes.map(|route| shape(&format!("{} {}", route.method, route.path)));
        let routes: Vec<_> = routes.collect();
        for [at, call, ..] in orders() {
            let call = shape(call.split('?').next().unwrap_or_default());
            assert!(routes.contains(&call), "{at}: {call}");
        }
    }
}
