//! Stamps as headers of Kafka messages: text, so that any Kafka tool shows them.

use rdkafka::message::{Header, Headers, OwnedHeaders};

use super::chain::{Kind, Stamp};

const CLUSTER: &str = "styx-cluster";
const GENERATION: &str = "styx-generation";
const WRITER: &str = "styx-writer";
const SEQUENCE: &str = "styx-sequence";
const FIRST: &str = "styx-first";
const FROM: &str = "styx-from";

/// The headers that say `stamp`. A fence has no number; only a trim has a first.
pub(super) fn headers(stamp: &Stamp) -> OwnedHeaders {
    let headers = OwnedHeaders::new_with_capacity(6);
    let headers = add(headers, CLUSTER, &format!("{:032x}", stamp.cluster));
    let headers = add(headers, GENERATION, &stamp.generation.to_string());
    let headers = add(headers, WRITER, &format!("{:016x}", stamp.writer));
    match stamp.kind {
        Kind::Fence => headers,
        Kind::Record { sequence } => add(headers, SEQUENCE, &sequence.to_string()),
        Kind::Trim { sequence, first, from } => {
            let headers = add(headers, SEQUENCE, &sequence.to_string());
            add(add(headers, FIRST, &first.to_string()), FROM, &from.to_string())
        }
    }
}

fn add(headers: OwnedHeaders, key: &str, value: &str) -> OwnedHeaders {
    headers.insert(Header { key, value: Some(value) })
}

/// The stamp of a message, if it has a whole one.
pub(super) fn stamp(headers: Option<&impl Headers>) -> Option<Stamp> {
    let headers = headers?;
    let text = |name: &str| {
        let header = headers.iter().find(|header| header.key == name)?;
        std::str::from_utf8(header.value?).ok()
    };
    let number = |name: &str| text(name)?.parse::<u64>().ok();
    let kind = match (text(SEQUENCE), text(FIRST)) {
        (None, None) => Kind::Fence,
        (Some(_), None) => Kind::Record { sequence: number(SEQUENCE)? },
        (_, Some(_)) => {
            Kind::Trim { sequence: number(SEQUENCE)?, first: number(FIRST)?, from: number(FROM)?.try_into().ok()? }
        }
    };
    Some(Stamp {
        cluster: u128::from_str_radix(text(CLUSTER)?, 16).ok()?,
        generation: number(GENERATION)?,
        writer: u64::from_str_radix(text(WRITER)?, 16).ok()?,
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stamp_can_be_read_back() {
        let kinds =
            [Kind::Fence, Kind::Record { sequence: u64::MAX }, Kind::Trim { sequence: 0, first: 0, from: i64::MAX }];
        for kind in kinds {
            let written = Stamp { cluster: 1 << 127, generation: 3, writer: 5, kind };
            assert_eq!(stamp(Some(&headers(&written))), Some(written));
        }
    }

    #[test]
    fn half_a_stamp_is_none() {
        let kind = Kind::Trim { sequence: 7, first: 3, from: 5 };
        let whole = headers(&Stamp { cluster: 1, generation: 1, writer: 1, kind });
        for left_out in [CLUSTER, GENERATION, WRITER, SEQUENCE, FROM] {
            let rest = whole.iter().filter(|header| header.key != left_out);
            let rest = rest.fold(OwnedHeaders::new(), |headers, header| headers.insert(header));
            assert_eq!(stamp(Some(&rest)), None, "without {left_out}");
        }
        let scrambled =
            add(headers(&Stamp { cluster: 1, generation: 1, writer: 1, kind: Kind::Fence }), SEQUENCE, "seven");
        assert_eq!(stamp(Some(&scrambled)), None);
        assert_eq!(stamp(None::<&OwnedHeaders>), None);
    }
}
