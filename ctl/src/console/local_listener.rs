//! Connections from the user's own processes on this machine.
//!
//! A browser sends a cookie to each port of 127.0.0.1, so a server of another user may read the console's cookie. It cannot use
//! it, because the console accepts no connection from that user.

use axum::serve::Listener;
use nix::unistd::geteuid;
use std::env;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// The kernel's list of TCP connections over IPv4.
const CONNECTIONS: &str = "/proc/net/tcp";
/// The state of an established connection in the kernel's list.
const ESTABLISHED: &str = "01";
/// Time before the next attempt after a failed one, for example without free file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct LocalListener {
    listener: TcpListener,
    port: u16,
    /// The users whose processes may connect.
    uids: Vec<u32>,
}

impl LocalListener {
    /// Listens on 127.0.0.1.
    ///
    /// # Errors
    /// The port is in use or reserved, or the kernel does not list connections.
    pub(crate) async fn bind(port: u16) -> io::Result<Self> {
        fs::metadata(CONNECTIONS)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        let own = geteuid();
        // with sudo, the browser runs as the user who called sudo
        let sudo = env::var("SUDO_UID").ok().filter(|_| own.is_root()).and_then(|uid| uid.parse().ok());
        Ok(Self { listener, port, uids: [own.as_raw()].into_iter().chain(sudo).collect() })
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    fn is_permitted(&self, peer: SocketAddr) -> bool {
        let SocketAddr::V4(peer) = peer else { return false };
        let own = SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port);
        let connections = fs::read_to_string(CONNECTIONS).unwrap_or_default();
        find_uid(&connections, peer, own).is_some_and(|uid| self.uids.contains(&uid))
    }
}

impl Listener for LocalListener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) if self.is_permitted(peer) => return (stream, peer),
                Ok(_) => {}
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The user id of the process that connected from `peer` to `own`, by the kernel's list.
fn find_uid(connections: &str, peer: SocketAddrV4, own: SocketAddrV4) -> Option<u32> {
    // the kernel writes addresses as numbers in the byte order of the machine
    let hex = |address: SocketAddrV4| {
        format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
    };
    let (peer, own) = (hex(peer), hex(own));
    connections.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        // the kernel lists closed sockets with the user id 0
        let is_it = fields.next()? == peer && fields.next()? == own && fields.next()? == ESTABLISHED;
        is_it.then(|| fields.nth(3)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_is_that_of_the_connecting_side_while_it_is_connected() {
        let listed = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1DCB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0\n   \
            1: 0100007F:1DCB 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0\n   \
            2: 0100007F:C001 0100007F:1DCB 01 00000000:00000000 00:00000000 00000000    33        0 3 1 0\n   \
            3: 0100007F:C002 0100007F:1DCB 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0\n   \
            4: 0100007F:C003 0100007F:1DCB 06 00000000:00000000 03:00001770 00000000     0        0 0 3 0\n   \
            5: 0100007F:C004 0100007F:1DCB 06 00000000:00000000 03:00001770 00000000     0        0 0 3 0\n   \
            6: 0100007F:C004 0100007F:1DCB 01 00000000:00000000 00:00000000 00000000    34        0 4 1 0\n";
        let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        if cfg!(target_endian = "little") {
            assert_eq!(find_uid(listed, at(0xC001), at(0x1DCB)), Some(33));
            assert_eq!(find_uid(listed, at(0xC004), at(0x1DCB)), Some(34));
            for closed in [0xC002, 0xC003] {
                assert_eq!(find_uid(listed, at(closed), at(0x1DCB)), None);
            }
            assert_eq!(find_uid(listed, at(0xC005), at(0x1DCB)), None);
        }
    }
}
