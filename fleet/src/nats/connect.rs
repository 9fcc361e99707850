//! A connection to a NATS server: where it is, who asks, and if it serves.
//!
//! Addresses and credentials are those of NATS itself: `nats://user:password@host:4222`, `tls://host`,
//! several with commas between, and the variables that the command line of NATS reads.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;
use tvmtune_plan::printable::one_line;
use tvmtune_plan::read;

use super::error::{NatsError, chain};

/// The oldest server that serves. Buckets are created with options that servers have since 2.10; those of
/// 2.9 refuse them.
pub const OLDEST: &str = "2.10.0";
const OLDEST_NUMBERS: (i64, i64, i64) = (2, 10, 0);

/// The longest wait for a connection at the start. Later ones are waited for as long as it takes.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait between two attempts to connect again.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A server, and the credentials to use there.
#[derive(Clone, Default)]
pub struct Server {
    /// Its address, or several of one cluster with commas between.
    pub url: String,
    /// The name of a user, with a password.
    pub user: Option<String>,
    /// The password of the user.
    pub password: Option<String>,
    /// A token, instead of a user.
    pub token: Option<String>,
    /// A file of credentials, instead of a user.
    pub creds: Option<PathBuf>,
    /// A file with the certificate of the authority that signed the server's.
    pub ca: Option<PathBuf>,
    /// A file with the certificate of this client.
    pub cert: Option<PathBuf>,
    /// A file with the key of that certificate.
    pub key: Option<PathBuf>,
}

impl Server {
    /// Creates a server at an address, without credentials other than those in it.
    pub fn at(url: &str) -> Self {
        Self { url: url.to_owned(), ..Self::default() }
    }

    /// Fills in what was not given by the variables of NATS' own command line: `NATS_URL`, `NATS_USER`,
    /// `NATS_PASSWORD`, `NATS_TOKEN`, `NATS_CREDS`, `NATS_CA`, `NATS_CERT`, `NATS_KEY`.
    #[must_use]
    pub fn or_variables(self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| variable(name).filter(|it| !it.is_empty());
        let path = |name: &str| text(name).map(PathBuf::from);
        let has_credentials = self.user.is_some() || self.token.is_some() || self.creds.is_some();
        let credential = |name: &str| if has_credentials { None } else { text(name) };
        let url = Some(self.url).filter(|it| !it.is_empty()).or_else(|| text("NATS_URL"));
        Self {
            url: url.unwrap_or_else(|| "nats://localhost:4222".to_owned()),
            user: self.user.or_else(|| credential("NATS_USER")),
            password: self.password.or_else(|| text("NATS_PASSWORD")),
            token: self.token.or_else(|| credential("NATS_TOKEN")),
            creds: self.creds.or_else(|| credential("NATS_CREDS").map(PathBuf::from)),
            ca: self.ca.or_else(|| path("NATS_CA")),
            cert: self.cert.or_else(|| path("NATS_CERT")),
            key: self.key.or_else(|| path("NATS_KEY")),
        }
    }

    /// Returns the address as it is shown: without a password.
    pub fn shown(&self) -> String {
        let shown = |url: &str| match (url.split_once("://"), url.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
            (None, Some((_, host))) => host.to_owned(),
            _ => url.to_owned(),
        };
        one_line(&self.url.split(',').map(shown).collect::<Vec<_>>().join(","))
    }

    /// Connects, under a name that the server shows. A connection that is lost later is made again.
    ///
    /// # Errors
    ///
    /// One that says why there is no connection, or why the server does not serve.
    pub(super) async fn connect(&self, name: &str) -> Result<Client, NatsError> {
        let unreachable = |why: String| NatsError::Unreachable { server: self.shown(), why };
        let parsed =
            self.url.split(',').map(str::parse::<ServerAddr>).collect::<Result<Vec<_>, _>>();
        let addresses = parsed.map_err(|it| unreachable(chain(&it)))?;
        let server = self.clone().or_of_addresses(&addresses);
        for path in [&self.creds, &self.ca, &self.cert, &self.key].into_iter().flatten() {
            read::open(path).map_err(|source| NatsError::File { path: path.clone(), source })?;
        }
        let options =
            server.options(name).await.map_err(|it| unreachable(one_line(&it.to_string())))?;
        let client = options.connect(addresses).await.map_err(|it| self.not_connected(&it))?;
        self.check(&client).map(|()| client)
    }

    /// Fills in the credentials of the first address that has some, if no others were given: a user with a
    /// password, or a token.
    fn or_of_addresses(mut self, addresses: &[ServerAddr]) -> Self {
        if self.user.is_some() || self.token.is_some() || self.creds.is_some() {
            return self;
        }
        let decoded = |it: &str| percent_decode_str(it).decode_utf8_lossy().into_owned();
        if let Some(address) = addresses.iter().find(|it| it.username().is_some()) {
            let name = address.username().map(decoded);
            match address.password() {
                Some(password) => (self.user, self.password) = (name, Some(decoded(password))),
                None => self.token = name,
            }
        }
        self
    }

    /// Returns the error of a first connection.
    fn not_connected(&self, error: &ConnectError) -> NatsError {
        let (server, why) = (self.shown(), chain(error));
        match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                NatsError::Refused { server, why }
            }
            ConnectErrorKind::Tls => NatsError::Insecure { server, why },
            // A refused handshake shows as a connection that is cut.
            _ if why.contains("certificate") || why.contains("fatal alert") => {
                NatsError::Insecure { server, why }
            }
            _ => NatsError::Unreachable { server, why },
        }
    }

    async fn options(&self, name: &str) -> std::io::Result<ConnectOptions> {
        let mut options = ConnectOptions::new()
            .name(name)
            .connection_timeout(PATIENCE)
            .ping_interval(Duration::from_secs(10))
            .reconnect_delay_callback(|attempts| {
                let pause = Duration::from_millis(50) * attempts.min(100) as u32;
                pause.min(LONGEST_PAUSE)
            });
        if let Some(user) = &self.user {
            let password = self.password.clone().unwrap_or_default();
            options = options.user_and_password(user.clone(), password);
        }
        if let Some(token) = &self.token {
            options = options.token(token.clone());
        }
        if let Some(creds) = &self.creds {
            options = options.credentials_file(creds).await?;
        }
        if let Some(ca) = &self.ca {
            options = options.add_root_certificates(ca.clone()).require_tls(true);
        }
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            options = options.add_client_certificate(cert.clone(), key.clone()).require_tls(true);
        }
        Ok(options)
    }

    fn check(&self, client: &Client) -> Result<(), NatsError> {
        let (info, server) = (client.server_info(), self.shown());
        let (major, minor, patch) = OLDEST_NUMBERS;
        if !client.is_server_compatible(major, minor, patch) {
            return Err(NatsError::Old { server, found: one_line(&info.version) });
        }
        match info.jetstream {
            true => Ok(()),
            false => Err(NatsError::NoJetStream { server }),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without credentials.
        f.debug_tuple("Server").field(&self.shown()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_an_address_are_used_where_there_are_no_others() {
        let of = |url: &str, given: Server| {
            let addresses: Vec<ServerAddr> = url.split(',').map(|it| it.parse().unwrap()).collect();
            let it = given.or_of_addresses(&addresses);
            [it.user, it.password, it.token].map(Option::unwrap_or_default)
        };
        let none = Server::default();
        assert_eq!(of("nats://a,tls://me:p%40ss@b", none.clone()), ["me", "p@ss", ""]);
        assert_eq!(of("nats://t0ken@a", none.clone()), ["", "", "t0ken"]);
        assert_eq!(of("nats://a", none), ["", "", ""]);
        let given = Server { token: Some("given".to_owned()), ..Server::default() };
        assert_eq!(of("nats://me:secret@a", given), ["", "", "given"]);
    }

    #[test]
    fn what_is_given_goes_before_variables_and_passwords_are_not_shown() {
        let variables = |name: &str| match name {
            "NATS_URL" => Some("nats://me:secret@there:4222,tls://other".to_owned()),
            "NATS_USER" => Some("variable".to_owned()),
            "NATS_CA" => Some("ca.pem".to_owned()),
            _ => None,
        };
        let of_variables = Server::default().or_variables(variables);
        assert_eq!(of_variables.shown(), "nats://there:4222,tls://other");
        assert!(!format!("{of_variables:?}").contains("secret"));
        assert_eq!(of_variables.user.as_deref(), Some("variable"));
        let given = Server { token: Some("t".to_owned()), ..Server::at("nats://here") };
        let given = given.or_variables(variables);
        assert_eq!((given.url.as_str(), given.user), ("nats://here", None), "a token is enough");
        assert_eq!(given.ca, Some(PathBuf::from("ca.pem")));
        assert_eq!(Server::default().or_variables(|_| None).url, "nats://localhost:4222");
    }
}
