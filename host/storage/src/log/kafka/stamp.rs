//! Stamps as headers of Kafka messages: text, so that any Kafka tool shows them.
//!
//! `styx-format` is their version. Messages without it are of version 1, which did not write it at first.

use rdkafka::message::{Header, Headers, OwnedHeaders};

use crate::log::shared::{Kind, Stamp};

/// Version of the stamps that are written, and the only one that is read.
pub(super) const FORMAT: u32 = 1;

const VERSION: &str = "styx-format";
const CLUSTER: &str = "styx-cluster";
const GENERATION: &str = "styx-generation";
const WRITER: &str = "styx-writer";
const SEQUENCE: &str = "styx-sequence";
const FIRST: &str = "styx-first";
const FROM: &str = "styx-from";

/// The headers that say `stamp`. A fence has no number; only a trim has a first.
pub(super) fn headers(stamp: &Stamp) -> OwnedHeaders {
    let headers = OwnedHeaders::new_with_capacity(7);
    let headers = add(headers, VERSION, &FORMAT.to_string());
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

fn text<'a>(headers: &'a impl Headers, name: &str) -> Option<&'a str> {
    let header = headers.iter().find(|header| header.key == name)?;
    std::str::from_utf8(header.value?).ok()
}

/// The stamp of a message, if it has a whole one.
///
/// # Errors
/// The version of its format, if that is another one.
pub(super) fn stamp(headers: Option<&impl Headers>) -> Result<Option<Stamp>, u32> {
    let Some(headers) = headers else { return Ok(None) };
    let version = text(headers, VERSION).map(str::parse::<u32>);
    match (version, text(headers, CLUSTER)) {
        (Some(Ok(version)), Some(_)) if version != FORMAT => Err(version),
        (Some(Err(_)), _) => Ok(None),
        _ => Ok(decode(headers)),
    }
}

fn decode(headers: &impl Headers) -> Option<Stamp> {
    let text = |name: &str| text(headers, name);
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
            assert_eq!(stamp(Some(&headers(&written))), Ok(Some(written)));
        }
    }

    #[test]
    fn half_a_stamp_is_none() {
        let kind = Kind::Trim { sequence: 7, first: 3, from: 5 };
        let whole = headers(&Stamp { cluster: 1, generation: 1, writer: 1, kind });
        for left_out in [CLUSTER, GENERATION, WRITER, SEQUENCE, FROM] {
            let rest = whole.iter().filter(|header| header.key != left_out);
            let rest = rest.fold(OwnedHeaders::new(), |headers, header| headers.insert(header));
            assert_eq!(stamp(Some(&rest)), Ok(None), "without {left_out}");
        }
        let scrambled =
            add(headers(&Stamp { cluster: 1, generation: 1, writer: 1, kind: Kind::Fence }), SEQUENCE, "seven");
        assert_eq!(stamp(Some(&scrambled)), Ok(None));
        assert_eq!(stamp(None::<&OwnedHeaders>), Ok(None));
    }

    /// The headers of a trim as they are written; without the first, as earlier versions of Styx wrote them. A change
    /// that breaks this needs a new version.
    const FIXTURE: [(&str, &str); 7] = [
        ("styx-format", "1"),
        ("styx-cluster", "000000000000000000000000000000ab"),
        ("styx-generation", "3"),
        ("styx-writer", "0000000000000005"),
        ("styx-sequence", "7"),
        ("styx-first", "4"),
        ("styx-from", "2"),
    ];

    fn written(fields: &[(&str, &str)]) -> OwnedHeaders {
        fields.iter().fold(OwnedHeaders::new(), |headers, (key, value)| add(headers, key, value))
    }

    #[test]
    fn format_1_is_still_read_and_written() {
        let kind = Kind::Trim { sequence: 7, first: 4, from: 2 };
        let expect = Stamp { cluster: 0xAB, generation: 3, writer: 5, kind };
        for fields in [&FIXTURE[..], &FIXTURE[1..]] {
            assert_eq!(stamp(Some(&written(fields))), Ok(Some(expect)));
        }
        let headers = headers(&expect);
        let headers = headers.iter().map(|header| (header.key, std::str::from_utf8(header.value.unwrap()).unwrap()));
        assert!(headers.eq(FIXTURE));
    }

    #[test]
    fn another_format_is_named() {
        let mut fields = FIXTURE;
        fields[0].1 = "2";
        assert_eq!(stamp(Some(&written(&fields))), Err(2));
        fields[0].1 = "two";
        assert_eq!(stamp(Some(&written(&fields))), Ok(None), "no message of Styx");
    }
}
