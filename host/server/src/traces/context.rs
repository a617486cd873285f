//! Where a request comes from, as other systems say it.

/// A span of another system, which a request belongs to (W3C Trace Context, `traceparent`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    pub trace: u128,
    pub span: u64,
    /// Its trace is kept.
    pub sampled: bool,
}

impl SpanContext {
    /// Reads a `traceparent`; versions to come begin as this one does.
    pub fn parse(text: &str) -> Option<SpanContext> {
        let mut parts = text.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, digits| {
            text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        if !is_hex(version, 2) || !is_hex(trace, 32) || !is_hex(span, 16) || !is_hex(flags, 2) {
            return None;
        }
        if version == "ff" || version == "00" && parts.next().is_some() {
            return None;
        }
        let context = SpanContext {
            trace: u128::from_str_radix(trace, 16).ok()?,
            span: u64::from_str_radix(span, 16).ok()?,
            sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1,
        };
        (context.trace != 0 && context.span != 0).then_some(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_as_the_standard_says() {
        let of = |flags: &str| format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        let read = SpanContext::parse(&of("01")).unwrap();
        assert_eq!((read.trace, read.span), (0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, 0x00f0_67aa_0ba9_02b7));
        for (flags, kept) in [("00", false), ("01", true), ("02", false), ("03", true)] {
            assert_eq!(SpanContext::parse(&of(flags)).unwrap().sampled, kept, "{flags}");
        }
        let later = of("01").replacen("00", "cc", 1) + "-what-will-be";
        assert!(SpanContext::parse(&later).is_some());
        let wrong =
            ["", "01-01", &of(""), &of("x1"), &of("001"), &(of("01") + "-more"), &of("01").replacen("00", "ff", 1)];
        let empty = [
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        ];
        for text in wrong.into_iter().chain(empty).chain([&*of("01").to_uppercase()]) {
            assert_eq!(SpanContext::parse(text), None, "{text}");
        }
    }
}
