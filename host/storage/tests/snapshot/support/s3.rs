//! A real S3 server on a free port, which ends with the test.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use styx_storage::snapshot::StoreLocation;

pub struct Server {
    child: Child,
    pub port: u16,
    _directory: tempfile::TempDir,
}

impl Server {
    /// Starts one with the bucket `styx`; `None`, said aloud, if the server is not installed here and cannot be. Nor is
    /// there one for a build without S3.
    pub fn start() -> Option<Self> {
        if !cfg!(feature = "s3") {
            return None;
        }
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/servers/s3.sh");
        let installed = Command::new(&script).arg("install").status().is_ok_and(|status| status.success());
        if !installed {
            // Past the test harness, which keeps to itself what passing tests print.
            let said = "SKIPPED on S3: there is no server here, scripts/servers/s3.sh install says why\n";
            std::io::stderr().write_all(said.as_bytes()).unwrap();
            return None;
        }
        // Somebody may take the port between the look and the start: then the server ends at once.
        for _ in 0..5 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let directory = tempfile::tempdir().unwrap();
            let child = Command::new(&script)
                .arg("start")
                .arg(directory.path())
                .arg(port.to_string())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut server = Self { child, port, _directory: directory };
            let until = Instant::now() + Duration::from_secs(60);
            while server.child.try_wait().unwrap().is_none() && Instant::now() < until {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Some(server);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        panic!("the S3 server does not start: scripts/servers/s3.sh start DIR PORT shows why");
    }

    /// A place in its bucket.
    pub fn location(&self, prefix: &str) -> StoreLocation {
        StoreLocation::new(format!("s3://styx/{prefix}"))
            .with("AWS_ACCESS_KEY_ID", "styx")
            .with("AWS_SECRET_ACCESS_KEY", "styx-secret")
            .with("AWS_REGION", "us-east-1")
            .with("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
