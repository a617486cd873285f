//! What is written instead of what.

use syn::BinOp;

use crate::schema::Operator;

/// Operators that a binary one can be replaced by.
pub fn of_binary(operator: &BinOp) -> &'static [(Operator, &'static str)] {
    use Operator::{Arithmetic, Boundary, Logic, Negation};
    match operator {
        BinOp::Lt(_) => &[(Boundary, "<="), (Negation, ">=")],
        BinOp::Le(_) => &[(Boundary, "<"), (Negation, ">")],
        BinOp::Gt(_) => &[(Boundary, ">="), (Negation, "<=")],
        BinOp::Ge(_) => &[(Boundary, ">"), (Negation, "<")],
        BinOp::Eq(_) => &[(Negation, "!=")],
        BinOp::Ne(_) => &[(Negation, "==")],
        BinOp::And(_) => &[(Logic, "||")],
        BinOp::Or(_) => &[(Logic, "&&")],
        BinOp::Add(_) => &[(Arithmetic, "-")],
        BinOp::Sub(_) => &[(Arithmetic, "+")],
        BinOp::Mul(_) => &[(Arithmetic, "+")],
        BinOp::Div(_) | BinOp::Rem(_) => &[(Arithmetic, "*")],
        BinOp::BitAnd(_) | BinOp::BitXor(_) => &[(Arithmetic, "|")],
        BinOp::BitOr(_) => &[(Arithmetic, "&")],
        BinOp::Shl(_) => &[(Arithmetic, ">>")],
        BinOp::Shr(_) => &[(Arithmetic, "<<")],
        BinOp::AddAssign(_) => &[(Arithmetic, "-=")],
        BinOp::SubAssign(_) => &[(Arithmetic, "+=")],
        BinOp::BitOrAssign(_) => &[(Arithmetic, "&=")],
        BinOp::BitAndAssign(_) => &[(Arithmetic, "|=")],
        _ => &[],
    }
}

/// Whether it combines truths.
pub fn is_logic(operator: &BinOp) -> bool {
    matches!(operator, BinOp::And(_) | BinOp::Or(_))
}

pub fn is_comparison(operator: &BinOp) -> bool {
    matches!(operator, BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) | BinOp::Eq(_) | BinOp::Ne(_))
}

/// Whether it changes what is on its left.
pub fn is_assignment(operator: &BinOp) -> bool {
    matches!(
        operator,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

/// Methods that stand for each other, pair by pair.
const METHODS: &[(Operator, &str, &str)] = &[
    (Operator::Extremum, "min", "max"),
    (Operator::Extremum, "min_by_key", "max_by_key"),
    (Operator::Extremum, "first", "last"),
    (Operator::Extremum, "first_key_value", "last_key_value"),
    (Operator::Extremum, "first_mut", "last_mut"),
    (Operator::Extremum, "pop_first", "pop_last"),
    (Operator::Extremum, "pop_front", "pop_back"),
    (Operator::Extremum, "push_front", "push_back"),
    (Operator::Extremum, "front", "back"),
    (Operator::Arithmetic, "saturating_add", "saturating_sub"),
    (Operator::Arithmetic, "checked_add", "checked_sub"),
    (Operator::Arithmetic, "wrapping_add", "wrapping_sub"),
    (Operator::Logic, "any", "all"),
];

/// The method that stands in for another one.
pub fn of_method(name: &str) -> Option<(Operator, &'static str)> {
    METHODS.iter().find_map(|(operator, one, other)| match name {
        _ if name == *one => Some((*operator, *other)),
        _ if name == *other => Some((*operator, *one)),
        _ => None,
    })
}

/// Whether the closure that a method takes says yes or no.
pub fn takes_predicate(method: &str) -> bool {
    matches!(
        method,
        "all"
            | "any"
            | "filter"
            | "find"
            | "is_none_or"
            | "is_some_and"
            | "partition"
            | "partition_point"
            | "position"
            | "retain"
            | "skip_while"
            | "take_while"
    )
}

/// Whether a call changes only how much memory is held, or when it is given back.
pub fn is_about_memory(name: &str) -> bool {
    matches!(name, "drop" | "reserve" | "shrink_to" | "shrink_to_fit" | "with_capacity")
}
