//! The `OpenAPI` document as a judge of requests and answers: whether a status, a content type and a body are among those that a
//! route is said to give, and whether what a route took is what it is said to take. Only what the document's own schemas use of
//! JSON Schema is known here; anything else fails.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use afterword::domain::time::Timestamp;
use serde_json::Value;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| afterword::http::document().unwrap());

/// What senders may say although no route reads it: the existing client adds its workspace to what it sends, and itself to runs.
const NOBODY_READS: &[&str] = &["workspaceId", "sdk"];

/// A request as it was sent.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Its method.
    pub method: String,
    /// Its path.
    pub path: String,
    /// Its query, name by name.
    pub query: Vec<(String, String)>,
    /// Its body: `None` where there is none, or where it is not JSON.
    pub body: Option<Value>,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Came {
    /// The status.
    pub status: u16,
    /// The content type.
    pub media: Option<String>,
    /// The body, null where there is none.
    pub body: Value,
}

/// What is wrong with a request and its answer by the document, where anything is. Paths that the document does not have, and
/// methods that it does not have for a path, must be refused.
pub fn problem_of(sent: &Sent, came: &Came) -> Option<String> {
    let (Sent { method, path, .. }, Came { status, body, .. }) = (sent, came);
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let stranger = || format!("{method} {path} is not in the document and answers {status}: {body}");
    let Some((_, methods)) = paths.iter().find(|(template, _)| fits(template, path)) else {
        return (![400, 404, 405].contains(status)).then(stranger);
    };
    let Some(operation) = methods.get(method.to_ascii_lowercase()) else {
        return (method != "HEAD" && *status != 405).then(stranger);
    };
    if let Some(problem) = answer_problem(operation, came) {
        return Some(format!("{method} {path} answers {status}: {problem}\n{body:#}"));
    }
    let problem = (200..300).contains(status).then(|| request_problem(operation, sent)).flatten()?;
    Some(format!("{method} {path} takes a request that the document does not have: {problem}\n{sent:?}"))
}

/// Who said a value: requests may write numbers and times in more ways than answers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Sender,
    Server,
}

fn answer_problem(operation: &Value, came: &Came) -> Option<String> {
    let answer = &operation["responses"][came.status.to_string()];
    if answer.is_null() {
        return Some("the document does not have that".to_owned());
    }
    let Some(content) = resolved(answer)["content"].as_object() else {
        return (!came.body.is_null()).then(|| "a body, which the document does not have".to_owned());
    };
    let media = came.media.as_deref().unwrap_or_default().split(';').next().unwrap_or_default();
    let Some(said) = content.get(media) else { return Some(format!("in {media:?}, which the document does not have")) };
    (media == "application/json").then(|| problem(By::Server, &said["schema"], &came.body, "the body")).flatten()
}

/// Parameters and bodies that a route took must be as the document has them, with nothing in them that it does not have.
fn request_problem(operation: &Value, sent: &Sent) -> Option<String> {
    let parameters = || operation["parameters"].as_array().into_iter().flatten().filter(|it| it["in"] == "query");
    for (name, text) in
        sent.query.iter().filter(|(name, text)| !NOBODY_READS.contains(&name.as_str()) && !text.is_empty())
    {
        let Some(parameter) = parameters().find(|it| it["name"] == name.as_str()) else {
            return Some(format!("the parameter {name}"));
        };
        // As numbers or words, whichever the schema takes.
        let readings = [serde_json::from_str(text).ok(), Some(Value::String(text.clone()))];
        let mut problems =
            readings.iter().flatten().map(|value| problem(By::Sender, &parameter["schema"], value, name));
        if problems.all(|problem| problem.is_some()) {
            return Some(format!("{name} is {text}, and should be {}", parameter["schema"]));
        }
    }
    let body = sent.body.as_ref()?;
    let said = &operation["requestBody"];
    if said.is_null() {
        let says_nothing = body.as_object().is_some_and(serde_json::Map::is_empty);
        return (!says_nothing).then(|| "a body".to_owned());
    }
    let schema = &said["content"]["application/json"]["schema"];
    problem(By::Sender, schema, body, "the body").or_else(|| stranger(&[schema], body, "the body"))
}

/// A field of a value that is in none of the schemas that may describe it, and where it stands. Objects whose fields no schema
/// names may hold any.
fn stranger(schemas: &[&Value], value: &Value, place: &str) -> Option<String> {
    let mut of_fields: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let (mut of_items, mut is_open, mut left) = (Vec::new(), true, schemas.to_vec());
    while let Some(schema) = left.pop() {
        let schema = resolved(schema);
        left.extend(["allOf", "anyOf"].iter().filter_map(|key| schema[key].as_array()).flatten());
        of_items.extend(schema.get("items"));
        let fields = schema["properties"].as_object().into_iter().flatten();
        for (name, of) in fields {
            is_open = false;
            of_fields.entry(name).or_default().push(of);
        }
    }
    match value {
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| stranger(&of_items, item, &format!("{place}[{index}]")))
        }
        Value::Object(object) if !is_open => {
            object.iter().find_map(|(name, value)| match of_fields.get(name.as_str()) {
                Some(schemas) => stranger(schemas, value, &format!("{place}.{name}")),
                None => (!NOBODY_READS.contains(&name.as_str())).then(|| format!("{place}.{name}")),
            })
        }
        _ => None,
    }
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    let alike = |(said, is): (&&str, &&str)| said == is || said.starts_with('{') && !is.is_empty();
    template.len() == path.len() && template.iter().zip(&path).all(alike)
}

fn resolved(value: &Value) -> &Value {
    match value["$ref"].as_str() {
        Some(reference) => DOCUMENT.pointer(&reference[1..]).unwrap_or_else(|| panic!("{reference} is not there")),
        None => value,
    }
}

/// What is wrong with a value, and where.
fn problem(by: By, schema: &Value, value: &Value, place: &str) -> Option<String> {
    let schema = resolved(schema).as_object().unwrap();
    schema.iter().find_map(|(key, wanted)| {
        let list = || wanted.as_array().unwrap().iter();
        let size = || match value {
            Value::String(text) => Some(text.chars().count()),
            Value::Array(items) => Some(items.len()),
            _ => None,
        };
        let bound = wanted.as_f64().unwrap_or_default();
        #[allow(clippy::cast_precision_loss, reason = "lengths in tests are small")]
        let size = || size().map(|size| size as f64);
        let fine = match key.as_str() {
            "type" => is_of(by, value, wanted.as_str().unwrap()),
            "enum" => list().any(|one| one == value),
            "const" => wanted == value,
            "anyOf" => list().any(|one| problem(by, one, value, place).is_none()),
            "allOf" => return list().find_map(|one| problem(by, one, value, place)),
            "required" => {
                let object = value.as_object()?;
                let missing = list().find(|name| !object.contains_key(name.as_str().unwrap()))?;
                return Some(format!("{place} lacks {missing}"));
            }
            "properties" => {
                let object = value.as_object()?;
                let mut given =
                    wanted.as_object().unwrap().iter().filter_map(|(name, one)| Some((name, one, object.get(name)?)));
                return given.find_map(|(name, one, value)| problem(by, one, value, &format!("{place}.{name}")));
            }
            "additionalProperties" => {
                let mut given = value.as_object()?.iter();
                return given.find_map(|(name, value)| problem(by, wanted, value, &format!("{place}.{name}")));
            }
            "items" => {
                let mut items = value.as_array()?.iter().enumerate();
                return items.find_map(|(index, item)| problem(by, wanted, item, &format!("{place}[{index}]")));
            }
            "minLength" | "minItems" => size().is_none_or(|size| size >= bound),
            "maxLength" | "maxItems" => size().is_none_or(|size| size <= bound),
            "minimum" => value.as_f64().is_none_or(|number| number >= bound),
            "maximum" => value.as_f64().is_none_or(|number| number <= bound),
            "format" => match (wanted.as_str().unwrap(), value.as_str()) {
                ("date-time", Some(text)) if by == By::Sender => text.contains('T') && Timestamp::parse(text).is_some(),
                ("date-time", Some(text)) => text.len() == "1970-01-01T00:00:00.000Z".len() && text.ends_with('Z'),
                ("date", Some(text)) => text.len() == 10,
                _ => true,
            },
            other => panic!("{other} is not known here"),
        };
        (!fine).then(|| format!("{place} is {value}, and should have {key} {wanted}"))
    })
}

fn is_of(by: By, value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" if by == By::Sender => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("{other} is not known here"),
    }
}
