//! The sockets as files: permissions, replacement, and handover by systemd.

use crate::wording::stable;
use oracled_tests::wire::{WireConnection, head};
use oracled_tests::{DaemonWorld, error_line, eventually, get};
use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the file exists").mode() & 0o7777
}

#[tokio::test]
async fn sockets_have_the_default_modes_unless_configured_otherwise() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    assert_eq!((mode(&world.socket()), mode(&world.control_socket())), (0o660, 0o600));
    assert!(daemon.stop().success());

    let world = DaemonWorld::for_reviewers("socket_mode = \"0666\"\ncontrol_socket_mode = \"660\"");
    let daemon = world.serve().await;
    assert_eq!((mode(&world.socket()), mode(&world.control_socket())), (0o666, 0o660));
    assert_eq!(mode(&world.review_socket()), 0o600);
    assert!(daemon.stop().success());

    let world = DaemonWorld::for_reviewers("review_socket_mode = \"0660\"");
    let _daemon = world.serve().await;
    assert_eq!(mode(&world.review_socket()), 0o660);
}

#[tokio::test]
async fn socket_gets_the_configured_group() {
    let own = nix::unistd::getgid();
    let group = if nix::unistd::geteuid().is_root() {
        // a group other than the daemon's own, if the system has one
        ["nogroup", "nobody", "daemon"]
            .into_iter()
            .find_map(|name| nix::unistd::Group::from_name(name).ok()?)
    } else {
        nix::unistd::Group::from_gid(own).expect("groups can be read")
    };
    let Some(group) = group else {
        println!("skipped: this system has no group to give a socket to");
        return;
    };
    let world = DaemonWorld::for_reviewers(&format!(
        "socket_group = \"{0}\"\ncontrol_socket_group = \"{0}\"\nreview_socket_group = \"{0}\"",
        group.name
    ));
    let _daemon = world.serve().await;
    for (socket, expected) in
        [(world.socket(), 0o660), (world.control_socket(), 0o600), (world.review_socket(), 0o600)]
    {
        assert_eq!(fs::metadata(&socket).unwrap().gid(), group.gid.as_raw(), "{}", socket.display());
        assert_eq!(mode(&socket), expected);
    }
}

#[tokio::test]
async fn unknown_socket_group_is_an_error() {
    let world = DaemonWorld::with_config("control_socket_group = \"no-such-group\"");
    let error = error_line(world.command());
    assert!(error.contains("`no-such-group`"), "{error}");
    assert!(!world.control_socket().exists());
}

#[tokio::test]
async fn invalid_socket_mode_is_an_error() {
    for bad in ["999", "0660x", "", "4777", "rw", "+660"] {
        let world = DaemonWorld::with_config(&format!("socket_mode = \"{bad}\""));
        let error = error_line(world.command());
        assert!(error.contains("`socket_mode`") && error.contains("octal"), "{error}");
    }
}

#[tokio::test]
async fn control_socket_that_others_can_write_to_is_refused() {
    for (key, bad) in ["control_socket_mode", "review_socket_mode"]
        .into_iter()
        .flat_map(|key| ["0666", "0662", "777"].map(|bad| (key, bad)))
    {
        let error = error_line(DaemonWorld::with_config(&format!("{key} = \"{bad}\"")).command());
        assert!(error.contains(&format!("`{key}`")) && error.contains(bad), "{error}");
    }
}

#[tokio::test]
async fn stale_socket_file_is_replaced() {
    let world = DaemonWorld::default();
    world.serve().await.kill();
    for socket in [world.socket(), world.control_socket()] {
        assert!(
            fs::symlink_metadata(socket).unwrap().file_type().is_socket(),
            "a killed daemon leaves its sockets"
        );
    }
    let daemon = world.serve().await;
    assert_eq!(get(&mut daemon.control().await, "/v1/status").await.status, 200);
    assert_eq!(mode(&world.socket()), 0o660);
}

#[tokio::test]
async fn socket_whose_listener_has_a_full_backlog_is_in_use() {
    let world = DaemonWorld::default();
    let _listener = UnixListener::bind(world.socket()).expect("the socket is bound");
    let mut waiting = Vec::new();
    // the listener accepts none of these connections
    while let Ok(stream) = tokio::net::UnixStream::connect(world.socket()).await {
        waiting.push(stream);
    }
    let error = error_line(world.command());
    insta::assert_snapshot!("socket_of_another_listener", stable(&world, &error));
}

#[tokio::test]
async fn socket_in_use_is_an_error_and_its_daemon_continues() {
    let world = DaemonWorld::default();
    let daemon = world.serve().await;
    // the second daemon has a state directory of its own, so only the sockets prevent its start
    let mut errors = String::new();
    for (socket, control_socket) in
        [(world.socket(), world.path("other")), (world.path("other"), world.control_socket())]
    {
        let mut other = world.oracled(&["serve", "--state-dir"]);
        other.arg(world.path("other-state")).arg("--socket").arg(&socket);
        other.arg("--control-socket").arg(&control_socket);
        let error = error_line(other);
        errors += &stable(&world, &error);
    }
    insta::assert_snapshot!("sockets_of_another_daemon", errors);
    for client in [&mut daemon.routes().await, &mut daemon.control().await] {
        assert_eq!(get(client, "/nowhere").await.status, 404);
    }
}

#[tokio::test]
async fn file_that_is_not_a_socket_is_not_replaced() {
    let world = DaemonWorld::default();
    for make in [
        (|path: &Path| fs::write(path, "precious").unwrap()) as fn(&Path),
        |path| fs::create_dir(path).unwrap(),
        |path| symlink("/nonexistent", path).unwrap(),
    ] {
        let path = world.socket();
        make(&path);
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        let error = error_line(world.command());
        insta::assert_snapshot!("path_of_another_file_for_a_socket", stable(&world, &error));
        assert_eq!(fs::symlink_metadata(&path).unwrap().file_type(), kind);
        if kind.is_dir() { fs::remove_dir(&path).unwrap() } else { fs::remove_file(&path).unwrap() }
    }
}

#[tokio::test]
async fn unusable_directory_is_an_error_that_names_the_socket() {
    let world = DaemonWorld::default();
    fs::write(world.path("file"), "").unwrap();
    let mut dirs = vec![world.path("file")];
    if nix::unistd::geteuid().is_root() {
        println!("root can write to every directory, so only a path through a file is tested");
    } else {
        fs::create_dir(world.path("locked")).unwrap();
        fs::set_permissions(world.path("locked"), Permissions::from_mode(0o500)).unwrap();
        dirs.push(world.path("locked"));
    }
    for dir in dirs {
        let mut command = world.oracled(&["serve", "--state-dir"]);
        command.arg(world.state()).arg("--socket").arg(dir.join("o.sock")).arg("--control-socket");
        command.arg(world.control_socket());
        let error = error_line(command);
        assert!(error.contains(dir.join("o.sock").to_str().unwrap()), "{error}");
    }
}

#[tokio::test]
async fn too_long_socket_path_is_an_error_with_the_allowed_length() {
    let world = DaemonWorld::default();
    let mut command = world.oracled(&["serve", "--state-dir"]);
    command.arg(world.state()).arg("--socket").arg(world.path(&"x".repeat(100)));
    let error = error_line(command);
    assert!(error.contains("`socket`") && error.contains("107"), "{error}");
}

#[tokio::test]
async fn missing_directories_are_created_and_sockets_removed_at_a_stop() {
    let world = DaemonWorld::default();
    let (socket, control_socket) = (world.path("run/a/o.sock"), world.path("run/b/c.sock"));
    let mut command = world.oracled(&["serve", "--state-dir"]);
    command
        .arg(world.path("var/lib/state"))
        .arg("--socket")
        .arg(&socket)
        .arg("--control-socket")
        .arg(&control_socket);
    let daemon = world.spawn_as(command);
    eventually("both sockets exist", async || socket.exists() && control_socket.exists()).await;
    assert!(daemon.stop().success());
    for dir in ["run/a", "run/b"] {
        let left: Vec<_> =
            fs::read_dir(world.path(dir)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// A daemon that inherits two listening sockets as systemd passes them: file descriptors from 3 on, with these
/// names. A test cannot do this without unsafe code, but a shell can.
fn inherit_sockets(world: &mut DaemonWorld, names: &str, sockets: [UnixListener; 2]) -> Command {
    let script = r#"exec 3<&0 4>&1 0</dev/null 1>&2; LISTEN_PID=$$ LISTEN_FDS=2 exec "$@""#;
    world.wrapper = ["sh", "-c", script, "sh"].map(str::to_owned).to_vec();
    world.variables = vec![("LISTEN_FDNAMES".into(), names.into())];
    let mut command = world.command();
    let [first, second] = sockets.map(|socket| Stdio::from(OwnedFd::from(socket)));
    command.stdin(first).stdout(second);
    command
}

#[tokio::test]
async fn systemd_sockets_are_served_by_name_and_not_removed() {
    let mut world = DaemonWorld::default();
    // the paths differ from the configured ones, so only the inherited sockets can answer there
    let (routes, control) = (world.path("inherited-routes"), world.path("inherited-control"));
    let sockets = [UnixListener::bind(&control).unwrap(), UnixListener::bind(&routes).unwrap()];
    // this connection is queued before the daemon starts
    let mut early = WireConnection::connect(&routes).await;
    early.send(head("GET", "/healthz", &[])).await.unwrap();
    let command = inherit_sockets(&mut world, "oracled-control:oracled", sockets);
    let daemon = world.spawn_as(command);
    assert_eq!(early.answer().await.unwrap().status, 200);
    let status =
        WireConnection::connect(&control).await.exchange(head("GET", "/v1/status", &[])).await.unwrap();
    assert_eq!(status.status, 200);
    assert!(!world.socket().exists() && !world.control_socket().exists());

    assert!(daemon.stop().success());
    assert!(routes.exists() && control.exists(), "inherited sockets are not removed");
}

#[tokio::test]
async fn socket_for_reviewers_from_systemd_needs_no_configuration() {
    let mut world = DaemonWorld::default();
    let (routes, review) = (world.path("inherited-routes"), world.path("inherited-review"));
    let sockets = [UnixListener::bind(&review).unwrap(), UnixListener::bind(&routes).unwrap()];
    let mut early = WireConnection::connect(&routes).await;
    early.send(head("GET", "/healthz", &[])).await.unwrap();
    let command = inherit_sockets(&mut world, "oracled-review:oracled", sockets);
    let daemon = world.spawn_as(command);
    assert_eq!(early.answer().await.unwrap().status, 200);
    for (path, status) in [("/v1/reviews", 200), ("/v1/status", 404)] {
        let answer = WireConnection::connect(&review).await.exchange(head("GET", path, &[])).await.unwrap();
        assert_eq!(answer.status, status, "{path}");
    }
    assert!(daemon.stop().success());
    assert!(review.exists(), "an inherited socket is not removed");
}

#[tokio::test]
async fn inherited_socket_with_another_name_is_an_error() {
    for (names, named) in [("oracled:web", "`web`"), ("oracled", "``"), ("", "``")] {
        let mut world = DaemonWorld::default();
        let sockets = ["a", "b"].map(|name| UnixListener::bind(world.path(name)).unwrap());
        let error = error_line(inherit_sockets(&mut world, names, sockets));
        assert!(error.contains(named) && error.contains("FileDescriptorName="), "{error}");
    }
}

#[tokio::test]
async fn systemd_socket_activate_starts_the_daemon_with_its_sockets() {
    let tool = "systemd-socket-activate";
    if Command::new(tool).arg("--version").output().is_err() {
        println!("skipped: {tool} is not installed");
        return;
    }
    let mut world = DaemonWorld::default();
    let (routes, control) = (world.path("activated-routes"), world.path("activated-control"));
    let home = format!("--setenv=HOME={}", world.path("").display());
    let flags = ["--fdname=oracled:oracled-control".to_owned(), home];
    let listen = [&routes, &control].map(|socket| format!("--listen={}", socket.display()));
    world.wrapper = [tool.to_owned()].into_iter().chain(flags).chain(listen).collect();
    // systemd-socket-activate executes the daemon at the first connection
    let daemon = world.spawn();
    eventually("it listens", async || UnixStream::connect(&control).is_ok()).await;
    for (socket, path) in [(&routes, "/readyz"), (&control, "/v1/status")] {
        let answer = WireConnection::connect(socket).await.exchange(head("GET", path, &[])).await.unwrap();
        assert_eq!(answer.status, 200, "{path}");
    }
    assert!(daemon.stop().success());
}
