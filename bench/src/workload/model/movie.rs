//! Reviews: a field each.

use serde_json::{Value, json};

use super::{State, whole, word};
use crate::workload::movie::review_id;
use crate::workload::{Answer, Call};

const FIELDS: [&str; 5] = ["movie", "rating", "review", "text", "user"];

pub fn call(state: &mut State, call: &Call, arguments: &[Value]) -> Answer {
    let Call { operator, key, .. } = call;
    match call.function {
        "register" => state.put(operator, key, arguments[0].clone()),
        "compose" => {
            let [user, title, rating, text] = arguments else { panic!("a review has four arguments") };
            let (user, movie) = (state.at("user", word(user)).clone(), state.at("movie_id", word(title)).clone());
            let fields = [movie, rating.clone(), json!(review_id(key)), text.clone(), user];
            for (field, value) in FIELDS.into_iter().zip(fields) {
                state.put("review", format!("{key}:{field}"), value)?;
            }
            Ok(Value::Null)
        }
        "read" => {
            let fields = state.all("review", &format!("{key}:"));
            let fields: serde_json::Map<String, Value> =
                fields.into_iter().map(|(name, value)| (name[key.len() + 1..].to_owned(), value.clone())).collect();
            Ok(if fields.is_empty() { Value::Null } else { fields.into() })
        }
        _ => {
            let (page, last) = state.page("review", "", arguments);
            let of = |field: &str| -> Vec<&Value> {
                page.iter().filter(|(key, _)| key.ends_with(field)).map(|(_, value)| *value).collect()
            };
            let counts = FIELDS.map(|field| of(&format!(":{field}")).len());
            let ratings: i64 = of(":rating").into_iter().map(whole).sum();
            let characters: usize = of(":text").into_iter().map(|text| word(text).len()).sum();
            Ok(json!([counts, ratings, characters, last]))
        }
    }
}
