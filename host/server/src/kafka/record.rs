//! From a record of the ingress topic to a request.

use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Headers, OwnedHeaders};
use styx_driver::kafka::Place;
use styx_protocol::ids::RequestId;
use styx_protocol::transaction::Request;

use super::topics::INGRESS;
use crate::gateway::Ingress;
use crate::gateway::{Call, check_idempotency_key, derived_id, prepare, watch};
use crate::http::ApiError;

pub(super) const APP: &str = "styx-app";
pub(super) const OPERATOR: &str = "styx-operator";
pub(super) const FUNCTION: &str = "styx-function";
pub(super) const REQUEST_ID: &str = "styx-request-id";
const TRACE: &str = "styx-trace";
const TRACEPARENT: &str = "traceparent";

/// A record, taken out of the library's memory.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub partition: i32,
    pub offset: i64,
    timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Vec<u8>,
    pub headers: OwnedHeaders,
}

impl From<&BorrowedMessage<'_>> for Record {
    fn from(message: &BorrowedMessage<'_>) -> Self {
        Record {
            partition: message.partition(),
            offset: message.offset(),
            timestamp: message.timestamp().to_millis().unwrap_or(0),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().unwrap_or_default().to_vec(),
            headers: message.headers().map(|headers| headers.detach()).unwrap_or_default(),
        }
    }
}

/// A record as a request.
pub(super) struct Asked {
    pub request: Request,
    pub read_only: bool,
}

impl Record {
    /// Its place in the topic.
    pub fn place(&self) -> Place {
        Place { partition: self.partition, offset: self.offset }
    }

    /// The request's id, in the client's words or made of the record's place: a topic that was
    /// deleted and created again has other times at the same places.
    pub fn id(&self) -> String {
        match self.header(REQUEST_ID) {
            Ok(Some(id)) if !id.is_empty() => id.to_owned(),
            _ => format!("kafka:{INGRESS}:{}:{}:{}", self.partition, self.offset, self.timestamp),
        }
    }

    /// The request; `scratch` is memory to be used again.
    ///
    /// # Errors
    /// What is wrong with it, as a client over HTTP would be told.
    pub fn request(&self, ingress: &Ingress, id: &str, scratch: &mut Vec<u8>) -> Result<Asked, ApiError> {
        let app = self.required(APP)?;
        let (operator, function) = (self.required(OPERATOR)?, self.required(FUNCTION)?);
        self.header(REQUEST_ID)?;
        let key = std::str::from_utf8(self.key.as_deref().unwrap_or_default())
            .map_err(|_| ApiError::bad_request("the record's key is not UTF-8").hint(HOW))?;
        let directory = ingress.directories.of(ingress.handle.catalog());
        let target = directory.resolve(app, operator, function)?;
        let call = Call { key, args: &self.value, idempotency_key: Some(id), retained: true };
        let mut request = prepare(target, call, scratch)?;
        // Whoever cannot be traced is carried out all the same.
        let asked = matches!(self.header(TRACE), Ok(Some("1")));
        watch(&mut request, asked, self.header(TRACEPARENT).ok().flatten(), true, ingress);
        Ok(Asked { request, read_only: target.function.read_only })
    }

    pub fn request_id(&self, id: &str) -> Option<RequestId> {
        Some(derived_id(self.required(APP).ok()?, check_idempotency_key(id).ok()?))
    }

    fn required(&self, name: &str) -> Result<&str, ApiError> {
        match self.header(name)? {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(ApiError::bad_request(format!("the record has no header {name}")).hint(HOW)),
        }
    }

    /// A header's text.
    fn header(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let mut found = self.headers.iter().filter(|header| header.key == name);
        let Some(header) = found.next() else { return Ok(None) };
        if found.next().is_some() {
            return Err(ApiError::bad_request(format!("the record has more than one header {name}")).hint(HOW));
        }
        std::str::from_utf8(header.value.unwrap_or_default())
            .map(Some)
            .map_err(|_| ApiError::bad_request(format!("the header {name} is not UTF-8")).hint(HOW))
    }
}

/// What a record should be.
const HOW: &str = "key = the entity's key, headers styx-app, styx-operator, styx-function and perhaps \
                   styx-request-id, value = the arguments as JSON";
