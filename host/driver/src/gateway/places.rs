//! Places: how many wait for each app.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Apps that are remembered before it is looked for which of them nobody waits.
const APPS: usize = 1 << 10;

/// Stands for one who waits, as long as it is kept.
pub(super) type Place = Arc<()>;

/// Of each app, those who wait. Who waits for none of those that are known counts as one app more.
#[derive(Debug)]
pub(super) struct Places {
    nobodys: Place,
    apps: BTreeMap<Arc<str>, Place>,
    forget_at: usize,
}

impl Default for Places {
    fn default() -> Self {
        Places { nobodys: Place::default(), apps: BTreeMap::new(), forget_at: APPS }
    }
}

impl Places {
    /// How many wait for an app.
    pub(super) fn taken(&self, app: Option<&Arc<str>>) -> usize {
        app.map_or(Some(&self.nobodys), |app| self.apps.get(app)).map_or(0, taken)
    }

    /// One more waits for it, until the place is dropped.
    pub(super) fn take(&mut self, app: Option<&Arc<str>>) -> Place {
        let Some(app) = app else { return self.nobodys.clone() };
        if let Some(place) = self.apps.get(app) {
            return place.clone();
        }
        if self.apps.len() >= self.forget_at {
            self.apps.retain(|_, place| taken(place) > 0);
            self.forget_at = APPS.max(2 * self.apps.len());
        }
        self.apps.entry(app.clone()).or_default().clone()
    }
}

fn taken(place: &Place) -> usize {
    Arc::strong_count(place) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_counted_by_app_and_apps_for_which_nobody_waits_are_forgotten() {
        let (shop, bank) = (Arc::from("shop"), Arc::from("bank"));
        let mut places = Places::default();
        let first = places.take(Some(&shop));
        let second = places.take(Some(&shop));
        let other = places.take(None);
        assert_eq!([Some(&shop), Some(&bank), None].map(|app| places.taken(app)), [2, 0, 1]);
        drop((first, other));
        assert_eq!([Some(&shop), Some(&bank), None].map(|app| places.taken(app)), [1, 0, 0]);

        for app in 0..10 * APPS {
            drop(places.take(Some(&app.to_string().into())));
        }
        assert!(places.apps.len() <= APPS, "{}", places.apps.len());
        assert_eq!(places.taken(Some(&shop)), 1);
        drop(second);
        assert_eq!(places.taken(Some(&shop)), 0);
    }
}
