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
    /// Whether there can be namespaces, with a `/proc` of their own or without; or why not. Found out once.
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

    /// Tells whether a process is one of a server.
    pub(crate) fn is_of_a_server(&self, pid: u32) -> bool {
        self.spawner.leaders().lead(pid)
    }

    /// Returns what containment there is. Tries it the first time.
    pub(crate) async fn report(&self) -> ContainmentReport {
        let found = self.find_out().await;
        let namespaces = match &found {
            Ok((_, namespaces)) => namespaces.as_ref().map_err(String::as_str),
            Err(reason) => Err(reason.as_str()),
        };
        ContainmentReport {
            rung: match namespaces {
                Ok(_) => Rung::Namespace.number(),
                Err(_) => Rung::Group.number(),
            },
            reason: namespaces.err().map(str::to_owned),
            keeper: found.is_ok(),
            own_proc: matches!(namespaces, Ok(true)),
            trust: namespaces.is_err().then_some(TRUST),
        }
    }

    /// Returns the keeper, and whether there can be namespaces; or why there is no keeper.
    async fn find_out(&self) -> Result<(&Keeper, &Result<bool, String>), String> {
        let keeper = self.keeper.as_ref();
        let keeper = keeper.ok_or_else(|| "the host of this gateway has no keeper".to_owned())?;
        let probe = async || {
            let found = kept::probe(keeper, &self.spawner).await?;
            match &found {
                Ok(own_proc) => tracing::info!(own_proc, "servers run in namespaces"),
                Err(reason) => tracing::warn!(reason, "servers run without namespaces"),
            }
            Ok::<_, std::io::Error>(found)
        };
        // A failure to start the keeper at all is not kept: it may be a moment's.
        let found = self.namespaces.get_or_try_init(probe).await;
        found
            .map(|namespaces| (keeper, namespaces))
            .map_err(|error| format!("start the keeper: {error}"))
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
        let wish = server.containment;
        let (keeper, namespaces) = match self.find_out().await {
            Ok((keeper, namespaces)) => (keeper, namespaces),
            Err(reason) if wish == Containment::Namespace => {
                return Err(SpawnError::NoNamespace { reason });
            }
            Err(_) => return direct::start(&plan, &self.spawner).await,
        };
        let in_group = async || kept::start(&plan, keeper, &self.spawner, None).await;
        if let (Containment::Namespace, Err(reason)) = (wish, namespaces) {
            let reason = reason.clone();
            return Err(SpawnError::NoNamespace { reason });
        }
        if wish == Containment::Group || namespaces.is_err() {
            return in_group().await;
        }
        let hidden: Vec<_> = self.hidden.iter().map(ToString::to_string).collect();
        match kept::start(&plan, keeper, &self.spawner, Some(&hidden)).await {
            // There were namespaces a while ago; the number of them has a limit.
            Err(SpawnError::Keeper { doing, source, .. }) if wish == Containment::Auto => {
                tracing::warn!(server = plan.name, %source, "could not {doing}: the server runs without namespaces");
                in_group().await
            }
            started => started,
        }
    }
}

#[cfg(test)]
mod tests {
    use genlock_config::{ServerName, Text, TransportDefinition};

    use super::*;

    fn server(command: &str, args: &[&str]) -> (ServerDefinition, StdioDefinition) {
        let mut stdio = StdioDefinition::new(Text::plain(command));
        stdio.args = args.iter().map(|arg| Text::plain(*arg)).collect();
        let name = ServerName::new("one").unwrap();
        let transport = TransportDefinition::Stdio(stdio.clone());
        (ServerDefinition::new(name, transport), stdio)
    }

    fn without_keeper() -> Processes {
        Processes::new(HostEnvironment::default(), None, Vec::new())
    }

    #[tokio::test]
    async fn without_a_keeper_a_server_is_on_the_lower_rung_and_namespaces_are_refused() {
        let processes = without_keeper();
        let (mut definition, stdio) = server("/bin/sleep", &["60"]);

        let (child, pipes) = processes.spawn(&definition, &stdio).await.unwrap();
        definition.containment = Containment::Namespace;
        let refused = processes.spawn(&definition, &stdio).await.unwrap_err();
        let report = processes.report().await;

        assert_eq!(child.rung(), Rung::Group);
        let reason = "the host of this gateway has no keeper";
        let expected = ContainmentReport {
            rung: 1,
            reason: Some(reason.to_owned()),
            keeper: false,
            own_proc: false,
            trust: Some(TRUST),
        };
        assert_eq!(report, expected);
        assert!(refused.is_permanent());
        assert!(refused.to_string().ends_with(reason), "{refused}");
        drop(pipes);
        let status = child.end().await.unwrap();
        assert_eq!(status.to_string(), "signal: 15 (SIGTERM)");
    }

    #[tokio::test]
    async fn the_kernel_ends_a_server_with_the_thread_that_started_it() {
        let spawner = Spawner::default();
        let mut command = tokio::process::Command::new("/bin/sleep");
        command.arg("60");
        super::super::sys::tie_to_parent(command.as_std_mut());
        let mut process = spawner.spawn(command).await.unwrap();

        drop(spawner);

        let status = process.wait().await.unwrap();
        assert_eq!(status.to_string(), "signal: 9 (SIGKILL)");
    }

    #[tokio::test]
    async fn what_cannot_be_executed_is_refused_for_good_without_a_keeper_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, executable).unwrap();
        let (definition, stdio) = server(script.to_str().unwrap(), &[]);

        let refused = without_keeper().spawn(&definition, &stdio).await;

        let refused = refused.unwrap_err();
        assert!(refused.is_permanent());
        assert_eq!(
            refused.to_string(),
            format!(
                "the interpreter that the command needs is missing: {}",
                script.display()
            )
        );
    }
}
