//! Access as the operator of a process has configured it.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use styx_protocol::catalog::Catalog;
use styx_protocol::deployment::Digest;

use super::bearer::digest_of;
use super::jwt::Provider;
use super::rates::Rates;
use crate::error::ServerError;

/// Variable of the environment that holds the operator's token.
pub const ADMIN_TOKEN: &str = "STYX_ADMIN_TOKEN";

/// What nobody guesses has at least so many characters.
const LENGTH_MIN: usize = 16;

/// Who is let in besides the holders of tokens that the log knows.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Digest of the operator's own token, which may do everything.
    pub(super) operator: Option<Digest>,
    /// Whose tokens are taken besides.
    pub(super) provider: Option<Arc<Provider>>,
    /// Nobody is let in without a token.
    required: bool,
    /// Nobody is asked for one, on no address.
    off: bool,
    /// How much each may ask for.
    pub(super) rates: Option<Rates>,
}

impl Access {
    /// Access with a token of the operator's, which a file holds, or else a variable of the environment.
    ///
    /// # Errors
    /// The token cannot be read or is too short, or settings contradict each other.
    pub fn configured(
        file: Option<&Path>,
        variable: Option<String>,
        required: bool,
        off: bool,
    ) -> Result<Self, ServerError> {
        let invalid = |message: String, hint: &str| ServerError::usage("CONFIG_INVALID", message, hint);
        let token = match file {
            Some(file) => {
                let read = std::fs::read_to_string(file);
                let read =
                    read.map_err(|error| invalid(format!("{}: {error}", file.display()), "it is to hold a token"));
                Some((file.display().to_string(), read?))
            }
            None => variable.map(|token| (ADMIN_TOKEN.to_owned(), token)),
        };
        if let Some((place, token)) = &token
            && token.trim().len() < LENGTH_MIN
        {
            let message = format!("the token in {place} has fewer than {LENGTH_MIN} characters");
            return Err(invalid(message, "make one with `openssl rand -hex 32`"));
        }
        if off && (required || token.is_some()) {
            let message =
                "insecure_no_auth asks nobody for a token, and there are settings that ask for one".to_owned();
            return Err(invalid(message, "drop it, or admin_token_file and require_token"));
        }
        let operator = token.map(|(_, token)| digest_of(token.trim()));
        Ok(Access { required: required || operator.is_some(), operator, off, ..Access::default() })
    }

    /// The same, for so many requests of each client in a second.
    #[must_use]
    pub fn limited(self, per_second: NonZeroU32) -> Self {
        Access { rates: Some(Rates::new(per_second)), ..self }
    }

    /// The same, with the tokens of an identity provider, which everybody is asked for then.
    #[must_use]
    pub fn believing(self, provider: Arc<Provider>) -> Self {
        Access { provider: Some(provider), required: true, ..self }
    }

    /// Reads what is needed to know who asks.
    pub async fn open(&self) -> Result<(), ServerError> {
        match &self.provider {
            Some(provider) => provider.open().await,
            None => Ok(()),
        }
    }

    /// Whether nobody is asked for a token. Once there are tokens, everybody is.
    pub(super) fn lets_anybody_in(&self, catalog: &Catalog) -> bool {
        self.off || !self.required && catalog.tokens().next().is_none()
    }

    /// Whether nobody need be asked for a token, as far as the configuration goes.
    pub fn is_open(&self) -> bool {
        !self.required
    }

    /// Checks that a port at this address would not be open to a network.
    pub fn check(&self, address: SocketAddr, flag: &str) -> Result<(), ServerError> {
        if self.required || self.off || address.ip().is_loopback() {
            return Ok(());
        }
        Err(ServerError::usage(
            "INSECURE",
            format!("{flag} {address} can be reached from elsewhere, and nobody would be asked for a token there"),
            "give --admin-token-file FILE (of a gateway or a worker, --require-token will do), or --insecure-no-auth",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn a_port_is_open_on_the_loopback_only_unless_it_is_said_aloud() {
        let of = |token: Option<&str>, required, off| Access::configured(None, token.map(str::to_owned), required, off);
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (access, elsewhere, open) in [
            (of(None, false, false), false, true),
            (of(Some(TOKEN), false, false), true, false),
            (of(None, true, false), true, false),
            (of(None, false, true), true, true),
        ] {
            let access = access.unwrap();
            assert_eq!(access.lets_anybody_in(&Catalog::default()), open);
            for (text, admitted) in
                [("127.0.0.1:1", true), ("[::1]:1", true), ("0.0.0.0:1", elsewhere), ("10.0.0.1:1", elsewhere)]
            {
                assert_eq!(access.check(address(text), "--admin-addr").is_ok(), admitted, "{text}");
            }
        }
        for (token, required, off) in
            [(Some("short"), false, false), (Some(" "), false, false), (Some(TOKEN), false, true), (None, true, true)]
        {
            let error = of(token, required, off).unwrap_err();
            assert!(
                error.code == "CONFIG_INVALID" && !error.hint.is_empty() && !error.message.contains("short"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_file_goes_before_the_environment() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{TOKEN}\n")).unwrap();
        let access =
            Access::configured(Some(file.path()), Some("another-token-of-length".into()), false, false).unwrap();
        assert_eq!(access.operator, Some(digest_of(TOKEN)));
        assert!(!format!("{access:?}").contains(TOKEN));
        let missing = Access::configured(Some(Path::new("/nowhere/token")), None, false, false).unwrap_err();
        assert!(missing.message.contains("/nowhere/token"), "{missing}");
    }
}
