//! Demands on the settings of a log's topic: somebody else may have created it, or changed them since.

use super::KafkaProblem;

/// A setting, what it must be, and whether its value is.
type Demand = (&'static str, &'static str, fn(&str) -> bool);

/// Whatever else they are set to, records that were confirmed can be lost.
const DEMANDS: [Demand; 4] = [
    ("cleanup.policy", "delete", |value| value == "delete"),
    ("retention.ms", "-1", |value| value == "-1"),
    ("retention.bytes", "-1", |value| value == "-1"),
    ("unclean.leader.election.enable", "false", |value| value == "false"),
];

/// Checks settings as `value_of` tells them.
///
/// # Errors
/// With one of them, records that were confirmed can be lost; or the brokers do not tell it.
pub(super) fn check<'a>(topic: &str, value_of: impl Fn(&str) -> Option<&'a str>) -> Result<(), KafkaProblem> {
    let unfit = |setting, found: Option<&str>, wanted| KafkaProblem::Setting {
        topic: topic.to_owned(),
        setting,
        found: found.unwrap_or("unknown").to_owned(),
        wanted,
    };
    for (setting, wanted, holds) in DEMANDS {
        let found = value_of(setting);
        if !found.is_some_and(holds) {
            return Err(unfit(setting, found, wanted));
        }
    }
    // Brokers confirm before they sync: one alone may have it, and lose it with its power.
    let confirming = value_of("min.insync.replicas");
    let several = confirming.and_then(|count| count.parse::<u32>().ok()).is_some_and(|count| count >= 2);
    if several || value_of("flush.messages") == Some("1") {
        return Ok(());
    }
    Err(unfit("min.insync.replicas", confirming, "2 (or flush.messages to 1)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_lose_confirmed_records_is_refused_by_the_name_of_the_setting() {
        let sound = [
            ("cleanup.policy", "delete"),
            ("retention.ms", "-1"),
            ("retention.bytes", "-1"),
            ("unclean.leader.election.enable", "false"),
            ("min.insync.replicas", "2"),
            ("flush.messages", "9223372036854775807"),
        ];
        let with = |changes: &[(&str, &str)]| {
            let find = |all: &[(&'static str, &'static str)], name: &str| {
                all.iter().find(|(setting, _)| *setting == name).map(|(_, value)| *value)
            };
            let changed = |name: &str| changes.iter().find(|(setting, _)| *setting == name).map(|(_, value)| *value);
            check("log", |name| changed(name).or_else(|| find(&sound, name))).map_err(|problem| problem.to_string())
        };
        assert_eq!(with(&[]), Ok(()));
        assert_eq!(with(&[("min.insync.replicas", "1"), ("flush.messages", "1")]), Ok(()), "one that syncs is enough");
        for (setting, value) in [
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "compact,delete"),
            ("retention.ms", "604800000"),
            ("retention.bytes", "1073741824"),
            ("unclean.leader.election.enable", "true"),
            ("min.insync.replicas", "1"),
        ] {
            let said = with(&[(setting, value)]).unwrap_err();
            let told = format!("topic log has {setting}={value}");
            assert!(said.starts_with(&told) && said.contains("kafka-configs") && !said.contains('\n'), "{said}");
        }
    }
}
