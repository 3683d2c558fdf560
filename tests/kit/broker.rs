//! A broker of Kafka: a child process, with one node that is its own controller, on ports and in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use parking_lot::Mutex;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use tempfile::TempDir;

use crate::kit::process::{Process, eventually};
use crate::kit::servers::free_ports;

/// Who may use a broker that asks for a password.
pub const USER: &str = "standings";
pub const PASSWORD: &str = "a-secret-of-the-broker";

/// The broker; it ends with this value.
pub struct Broker {
    directory: TempDir,
    port: u16,
    process: Mutex<Process>,
}

/// The repository's folder.
fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Where the parts of the broker lie that `tools/kafka` gets.
fn parts() -> PathBuf {
    let given = std::env::var_os("STANDINGS_KAFKA_PARTS").map(PathBuf::from);
    given.unwrap_or_else(|| repository().join(".tools/kafka"))
}

/// Java with a class of the broker: quick to start, and small.
fn java(directory: &Path, class: &str) -> Command {
    let mut command = Command::new("java");
    let classes = parts().join("*");
    command
        .args([
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xshare:auto",
            "-Xmx320m",
        ])
        .arg("-cp")
        .arg(classes)
        .arg(class)
        .current_dir(directory)
        .stderr(Stdio::null());
    command
}

impl Broker {
    /// A broker whom everybody may use.
    pub async fn start() -> Self {
        Self::begin("PLAINTEXT", "127.0.0.1", "").await
    }

    /// A broker that is reached by TLS, under the name `localhost`, and asks for the password of a user.
    pub async fn start_secure() -> Self {
        let fixtures = repository().join("tests/fixtures/tls");
        let read = |name: &str| std::fs::read_to_string(fixtures.join(name)).unwrap();
        let identity = [read("server.key"), read("server.pem")].map(|pem| pem.replace('\n', "\\n"));
        let [key, chain] = identity;
        let login = format!(
            "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"{USER}\" password=\"{PASSWORD}\" \
             user_{USER}=\"{PASSWORD}\";"
        );
        let security = format!(
            "ssl.keystore.type=PEM\nssl.keystore.key={key}\nssl.keystore.certificate.chain={chain}\n\
             sasl.enabled.mechanisms=PLAIN\nsasl.mechanism.inter.broker.protocol=PLAIN\n\
             listener.name.sasl_ssl.plain.sasl.jaas.config={login}\n\
             ssl.truststore.type=PEM\nssl.truststore.certificates={}\n",
            read("ca.pem").replace('\n', "\\n")
        );
        Self::begin("SASL_SSL", "localhost", &security).await
    }

    async fn begin(protocol: &str, host: &str, security: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let [port, controller] = free_ports();
        let folder = directory.path().join("data");
        let settings = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners={protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners={protocol}://{host}:{port}\n\
             controller.listener.names=CONTROLLER\ninter.broker.listener.name={protocol}\n\
             listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocol}:{protocol}\n\
             log.dirs={}\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\ngroup.min.session.timeout.ms=1000\n\
             auto.create.topics.enable=false\n{security}",
            folder.display()
        );
        let path = directory.path().join("server.properties");
        std::fs::write(&path, settings).unwrap();
        let mut format = java(directory.path(), "kafka.tools.StorageTool");
        format.args([
            "format",
            "--cluster-id",
            "ZmFrZS1jbHVzdGVyLWlkLQ",
            "--config",
        ]);
        let formatted = format.arg(&path).stdout(Stdio::null()).status();
        assert!(
            formatted.is_ok_and(|status| status.success()),
            "the broker can't be set up: `tools/kafka` gets what it needs"
        );
        let process = Mutex::new(spawn(directory.path()));
        let broker = Self {
            directory,
            port,
            process,
        };
        broker.wait_until_ready().await;
        broker
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    async fn wait_until_ready(&self) {
        let port = self.port;
        eventually("the broker listens", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .is_ok()
        })
        .await;
    }

    /// Kills it without a warning.
    pub fn kill(&self) {
        self.process.lock().kill();
    }

    /// Starts it again, with what it had.
    pub async fn restart(&self) {
        *self.process.lock() = spawn(self.directory.path());
        self.wait_until_ready().await;
    }
}

fn spawn(directory: &Path) -> Process {
    Process::start(java(directory, "kafka.Kafka").arg("server.properties"))
}

/// A topic, and how it is reached.
pub struct Topic {
    pub name: String,
    /// The brokers, as clients take them.
    pub servers: String,
    pub partitions: i32,
    /// Options of clients, one in each line.
    options: String,
}

impl Topic {
    /// Makes a topic; returns once the brokers know it.
    pub async fn create(servers: &str, name: &str, partitions: i32) -> Self {
        Self::create_with(servers, name, partitions, "").await
    }

    /// The same for clients with these options, one in each line.
    pub async fn create_with(servers: &str, name: &str, partitions: i32, options: &str) -> Self {
        let topic = Self {
            name: name.to_owned(),
            servers: servers.to_owned(),
            partitions,
            options: options.to_owned(),
        };
        let admin: AdminClient<DefaultClientContext> = topic.client().create().unwrap();
        let new = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        eventually("the topic is made", async || {
            let made = admin.create_topics([&new], &AdminOptions::new()).await;
            let is_there = |(_, code)| code == rdkafka::error::RDKafkaErrorCode::TopicAlreadyExists;
            made.is_ok_and(|results| {
                results
                    .into_iter()
                    .all(|result| result.is_ok() || result.is_err_and(is_there))
            })
        })
        .await;
        topic
    }

    /// A client.
    pub fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        for (name, value) in self.options.lines().filter_map(|line| line.split_once('=')) {
            client.set(name, value);
        }
        client.set("bootstrap.servers", &self.servers);
        client
    }

    /// The address, as the service takes it.
    pub fn url(&self) -> String {
        format!("kafka://{}/{}", self.servers, self.name)
    }
}
