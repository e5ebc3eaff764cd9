//! Closes a connection on which something was said to a client that has not finished speaking.
//!
//! Closing with bytes unread would reset the connection, and the client, still busy sending, would find a broken pipe
//! where the answer was. So our side is closed, and the other is read for a while and thrown away.

use domain::limits;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const READ_BYTES: usize = 16 * 1024;

/// Ends when the client has closed its side too, has sent too much, or takes too long.
pub(super) async fn close(mut stream: TcpStream) {
    let _ = timeout(limits::LINGER_MAX, async {
        let _ = stream.shutdown().await;
        // Not in the future itself: every connection would carry it.
        let mut bytes = vec![0; READ_BYTES];
        let mut left = limits::LINGER_BYTES;
        while let Ok(Ok(read)) = timeout(limits::LINGER, stream.read(&mut bytes)).await {
            if read == 0 || read > left {
                return;
            }
            left -= read;
        }
    })
    .await;
}
