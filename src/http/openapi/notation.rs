//! Shapes written down briefly, and the JSON Schema that each stands for.
//!
//! `{_id: id, name: text(1..200), online: Online|null, note?: text}` reads like this:
//!
//! - `{a: s, b?: s}` is an object, `b` may be absent; what is not named may be there too. `{*: s}` holds values of one shape.
//! - `[s]` is a list; `s|t` is either, `s&t` both at once; `'a'|'b'` are words.
//! - `text`, `id`, `time`, `day`, `whole`, `number`, `flag`, `object`, `any`, `null`, `bytes` are the plain ones; a name with a
//!   capital is a shape that stands under that name in the document.
//! - `(1..200)` behind a shape bounds it: its length, its value, or how many it holds. The upper bound may be left out.

use serde_json::{Map, Value, json};

/// The schema of a shape.
///
/// # Errors
/// What can't be read, and where.
pub(super) fn schema(text: &str) -> Result<Value, String> {
    let mut reader = Reader { text, rest: text };
    let schema = reader.shape()?;
    if reader.rest.trim().is_empty() { Ok(schema) } else { Err(reader.trouble("the end")) }
}

/// The fields of an object written without its braces: name, schema, and whether it must be there.
///
/// # Errors
/// What can't be read, and where.
pub(super) fn fields(text: &str) -> Result<Vec<(String, Value, bool)>, String> {
    let mut reader = Reader { text, rest: text };
    let fields = reader.fields()?;
    if reader.rest.trim().is_empty() { Ok(fields) } else { Err(reader.trouble("the end")) }
}

/// The schema that stands in the document under a name.
pub(super) fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn trouble(&self, wanted: &str) -> String {
        format!("{wanted} is expected before \"{}\" in \"{}\"", self.rest.trim_start(), self.text)
    }

    fn takes(&mut self, mark: &str) -> bool {
        match self.rest.trim_start().strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn needs(&mut self, mark: &str) -> Result<(), String> {
        if self.takes(mark) { Ok(()) } else { Err(self.trouble(mark)) }
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_alphanumeric() && !"_-".contains(c)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word
    }

    fn shape(&mut self) -> Result<Value, String> {
        let mut either = vec![self.both()?];
        while self.takes("|") {
            either.push(self.both()?);
        }
        let words: Option<Vec<Value>> = either.iter().map(|one| one.get("const").cloned()).collect();
        Ok(match words {
            Some(words) => json!({"type": "string", "enum": words}),
            None if either.len() == 1 => either.remove(0),
            None => json!({"anyOf": either}),
        })
    }

    fn both(&mut self) -> Result<Value, String> {
        let mut both = vec![self.one()?];
        while self.takes("&") {
            both.push(self.one()?);
        }
        Ok(if both.len() == 1 { both.remove(0) } else { json!({"allOf": both}) })
    }

    fn one(&mut self) -> Result<Value, String> {
        let mut schema = if self.takes("{*:") {
            let values = self.shape()?;
            self.needs("}")?;
            json!({"type": "object", "additionalProperties": values})
        } else if self.takes("{") {
            let fields = self.fields()?;
            self.needs("}")?;
            object(fields)
        } else if self.takes("[") {
            let items = self.shape()?;
            self.needs("]")?;
            json!({"type": "array", "items": items})
        } else if self.takes("'") {
            let (word, rest) = self.rest.split_once('\'').ok_or_else(|| self.trouble("'"))?;
            self.rest = rest;
            json!({"const": word})
        } else {
            let word = self.word();
            plain(word).ok_or_else(|| self.trouble(&format!("a shape, not \"{word}\",")))?
        };
        if self.takes("(") {
            let (range, rest) = self.rest.split_once(')').ok_or_else(|| self.trouble(")"))?;
            self.rest = rest;
            bound(&mut schema, range).ok_or_else(|| self.trouble("a range"))?;
        }
        Ok(schema)
    }

    fn fields(&mut self) -> Result<Vec<(String, Value, bool)>, String> {
        let mut fields = Vec::new();
        loop {
            let name = self.word();
            if name.is_empty() {
                return Ok(fields);
            }
            let is_required = !self.takes("?");
            self.needs(":")?;
            fields.push((name.to_owned(), self.shape()?, is_required));
            if !self.takes(",") {
                return Ok(fields);
            }
        }
    }
}

fn object(fields: Vec<(String, Value, bool)>) -> Value {
    let required: Vec<String> =
        fields.iter().filter(|(.., required)| *required).map(|(name, ..)| name.clone()).collect();
    let properties: Map<String, Value> = fields.into_iter().map(|(name, schema, _)| (name, schema)).collect();
    let mut object = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

fn plain(word: &str) -> Option<Value> {
    Some(match word {
        "text" => json!({"type": "string"}),
        "id" => json!({"type": "string", "minLength": 1, "maxLength": crate::domain::ids::MAX_ID_BYTES}),
        "time" => json!({"type": "string", "format": "date-time"}),
        "day" => json!({"type": "string", "format": "date"}),
        "whole" => json!({"type": "integer"}),
        "number" => json!({"type": "number"}),
        "flag" => json!({"type": "boolean"}),
        "object" => json!({"type": "object"}),
        "null" => json!({"type": "null"}),
        "bytes" => json!({"type": "string", "format": "binary"}),
        "any" => json!({}),
        name if name.starts_with(|c: char| c.is_ascii_uppercase()) => named(name),
        _ => return None,
    })
}

/// Bounds a schema by `low..high`, either of which may be left out.
fn bound(schema: &mut Value, range: &str) -> Option<()> {
    let (least, most) = match schema.get("type")?.as_str()? {
        "string" => ("minLength", "maxLength"),
        "array" => ("minItems", "maxItems"),
        "integer" | "number" => ("minimum", "maximum"),
        _ => return None,
    };
    let (low, high) = range.split_once("..")?;
    for (key, end) in [(least, low), (most, high)] {
        if !end.is_empty() {
            schema[key] = json!(end.parse::<i64>().ok()?);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_read_as_it_is_written() {
        let written =
            "{_id: id, name: text(1..200), tags?: [text](..3), online: Online|null, mode: 'a'|'b', all: {*: whole}}";
        let expected = json!({
            "type": "object",
            "properties": {
                "_id": {"type": "string", "minLength": 1, "maxLength": 512},
                "name": {"type": "string", "minLength": 1, "maxLength": 200},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                "online": {"anyOf": [{"$ref": "#/components/schemas/Online"}, {"type": "null"}]},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "all": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
            "required": ["_id", "name", "online", "mode", "all"],
        });
        assert_eq!(schema(written), Ok(expected));
        let both = json!({"allOf": [{"$ref": "#/components/schemas/A"}, {"type": "object", "properties": {}}]});
        assert_eq!(schema("A & {}"), Ok(both));
    }

    #[test]
    fn what_is_no_shape_is_refused_with_its_place() {
        for wrong in
            ["", "{a text}", "{a: txt}", "[text", "'a", "text(1)", "any(1..2)", "text text", "{a: text,, b: text}"]
        {
            let said = schema(wrong).expect_err(wrong);
            assert!(said.contains(wrong), "{said}");
        }
    }
}
