//! Reads the settings from arguments, the environment and `.env`, and reports invalid ones.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, CommandFactory, FromArgMatches};
use thiserror::Error;

use super::env_file::Variables;
use super::{Cli, Command, KafkaArgs};
use crate::domain::document::nearest;
use crate::kafka::settings::ClientOptions;

/// The prefix of the names of all settings.
const PREFIX: &str = "STANDINGS_";

/// Why the arguments and the settings can't be used.
#[derive(Debug, Error)]
pub enum CliError {
    /// The arguments are invalid, or ask for help: it says what to print, and how to exit.
    #[error(transparent)]
    Usage(clap::Error),
    /// A setting has an invalid value.
    #[error("{variable} ({argument}){given}: {fault}")]
    Setting {
        /// The variable.
        variable: String,
        /// The argument with the same meaning.
        argument: String,
        /// Its value, unless that is a secret.
        given: String,
        /// What is wrong with it.
        fault: String,
    },
    /// A setting of other commands is given to the service, which would ignore it.
    #[error("{variable} is a setting of {commands}, not of the service{hint}")]
    OfOthers {
        /// The variable.
        variable: String,
        /// The commands that take it.
        commands: String,
        /// The setting of the service that may be meant.
        hint: String,
    },
}

impl Cli {
    /// Reads the arguments, the environment, and the variables of `.env`, in this order. An empty one means the default.
    ///
    /// # Errors
    ///
    /// What can't be used; for `serve` and `worker` also a variable that only other commands take.
    pub fn read(
        args: impl IntoIterator<Item = OsString>,
        file: &Variables,
    ) -> Result<Self, CliError> {
        let mut command = Self::command()
            .mut_args(|arg| with_variables(arg, file))
            .mut_subcommands(|sub| sub.mut_args(|arg| with_variables(arg, file)));
        let matches = command.try_get_matches_from_mut(args)?;
        let cli = Self::from_arg_matches(&matches)?;
        let is_service = matches!(
            cli.command,
            None | Some(Command::Serve(_) | Command::Worker(_))
        );
        let is_given = |name: &str| match env::var_os(name) {
            Some(value) => !value.is_empty(),
            None => file.get(name).is_some_and(|value| !value.is_empty()),
        };
        match setting_of_others(is_given).filter(|_| is_service) {
            Some(error) => Err(error),
            None => Ok(cli),
        }
    }
}

/// A setting that is given, but is taken neither by the service nor by `healthcheck`, which runs where the service runs.
fn setting_of_others(is_given: impl Fn(&str) -> bool) -> Option<CliError> {
    let mut cli = Cli::command();
    cli.build();
    let mut takers = BTreeMap::<String, Vec<&str>>::new();
    for command in cli.get_subcommands() {
        for variable in command.get_arguments().filter_map(variable_of) {
            takers.entry(variable).or_default().push(command.get_name());
        }
    }
    let is_own = |name: &&str| ["serve", "healthcheck"].contains(name);
    let (own, of_others): (BTreeMap<_, _>, BTreeMap<_, _>) = takers
        .into_iter()
        .partition(|(_, by)| by.iter().any(is_own));
    let (variable, takers) = of_others
        .into_iter()
        .find(|(variable, _)| is_given(variable))?;
    let hint = alike(&variable, own.keys())
        .map_or_else(String::new, |known| format!("; did you mean {known}?"));
    let names: Vec<_> = takers.iter().map(|name| format!("`{name}`")).collect();
    let commands = match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    };
    Some(CliError::OfOthers {
        variable,
        commands,
        hint,
    })
}

/// The variable of an argument that is a setting.
fn variable_of(arg: &Arg) -> Option<String> {
    arg.get_env()?.to_str().map(ToOwned::to_owned)
}

/// The known setting with the most similar name, if it may be meant.
fn alike<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Option<String> {
    let end = name.strip_prefix(PREFIX)?;
    let known = known.filter_map(|known| known.strip_prefix(PREFIX));
    Some(format!("{PREFIX}{}", nearest(end, known)?))
}

/// Makes an argument take its default from `.env`, if the environment has no value for it.
fn with_variables(arg: Arg, file: &Variables) -> Arg {
    let Some(name) = arg.get_env().map(OsStr::to_owned) else {
        return arg;
    };
    let of_file = name.to_str().and_then(|name| file.get(name));
    match (env::var_os(&name), of_file) {
        (Some(value), _) if value.is_empty() => arg.env(Resettable::Reset),
        (None, Some(value)) if !value.is_empty() => {
            let is_secret = arg.is_hide_env_values_set();
            arg.default_value(value.clone())
                .hide_default_value(is_secret)
        }
        _ => arg,
    }
}

impl From<clap::Error> for CliError {
    /// One line about the setting, which may be in a distant file, instead of how to call the program.
    fn from(error: clap::Error) -> Self {
        let text = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.clone()),
            Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
            _ => None,
        };
        if let Some(arg) = not_utf8().filter(|_| error.kind() == ErrorKind::InvalidUtf8) {
            return Self::Setting {
                variable: variable_of(&arg).unwrap_or_default(),
                argument: arg.to_string(),
                given: String::new(),
                fault: "is not UTF-8".to_owned(),
            };
        }
        let argument = text(ContextKind::InvalidArg);
        let Some(arg) = settings().find(|arg| Some(arg.to_string()) == argument) else {
            return Self::Usage(error);
        };
        let of_values = || Some(format!("must be one of {}", text(ContextKind::ValidValue)?));
        let fault = error.source().map(ToString::to_string).or_else(of_values);
        let (Some(fault), Some(variable)) = (fault, variable_of(&arg)) else {
            return Self::Usage(error);
        };
        let given = text(ContextKind::InvalidValue).filter(|_| !arg.is_hide_env_values_set());
        Self::Setting {
            variable,
            argument: argument.unwrap_or_default(),
            given: given.map_or_else(String::new, |given| format!(" is {given:?}")),
            fault,
        }
    }
}

/// All arguments that are settings; one that several commands take is repeated.
pub fn settings() -> impl Iterator<Item = Arg> {
    let mut cli = Cli::command();
    cli.build();
    let args: Vec<Arg> = cli
        .get_subcommands()
        .flat_map(clap::Command::get_arguments)
        .chain(cli.get_arguments())
        .cloned()
        .collect();
    args.into_iter().filter(|arg| arg.get_env().is_some())
}

/// A setting whose variable in the environment is not UTF-8, unless it names a file: file names may have any bytes.
fn not_utf8() -> Option<Arg> {
    settings().find(|arg| {
        let value = arg.get_env().and_then(env::var_os);
        let names_file = arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        value.is_some_and(|value| value.to_str().is_none()) && !names_file
    })
}

/// Warnings about variables of the environment and of `.env` that look like settings but are not.
pub fn warnings(file: &Variables) -> Vec<String> {
    let of_environment = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    warnings_of(of_environment.chain(file.keys().cloned()))
}

fn warnings_of(names: impl Iterator<Item = String>) -> Vec<String> {
    let known: BTreeSet<String> = settings().filter_map(|arg| variable_of(&arg)).collect();
    let given: BTreeSet<String> = names.collect();
    given
        .difference(&known)
        .filter_map(|name| {
            let meant = name.to_ascii_uppercase().replace('-', "_");
            if !meant.starts_with(PREFIX) {
                return None;
            }
            let hint = alike(&meant, known.iter())
                .map_or_else(String::new, |known| format!("; did you mean {known}?"));
            Some(format!("{name} is not a setting{hint}"))
        })
        .collect()
}

impl KafkaArgs {
    /// Warnings about settings that have no effect, because the queue is not a topic.
    pub fn warnings(&self) -> Vec<String> {
        let has_topic = self.kafka_dead_letter_topic.is_some();
        let has_options = self.kafka_options != ClientOptions::default();
        let has_file = self.kafka_options_file.is_some();
        let given = [
            ("STANDINGS_KAFKA_DEAD_LETTER_TOPIC", has_topic),
            ("STANDINGS_KAFKA_OPTIONS", has_options),
            ("STANDINGS_KAFKA_OPTIONS_FILE", has_file),
        ];
        given
            .into_iter()
            .filter(|(_, is_given)| *is_given && self.queue_url.is_none())
            .map(|(name, _)| format!("{name} has no effect without STANDINGS_QUEUE_URL"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::cors::CorsOrigins;

    fn read(args: &[&str], file: &[(&str, &str)]) -> Result<Cli, CliError> {
        let args = [&["standings"], args].concat();
        let file = file
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        Cli::read(args.into_iter().map(OsString::from), &file.collect())
    }

    #[test]
    fn variables_of_the_file_are_defaults_of_every_command() {
        let file = [
            ("STANDINGS_LISTEN", "127.0.0.1:1"),
            ("STANDINGS_REDIS_URL", ""),
            ("STANDINGS_DRAIN_SECONDS", ""),
            ("STANDINGS_ALLOW_OPEN", "true"),
            (
                "STANDINGS_CORS_ORIGINS",
                "https://a.example,https://b.example",
            ),
            ("STANDINGS_API_KEYS", "admin:a$b${c}\\'\"#"),
            ("STANDINGS_URL", "http://h"),
        ];
        for args in [&[][..], &["serve"]] {
            let cli = read(args, &file).unwrap();
            let serve = match cli.command {
                Some(Command::Serve(args)) => *args,
                _ => cli.serve,
            };
            assert_eq!(serve.listen.port(), 1);
            assert_eq!(serve.redis.url(), None);
            assert_eq!(serve.drain_seconds, 2);
            assert!(serve.allow_open);
            assert!(matches!(&serve.cors_origins, CorsOrigins::Listed(two) if two.len() == 2));
            assert!(!serve.api_keys.is_empty());
        }
        let cli = read(&["healthcheck"], &file).unwrap();
        assert!(matches!(cli.command, Some(Command::Healthcheck { url }) if url == "http://h"));
        let cli = read(&["--listen", "127.0.0.1:2"], &file).unwrap();
        assert_eq!(cli.serve.listen.port(), 2, "an argument comes first");
    }

    #[test]
    fn the_service_refuses_settings_of_other_commands() {
        let key = [("STANDINGS_API_KEY", "hush-hush")];
        for command in [&[][..], &["serve"], &["worker"]] {
            let error = read(command, &key).unwrap_err().to_string();
            let said = "STANDINGS_API_KEY is a setting of `import`, `compare`, `export` and `reshard`, not of the service; did you mean STANDINGS_API_KEYS?";
            assert_eq!(error, said, "{command:?}");
            assert!(read(command, &[("STANDINGS_API_KEY", "")]).is_ok());
            // A container's health check runs in the environment of the service.
            assert!(read(command, &[("STANDINGS_URL", "http://h")]).is_ok());
        }
        for command in [
            &["reshard", "b", "--shards", "2"][..],
            &["check"],
            &["healthcheck"],
        ] {
            assert!(read(command, &key).is_ok(), "{command:?}");
        }
    }

    #[test]
    fn an_invalid_setting_is_one_line_without_secrets() {
        for (variable, value, said) in [
            (
                "LISTEN",
                "local",
                "STANDINGS_LISTEN (--listen <LISTEN>) is \"local\": ",
            ),
            ("LOG_FORMAT", "xml", "\"xml\": must be one of text, json"),
            ("BACKGROUND", "maybe", "\"maybe\": "),
            ("CORS_ORIGINS", "not a url", "not an origin"),
            (
                "API_KEYS",
                "hush",
                "STANDINGS_API_KEYS (--api-keys <API_KEYS>): an API key must be",
            ),
            ("API_KEYS", "admin:hush", "at least 8"),
            (
                "QUEUE_URL",
                "kafka://a:hush@h/t",
                "must not have a user or a password",
            ),
            ("KAFKA_OPTIONS", "Hush", "an option must be name=value"),
            ("API_KEYS", ",", "no keys"),
            (
                "AVATAR_HOSTS",
                "https://a.example",
                "\"https://a.example\" is not a host",
            ),
        ] {
            let variable = format!("STANDINGS_{variable}");
            let error = read(&["openapi"], &[(&variable, value)]).unwrap_err();
            assert!(matches!(error, CliError::Setting { .. }), "{error:?}");
            let error = error.to_string();
            assert!(error.contains(said) && !error.contains('\n'), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
        let help = read(
            &["serve", "--help"],
            &[("STANDINGS_API_KEYS", "admin:hush-hush")],
        );
        assert!(!help.unwrap_err().to_string().contains("hush"));
        let usage = read(&["--no-such-flag"], &[]).unwrap_err();
        assert!(matches!(usage, CliError::Usage(_)), "{usage:?}");
    }

    #[test]
    fn kafka_settings_without_a_topic_give_a_warning() {
        let with = |settings: &[(&str, &str)]| read(&[], settings).unwrap().serve.kafka.warnings();
        let topic = ("STANDINGS_KAFKA_DEAD_LETTER_TOPIC", "letters");
        let expected =
            "STANDINGS_KAFKA_DEAD_LETTER_TOPIC has no effect without STANDINGS_QUEUE_URL";
        assert_eq!(with(&[topic]), [expected]);
        let queue = ("STANDINGS_QUEUE_URL", "kafka://127.0.0.1:9092/events");
        assert_eq!(with(&[topic, queue]), [""; 0]);
        assert_eq!(with(&[]), [""; 0]);
    }

    #[test]
    fn an_unknown_variable_is_reported_with_the_likely_setting() {
        let names = [
            "STANDINGS_APIKEYS",
            "STANDINGS_LISTEN",
            "STANDINGS_QQ",
            "HOME",
            "standings-api-keys",
            "standings_listen",
        ];
        let expected = [
            "STANDINGS_APIKEYS is not a setting; did you mean STANDINGS_API_KEYS?",
            "STANDINGS_QQ is not a setting",
            "standings-api-keys is not a setting; did you mean STANDINGS_API_KEYS?",
            "standings_listen is not a setting; did you mean STANDINGS_LISTEN?",
        ];
        assert_eq!(
            warnings_of(names.map(ToOwned::to_owned).into_iter()),
            expected
        );
    }
}
