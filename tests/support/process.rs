//! JVM child processes that never outlive their owner.

use std::fs;
use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::ChildStdin;
use std::process::ChildStdout;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Turns into java (same process id) after leaving a watchdog behind that reads the pipe from the
/// owner. A line on the pipe dismisses the watchdog; its end without a line means that the owner
/// died, and so must java.
const LAUNCHER: &str = r#"
input=$1
shift
exec 3<&0
(trap "" INT HUP TERM; read -r line <&3 || kill -9 $$) >/dev/null 2>&1 &
exec "$@" <"$input" 3<&-
"#;

/// A JVM about to be started.
pub struct JavaCommand {
    name: String,
    class_path: String,
    options: Vec<String>,
    heap: String,
    main_class: String,
    arguments: Vec<String>,
    log_level: &'static str,
    full_speed: bool,
    piped: bool,
    input: PathBuf,
}

impl JavaCommand {
    /// `name` becomes the name of the log file.
    pub fn new(name: &str, class_path: &str, main_class: &str) -> Self {
        Self {
            name: name.to_owned(),
            class_path: class_path.to_owned(),
            options: Vec::new(),
            heap: "256m".to_owned(),
            main_class: main_class.to_owned(),
            arguments: Vec::new(),
            log_level: "INFO",
            full_speed: false,
            piped: false,
            input: PathBuf::from("/dev/null"),
        }
    }

    pub fn arguments<S: AsRef<str>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        self
    }

    /// A system property of the JVM.
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.options.push(format!("-D{key}={value}"));
        self
    }

    /// Largest heap, as `-Xmx` takes it. Default 256m.
    pub fn heap(mut self, heap: &str) -> Self {
        heap.clone_into(&mut self.heap);
        self
    }

    /// Level of log4j's root logger. Default INFO.
    pub fn log_level(mut self, level: &'static str) -> Self {
        self.log_level = level;
        self
    }

    /// Lets the JVM compile with all it has: for benchmarks, since it makes the start slower.
    pub fn full_speed(mut self) -> Self {
        self.full_speed = true;
        self
    }

    /// Hands standard output to the owner instead of to the log file.
    pub fn piped(mut self) -> Self {
        self.piped = true;
        self
    }

    /// The file that becomes standard input. Default: none.
    pub fn input(mut self, file: &Path) -> Self {
        file.clone_into(&mut self.input);
        self
    }

    /// Runs the JVM to its end and returns what it printed to standard output.
    ///
    /// # Panics
    /// When it fails, or still runs after `limit`.
    #[track_caller]
    pub fn run(self, folder: &Path, limit: Duration) -> String {
        let mut process = self.piped().start(folder);
        let mut stdout = process.take_stdout().expect("standard output is piped");
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            stdout
                .read_to_end(&mut text)
                .map(|_| String::from_utf8_lossy(&text).into_owned())
        });
        let status = process.wait_for_exit(limit);
        let text = reader
            .join()
            .expect("reader does not panic")
            .expect("read standard output");
        assert!(
            status.success(),
            "{} failed: {text}\n{}",
            process.name,
            process.log_tail()
        );
        text
    }

    /// Starts the JVM; its log goes to `<folder>/<name>.log`, appended to if there is one.
    pub fn start(self, folder: &Path) -> JavaProcess {
        let log = folder.join(format!("{}.log", self.name));
        let log_file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .expect("open log file");
        let output = match self.piped {
            true => Stdio::piped(),
            false => Stdio::from(log_file.try_clone().expect("share log file")),
        };
        let mut child = Command::new("sh")
            .args(["-c", LAUNCHER, "launcher"])
            .arg(&self.input)
            .arg("java")
            .args(self.jvm_options(folder))
            .args(["-cp", &self.class_path, &self.main_class])
            .args(&self.arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(log_file)
            .spawn()
            .expect("start sh, which starts java");
        let lifeline = child.stdin.take();
        JavaProcess {
            name: self.name,
            stdout: child.stdout.take(),
            child,
            lifeline,
            log,
        }
    }

    fn jvm_options(&self, folder: &Path) -> Vec<String> {
        let mut options = self.options.clone();
        options.push(format!("-Xmx{}", self.heap));
        if !self.full_speed {
            options.extend(
                [
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    "-Xshare:auto",
                ]
                .map(str::to_owned),
            );
        }
        let file = folder.join(format!("{}.log4j.properties", self.name));
        fs::write(&file, log4j_properties(self.log_level)).expect("write log4j.properties");
        options.push(format!("-Dlog4j.configuration=file:{}", file.display()));
        options.push("-Dzookeeper.jmx.log4j.disable=true".to_owned());
        options
    }
}

fn log4j_properties(level: &str) -> String {
    format!(
        "log4j.rootLogger={level}, stderr\n\
         log4j.appender.stderr=org.apache.log4j.ConsoleAppender\n\
         log4j.appender.stderr.target=System.err\n\
         log4j.appender.stderr.layout=org.apache.log4j.PatternLayout\n\
         log4j.appender.stderr.layout.ConversionPattern=%d %p %m (%c{{1}})%n\n"
    )
}

/// A running JVM; killed when dropped, and also when the process that owns it dies in whatever way.
pub struct JavaProcess {
    name: String,
    child: Child,
    /// The pipe the watchdog reads.
    lifeline: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    log: PathBuf,
}

impl JavaProcess {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Standard output, once, if the command was [`piped`](JavaCommand::piped).
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    pub fn is_running(&mut self) -> bool {
        self.exit_status().is_none()
    }

    /// `None` while it runs.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("wait for a child");
        if status.is_some() {
            self.dismiss_watchdog();
        }
        status
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        if self.is_running() {
            self.child.kill().expect("kill a child");
            self.child.wait().expect("wait for a killed child");
            self.dismiss_watchdog();
        }
    }

    /// SIGTERM: the JVM runs its shutdown hooks. Does not wait.
    pub fn terminate(&mut self) {
        self.signal("TERM");
    }

    /// SIGSTOP: sockets stay open, nothing answers.
    pub fn pause(&mut self) {
        self.signal("STOP");
    }

    /// SIGCONT.
    pub fn resume(&mut self) {
        self.signal("CONT");
    }

    /// # Panics
    /// When it still runs after `limit`.
    #[track_caller]
    pub fn wait_for_exit(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.exit_status() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{} still runs after {limit:?}; its log ends with\n{}",
                self.name,
                self.log_tail()
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The last lines of the log, for failure messages.
    pub fn log_tail(&self) -> String {
        let text = self.log();
        let lines = text.lines().collect::<Vec<_>>();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// All of the log.
    pub fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The id cannot have passed to another process: it is kept until the child has been waited
    /// for.
    fn signal(&mut self, signal: &str) {
        assert!(
            self.is_running(),
            "{} has ended; its log ends with\n{}",
            self.name,
            self.log_tail()
        );
        let status = Command::new("sh")
            .args([
                "-c",
                r#"kill -s "$1" "$2""#,
                "kill",
                signal,
                &self.id().to_string(),
            ])
            .status()
            .expect("run kill");
        assert!(status.success(), "cannot send SIG{signal} to {}", self.name);
    }

    fn dismiss_watchdog(&mut self) {
        if let Some(mut lifeline) = self.lifeline.take() {
            // Fails if the watchdog is gone already.
            let _ = lifeline.write_all(b"dismissed\n");
        }
    }
}

impl Drop for JavaProcess {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- end of the log of {}\n{}", self.name, self.log_tail());
        }
        self.kill();
    }
}
