//! The dashboard, and the links by which somebody comes in for the first time. Each start makes new ones; the old ones can be
//! opened once all the same, for as long as they are good.

use crate::{config::Config, output::note};
use api::{App, Pages, keys::KeyText};
use std::{
    net::SocketAddr,
    process::{Command, Stdio},
};

/// How the dashboard looks.
pub(super) fn pages(dev_key: Option<&str>) -> Pages {
    Pages {
        router: dashboard::router(dev_key.and_then(KeyText::parse)),
        login: dashboard::login_page,
        set_up: dashboard::set_up_page,
        portal: dashboard::portal_page,
        missing: dashboard::missing_page,
    }
}

#[derive(Default)]
pub(crate) struct WaysIn {
    /// With the development's key.
    pub(crate) dashboard: Option<String>,
    /// For the first user.
    pub(super) set_up: Option<String>,
}

impl WaysIn {
    /// A store that does not answer now costs the links and nothing else.
    pub(super) async fn of(
        app: &App,
        config: &Config,
        dev_key: Option<&str>,
        admin: Option<SocketAddr>,
    ) -> Self {
        if !config.dashboard || !config.role.listens() {
            return Self::default();
        }
        let told = |error| tracing::warn!(%error, "no link for the dashboard could be made");
        let url = &config.public_url;
        if let Some(key) = dev_key.and_then(KeyText::parse) {
            let link = app.new_sign_in_link(&key).await.map_err(told).ok();
            return Self { dashboard: link.map(|path| format!("{url}{path}")), set_up: None };
        }
        // The first user is an operator, and those come in by their own address.
        let url = admin.map_or_else(|| url.clone(), |address| format!("http://{address}"));
        let link = app.new_set_up_link().await.map_err(told).ok().flatten();
        Self { dashboard: None, set_up: link.map(|path| format!("{url}{path}")) }
    }

    /// In a browser, if there is one: where there is none, the line above can be copied.
    pub(super) fn open(&self) {
        let Some(link) = &self.dashboard else { return };
        let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let started = Command::new(opener)
            .arg(link)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            // Somebody has to wait for it, or its end would be kept for us for ever.
            Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
            Err(error) => note(format_args!(
                "No browser could be opened ({opener}: {error}); open the link of the line `Dashboard` by hand."
            )),
        }
    }
}
