//! Clients that are slow, silent or too many: each is let go in time, and none keeps another waiting.

use std::io::Write as _;
use std::time::Duration;

use afterword::http::Connections;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::PATIENCE;
use crate::support::server::{Plan, Server, answer};

/// How long those are waited for that are to be let go. Whoever is to be answered must not need it: a machine may stand still longer.
const SHORT: Duration = Duration::from_millis(300);

/// A server that lets nobody be silent, and not stand still either.
async fn hurried(most: usize) -> Server {
    with(Connections { most, head_timeout: SHORT, stall_timeout: SHORT, ..Connections::default() }).await
}

async fn with(connections: Connections) -> Server {
    Server::planned(Plan { connections, ..Plan::default() }).await
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.origin.strip_prefix("http://").unwrap()).await.unwrap()
}

/// A connection on which all of this was said before the server can have looked at it: this thread is the server's too, and waits
/// for nobody meanwhile.
fn said_at_once(server: &Server, said: &str) -> TcpStream {
    let mut stream = std::net::TcpStream::connect(server.origin.strip_prefix("http://").unwrap()).unwrap();
    stream.write_all(said.as_bytes()).unwrap();
    stream.set_nonblocking(true).unwrap();
    TcpStream::from_std(stream).unwrap()
}

const ASK: &str = "GET /health HTTP/1.1\r\nhost: a\r\n\r\n";

/// What comes until the other side closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the connection is closed");
    // A close that finds unread bytes is a reset.
    drop(read);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn a_client_that_says_nothing_or_half_of_it_is_let_go() {
    let server = hurried(100).await;
    for said in ["", "P", "PRI * HTTP/2.0\r\n", "GET /health HTTP/1.1\r\nhost: a\r\nx-slow: "] {
        let mut stream = said_at_once(&server, said);
        assert!(!rest(&mut stream).await.contains("200 OK"), "{said:?}");
    }
    // Between two requests it is the same.
    let mut stream = said_at_once(&server, ASK);
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = Server::start().await;
    let mut stream = connect(&server).await;
    let head = format!("GET /health HTTP/1.1\r\nhost: a\r\nx-large: {}\r\n\r\n", "x".repeat(100_000));
    // The server may hang up before all of it is written.
    let _ = stream.write_all(head.as_bytes()).await;
    let said = rest(&mut stream).await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 431"), "{said}");
    assert_eq!(
        answer(server.caller.request("GET", "/monitor/patterns").header("x-large", "x".repeat(10_000))).await.0,
        200
    );
}

#[tokio::test]
async fn a_client_that_takes_no_answer_is_let_go() {
    let server = with(Connections { head_timeout: PATIENCE, stall_timeout: SHORT, ..Connections::default() }).await;
    let patient = Server::planned(Plan { database: Some(server.database.clone()), ..Plan::default() }).await;
    // Each answer is far larger than the question, so that the buffers between the two are full soon.
    for turn in 0..20 {
        let span = json!({"name": "a", "session_id": "s", "span_id": format!("t{turn}"), "input": "x".repeat(80_000)});
        patient.caller.store(&span).await;
    }
    let mut stream = connect(&server).await;
    let request =
        format!("GET /api/v1/ingest/sessions/s/spans HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\n\r\n", server.caller.key);
    let (asked, mut wrote) = (request.repeat(100), 0);
    let hung_up = tokio::time::timeout(PATIENCE, async {
        loop {
            match stream.write(&asked.as_bytes()[wrote % asked.len()..]).await {
                Ok(0) | Err(_) => return,
                Ok(more) => wrote += more,
            }
        }
    });
    hung_up.await.expect("the server hangs up");
    assert_eq!(patient.caller.spans("s").await.len(), 20);
}

#[tokio::test]
async fn connections_beyond_the_most_wait_for_one_that_ends() {
    let server = hurried(2).await;
    let silent = [said_at_once(&server, ""), said_at_once(&server, "")];
    let mut asking = said_at_once(&server, ASK);
    // The two say nothing and are let go; then there is room.
    assert!(rest(&mut asking).await.starts_with("HTTP/1.1 200 OK"));
    drop(silent);
    // Whoever is let go by the other side makes room too; until then nobody else is heard.
    let server = with(Connections { most: 1, head_timeout: PATIENCE, ..Connections::default() }).await;
    let silent = said_at_once(&server, "");
    let mut asking = said_at_once(&server, &ASK.replace("host: a", "host: a\r\nconnection: close"));
    tokio::time::sleep(SHORT).await;
    assert_eq!(asking.try_read(&mut [0; 1]).map_err(|error| error.kind()), Err(std::io::ErrorKind::WouldBlock));
    drop(silent);
    assert!(rest(&mut asking).await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn a_request_under_way_is_answered_when_the_server_stops() {
    let server = Server::start().await;
    let mut stream = connect(&server).await;
    let body = json!({"name": "a", "session_id": "last", "span_id": "x"}).to_string();
    let head = format!(
        "POST /api/v1/ingest/traces HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n\
         content-length: {}\r\n\r\n",
        server.caller.key,
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    server.stop.cancel();
    stream.write_all(body.as_bytes()).await.unwrap();
    let said = rest(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 200 OK") && said.contains("\"trace_id\":\"x\""), "{said}");
    assert!(TcpStream::connect(server.origin.strip_prefix("http://").unwrap()).await.is_err(), "nobody new is let in");
}
