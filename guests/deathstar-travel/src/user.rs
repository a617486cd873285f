//! Those who may log in.

use sha2::{Digest, Sha256};
use styx_sdk::prelude::*;

/// The operator `user`.
pub struct User;

#[operator(name = "user")]
/// Users, by name. Passwords are kept as hashes.
impl User {
    /// Registers a user, or sets the password.
    pub fn register(ctx: &mut Context, password: String) {
        let hash = hash(ctx.key(), &password);
        ctx.state.put_raw(&hash);
    }

    /// Whether this is the user's password.
    #[function(read_only)]
    pub fn login(ctx: &Context, password: String) -> bool {
        ctx.state.get_raw().is_some_and(|stored| stored == hash(ctx.key(), &password))
    }
}

/// The name makes equal passwords different.
fn hash(name: &str, password: &str) -> [u8; 32] {
    Sha256::new().chain_update(name).chain_update(":").chain_update(password).finalize().into()
}
