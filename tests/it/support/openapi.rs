//! The `OpenAPI` document as a judge of answers: whether a status, a content type and a body are among those that a route is said
//! to give. Only what the document's own schemas use of JSON Schema is known here; anything else fails.

use std::sync::LazyLock;

use serde_json::Value;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| afterword::http::document().unwrap());

/// Checks an answer against the document. Paths that the document does not have, and methods that it does not have for a path,
/// must be refused.
#[track_caller]
pub fn check(method: &str, path: &str, status: u16, media: Option<&str>, body: &Value) {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let Some((_, methods)) = paths.iter().find(|(template, _)| fits(template, path)) else {
        assert!(
            [400, 404, 405].contains(&status),
            "{method} {path} is not in the document and answers {status}: {body}"
        );
        return;
    };
    let Some(operation) = methods.get(method.to_ascii_lowercase()) else {
        assert!(
            method == "HEAD" || status == 405,
            "{method} {path} is not in the document and answers {status}: {body}"
        );
        return;
    };
    let answer = &operation["responses"][status.to_string()];
    assert!(!answer.is_null(), "{method} {path} answers {status}, which the document does not have: {body}");
    let Some(content) = resolved(answer)["content"].as_object() else {
        assert!(
            body.is_null(),
            "{method} {path} answers {status} with a body, which the document does not have: {body}"
        );
        return;
    };
    let media = media.unwrap_or_default().split(';').next().unwrap_or_default();
    let said = content.get(media).unwrap_or_else(|| panic!("{method} {path} answers {status} in {media:?}"));
    if media == "application/json" {
        let problem = problem(&said["schema"], body, "the body");
        assert!(problem.is_none(), "{method} {path} answers {status}: {}\n{body:#}", problem.unwrap_or_default());
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
fn problem(schema: &Value, value: &Value, place: &str) -> Option<String> {
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
            "type" => is_of(value, wanted.as_str().unwrap()),
            "enum" => list().any(|one| one == value),
            "const" => wanted == value,
            "anyOf" => list().any(|one| problem(one, value, place).is_none()),
            "allOf" => return list().find_map(|one| problem(one, value, place)),
            "required" => {
                let object = value.as_object()?;
                let missing = list().find(|name| !object.contains_key(name.as_str().unwrap()))?;
                return Some(format!("{place} lacks {missing}"));
            }
            "properties" => {
                let object = value.as_object()?;
                let mut given =
                    wanted.as_object().unwrap().iter().filter_map(|(name, one)| Some((name, one, object.get(name)?)));
                return given.find_map(|(name, one, value)| problem(one, value, &format!("{place}.{name}")));
            }
            "additionalProperties" => {
                let mut given = value.as_object()?.iter();
                return given.find_map(|(name, value)| problem(wanted, value, &format!("{place}.{name}")));
            }
            "items" => {
                let mut items = value.as_array()?.iter().enumerate();
                return items.find_map(|(index, item)| problem(wanted, item, &format!("{place}[{index}]")));
            }
            "minLength" | "minItems" => size().is_none_or(|size| size >= bound),
            "maxLength" | "maxItems" => size().is_none_or(|size| size <= bound),
            "minimum" => value.as_f64().is_none_or(|number| number >= bound),
            "maximum" => value.as_f64().is_none_or(|number| number <= bound),
            "format" => match (wanted.as_str().unwrap(), value.as_str()) {
                ("date-time", Some(text)) => text.len() == "1970-01-01T00:00:00.000Z".len() && text.ends_with('Z'),
                ("date", Some(text)) => text.len() == 10,
                _ => true,
            },
            other => panic!("{other} is not known here"),
        };
        (!fine).then(|| format!("{place} is {value}, and should have {key} {wanted}"))
    })
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("{other} is not known here"),
    }
}
