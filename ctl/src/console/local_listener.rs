//! Connections from the user's own processes on this machine.
//!
//! A browser sends a cookie to each port of 127.0.0.1, so a server of another user may read the console's cookie. It cannot use
//! it, because the console accepts no connection from that user.
//!
//! The kernel is asked for the one connection, by `sock_diag`: its list of all connections takes longer the more connections
//! other users open, so they could keep the console busy with them.

use axum::serve::Listener;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, IPPROTO_TCP, TCP_ESTABLISHED};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};
use nix::unistd::geteuid;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::time::Duration;
use std::{env, io};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// Limit for the kernel's answer, in bytes: a header and the description of one socket.
const ANSWER_MAX_BYTES: usize = 4096;
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
    /// The port is in use or reserved.
    pub(crate) async fn bind(port: u16) -> io::Result<Self> {
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

    /// Checks that the kernel describes sockets: without that, no connection is accepted.
    ///
    /// # Errors
    /// The kernel does not find the console's own socket.
    pub(crate) fn check_kernel(&self) -> io::Result<()> {
        let own = self.own();
        find_socket(own, own).map(drop)
    }

    const fn own(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port)
    }

    fn is_permitted(&self, peer: SocketAddr) -> bool {
        let SocketAddr::V4(peer) = peer else { return false };
        find_socket(peer, self.own()).is_ok_and(|found| {
            // the kernel describes closed sockets with the user id 0, and a listening one if there is no connection
            let is_it = found.state == TCP_ESTABLISHED
                && address(found.socket_id.source_address, found.socket_id.source_port) == peer.into()
                && address(found.socket_id.destination_address, found.socket_id.destination_port)
                    == self.own().into();
            is_it && self.uids.contains(&found.uid)
        })
    }
}

const fn address(ip: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(ip, port)
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

/// The kernel's description of the socket at `from` that is connected to `to`, or that listens at `from`.
fn find_socket(from: SocketAddrV4, to: SocketAddrV4) -> io::Result<InetResponseHeader> {
    let socket_id = SocketId {
        source_port: from.port(),
        destination_port: to.port(),
        source_address: IpAddr::V4(*from.ip()),
        destination_address: IpAddr::V4(*to.ip()),
        // any socket
        cookie: [0xff; 8],
        ..SocketId::new_v4()
    };
    let request = InetRequest {
        family: AF_INET,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id,
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);

    // a socket for each question, so that no answer is taken for that of another one
    let kernel = socket(
        AddressFamily::Netlink,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    sendto(kernel.as_raw_fd(), &bytes, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0; ANSWER_MAX_BYTES];
    // the kernel has answered before `sendto` returns
    let size = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
    let answer = answer.get(..size).unwrap_or_default();
    match NetlinkMessage::deserialize(answer).map_err(io::Error::other)?.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => Ok(found.header),
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener as StdListener, TcpStream as StdStream};

    fn v4(address: io::Result<SocketAddr>) -> SocketAddrV4 {
        match address.expect("a connected socket") {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(other) => panic!("{other}"),
        }
    }

    #[tokio::test]
    async fn peer_is_permitted_while_its_user_is_connected() {
        let mut listener = LocalListener::bind(0).await.expect("a free port");
        listener.check_kernel().expect("the kernel describes sockets");
        let client = StdStream::connect((Ipv4Addr::LOCALHOST, listener.port())).expect("it listens");
        let peer = SocketAddr::from(v4(client.local_addr()));
        assert!(listener.is_permitted(peer));
        let uids = std::mem::replace(&mut listener.uids, vec![geteuid().as_raw() + 1]);
        assert!(!listener.is_permitted(peer), "another user");
        // closed sockets have the user id 0, which may be that of this test
        listener.uids = uids.into_iter().chain([0]).collect();
        drop(client);
        assert!(!listener.is_permitted(peer), "closed");
        // a listening socket of the same user is no connection
        let other = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        assert!(!listener.is_permitted(v4(other.local_addr()).into()), "not connected");
    }
}
