//! Sends commands to a server before a client exists.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// How long a server may take for one reply.
const REPLY_WAIT_MAX: Duration = Duration::from_secs(2);
/// The longest reply that is read, in bytes; `INFO persistence` has about 1,500.
const REPLY_BYTES_MAX: u64 = 64 * 1024;

/// Sends one command, its words separated by spaces, and returns the raw reply without the last line end: `+PONG`. It is
/// empty if the server hung up instead.
pub(super) async fn ask(socket: &Path, command: &str) -> io::Result<String> {
    let exchange = async {
        let mut stream = UnixStream::connect(socket).await?;
        // After QUIT the server hangs up, so the end of the reply needs no parser.
        stream
            .write_all(format!("{command}\r\nQUIT\r\n").as_bytes())
            .await?;
        let mut reply = Vec::new();
        stream.take(REPLY_BYTES_MAX).read_to_end(&mut reply).await?;
        io::Result::Ok(reply)
    };
    let reply = timeout(REPLY_WAIT_MAX, exchange).await??;
    let reply = reply.strip_suffix(b"+OK\r\n").unwrap_or(&reply);
    let reply = reply.strip_suffix(b"\r\n").unwrap_or(reply);
    Ok(String::from_utf8_lossy(reply).into_owned())
}
