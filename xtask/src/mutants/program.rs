//! The test programs of mutants: named by arguments of `cargo test`, built together, run without cargo.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

/// A test program, as cargo selects it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program {
    package: String,
    /// Features of the package beside its own defaults.
    features: Vec<String>,
    target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Library,
    Binary(String),
    Test(String),
}

/// The executable that a build made of a program.
#[derive(Debug)]
pub struct Executable {
    package: String,
    target: Target,
    is_featured: bool,
    path: PathBuf,
    /// The directory in which cargo runs it.
    directory: PathBuf,
}

impl Program {
    /// Parses `-p PACKAGE [--features F] (--lib | --bin NAME | --test NAME)`. Returns the program, and
    /// the words that follow as arguments of the program itself.
    pub fn parse(words: &[String]) -> Result<(Program, Vec<String>), String> {
        let (mut package, mut features, mut target) = (None, Vec::new(), None);
        let mut words_left = words.iter().map(String::as_str);
        let mut arguments = Vec::new();
        while let Some(word) = words_left.next() {
            let mut value = || {
                let value = words_left.next().map(String::from);
                value.ok_or_else(|| format!("{word} lacks its value"))
            };
            match word {
                "-p" => package = Some(value()?),
                "--features" => features = value()?.split(',').map(String::from).collect(),
                "--lib" => target = Some(Target::Library),
                "--bin" => target = Some(Target::Binary(value()?)),
                "--test" => target = Some(Target::Test(value()?)),
                "--" => arguments.extend(words_left.by_ref().map(String::from)),
                filter => arguments.push(filter.into()),
            }
        }
        let (Some(package), Some(target)) = (package, target) else {
            return Err(format!(
                "`{}` names no test program: say -p PACKAGE and --lib, --bin NAME or --test NAME",
                words.join(" ")
            ));
        };
        let program = Program {
            package,
            features,
            target,
        };
        Ok((program, arguments))
    }

    fn is_featured(&self) -> bool {
        !self.features.is_empty()
    }
}

impl Executable {
    pub fn is_of(&self, program: &Program) -> bool {
        self.package == program.package
            && self.target == program.target
            && self.is_featured == program.is_featured()
    }

    /// Returns the command that runs it as `cargo test` does.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.directory);
        command
    }
}

/// A build of several programs at once.
pub struct Build {
    /// The arguments that follow `cargo test`.
    pub arguments: Vec<String>,
    is_featured: bool,
}

impl Build {
    /// Returns the executables that the build names in its messages: lines of JSON objects.
    pub fn executables(&self, messages: &str) -> Vec<Executable> {
        let messages = messages.lines();
        let artifacts =
            messages.filter_map(|message| serde_json::from_str::<Artifact>(message).ok());
        artifacts
            .filter_map(|artifact| artifact.executable(self.is_featured))
            .collect()
    }
}

/// Returns the builds of these programs: one without features, and one with all that they name.
pub fn builds(programs: &BTreeSet<Program>) -> Vec<Build> {
    [false, true]
        .into_iter()
        .filter_map(|is_featured| {
            let programs = programs.iter();
            let programs: Vec<_> = programs
                .filter(|program| program.is_featured() == is_featured)
                .collect();
            (!programs.is_empty()).then(|| Build {
                arguments: arguments_for(&programs),
                is_featured,
            })
        })
        .collect()
}

fn arguments_for(programs: &[&Program]) -> Vec<String> {
    let mut arguments = BTreeSet::new();
    for program in programs {
        arguments.insert(("-p", program.package.clone()));
        for feature in &program.features {
            arguments.insert(("--features", format!("{}/{feature}", program.package)));
        }
        arguments.insert(match &program.target {
            Target::Library => ("--lib", String::new()),
            Target::Binary(name) => ("--bin", name.clone()),
            Target::Test(name) => ("--test", name.clone()),
        });
    }
    let words = arguments
        .into_iter()
        .flat_map(|(option, value)| [option.to_owned(), value]);
    words.filter(|word| !word.is_empty()).collect()
}

/// The part of cargo's message on an artifact that finds its program again.
/// (<https://doc.rust-lang.org/cargo/reference/external-tools.html#artifact-messages>)
#[derive(Deserialize)]
struct Artifact {
    package_id: String,
    manifest_path: PathBuf,
    target: ArtifactTarget,
    profile: ArtifactProfile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct ArtifactTarget {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct ArtifactProfile {
    test: bool,
}

impl Artifact {
    fn executable(self, is_featured: bool) -> Option<Executable> {
        let name = self.target.name;
        let target = match self.target.kind.first()?.as_str() {
            "lib" => Target::Library,
            "bin" => Target::Binary(name),
            "test" => Target::Test(name),
            _ => return None,
        };
        let path = self.executable.filter(|_| self.profile.test)?;
        Some(Executable {
            package: package_of(&self.package_id)?,
            target,
            is_featured,
            path,
            directory: self.manifest_path.parent()?.to_path_buf(),
        })
    }
}

/// Returns the name in an id such as `path+file:///a/b#name@1.0.0`, or `path+file:///a/name#1.0.0`.
fn package_of(id: &str) -> Option<String> {
    let (place, rest) = id.rsplit_once('#')?;
    let name = match rest.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next()?,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(line: &str) -> Result<(Program, Vec<String>), String> {
        Program::parse(&line.split(' ').map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_names_a_program_and_its_arguments() {
        for (line, program, arguments) in [
            ("-p a --lib", "a  Library", ""),
            ("-p a --lib b::c", "a  Library", "b::c"),
            ("-p a --features b --lib c", "a b Library", "c"),
            ("-p a --test c -- --exact d", "a  Test(\"c\")", "--exact d"),
            ("-p a --bin b c::d", "a  Binary(\"b\")", "c::d"),
        ] {
            let (parsed, rest) = parse(line).unwrap();
            let (package, features) = (&parsed.package, parsed.features.join(","));
            assert_eq!(format!("{package} {features} {:?}", parsed.target), program);
            assert_eq!(rest.join(" "), arguments, "{line}");
        }
        for refused in ["--lib", "-p a", "-p a --test", "-p"] {
            assert!(parse(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn programs_are_built_together_but_for_their_features() {
        let lines = [
            "-p a --lib",
            "-p a --test c",
            "-p b --lib",
            "-p a --features f --lib",
        ];
        let programs = lines.iter().map(|line| parse(line).unwrap().0).collect();
        let builds = builds(&programs);
        let words: Vec<_> = builds
            .iter()
            .map(|build| build.arguments.join(" "))
            .collect();
        assert_eq!(
            words,
            ["--lib --test c -p a -p b", "--features a/f --lib -p a"]
        );
    }

    #[test]
    fn an_executable_is_found_by_its_artifact() {
        let artifact = |package: &str, kind: &str, name: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///x/{package}","manifest_path":"/x/m/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{test}}},"executable":"/t/{name}"}}"#
            )
        };
        let messages = [
            artifact("a#0.1.0", "lib", "a", true),
            artifact("b-dir#b@0.1.0", "test", "model", true),
            artifact("b-dir#b@0.1.0", "bin", "b", false),
            r#"{"reason":"build-finished","success":true}"#.into(),
        ];
        let build = Build {
            arguments: Vec::new(),
            is_featured: false,
        };
        let executables = build.executables(&messages.join("\n"));
        let finds = |line: &str| {
            let (program, _) = parse(line).unwrap();
            executables.iter().filter(|it| it.is_of(&program)).count()
        };
        assert_eq!(finds("-p a --lib"), 1);
        assert_eq!(finds("-p b --test model"), 1);
        assert_eq!(finds("-p a --test model"), 0, "of another package");
        assert_eq!(finds("-p a --features f --lib"), 0);
        assert_eq!(finds("-p b --bin b"), 0, "not a test program");
        let model = executables.iter().find(|it| it.target != Target::Library);
        let command = model.unwrap().command();
        assert_eq!(command.get_program(), "/t/model");
        assert_eq!(command.get_current_dir(), Some(Path::new("/x/m")));
    }
}
