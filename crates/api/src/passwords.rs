//! Passwords of users: Argon2id, on threads of their own, two at a time. A third waits for a while and is then told to come
//! back: each takes 19 MiB and some twenty milliseconds of a core, and whoever guesses must not have the machine.

use crate::{error::ApiError, validate::Checks};
use argon2::{
    Algorithm, Argon2, Params, PasswordHash, PasswordHasher as _, PasswordVerifier as _, Version,
    password_hash::SaltString,
};
use domain::{dice::Dice, limits};
use std::sync::{Arc, OnceLock};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};
use zeroize::Zeroizing;

pub(crate) struct Passwords {
    at_once: Arc<Semaphore>,
    /// Of no user: trying one that is not there takes as long.
    nobodys: Arc<OnceLock<String>>,
}

impl Passwords {
    pub(crate) fn new() -> Self {
        Self { at_once: Arc::new(Semaphore::new(limits::PASSWORDS_AT_ONCE)), nobodys: Arc::default() }
    }

    /// As it is kept.
    pub(crate) async fn hash(
        &self,
        password: Zeroizing<String>,
        dice: &dyn Dice,
    ) -> Result<String, ApiError> {
        let mut salt = [0; 16];
        dice.fill(&mut salt);
        self.on_its_own_thread(move || hash(&password, &salt)).await?
    }

    /// Whether it is that of the user, if there is one.
    pub(crate) async fn is_right(
        &self,
        password: Zeroizing<String>,
        kept: Option<String>,
    ) -> Result<bool, ApiError> {
        if password.len() > limits::PASSWORD_BYTES_MAX {
            return Ok(false);
        }
        let nobodys = self.nobodys.clone();
        self.on_its_own_thread(move || {
            let there = kept.is_some();
            let kept = match kept {
                Some(kept) => kept,
                None => nobodys.get_or_init(|| hash("", &[0; 16]).unwrap_or_default()).clone(),
            };
            let parsed = PasswordHash::new(&kept).map_err(ApiError::from_bug)?;
            Ok(method().verify_password(password.as_bytes(), &parsed).is_ok() && there)
        })
        .await?
    }

    async fn on_its_own_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let permit = timeout(limits::PASSWORD_PATIENCE, self.at_once.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(ApiError::overloaded("too many passwords are tried at once"));
        };
        let done = spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        done.await.map_err(ApiError::from_bug)
    }
}

/// What a password must be; there is no rule about which characters.
pub(crate) fn check(checks: &mut Checks, pointer: &str, password: &str) {
    if password.chars().count() < limits::PASSWORD_MIN {
        let detail = format!("it has at least {} characters", limits::PASSWORD_MIN);
        checks.refuse(pointer, "too_short", detail);
    }
    if password.len() > limits::PASSWORD_BYTES_MAX {
        let detail = format!("it has at most {} bytes", limits::PASSWORD_BYTES_MAX);
        checks.refuse(pointer, "too_long", detail);
    }
}

fn method() -> Argon2<'static> {
    let params = Params::new(limits::PASSWORD_MEMORY_KIB, limits::PASSWORD_ROUNDS, 1, None);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params.expect("within what Argon2 takes"))
}

fn hash(password: &str, salt: &[u8; 16]) -> Result<String, ApiError> {
    let salt = SaltString::encode_b64(salt).map_err(ApiError::from_bug)?;
    let hash = method().hash_password(password.as_bytes(), &salt).map_err(ApiError::from_bug)?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::testing::CountingDice;

    #[tokio::test]
    async fn a_password_is_recognised_and_no_other_is() {
        let passwords = Passwords::new();
        let text = |text: &str| Zeroizing::new(text.to_owned());
        let kept = passwords.hash(text("correct horse battery"), &CountingDice::default()).await.unwrap();
        assert!(kept.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{kept}");
        assert!(passwords.is_right(text("correct horse battery"), Some(kept.clone())).await.unwrap());
        assert!(!passwords.is_right(text("correct horse batterz"), Some(kept)).await.unwrap());
        assert!(!passwords.is_right(text(""), None).await.unwrap(), "not even nobody's own");
    }
}
