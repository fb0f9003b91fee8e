//! The configuration of webhooks.

use crate::DaemonWorld;
use std::fs;

/// A secret that signs webhooks.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

impl DaemonWorld {
    /// Configures the endpoint of applications, if there is one, and that of operators.
    pub fn configure_webhooks(&mut self, applications: Option<&str>, operators: &str) {
        let secret = self.path("webhook-secret");
        fs::write(&secret, SECRET).expect("the file is written");
        let secret = secret.display();
        self.config.push_str(&format!(
            "\n[webhooks]\noperator_url = \"{operators}\"\noperator_secret_file = \"{secret}\"\n"
        ));
        if let Some(url) = applications {
            self.config.push_str(&format!("url = \"{url}\"\nsecret_file = \"{secret}\"\n"));
        }
    }
}
