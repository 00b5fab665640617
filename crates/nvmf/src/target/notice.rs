//! Notices of connections for an operator.

use std::net::SocketAddr;
use std::ops::DerefMut;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::action::Ended;
use super::connection::Connection;
use crate::wire::Status;

/// The other side of a connection, as far as it is known. Its names are the host's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party<'a> {
    /// The address.
    pub peer: SocketAddr,
    /// Name of the host.
    pub host: Option<&'a str>,
    /// Name of the subsystem.
    pub subsystem: Option<&'a str>,
    /// Number of the queue; 0 is the admin queue.
    pub queue: u16,
}

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// It was closed at once, since there are too many.
    TooMany,
    /// A Connect was refused.
    Refused(Status),
    /// A host has a controller.
    Connected {
        /// Whether the host has proved its name.
        is_authenticated: bool,
    },
    /// A host's controller is gone.
    Disconnected {
        /// The reason.
        reason: &'a Ended,
        /// The time since the host connected.
        connected: Duration,
    },
    /// A connection that is no host's admin queue ended otherwise than by its host.
    Ended(&'a Ended),
}

/// Hears notices, on the threads of loops: it must not wait.
pub trait Observer: Send + Sync {
    /// Takes a notice.
    fn notice(&self, party: &Party<'_>, notice: Notice<'_>);
}

impl<B: DerefMut<Target = [u8]>> Connection<B> {
    /// Tells an operator of a host that has a controller now, once.
    pub(super) fn tell_of_entry(&self) {
        let Some(controller) = self.controller.as_ref().filter(|_| self.queue == 0) else {
            return;
        };
        if controller.subsystem.is_some() && !controller.has_entered.swap(true, Ordering::Relaxed) {
            let is_authenticated = self.authentication_is_demanded();
            let notice = Notice::Connected { is_authenticated };
            self.registry.notice(&self.party(), notice);
        }
    }

    fn authentication_is_demanded(&self) -> bool {
        let controller = self.controller.as_ref();
        let subsystem = controller.and_then(|controller| controller.subsystem.as_ref());
        subsystem.is_some_and(|subsystem| subsystem.secrets.is_some())
    }

    /// Counts the end of the connection, and tells an operator of it.
    pub(super) fn tell_of_end(&self) {
        let Some(reason) = &self.ended else {
            return;
        };
        self.statistics.ended(reason);
        let controller = self.controller.as_ref().filter(|_| self.queue == 0);
        let entered =
            controller.filter(|controller| controller.has_entered.load(Ordering::Relaxed));
        let notice = match entered {
            Some(controller) => Notice::Disconnected {
                reason,
                connected: self.now.saturating_duration_since(controller.since),
            },
            // Hosts end connections as they like, and all queues of a controller that is gone end.
            None if is_usual(reason) => return,
            None => Notice::Ended(reason),
        };
        self.registry.notice(&self.party(), notice);
    }

    fn party(&self) -> Party<'_> {
        let controller = self.controller.as_deref();
        let subsystem = controller.and_then(|controller| controller.subsystem.as_ref());
        Party {
            peer: self.ports.peer,
            host: controller.map(|controller| controller.host.as_str()),
            subsystem: subsystem.map(|subsystem| subsystem.nqn.as_str()),
            queue: self.queue,
        }
    }
}

/// Returns whether connections end so without a fault of anybody.
fn is_usual(reason: &Ended) -> bool {
    matches!(
        reason,
        Ended::ByHost | Ended::ControllerGone | Ended::Stopping
    )
}
