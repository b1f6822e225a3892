//! The frame around every JSON answer: the schema number first.
//!
//! In: a serialisable answer. Out: the same object with `"schema"` in front, each object of a
//! stream too. Only lists (`counters --rules`) go without the frame: scripts lean on them as they
//! are. A change that could break a reader of a shape raises [`SCHEMA`].

use serde::Serialize;

/// Version of the JSON shapes.
pub const SCHEMA: u32 = 1;

/// An answer with its schema number.
#[derive(Serialize)]
pub struct Report<T: Serialize> {
    schema: u32,
    #[serde(flatten)]
    body: T,
}

/// Puts the schema number before an answer.
pub fn report<T: Serialize>(body: T) -> Report<T> {
    Report {
        schema: SCHEMA,
        body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_comes_first() {
        #[derive(Serialize)]
        struct Answer {
            a: u8,
        }
        let text = serde_json::to_string(&report(Answer { a: 7 })).unwrap();
        assert_eq!(text, r#"{"schema":1,"a":7}"#);
    }
}
