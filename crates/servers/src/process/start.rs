//! [`Processes`]: what all servers' processes are started with, and on which rung of containment each is.

use std::{collections::BTreeMap, path::PathBuf};

use camino::Utf8PathBuf;
use genlock_config::{Containment, ServerDefinition, StdioDefinition};
use serde::Serialize;
use tokio::sync::OnceCell;

use super::{
    HostEnvironment,
    child::{Child, Pipes},
    direct,
    keeper::Keeper,
    kept,
    program::{SpawnError, find},
    spawner::Spawner,
};

/// How firmly the processes of a server are held together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    /// By a process group, a parent-death signal, and a keeper where the host has one.
    Group,
    /// By namespaces, which the kernel ends as a whole.
    Namespace,
}

/// What containment there is on this machine. Shown by `genlock status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContainmentReport {
    /// The highest rung that there is: 1 or 2.
    pub rung: u8,
    /// Why there is no higher one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether servers have keepers, which find what detaches itself from a server on rung 1 as well.
    pub keeper: bool,
    /// Whether a server in namespaces sees only its own processes in `/proc`.
    pub own_proc: bool,
    /// Whom a server can hurt: said where servers are not kept from the gateway's files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<&'static str>,
}

/// What is said of rung 1.
const TRUST: &str = "servers that run as the gateway's own user are trusted: they can read its state directory and its \
                     config, and can signal its processes";

/// What all servers' processes are started with.
pub(crate) struct Processes {
    environment: HostEnvironment,
    keeper: Option<Keeper>,
    hidden: Vec<Utf8PathBuf>,
    spawner: Spawner,
    /// Whether there can be namespaces: with a `/proc` of their own, or why not. Found out once.
    namespaces: OnceCell<Result<bool, String>>,
}

/// One start of one server.
pub(super) struct Plan<'a> {
    /// What the server is called.
    pub(super) name: String,
    /// The command as it was written.
    pub(super) shown: String,
    pub(super) program: PathBuf,
    pub(super) environment: BTreeMap<String, String>,
    definition: &'a StdioDefinition,
}

// === impl Rung ===

impl Rung {
    /// Returns the number of the rung.
    pub fn number(self) -> u8 {
        match self {
            Self::Group => 1,
            Self::Namespace => 2,
        }
    }
}

// === impl Plan ===

impl Plan<'_> {
    pub(super) fn args(&self) -> impl Iterator<Item = &str> {
        self.definition.args.iter().map(|arg| arg.expose())
    }

    pub(super) fn cwd(&self) -> Option<&str> {
        self.definition.cwd.as_ref().map(|cwd| cwd.expose())
    }

    pub(super) fn shown_cwd(&self) -> String {
        let cwd = self.definition.cwd.as_ref();
        cwd.map(|cwd| cwd.shown().to_owned()).unwrap_or_default()
    }
}

// === impl Processes ===

impl Processes {
    pub(crate) fn new(
        environment: HostEnvironment,
        keeper: Option<Keeper>,
        hidden: Vec<Utf8PathBuf>,
    ) -> Self {
        Self {
            environment,
            keeper,
            hidden,
            spawner: Spawner::default(),
            namespaces: OnceCell::new(),
        }
    }

    /// Returns what containment there is. Tries it the first time.
    pub(crate) async fn report(&self) -> ContainmentReport {
        let namespaces = self.namespaces().await;
        ContainmentReport {
            rung: match namespaces {
                Ok(_) => Rung::Namespace.number(),
                Err(_) => Rung::Group.number(),
            },
            reason: namespaces.as_ref().err().cloned(),
            keeper: self.keeper.is_some(),
            own_proc: matches!(namespaces, Ok(true)),
            trust: namespaces.is_err().then_some(TRUST),
        }
    }

    async fn namespaces(&self) -> &Result<bool, String> {
        let find_out = async || match &self.keeper {
            Some(keeper) => kept::probe(keeper, &self.spawner).await,
            None => Err("the host of this gateway has no keeper".to_owned()),
        };
        self.namespaces.get_or_init(find_out).await
    }

    /// Starts a server's process: contained, with an environment from nothing and three pipes.
    ///
    /// # Errors
    /// Where there is no such program, the containment that is asked for cannot be had, or the system refuses.
    ///
    /// # Cancel safety
    /// A dropped start ends what it has started.
    pub(crate) async fn spawn(
        &self,
        server: &ServerDefinition,
        definition: &StdioDefinition,
    ) -> Result<(Child, Pipes), SpawnError> {
        let environment = self.environment.for_server(definition);
        let plan = Plan {
            name: server.name.as_str().to_owned(),
            shown: definition.command.shown().to_owned(),
            program: find(definition, &environment)?,
            environment,
            definition,
        };
        let Some(keeper) = &self.keeper else {
            if server.containment == Containment::Namespace {
                return Err(self.no_namespace().await);
            }
            return direct::start(&plan, &self.spawner).await;
        };
        let in_namespace = match server.containment {
            Containment::Group => false,
            Containment::Auto => self.namespaces().await.is_ok(),
            Containment::Namespace if self.namespaces().await.is_ok() => true,
            Containment::Namespace => return Err(self.no_namespace().await),
        };
        let hidden: Vec<_> = self.hidden.iter().map(ToString::to_string).collect();
        let namespace = in_namespace.then_some(hidden.as_slice());
        kept::start(&plan, keeper, &self.spawner, namespace).await
    }

    async fn no_namespace(&self) -> SpawnError {
        let reason = self.namespaces().await.clone().err().unwrap_or_default();
        SpawnError::NoNamespace { reason }
    }
}
