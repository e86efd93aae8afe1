//! The `OpenAPI` document, made from the table of routes and what is said of each, and the page that shows it.
//!
//! To document a new route, add a `Doc` to its resource's list, and a named shape where several routes share one. What holds
//! for every route (keys, scopes, limits, the form of errors) is added here. A test names the routes that nothing is said of.

mod access;
mod catalogue;
mod doc;
mod live;
mod notation;
mod results;
mod runs;
mod telling;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::Json;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};
use axum::response::{Html, IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::error::ApiError;
use super::routes::{API, Route, routes};
use doc::{Doc, Resource};
use notation::{fields, named, schema};

/// Everything that is said of routes.
const RESOURCES: &[Resource] = &[
    results::SPANS,
    results::SESSIONS,
    catalogue::GROUPS,
    catalogue::JUDGES,
    live::LIVE,
    catalogue::PATTERNS,
    catalogue::CUSTOM,
    catalogue::SCORECARDS,
    results::SIGNALS,
    telling::TELLING,
    results::REPORTS,
    runs::RUNS,
    access::SETTINGS,
    access::ACCESS,
    access::SERVER,
];

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/x-protobuf";

/// The `OpenAPI` 3.1 document of every route.
///
/// # Errors
/// Each route that nothing is said of, each thing said of no route, and each shape that can't be read.
pub fn document() -> Result<Value, String> {
    let mut problems = Vec::new();
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let routes = routes();
    for route in &routes {
        match find(route).ok_or_else(|| format!("{} {} is not documented", route.method, route.path)) {
            Ok((resource, doc)) => match operation(route, resource, doc) {
                Ok(operation) => {
                    let method = route.method.as_str().to_ascii_lowercase();
                    paths.entry(route.path.clone()).or_default().insert(method, operation);
                }
                Err(problem) => problems.push(format!("{}: {problem}", doc.on)),
            },
            Err(problem) => problems.push(problem),
        }
    }
    let said = RESOURCES.iter().flat_map(|resource| resource.docs).flat_map(places);
    problems.extend(
        said.filter(|(method, path)| !routes.iter().any(|route| is_at(route, method, path)))
            .map(|(method, path)| format!("{method} {path} is documented, and no route")),
    );
    let shapes = shapes().map_err(|problem| problems.push(problem)).unwrap_or_default();
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    let tags: Vec<Value> = RESOURCES.iter().map(|resource| json!({"name": resource.name})).collect();
    Ok(json!({
        "openapi": "3.1.0",
        "info": {
            "title": "afterword",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Judges conversations with AI agents once they have gone quiet",
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": shapes,
            "responses": ERRORS.iter().map(|(status, what)| (error_name(*status), error(*status, what))).collect::<Map<_, _>>(),
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }))
}

const ABOUT: &str = "Requests carry an API key as `x-api-key` or as a bearer token; the roles beside each operation's security \
    name the scope that the key needs. Unknown fields of bodies and unknown parameters are ignored. Bodies may be packed with \
    gzip or deflate. Times are ISO 8601 in UTC. Errors all have one form, the schema Error. Creates with an Idempotency-Key are \
    carried out once: sent again within 24 hours the same request is answered with the first answer and \
    `idempotent-replayed: true`, another one is refused with 409. Lists take limit and cursor, and go on behind their nextCursor. Requests that are no HTTP, or whose \
    headers are too large, are refused with 400, 414 or 431 and an empty body before any route sees them.";

/// The errors, and when they come.
const ERRORS: &[(u16, &str)] = &[
    (400, "Something about the request can't be right; the message names every field that is wrong"),
    (401, "The API key is missing, unknown, expired or revoked"),
    (403, "The API key may not do this"),
    (404, "There is no such thing in the caller's project"),
    (408, "The body did not arrive in time"),
    (409, "What is stored stands in the way"),
    (412, "It is not in the state that If-Match names"),
    (413, "The body is too large"),
    (415, "The body is not of a content type or encoding that is understood"),
    (422, "Fields are missing or wrong; details says which"),
    (429, "The key asked too often; Retry-After says when to ask again"),
    (500, "A fault of the server; its log says which"),
    (502, "The judge, or what stands between, gave no answer"),
    (503, "The server is busy, out of order or stopping; Retry-After says when to ask again"),
];

fn error_name(status: u16) -> String {
    format!("Error{status}")
}

fn error(status: u16, what: &str) -> Value {
    let mut error = json!({"description": what, "content": {JSON: {"schema": named("Error")}}});
    if [429, 503].contains(&status) {
        let seconds = json!({"type": "integer", "minimum": 0});
        error["headers"] = json!({"Retry-After": {"description": "Seconds", "required": true, "schema": seconds}});
    }
    error
}

/// The named shapes.
fn shapes() -> Result<Map<String, Value>, String> {
    let error = "{error: text, statusCode: whole(400..599), message: text, code: text, details?: any}";
    let mut shapes = Map::from_iter([("Error".to_owned(), schema(error)?)]);
    for (name, shape) in RESOURCES.iter().flat_map(|resource| resource.shapes) {
        if shapes.insert((*name).to_owned(), schema(shape).map_err(|problem| format!("{name}: {problem}"))?).is_some() {
            return Err(format!("two shapes are named {name}"));
        }
    }
    Ok(shapes)
}

/// The method and the paths that a doc is of.
fn places(doc: &Doc) -> impl Iterator<Item = (&'static str, &'static str)> {
    let (method, paths) = doc.on.split_once(' ').unwrap_or(("", doc.on));
    paths.split(", ").map(move |path| (method, path))
}

fn is_at(route: &Route, method: &str, path: &str) -> bool {
    route.method == method && (route.path == path || route.path.strip_prefix(API) == Some(path))
}

fn find(route: &Route) -> Option<(&'static Resource, &'static Doc)> {
    RESOURCES.iter().find_map(|resource| {
        let doc = resource.docs.iter().find(|doc| places(doc).any(|(method, path)| is_at(route, method, path)))?;
        Some((resource, doc))
    })
}

fn operation(route: &Route, resource: &Resource, doc: &Doc) -> Result<Value, String> {
    let mut parameters = Vec::new();
    for name in route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
        parameters.push(json!({"name": name, "in": "path", "required": true, "schema": schema("id")?}));
    }
    let headers = match (route.creates, doc.tagged, route.method.as_str()) {
        (true, ..) => "Idempotency-Key?: id",
        (_, true, "GET") => "If-None-Match?: text",
        (_, true, _) => "If-Match?: text",
        _ => "",
    };
    for (name, schema, required) in fields(headers)? {
        parameters.push(json!({"name": name, "in": "header", "required": required, "schema": schema}));
    }
    for (name, schema, required) in fields(doc.query)? {
        parameters.push(json!({"name": name, "in": "query", "required": required, "schema": schema}));
    }
    let mut operation = json!({
        "operationId": operation_id(route),
        "tags": [resource.name],
        "summary": doc.summary,
        "responses": answers(route, doc, !parameters.is_empty())?,
        "security": match route.scope {
            None => json!([]),
            Some(scope) => json!([{"key": [scope.as_str()]}, {"bearer": [scope.as_str()]}]),
        },
    });
    if !doc.note.is_empty() {
        operation["description"] = doc.note.into();
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = doc.body {
        let (shape, required) = body.strip_suffix('?').map_or((body, true), |shape| (shape, false));
        operation["requestBody"] = json!({"required": required, "content": content(shape, doc, None)?});
    }
    Ok(operation)
}

/// A shape in every form that a route writes or reads it in.
fn content(shape: &str, doc: &Doc, media: Option<&str>) -> Result<Value, String> {
    let mut content = json!({media.unwrap_or(JSON): {"schema": schema(shape)?}});
    if doc.protobuf {
        content[PROTOBUF] = json!({"schema": schema("bytes")?});
    }
    Ok(content)
}

fn answers(route: &Route, doc: &Doc, has_parameters: bool) -> Result<Map<String, Value>, String> {
    let mut answers = Map::new();
    for (status, shape) in doc.answers {
        let what = match status {
            201 => "It is made",
            204 => "It is done",
            _ => "It is so",
        };
        let mut answer = json!({"description": what});
        if !shape.is_empty() {
            answer["content"] = content(shape, doc, doc.media)?;
        }
        if doc.tagged && route.method != "DELETE" {
            answer["headers"] = json!({"ETag": {"schema": {"type": "string"}}});
        }
        answers.insert(status.to_string(), answer);
    }
    let mut errors: Vec<u16> = doc.fails.to_vec();
    match (doc.tagged, route.method.as_str()) {
        (true, "GET") => {
            let tag = json!({"ETag": {"required": true, "schema": {"type": "string"}}});
            answers.insert("304".to_owned(), json!({"description": "The caller has it", "headers": tag}));
        }
        (true, "PUT" | "DELETE") => errors.extend([409, 412]),
        _ => {}
    }
    if route.creates {
        errors.push(409);
    }
    if doc.body.is_some() {
        errors.extend([400, 408, 413, 415]);
    }
    if has_parameters {
        errors.push(400);
    }
    if route.scope.is_some() {
        errors.extend([401, 403, 429]);
    }
    errors.extend([500, 503]);
    errors.sort_unstable();
    errors.dedup();
    for status in errors {
        let name = error_name(status);
        answers.insert(status.to_string(), json!({"$ref": format!("#/components/responses/{name}")}));
    }
    Ok(answers)
}

/// `getAgentMonitoringScorerGroupsById`.
fn operation_id(route: &Route) -> String {
    let below = route.path.strip_prefix(API).filter(|path| *path != "/health").unwrap_or(&route.path);
    let words =
        below.split(['/', '-', '.']).map(|word| match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
            Some(name) => format!("by-{name}"),
            None => word.to_owned(),
        });
    let mut id = route.method.as_str().to_ascii_lowercase();
    for word in words.flat_map(|word| word.split('-').map(str::to_owned).collect::<Vec<_>>()) {
        let mut letters = word.chars();
        id.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        id.extend(letters);
    }
    id
}

static DOCUMENT: LazyLock<Result<Value, String>> = LazyLock::new(document);

/// `GET /openapi.json`.
pub(super) async fn show() -> Result<Json<&'static Value>, ApiError> {
    match &*DOCUMENT {
        Ok(document) => Ok(Json(document)),
        Err(problem) => {
            tracing::error!(problem, "the OpenAPI document can't be made; please report this");
            Err(ApiError::internal("The document can't be made; the server's log says why. Please report it"))
        }
    }
}

/// The page may run what stands in it and ask this server alone.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// `GET /docs`: a page that reads the document and shows it. It asks for nothing from elsewhere.
pub(super) async fn page() -> Response {
    let headers = [(CONTENT_SECURITY_POLICY, POLICY), (CACHE_CONTROL, "no-cache")];
    (headers, Html(include_str!("page.html"))).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_is_documented_and_nothing_else_is() {
        let document = document().unwrap_or_else(|problems| panic!("{problems}"));
        let operations = document["paths"].as_object().into_iter().flatten();
        let said: BTreeSet<(String, String)> = operations
            .flat_map(|(path, methods)| {
                let methods = methods.as_object().into_iter().flatten();
                methods.map(|(method, _)| (method.to_ascii_uppercase(), path.clone()))
            })
            .collect();
        let served: BTreeSet<(String, String)> =
            routes().into_iter().map(|route| (route.method.to_string(), route.path)).collect();
        assert_eq!(said, served);
    }

    #[test]
    fn every_shape_that_is_named_is_there_and_used() {
        let document = document().unwrap_or_else(|problems| panic!("{problems}"));
        let text = document.to_string();
        for kind in ["schemas", "responses"] {
            let prefix = format!("#/components/{kind}/");
            let named: BTreeSet<&str> =
                text.split(prefix.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect();
            let there = document["components"][kind].as_object().into_iter().flatten();
            assert_eq!(named, there.map(|(name, _)| name.as_str()).collect(), "{kind}");
        }
    }

    #[test]
    fn operations_have_names_of_their_own_and_answers() {
        let document = document().unwrap_or_else(|problems| panic!("{problems}"));
        let mut names = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                let name = operation["operationId"].as_str().unwrap_or_default();
                assert!(!name.is_empty() && names.insert(name), "{method} {path}: {name}");
                let answers = operation["responses"].as_object().into_iter().flatten();
                let good = answers.filter(|(status, _)| status.starts_with('2')).count();
                assert!(good > 0, "{method} {path} says nothing of how it answers where all goes well");
            }
        }
        assert!(names.contains("getAgentMonitoringScorerGroupsById"), "{names:?}");
    }
}
