//! [`Starts`]: when a process may be started. One budget for all servers of a gateway, and one turn for each package
//! runner, whose first starts download into one cache.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use genlock_config::{ServerDefinition, StdioDefinition, TransportDefinition};
use parking_lot::Mutex;
use tokio::{
    sync::OwnedMutexGuard,
    time::{Instant, sleep, sleep_until},
};

/// How many processes may be started at once after a quiet time.
const BURST: u32 = 8;
/// How long it takes until one more may be started: 4 a second.
const REFILL: Duration = Duration::from_millis(250);
/// How long a first start may keep the turn of its package runner: one that takes longer hangs, most likely.
const TURN: Duration = Duration::from_secs(30);

/// Whether somebody waits for the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// A call or a person waits.
    Asked,
    /// It is started for later.
    Background,
}

/// The starts of one gateway. A clone shares them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Starts {
    budget: Arc<Mutex<Budget>>,
    turns: Arc<Mutex<HashMap<&'static str, Queue>>>,
}

/// The first starts of one package runner, one at a time.
type Queue = Arc<tokio::sync::Mutex<()>>;

/// A bucket that fills up by one in each [`REFILL`], and who waits for it: those that somebody waits for first, then in
/// the order in which they came.
#[derive(Debug, Default)]
struct Budget {
    /// When the bucket will be, or was, full.
    full_at: Option<Instant>,
    waiting: BTreeSet<(Urgency, u64)>,
    next_ticket: u64,
}

/// A package runner's turn. Dropped, the next first start follows.
#[derive(Debug)]
pub(crate) struct Turn {
    _held: OwnedMutexGuard<()>,
}

impl Starts {
    /// Waits until a server may be started. `first` is whether it never ran here before; such a start of a package runner
    /// has a turn to hold until it is done.
    ///
    /// # Cancel safety
    /// A dropped wait takes nothing.
    pub(crate) async fn admit(
        &self,
        definition: &ServerDefinition,
        first: bool,
        urgency: Urgency,
    ) -> Option<Turn> {
        let stdio = match &definition.transport {
            TransportDefinition::Stdio(stdio) => stdio,
            TransportDefinition::Http(_) | TransportDefinition::Builtin => return None,
        };
        let turn = match package_runner(stdio).filter(|_| first) {
            Some(runner) => Some(self.turn(runner).await),
            None => None,
        };
        self.token(urgency).await;
        turn
    }

    async fn turn(&self, runner: &'static str) -> Turn {
        let turn = Arc::clone(self.turns.lock().entry(runner).or_default());
        Turn {
            _held: turn.lock_owned().await,
        }
    }

    async fn token(&self, urgency: Urgency) {
        let waiting = Waiting::new(&self.budget, urgency);
        loop {
            let look_again = match self.budget.lock().take(waiting.ticket, Instant::now()) {
                Ok(()) => return,
                Err(later) => later,
            };
            sleep_until(look_again).await;
        }
    }
}

/// Runs a first start while it has its turn, which ends before it where it takes too long.
///
/// # Cancel safety
/// As the start.
pub(crate) async fn within_turn<T>(turn: Option<Turn>, start: impl Future<Output = T>) -> T {
    let mut start = std::pin::pin!(start);
    if let Some(turn) = turn {
        tokio::select! {
            done = &mut start => return done,
            () = sleep(TURN) => drop(turn),
        }
    }
    start.await
}

impl Budget {
    /// Takes a start for the first in line; tells anybody else when to look again.
    fn take(&mut self, ticket: (Urgency, u64), now: Instant) -> Result<(), Instant> {
        let full_at = self.full_at.map_or(now, |full| full.max(now));
        // The bucket is empty where it needs more than all refills but one to be full.
        let short = (full_at - now).saturating_sub(REFILL * (BURST - 1));
        let ahead = self.waiting.range(..ticket).count();
        if ahead == 0 && short.is_zero() {
            self.full_at = Some(full_at + REFILL);
            return Ok(());
        }
        // Who stands further back looks often enough to move up where others go away.
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX).min(BURST);
        Err(now + short.max(REFILL / 10) + REFILL * ahead)
    }
}

/// A place in line, given up when dropped.
struct Waiting<'a> {
    budget: &'a Mutex<Budget>,
    ticket: (Urgency, u64),
}

impl<'a> Waiting<'a> {
    fn new(budget: &'a Mutex<Budget>, urgency: Urgency) -> Self {
        let mut state = budget.lock();
        let ticket = (urgency, state.next_ticket);
        state.next_ticket += 1;
        state.waiting.insert(ticket);
        drop(state);
        Self { budget, ticket }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.budget.lock().waiting.remove(&self.ticket);
    }
}

/// Returns the package runner behind a command, if it is one.
fn package_runner(stdio: &StdioDefinition) -> Option<&'static str> {
    let program = stdio.command.expose().rsplit('/').next()?;
    let first = stdio.args.first().map(|arg| arg.expose());
    match (program, first) {
        ("npx", _) | ("npm", Some("exec" | "x")) => Some("npx"),
        ("uvx", _) => Some("uvx"),
        ("pipx", _) => Some("pipx"),
        ("bunx", _) | ("bun", Some("x")) => Some("bunx"),
        ("pnpm", Some("dlx")) => Some("pnpm dlx"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{future::join_all, poll};
    use genlock_config::{ServerName, Text};

    use super::*;

    fn definition(command: &[&str]) -> ServerDefinition {
        let mut stdio = StdioDefinition::new(Text::plain(command[0]));
        stdio.args = command[1..].iter().map(|arg| Text::plain(*arg)).collect();
        ServerDefinition::new(
            ServerName::new("a").unwrap(),
            TransportDefinition::Stdio(stdio),
        )
    }

    async fn admitted(starts: &Starts, urgency: Urgency, began: Instant) -> u128 {
        let turn = starts.admit(&definition(&["x"]), true, urgency).await;
        assert!(turn.is_none());
        began.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn eight_starts_are_free_and_then_four_a_second() {
        let (starts, began) = (Starts::default(), Instant::now());
        let all = (0..14).map(|_| admitted(&starts, Urgency::Background, began));
        let mut times = join_all(all).await;
        times.sort_unstable();
        assert_eq!(
            times,
            [0, 0, 0, 0, 0, 0, 0, 0, 250, 500, 750, 1000, 1250, 1500]
        );

        // A quiet time fills it up to eight, not more.
        sleep(Duration::from_secs(60)).await;
        let began = Instant::now();
        let all = (0..10).map(|_| admitted(&starts, Urgency::Background, began));
        let times = join_all(all).await;
        assert_eq!(times[7..], [0, 250, 500]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_waited_for_goes_first() {
        let (starts, began) = (Starts::default(), Instant::now());
        let crowd = join_all((0..100).map(|_| admitted(&starts, Urgency::Background, began)));
        let asked = async {
            sleep(Duration::from_secs(5)).await;
            admitted(&starts, Urgency::Asked, began).await
        };
        let (crowd, asked) = tokio::join!(crowd, asked);
        assert!((5000..5500).contains(&asked), "{asked}");
        // 100 and one more, less those that were free, at 4 a second.
        assert_eq!(crowd.iter().max(), Some(&(93 * 250)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_away_takes_nothing() {
        let (starts, began) = (Starts::default(), Instant::now());
        join_all((0..8).map(|_| admitted(&starts, Urgency::Asked, began))).await;
        let mut gone = Box::pin(admitted(&starts, Urgency::Asked, began));
        assert!(poll!(&mut gone).is_pending());
        let stays = admitted(&starts, Urgency::Background, began);
        drop(gone);
        assert_eq!(stays.await, 250);
    }

    #[tokio::test(start_paused = true)]
    async fn first_starts_of_one_package_runner_follow_each_other() {
        let starts = Starts::default();
        let admit = async |command: &[&str], first| {
            starts
                .admit(&definition(command), first, Urgency::Background)
                .await
        };
        let first = admit(&["npx", "a"], true).await;
        assert!(first.is_some());
        // Others need not wait: another runner, a program, a start that is not the first.
        assert!(admit(&["/usr/bin/uvx", "a"], true).await.is_some());
        assert!(admit(&["node", "npx"], true).await.is_none());
        assert!(admit(&["npx", "a"], false).await.is_none());

        let mut second = Box::pin(admit(&["/opt/npx", "b"], true));
        assert!(poll!(&mut second).is_pending());
        drop(first);
        assert!(second.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_start_that_hangs_gives_its_turn_up_after_30_s() {
        let (starts, began) = (Starts::default(), Instant::now());
        let npx = definition(&["pnpm", "dlx", "a"]);
        let turn = starts.admit(&npx, true, Urgency::Background).await;
        let hung = within_turn(turn, sleep(Duration::from_secs(3600)));
        let next = starts.admit(&npx, true, Urgency::Background);
        tokio::select! {
            () = hung => panic!("it hangs"),
            turn = next => assert!(turn.is_some()),
        }
        assert_eq!(began.elapsed(), Duration::from_secs(30));
    }
}
