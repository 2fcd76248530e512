//! `fencepost serve`: the runs of a results folder for a browser.
//!
//! Owns the connections: how many, how long, and what each answer carries beside its body. Must not know how runs are
//! made; it is safe on anybody's results. Only GET and HEAD, nothing is ever written.
//!
//! | file | owns |
//! |---|---|
//! | `answer` | which address leads where, and the headers |
//! | `address` | hosts, paths and queries, read strictly |
//! | `files` | opening what is below the results folder, and nothing else |
//! | `shelf` | the runs that are there, and how far each is |
//! | `stream` | a file on its way, piece by piece |
//!
//! Hyper is used as it is: it is compiled for the Docker client already, and a router would have one route.
mod address;
mod answer;
mod files;
mod shelf;
mod stream;

use answer::Desk;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;

/// Connections at a time, where there are handles for them; others wait in the kernel's queue.
const CONNECTIONS: usize = 256;
/// Files and folders open at a time, where there are handles for them; other requests wait for their turn.
const OPEN: usize = 48;
/// How long a client may take to send the head of a request, also of the next one on a connection.
const HEAD: Duration = Duration::from_secs(10);
/// The same where half of the connections are taken: those that say nothing are not to keep others waiting.
const HEAD_CROWDED: Duration = Duration::from_secs(1);
/// How long a client may take nothing of an answer that waits for it.
const TAKES: Duration = Duration::from_secs(10);
/// Bytes of a request's head.
const HEAD_MAX: usize = 16 << 10;
/// How long to wait where the system has no descriptor left.
const NO_DESCRIPTOR: Duration = Duration::from_millis(50);

/// A server that listens and does not answer yet.
pub struct Server {
    listener: TcpListener,
    desk: Rc<Desk>,
}

impl Server {
    /// Listens at `address` for requests about the runs below `results`. A request's `Host` must be an IP address,
    /// `localhost`, or one of `hosts`: a name that somebody else points at this machine is refused.
    ///
    /// # Errors
    /// `results` is no folder that can be read, or the address is taken. Needs a tokio runtime.
    pub async fn bind(results: &Path, address: SocketAddr, hosts: Vec<String>) -> io::Result<Self> {
        Ok(Self {
            desk: Rc::new(Desk::new(results, hosts, part_of_handles(8, OPEN))?),
            listener: TcpListener::bind(address).await?,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers for ever. Runs in a local runtime; dropped, it ends.
    pub async fn answer(self) {
        let most = part_of_handles(2, CONNECTIONS);
        let seats = Arc::new(Semaphore::new(most));
        loop {
            let Ok(seat) = seats.clone().acquire_owned().await else {
                return;
            };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let crowded = seats.available_permits() < most / 2;
                    let head = if crowded { HEAD_CROWDED } else { HEAD };
                    tokio::task::spawn_local(converse(stream, self.desk.clone(), head, seat));
                }
                // No descriptor is left, or the client went away before it was accepted.
                Err(_) => tokio::time::sleep(NO_DESCRIPTOR).await,
            }
        }
    }
}

/// A share of the handles that this process may have: half for connections, an eighth for files, each of which needs two
/// for a moment; the rest is for whatever else it does.
fn part_of_handles(share: u64, most: usize) -> usize {
    use nix::sys::resource::{Resource, getrlimit};
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((256, 256));
    usize::try_from(soft / share).unwrap_or(most).clamp(2, most)
}

async fn converse(stream: TcpStream, desk: Rc<Desk>, head: Duration, _seat: OwnedSemaphorePermit) {
    let service = service_fn(move |request| {
        let desk = desk.clone();
        async move { Ok::<_, std::convert::Infallible>(desk.answer(&request).await) }
    });
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(TAKES));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    // A client that goes away or babbles is its own affair.
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection ended early");
    }
}
