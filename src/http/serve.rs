//! Serving: connections are taken in, told to hurry, and let go.
//!
//! A client that is slow to say what it wants, or to take its answer, holds a connection and nothing else, and not for long: the
//! time for a request's head, for its body (`server.request_timeout`) and for a stalled answer is bounded, and so is how many
//! connections there are.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// The largest head of a request, in bytes; a larger one is answered with 431.
const HEAD_LIMIT: usize = 32 * 1024;
/// How long to wait where the operating system can't hand out another connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// How connections are treated.
#[derive(Debug, Clone, Copy)]
pub struct Connections {
    /// The most at the same time; others wait in the operating system's queue.
    pub most: usize,
    /// How long a client may take to send the head of a request, and keep a connection without one.
    pub head_timeout: Duration,
    /// How long a client may leave an answer untaken.
    pub stall_timeout: Duration,
    /// How long what is under way may take once the process stops.
    pub grace: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            most: 1_000,
            head_timeout: Duration::from_secs(15),
            stall_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(30),
        }
    }
}

/// Serves requests until `cancel` is cancelled; what is under way then has `grace` to be answered.
pub async fn serve(listener: TcpListener, router: Router, cancel: CancellationToken, connections: Connections) {
    let room = Arc::new(Semaphore::new(connections.most));
    let graceful = GracefulShutdown::new();
    while let Some((stream, permit)) = next(&listener, &room, &cancel).await {
        // Answers are small: waiting to fill packets only delays them.
        let _ = stream.set_nodelay(true);
        tokio::spawn(talk(stream, permit, router.clone(), connections, graceful.watcher()));
    }
    drop(listener);
    if timeout(connections.grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests still under way after {:?} were cut off by the stop", connections.grace);
    }
}

/// The next connection, once there is room for it; `None` where it is time to stop.
async fn next(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
    cancel: &CancellationToken,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let taken = async {
        let permit = Arc::clone(room).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return Some((stream, permit)),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "no connection can be taken in; does the process have too many files open?");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    cancel.run_until_cancelled(taken).await.flatten()
}

/// Whether only the connection that was about to be taken in is lost.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionAborted | ConnectionReset)
}

/// One connection from its first byte to its last.
async fn talk(
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
    router: Router,
    connections: Connections,
    watcher: Watcher,
) {
    let has_asked = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&has_asked);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        let router = router.clone();
        async move {
            Ok::<_, Infallible>(router.oneshot(request.map(Body::new)).await.unwrap_or_else(|never| match never {}))
        }
    });
    let stream = TokioIo::new(Hurried::new(stream, connections.stall_timeout));
    let builder = builder(connections.head_timeout);
    let conversation = watcher.watch(builder.serve_connection(stream, service).into_owned());
    // The head's own limit begins only once it is known which HTTP is spoken.
    let silence = async {
        sleep(connections.head_timeout).await;
        if has_asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        // What was said in time counts, also where it is looked at too late.
        biased;
        ended = conversation => if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke off");
        },
        () = silence => tracing::debug!("a connection on which nothing was asked was closed"),
    }
}

fn builder(head_timeout: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head_timeout).max_buf_size(HEAD_LIMIT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(HEAD_LIMIT).unwrap_or(u32::MAX))
        .keep_alive_interval(head_timeout)
        .keep_alive_timeout(head_timeout);
    builder
}

/// A stream whose other side must take what is written to it: where it takes nothing for too long, writing fails.
struct Hurried {
    stream: TcpStream,
    patience: Duration,
    /// Since when nothing was taken, as the moment at which that is too long.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Hurried {
    fn new(stream: TcpStream, patience: Duration) -> Self {
        Self { stream, patience, stalled: None }
    }

    /// What came of writing, or an error where nothing came of it for too long.
    fn hurry<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes no answer")))
    }
}

impl AsyncRead for Hurried {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Hurried {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = pin!(&mut self.stream).poll_write(cx, bytes);
        self.hurry(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = pin!(&mut self.stream).poll_write_vectored(cx, pieces);
        self.hurry(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = pin!(&mut self.stream).poll_flush(cx);
        self.hurry(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = pin!(&mut self.stream).poll_shutdown(cx);
        self.hurry(cx, shut)
    }
}
