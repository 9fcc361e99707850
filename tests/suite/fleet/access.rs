//! Servers that let in only those who show what they ask for: passwords, tokens, credentials, certificates.

use std::fs;
use std::path::{Path, PathBuf};

use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair as TlsKey};
use serde_json::{Value, json};
use tvmtune_fleet::nats::{Fleet, NatsError, Server, runtime};
use tvmtune_tests::nats::{Limits, NatsServer};
use tvmtune_tests::sandbox::{SOURCE, Sandbox, said};

use crate::hardware::task;
use crate::party::{quick, with_party_at};

/// Checks that a task is sent, executed and accepted at a server with that configuration by those who come as
/// `good` says, and that others are told in these words why they are not let in.
#[track_caller]
fn check(access: &str, good: impl Fn(&str) -> Server, bad: &[(Server, &str)]) {
    let Some(server) = NatsServer::start_for(Limits::default(), access) else { return };
    let url = server.url();
    for (bad, expected) in bad {
        let bad = Server { url: url.clone(), ..bad.clone() };
        let connecting = Fleet::set_up(&bad, "test", quick());
        let error = runtime().unwrap().block_on(connecting).map(|_| ()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "{expected}: {error:?}");
        assert!(text.contains("or tune on this machine by `cargo tvmtune tune`"), "{error}");
        assert!(!text.contains("secret"), "{error}");
        assert!(!error.is_passing() || matches!(error, NatsError::Unreachable { .. }), "{error:?}");
    }
    let at = good(&url);
    with_party_at(server, &at, quick(), async |party| {
        let hand = party.hand("a worker");
        party.tune(&[task(0, 1)]).await;
        hand.end().await;
    });
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_user_comes_with_a_password() {
    let as_user = |user: &str, password: &str| Server {
        user: text(user),
        password: text(password),
        ..Server::default()
    };
    check(
        "authorization { user: \"me\", password: \"secret\" }",
        |url| Server { url: url.to_owned(), ..as_user("me", "secret") },
        &[
            (Server::default(), "does not let this client in: authorization violation"),
            (as_user("me", "secrets"), "`NATS_USER` and `NATS_PASSWORD`"),
        ],
    );
    // In the address, too.
    check(
        "authorization { user: \"me\", password: \"secret\" }",
        |url| Server::at(&url.replace("nats://", "nats://me:secr%65t@")),
        &[],
    );
}

#[test]
fn a_token_is_enough() {
    let with = |token: &str| Server { token: text(token), ..Server::default() };
    check(
        "authorization { token: \"secret-token\" }",
        |url| Server { url: url.to_owned(), ..with("secret-token") },
        &[(with("secret-tokens"), "does not let this client in: authorization violation")],
    );
}

/// Signs claims as the NATS ecosystem does.
fn jwt(claims: &Value, issuer: &KeyPair) -> String {
    let encode = |it: &Value| BASE64URL_NOPAD.encode(it.to_string().as_bytes());
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let signed = format!("{}.{}", encode(&header), encode(claims));
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
}

fn claims(subject: &KeyPair, issuer: &KeyPair, nats: &Value) -> Value {
    json!({
        "jti": "test", "iat": 1_700_000_000, "name": "test",
        "iss": issuer.public_key(), "sub": subject.public_key(), "nats": nats,
    })
}

/// Writes credentials of a user of an account.
fn credentials(path: &Path, account: &KeyPair) {
    let user = KeyPair::new_user();
    let may = json!({
        "type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1,
    });
    let token = jwt(&claims(&user, account, &may), account);
    let seed = user.seed().unwrap();
    let text = format!(
        "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    );
    fs::write(path, text).unwrap();
}

#[test]
fn a_file_of_credentials_of_a_known_account_is_enough() {
    let operator = KeyPair::new_operator();
    let [account, system, stranger] = [(); 3].map(|()| KeyPair::new_account());
    let folder = tempfile::tempdir().unwrap();
    let [ours, other] = ["ours", "other"].map(|it| folder.path().join(format!("{it}.creds")));
    credentials(&ours, &account);
    credentials(&other, &stranger);
    let operators = json!({ "type": "operator", "version": 2 });
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
        "conn": -1, "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    let accounts = json!({ "type": "account", "version": 2, "limits": limits });
    let known = |it: &KeyPair, claimed: &Value| {
        format!("{}: {}", it.public_key(), jwt(&claims(it, &operator, claimed), &operator))
    };
    let access = format!(
        "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}, {} }}",
        jwt(&claims(&operator, &operator, &operators), &operator),
        system.public_key(),
        known(&account, &accounts),
        known(&system, &json!({ "type": "account", "version": 2 })),
    );
    let with = |creds: &PathBuf| Server { creds: Some(creds.clone()), ..Server::default() };
    let missing = folder.path().join("none.creds");
    check(
        &access,
        |url| Server { url: url.to_owned(), ..with(&ours) },
        &[
            (with(&other), "does not let this client in: authorization violation"),
            (with(&missing), "none.creds`: No such file or directory"),
            (Server::default(), "or `--nats-creds`"),
        ],
    );
}

/// An authority, and a certificate that it signed, as files.
struct Certificates {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

impl Certificates {
    fn write(folder: &Path, name: &str) -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority =
            CertifiedIssuer::self_signed(authority, TlsKey::generate().unwrap()).unwrap();
        let key = TlsKey::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let cert = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        let write = |what: &str, pem: String| {
            let path = folder.join(format!("{name}-{what}.pem"));
            fs::write(&path, pem).unwrap();
            path
        };
        Self {
            ca: write("ca", authority.pem()),
            cert: write("cert", cert.pem()),
            key: write("key", key.serialize_pem()),
        }
    }
}

#[test]
fn a_server_is_known_by_its_authority() {
    let folder = tempfile::tempdir().unwrap();
    let [ours, other] = ["ours", "other"].map(|it| Certificates::write(folder.path(), it));
    let by = |ca: &PathBuf| Server { ca: Some(ca.clone()), ..Server::default() };
    let access = format!("tls {{ cert_file: {:?}, key_file: {:?} }}", ours.cert, ours.key);
    check(
        &access,
        |url| Server { url: url.replace("nats://", "tls://"), ..by(&ours.ca) },
        &[
            (Server::default(), "by TLS: "),
            (by(&other.ca), "name the certificate of the authority"),
            (by(&folder.path().join("none.pem")), "none.pem`: No such file or directory"),
        ],
    );
}

#[test]
fn a_server_may_ask_for_a_certificate_of_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let [ours, other] = ["ours", "other"].map(|it| Certificates::write(folder.path(), it));
    let with = |cert: &Certificates| Server {
        ca: Some(ours.ca.clone()),
        cert: Some(cert.cert.clone()),
        key: Some(cert.key.clone()),
        ..Server::default()
    };
    let access = format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}",
        ours.cert, ours.key, ours.ca
    );
    let without = Server { ca: Some(ours.ca.clone()), ..Server::default() };
    check(
        &access,
        |url| Server { url: url.to_owned(), ..with(&ours) },
        &[(without, "and this client's own by `--nats-cert`"), (with(&other), "by TLS: ")],
    );
}

#[test]
fn commands_say_who_was_not_let_in_and_local_tuning_goes_on() {
    let access = "authorization { user: \"me\", password: \"secret\" }";
    let Some(server) = NatsServer::start_for(Limits::default(), access) else { return };
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let command = |arguments: &[&str]| {
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_tvmtune"));
        command.args(arguments).env("NATS_URL", server.url());
        command
    };
    for arguments in [&["fleet", "status"][..], &["fleet", "tune"], &["worker"]] {
        let said = said(command(arguments).env("NATS_USER", "me").env("NATS_PASSWORD", "wrong"));
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains("does not let this client in"), "{said:?}");
    }
    let mut set_up = command(&["fleet", "setup"]);
    let set_up = said(set_up.env("NATS_USER", "me").env("NATS_PASSWORD", "secret"));
    assert_eq!(set_up.code, Some(0), "{set_up:?}");
    let tuned = said(&mut command(&["tune", "--trials", "2"]));
    assert_eq!(tuned.code, Some(0), "{tuned:?}");
}

#[test]
fn commands_take_certificates_and_tokens_as_options_and_variables() {
    let folder = tempfile::tempdir().unwrap();
    let Certificates { ca, cert, key } = Certificates::write(folder.path(), "ours");
    let access =
        format!("tls {{ cert_file: {cert:?}, key_file: {key:?}, ca_file: {ca:?}, verify: true }}");
    let Some(server) = NatsServer::start_for(Limits::default(), &access) else { return };
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let url = server.url();
    let fleet = |command: &str, options: &[(&str, &Path)], variables: &[(&str, &Path)]| {
        let mut fleet = sandbox.command(env!("CARGO_BIN_EXE_tvmtune"));
        fleet.args(["fleet", command, "--nats", &url]).envs(variables.iter().copied());
        options.iter().for_each(|(name, path)| {
            fleet.arg(name).arg(path);
        });
        said(&mut fleet)
    };
    let options = [("--nats-ca", &*ca), ("--nats-cert", &*cert), ("--nats-key", &*key)];
    let variables = [("NATS_CA", &*ca), ("NATS_CERT", &*cert), ("NATS_KEY", &*key)];
    let set_up = fleet("setup", &options, &[]);
    assert_eq!(set_up.code, Some(0), "{set_up:?}");
    let status = fleet("status", &[], &variables);
    assert_eq!(status.code, Some(0), "{status:?}");
    for refused in [fleet("status", &options[..1], &[]), fleet("status", &[], &variables[..1])] {
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("this client's own by `--nats-cert`"), "{refused:?}");
    }
    let token = NatsServer::start_for(Limits::default(), "authorization { token: \"secret\" }");
    let token = token.expect("the first one started");
    let mut set_up = sandbox.command(env!("CARGO_BIN_EXE_tvmtune"));
    set_up.args(["fleet", "setup", "--nats", &token.url()]).env("NATS_TOKEN", "secret");
    let set_up = said(&mut set_up);
    assert_eq!(set_up.code, Some(0), "{set_up:?}");
}
