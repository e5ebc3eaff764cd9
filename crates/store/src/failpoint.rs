//! Named places where a test can make the process die or panic: `POSTHASTE_FAIL=settle.after:abort:50` aborts at the
//! fiftieth time, `send.before:panic:2%` panics in two of a hundred. Compiled to nothing in release builds.

/// Here something may go wrong, if a test wants it to.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn hit(_place: &'static str) {}

#[cfg(debug_assertions)]
pub fn hit(place: &'static str) {
    if let Some(plan) = plan().filter(|plan| plan.place == place) {
        plan.act();
    }
}

#[cfg(debug_assertions)]
struct Plan {
    place: String,
    panics: bool,
    when: When,
    hits: std::sync::atomic::AtomicU64,
}

#[cfg(debug_assertions)]
enum When {
    Nth(u64),
    /// Every so many hits: 2 % is every fiftieth.
    Every(u64),
}

#[cfg(debug_assertions)]
impl Plan {
    fn act(&self) {
        let hit = self.hits.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let now = match self.when {
            When::Nth(n) => hit == n,
            When::Every(n) => hit.is_multiple_of(n),
        };
        if now && self.panics {
            panic!("failpoint {}", self.place);
        }
        if now {
            eprintln!("failpoint {} hit {hit} times: aborting", self.place);
            std::process::abort();
        }
    }
}

#[cfg(debug_assertions)]
fn plan() -> Option<&'static Plan> {
    static PLAN: std::sync::OnceLock<Option<Plan>> = std::sync::OnceLock::new();
    PLAN.get_or_init(|| std::env::var("POSTHASTE_FAIL").ok().as_deref().and_then(parse)).as_ref()
}

#[cfg(debug_assertions)]
fn parse(text: &str) -> Option<Plan> {
    let mut parts = text.split(':');
    let (place, action, when) = (parts.next()?, parts.next()?, parts.next()?);
    let when = match when.strip_suffix('%') {
        Some(percent) => When::Every(100 / percent.parse::<u64>().ok().filter(|percent| *percent > 0)?),
        None => When::Nth(when.parse().ok()?),
    };
    let hits = std::sync::atomic::AtomicU64::new(0);
    Some(Plan { place: place.into(), panics: action == "panic", when, hits })
}
