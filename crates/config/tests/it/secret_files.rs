//! `${file:…}` and `env_file`.

use std::{fs, os::unix::fs::symlink};

use camino::{Utf8Path, Utf8PathBuf};
use genlock_config::{
    Config, LoadError, Loaded, Sources, TransportDefinition, Variables, load_with,
};
use secrecy::ExposeSecret;

use crate::all_short;

/// A directory with a config directory `home`, a secret directory `run`, and one `outside`.
struct Place {
    _folder: tempfile::TempDir,
    root: Utf8PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(folder.path()).unwrap().to_owned();
        for directory in ["home/sub", "run", "outside"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        Self {
            _folder: folder,
            root,
        }
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        fs::write(self.root.join(path), text).unwrap();
    }

    fn load(&self, server: &str) -> Result<Loaded, LoadError> {
        let text = format!("mcp_servers: {{ a: {{ command: x, {server} }} }}");
        self.write(
            "home/genlock.yaml",
            text.replace("ROOT", self.root.as_str()),
        );
        let sources = Sources::new(Variables::empty()).with_secret_dir(self.root.join("run"));
        load_with(&self.root.join("home/genlock.yaml"), &sources)
    }

    fn refusal(&self, server: &str) -> Vec<String> {
        all_short(self.load(server).unwrap_err().findings())
    }
}

fn env(config: &Config) -> Vec<(String, String, String)> {
    let TransportDefinition::Stdio(stdio) = &config.servers.values().next().unwrap().transport
    else {
        panic!("{config:?}")
    };
    let entries = stdio.env.iter();
    entries
        .map(|(name, text)| {
            (
                name.clone(),
                text.expose().to_owned(),
                text.shown().to_owned(),
            )
        })
        .collect()
}

#[test]
fn files_below_the_allowed_directories_are_read() {
    let place = Place::new();
    place.write("home/token", "from-home\n");
    place.write("home/sub/token", "from-sub\r\n");
    place.write("run/token", "two\nlines\n\n");
    symlink(place.root.join("run/token"), place.root.join("home/link")).unwrap();

    let loaded = place
        .load("env: { A: '${file:token}', B: '${file:./sub/token}', C: '<${file:ROOT/run/token}>', D: '${file:link}', E: '${file:none:-d}', F: '${file:sub/../token}' }")
        .unwrap();

    let values: Vec<_> = env(&loaded.config)
        .into_iter()
        .map(|(_, value, _)| value)
        .collect();
    let expected = [
        "from-home",
        "from-sub",
        "<two\nlines\n>",
        "two\nlines\n",
        "d",
        "from-home",
    ];
    assert_eq!(values, expected);
    assert_eq!(env(&loaded.config)[0].2, "${file:token}");
    assert_eq!(env(&loaded.config)[4].2, "${file:none:-[private]}");
}

#[test]
fn no_path_and_no_link_leads_out_of_them() {
    let place = Place::new();
    place.write("outside/token", "c4n4ry");
    place.write("home/real", "x");
    symlink(place.root.join("outside"), place.root.join("home/dir")).unwrap();
    symlink(
        place.root.join("outside/token"),
        place.root.join("home/link"),
    )
    .unwrap();
    symlink("../outside/token", place.root.join("run/link")).unwrap();
    symlink("link", place.root.join("home/second")).unwrap();

    for path in [
        "ROOT/outside/token",
        "../outside/token",
        "sub/../../outside/token",
        "dir/token",
        "link",
        "second",
        "ROOT/run/link",
        "ROOT/outside/none",
        "../none",
        "/proc/self/environ",
        "/etc/hostname",
    ] {
        for (server, key) in [
            (format!("env: {{ A: '${{file:{path}}}' }}"), "env.A"),
            (format!("env: {{ A: '${{file:{path}:-d}}' }}"), "env.A"),
            (format!("env_file: '{path}'"), "env_file"),
        ] {
            let found = place.refusal(&server);
            assert_eq!(found.len(), 1, "{server} {found:?}");
            let expected = format!("config.file_not_allowed mcp_servers.a.{key}");
            assert!(found[0].ends_with(&expected), "{server} {found:?}");
        }
    }
}

#[test]
fn what_is_no_small_file_of_text_is_refused() {
    let place = Place::new();
    place.write("home/large", vec![b'x'; (64 << 10) + 1]);
    place.write("home/limit", vec![b'x'; 64 << 10]);
    place.write("home/latin", b"t\xf6ken");
    place.write("home/nul", b"a\0b");

    for path in ["large", "latin", "sub"] {
        let found = place.refusal(&format!("env: {{ A: '${{file:{path}}}' }}"));
        assert!(
            found[0].contains("config.file_unreadable"),
            "{path} {found:?}"
        );
    }
    let nul = place.refusal("env: { A: '${file:nul}' }");
    assert!(nul[0].contains("config.invalid_text"), "{nul:?}");
    assert!(place.load("env: { A: '${file:limit}' }").is_ok());
}

#[test]
fn a_file_that_is_not_there_makes_its_server_unavailable() {
    let place = Place::new();

    let loaded = place
        .load("env: { A: '${file:none}' }, env_file: [none.env]")
        .unwrap();

    let server = loaded.config.servers.values().next().unwrap();
    assert_eq!(
        server.unavailable.as_deref(),
        Some("missing file, env_file")
    );
}

#[test]
fn files_of_variables_are_merged_and_env_wins() {
    let place = Place::new();
    place.write("home/one.env", "A=one\nB=one\nC=one\nC=twice\n");
    place.write("run/two.env", "B=two\nAPI_TOKEN=\"s3cret token\"\n");

    let loaded = place
        .load("env: { A: own }, env_file: [one.env, 'ROOT/run/two.env']")
        .unwrap();

    let found = env(&loaded.config);
    let expected = [
        ("A", "own"),
        ("API_TOKEN", "s3cret token"),
        ("B", "two"),
        ("C", "twice"),
    ];
    let expected = expected.map(|(name, value)| {
        let marker = "[private]".to_owned();
        (name.to_owned(), value.to_owned(), marker)
    });
    assert_eq!(found, expected);
    let (redacted, private) = loaded.config.split();
    assert_eq!(
        redacted.get("/mcp_servers/a/env_file/0").unwrap(),
        "one.env"
    );
    let secrets: Vec<_> = private
        .secrets()
        .into_iter()
        .map(|secret| secret.expose_secret().to_owned())
        .collect();
    assert_eq!(secrets, ["s3cret token"]);
    assert_eq!(
        Config::from_redacted(&redacted, &private).unwrap(),
        loaded.config
    );
}

#[test]
fn a_line_that_is_no_variable_is_named_by_its_number_only() {
    let place = Place::new();
    place.write("home/bad.env", "A=1\nc4n4ry c4n4ry\n");

    let error = place.load("env_file: bad.env").unwrap_err();

    assert_eq!(
        all_short(error.findings()),
        ["1:43 config.bad_env_file mcp_servers.a.env_file"]
    );
    let message = &error.findings()[0].message;
    assert_eq!(message, "line 2 of the file is no `NAME=value`");
}

#[test]
fn files_are_read_again_on_every_load() {
    let place = Place::new();
    place.write("home/a.env", "A=first\n");
    let first = place.load("env_file: a.env").unwrap();
    place.write("home/a.env", "A=second\n");

    let second = place.load("env_file: a.env").unwrap();

    assert_eq!(env(&first.config)[0].1, "first");
    assert_eq!(env(&second.config)[0].1, "second");
    assert_eq!(first.config.redacted(), second.config.redacted());
}
