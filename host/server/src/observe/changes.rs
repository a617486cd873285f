//! What requests that are watched have made of entities: values before and after, as long as they are small, for whoever
//! looks at an entity. They are told of entities only, and are no part of how a request went.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use styx_protocol::attempt::{Execution, Operation, Reader, RemoteResponse};
use styx_protocol::entity::{Entity, Payload, Value};

use super::view::TraceAccess;

/// Largest value that is kept.
const VALUE_MAX: usize = 4 << 10;
/// Most bytes of values that are kept of one request.
const REQUEST_MAX: usize = 64 << 10;
/// Entities that are kept of those that a long run has read.
const READS_MAX: usize = 256;

/// What a write has made of an entity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// `None` inside where there was nothing before, or is nothing any more.
    Kept {
        #[serde(with = "encoded")]
        before: Option<Value>,
        #[serde(with = "encoded")]
        after: Option<Value>,
    },
    /// More bytes than are kept of one value, or of one request.
    TooLarge,
}

impl Change {
    fn of(before: Option<Value>, after: Option<Value>, room: &mut usize) -> Self {
        let sizes = [&before, &after].map(|value| value.as_ref().map_or(0, |value| value.len()));
        match room.checked_sub(sizes[0] + sizes[1]) {
            Some(left) if sizes.iter().all(|size| *size <= VALUE_MAX) => {
                *room = left;
                Change::Kept { before, after }
            }
            _ => Change::TooLarge,
        }
    }

    /// About how many bytes it takes.
    pub(super) fn weight(&self) -> usize {
        match self {
            Change::Kept { before, after } => {
                [before, after].into_iter().flatten().map(|value| value.len()).sum::<usize>()
            }
            Change::TooLarge => 0,
        }
    }
}

/// Notes what an execution writes beside its accesses, as `before` knows what was there: unknown is `None`.
pub(super) fn note(
    accesses: &mut [TraceAccess],
    execution: &Execution,
    before: impl Fn(&Entity) -> Option<Option<Value>>,
) {
    let mut room = REQUEST_MAX;
    for (noted, (entity, access)) in accesses.iter_mut().zip(execution.footprint.accesses.iter()) {
        if let Some(after) = access.write() {
            noted.change = before(entity).map(|before| Change::of(before, after.cloned(), &mut room));
        }
    }
}

/// An entity, and what was read of it.
type Read = (Entity, Option<Value>);

/// What a long run has read, the first of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads(Arc<Mutex<Vec<Read>>>);

impl Reads {
    /// The same reader, which keeps here what it reads.
    pub fn of(&self, reader: Box<dyn Reader>) -> Box<dyn Reader> {
        Box::new(Remembering { reader, reads: self.clone() })
    }

    /// What was read of an entity.
    pub fn get(&self, entity: &Entity) -> Option<Option<Value>> {
        self.lock().iter().find(|(read, _)| read == entity).map(|(_, value)| value.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Read>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Remembering {
    reader: Box<dyn Reader>,
    reads: Reads,
}

impl Reader for Remembering {
    fn read(&mut self, operation: Operation) -> RemoteResponse {
        let asked = match &operation {
            Operation::Get(entity) => Some(entity.clone()),
            _ => None,
        };
        let answer = self.reader.read(operation);
        if let (Some(entity), RemoteResponse::Value(value)) = (asked, &answer) {
            let mut reads = self.reads.lock();
            if reads.len() < READS_MAX {
                reads.push((entity, value.as_ref().map(|Payload(value)| value.clone())));
            }
        }
        answer
    }
}

/// Bytes as they travel in JSON.
mod encoded {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use styx_protocol::entity::Value;

    pub fn serialize<S: Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(|value| STANDARD.encode(value)).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| STANDARD.decode(text).map(Value::from).map_err(D::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: usize) -> Option<Value> {
        Some(vec![7; bytes].into())
    }

    #[test]
    fn what_is_kept_of_a_request_is_bounded() {
        let mut room = REQUEST_MAX;
        assert_eq!(Change::of(value(VALUE_MAX + 1), None, &mut room), Change::TooLarge);
        assert_eq!(Change::of(None, value(VALUE_MAX + 1), &mut room), Change::TooLarge);
        assert_eq!(room, REQUEST_MAX);
        let changes: Vec<Change> =
            (0..100).map(|_| Change::of(value(VALUE_MAX), value(VALUE_MAX / 2), &mut room)).collect();
        let kept = changes.iter().map(Change::weight).sum::<usize>();
        assert!(kept <= REQUEST_MAX && kept > REQUEST_MAX - 2 * VALUE_MAX, "{kept} bytes");
        // A smaller one may still have room.
        assert_eq!(Change::of(None, value(1), &mut room), Change::Kept { before: None, after: value(1) });
    }

    #[test]
    fn a_change_travels_as_it_is() {
        let changes = [
            Change::Kept { before: None, after: value(3) },
            Change::Kept { before: Some(vec![0, 255, 10].into()), after: None },
            Change::TooLarge,
        ];
        for change in changes {
            let text = serde_json::to_string(&change).unwrap();
            assert_eq!(serde_json::from_str::<Change>(&text).unwrap(), change, "{text}");
        }
        assert!(serde_json::from_str::<Change>(r#"{"kept":{"before":"?","after":null}}"#).is_err());
    }
}
