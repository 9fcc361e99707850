//! A way to the server that can be cut, and mended: what is sent meanwhile is lost.

use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A proxy on this machine.
pub(crate) struct Proxy {
    port: u16,
    is_open: Arc<watch::Sender<bool>>,
}

impl Proxy {
    /// Opens a way to a port.
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let is_open = Arc::new(watch::Sender::new(true));
        let sender = is_open.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let mut is_open = sender.subscribe();
                tokio::spawn(async move {
                    if *is_open.borrow() {
                        tokio::select! {
                            () = pass(client, port) => {}
                            _ = is_open.wait_for(|it| !*it) => {}
                        }
                    }
                });
            }
        });
        Self { port: own, is_open }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Cuts every connection, and refuses new ones.
    pub(crate) fn cut(&self) {
        self.is_open.send_replace(false);
    }

    /// Lets connections through again.
    pub(crate) fn mend(&self) {
        self.is_open.send_replace(true);
    }
}

async fn pass(mut client: TcpStream, port: u16) {
    if let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await {
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}
