//! What is said of one route in the document, beside what the table of routes and the rules of every route say already.

/// A route's documentation: what it is for, what it takes, what it answers. Shapes are in the notation of `notation.rs`.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct Doc {
    /// The method and the path below `/api/v1`, or several paths that answer alike: `GET /monitor/signals, /agent-monitoring/signals`.
    pub(super) on: &'static str,
    pub(super) summary: &'static str,
    /// What else there is to know; empty where nothing.
    pub(super) note: &'static str,
    /// The fields of the query; empty where it asks for none.
    pub(super) query: &'static str,
    /// The shape of the body; with a question mark at its end the body may be left out.
    pub(super) body: Option<&'static str>,
    /// The answers where all went well; an empty shape is no body.
    pub(super) answers: &'static [(u16, &'static str)],
    /// The errors of its own.
    pub(super) fails: &'static [u16],
    /// What the answers are written in, where that is not JSON.
    pub(super) media: Option<&'static str>,
    /// Whether body and answer may also be protobuf.
    pub(super) protobuf: bool,
    /// Whether answers carry an entity tag, and requests may be bound to one.
    pub(super) tagged: bool,
}

impl Doc {
    /// Of `on`, that it is for `summary`.
    pub(in crate::http) const fn new(on: &'static str, summary: &'static str) -> Self {
        Self {
            on,
            summary,
            note: "",
            query: "",
            body: None,
            answers: &[],
            fails: &[],
            media: None,
            protobuf: false,
            tagged: false,
        }
    }

    /// What else there is to know.
    pub(in crate::http) const fn note(self, note: &'static str) -> Self {
        Self { note, ..self }
    }

    /// The fields of its query.
    pub(in crate::http) const fn asks(self, query: &'static str) -> Self {
        Self { query, ..self }
    }

    /// The shape of its body.
    pub(in crate::http) const fn takes(self, shape: &'static str) -> Self {
        Self { body: Some(shape), ..self }
    }

    /// What it answers where all went well, by status.
    pub(in crate::http) const fn gives(self, answers: &'static [(u16, &'static str)]) -> Self {
        Self { answers, ..self }
    }

    /// The statuses of errors that not every route of its kind has: 404, 409, 422, 502; and 400 where it has neither an id, a query
    /// nor a body.
    pub(in crate::http) const fn fails(self, fails: &'static [u16]) -> Self {
        Self { fails, ..self }
    }

    /// What its answers are written in.
    pub(in crate::http) const fn written_in(self, media: &'static str) -> Self {
        Self { media: Some(media), ..self }
    }

    /// Answers carry an entity tag: `GET` may name the one it has, `PUT` and `DELETE` those that they are bound to.
    pub(in crate::http) const fn tagged(self) -> Self {
        Self { tagged: true, ..self }
    }

    /// Body and answer may also be protobuf.
    pub(in crate::http) const fn or_protobuf(self) -> Self {
        Self { protobuf: true, ..self }
    }
}

/// What lists ask for that come whole where no limit is given.
pub(super) const PAGE: &str = "limit?: whole(1..1000), cursor?: text";

/// What is noted of routes that show addresses.
pub(super) const MASKS: &str = "Keys without the scope manage are shown addresses as scheme, host and `***`.";

/// A resource: its routes, and the shapes that stand under a name in the document.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct Resource {
    /// Its name, for people.
    pub(super) name: &'static str,
    /// Its routes.
    pub(super) docs: &'static [Doc],
    /// Its shapes, by name.
    pub(super) shapes: &'static [(&'static str, &'static str)],
}
