//! Which requests an open service on a loopback address accepts: those from its own machine, but not from pages of other sites.
//!
//! A browser on that machine can reach the service too. A page may send a form to it, and, once the page's host name
//! resolves to a loopback address (DNS rebinding), read and write as if it were the service's own. So each request has to
//! name a host of this machine, and a write that names an origin must name one that is the service's own or is allowed.

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::{Method, header, uri::Authority};

use super::cors::CorsOrigins;
use super::problem::{FOREIGN_ORIGIN, Problem};

/// Checks the host of a request, and its origin unless it is a read.
pub(crate) fn check(parts: &Parts, is_read: bool, allowed: &CorsOrigins) -> Result<(), Problem> {
    let host = check_host(parts)?;
    if is_read || matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let Some(origin) = parts.headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let own = format!("http://{host}");
    if origin.as_bytes().eq_ignore_ascii_case(own.as_bytes()) || allowed.lists(origin) {
        return Ok(());
    }
    let detail = "without API keys pages of other origins can't write. Set STANDINGS_CORS_ORIGINS to allow an origin";
    Err(Problem::new(FOREIGN_ORIGIN, detail))
}

/// The host that a request names; `None` if it names none.
pub(crate) fn host_of(parts: &Parts) -> Option<Authority> {
    let named = parts
        .headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    // HTTP/2 has it in the address.
    parts.uri.authority().cloned().or(named)
}

/// Checks that a request names a host of this machine, and returns it.
pub(crate) fn check_host(parts: &Parts) -> Result<Authority, Problem> {
    host_of(parts).filter(is_of_this_machine).ok_or_else(|| {
        let detail =
            "Without API keys only requests to localhost are answered. Set STANDINGS_API_KEYS for other hosts.";
        Problem::new(FOREIGN_ORIGIN, detail)
    })
}

/// Whether this host is a name or an address of this machine.
pub(crate) fn is_of_this_machine(host: &Authority) -> bool {
    let name = host.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    let last = name.rsplit('.').next().unwrap_or("");
    is_loopback || last.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    #[test]
    fn requests_must_name_a_local_host_and_writes_no_foreign_origin() {
        let allowed: CorsOrigins = "https://app.example".parse().unwrap();
        let is_taken_with =
            |allowed: &CorsOrigins, method: Method, host: &str, origin: Option<&str>| {
                let mut request = Request::builder().method(method).uri("/v1/events");
                request = request.header(header::HOST, host);
                if let Some(origin) = origin {
                    request = request.header(header::ORIGIN, origin);
                }
                let (parts, ()) = request.body(()).unwrap().into_parts();
                check(&parts, false, allowed).is_ok()
            };
        let is_taken = |method: Method, host: &str, origin: Option<&str>| {
            is_taken_with(&allowed, method, host, origin)
        };
        for host in [
            "localhost:8080",
            "127.0.0.1:8080",
            "[::1]:8080",
            "a.localhost",
            "127.1.2.3",
        ] {
            assert!(is_taken(Method::POST, host, None), "{host}");
            let own = format!("http://{host}");
            assert!(is_taken(Method::PUT, host, Some(&own)), "{host}");
            let foreign = Some("http://evil.example");
            assert!(is_taken(Method::GET, host, foreign), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "127.0.0.1.evil.example",
            "",
        ] {
            assert!(!is_taken(Method::POST, host, None), "{host}");
            assert!(!is_taken(Method::GET, host, None), "{host}");
        }
        let host = "localhost:8080";
        assert!(is_taken(Method::DELETE, host, Some("https://app.example")));
        for origin in [
            "http://evil.example",
            "null",
            "http://localhost:81",
            "https://localhost:8080",
        ] {
            assert!(!is_taken(Method::DELETE, host, Some(origin)), "{origin}");
            // Any page may read it, but not every page may write it.
            let all = CorsOrigins::All;
            assert!(
                !is_taken_with(&all, Method::DELETE, host, Some(origin)),
                "{origin}"
            );
        }
    }
}
