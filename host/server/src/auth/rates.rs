//! How many requests each client may make in a second.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;

use crate::http::ApiError;

const SECOND: Duration = Duration::from_secs(1);

/// Clients that are remembered before it is looked which of them have been silent.
const CLIENTS: usize = 1 << 10;

/// A bound on requests of each client, by its name; a second's worth may come at once. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Rates(Arc<Mutex<Limiter>>);

/// The generic cell rate algorithm: one time for each client.
#[derive(Debug)]
struct Limiter {
    /// Time that a request takes up.
    each: Duration,
    /// Until when the requests of a client take up time.
    clients: HashMap<Arc<str>, Instant>,
    forget_at: usize,
}

impl Rates {
    pub(super) fn new(per_second: NonZeroU32) -> Self {
        let each = SECOND / per_second.get();
        Rates(Arc::new(Mutex::new(Limiter { each, clients: HashMap::new(), forget_at: CLIENTS })))
    }

    /// Counts a request.
    ///
    /// # Errors
    /// 429: it is one too many.
    pub(super) fn admit(&self, who: &Arc<str>) -> Result<(), ApiError> {
        Self::told(who, self.limiter().admits(who, Instant::now()))
    }

    /// Whether another request would be admitted; counts none.
    ///
    /// # Errors
    /// 429: it would be one too many.
    pub(super) fn has_room(&self, who: &Arc<str>) -> Result<(), ApiError> {
        Self::told(who, self.limiter().has_room(who, Instant::now()))
    }

    fn limiter(&self) -> MutexGuard<'_, Limiter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(who: &Arc<str>, fits: bool) -> Result<(), ApiError> {
        if fits {
            return Ok(());
        }
        let message = format!("{who} has made as many requests in a second as one may");
        Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", message)
            .hint("send fewer, or raise --requests-per-second; nothing was done"))
    }
}

impl Limiter {
    fn has_room(&self, who: &Arc<str>, now: Instant) -> bool {
        self.clients.get(who).is_none_or(|until| now.max(*until) + self.each <= now + SECOND)
    }

    fn admits(&mut self, who: &Arc<str>, now: Instant) -> bool {
        if self.clients.len() >= self.forget_at {
            self.clients.retain(|_, until| *until > now);
            self.forget_at = CLIENTS.max(2 * self.clients.len());
        }
        let until = self.clients.entry(who.clone()).or_insert(now);
        let begins = now.max(*until);
        let fits = begins + self.each <= now + SECOND;
        if fits {
            *until = begins + self.each;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_requests_of_each_and_who_is_silent_is_forgotten() {
        let rates = Rates::new(NonZeroU32::new(3).unwrap());
        let mut limiter = rates.limiter();
        let (start, one) = (Instant::now(), Arc::from("one"));
        let at = |ms| start + Duration::from_millis(ms);
        let admitted = [0, 0, 0, 0, 300, 334, 400, 5_000, 5_000, 5_000, 5_000].map(|ms| limiter.admits(&one, at(ms)));
        assert_eq!(admitted, [true, true, true, false, false, true, false, true, true, true, false]);
        assert!(!limiter.has_room(&one, at(5_000)) && limiter.has_room(&one, at(5_334)));
        assert!(limiter.admits(&Arc::from("other"), at(5_000)));
        for name in 0..10 * CLIENTS {
            assert!(limiter.admits(&name.to_string().into(), at(10_000 + name as u64)));
        }
        assert!(limiter.clients.len() <= CLIENTS, "{}", limiter.clients.len());
    }
}
