//! A relay between two Unix sockets. The daemon sees the user and group id of this process as those of its caller.
//!
//! Usage: `relay LISTEN CONNECT`. The relay ends when its standard input is closed.

use std::env;
use std::path::PathBuf;
use tokio::io::copy_bidirectional;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::spawn_blocking;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let mut paths = env::args_os().skip(1).map(PathBuf::from);
    let (Some(listen), Some(target)) = (paths.next(), paths.next()) else {
        return Err(std::io::Error::other("usage: relay LISTEN CONNECT"));
    };
    let listener = UnixListener::bind(listen)?;
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let target = target.clone();
            tokio::spawn(async move {
                if let Ok(mut daemon) = UnixStream::connect(target).await {
                    // an end of one side ends the relay of this connection
                    drop(copy_bidirectional(&mut client, &mut daemon).await);
                }
            });
        }
    });
    spawn_blocking(|| std::io::read_to_string(std::io::stdin())).await?.map(drop)
}
